"""The C++ dequantization: bit-identical to the reference in every type, rounding to nearest even included."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rooflens.kernels.fourbit import cpu_build
from rooflens.kernels.fourbit.cpu import prepare_dequantize
from rooflens.kernels.fourbit.cpu_library import instruction_sets
from rooflens.kernels.fourbit.inputs import FourBitInputs
from rooflens.kernels.fourbit.quantize import QuantizedWeight, code_table, dequantize
from rooflens.kernels.inputs import make_inputs
from rooflens.shapes.device import Device
from rooflens.shapes.problem import Problem
from rooflens.shapes.scheme import DType, Scheme
from rooflens.shapes.schemes.fourbit import BLOCK_SIZES_4BIT, FourBit

if cpu_build.compiler_command() is None:
    pytest.skip(cpu_build.NO_COMPILER, allow_module_level=True)

CPU = Device("cpu", 0, "test", "test", "x86-64", 2, 1 << 25, 1 << 20, 1 << 34)
DTYPES = (torch.bfloat16, torch.float16, torch.float32)


def bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(torch.int32 if tensor.element_size() == 4 else torch.int16)


def random_bits(N: int, K: int, scheme: Scheme, absmax: torch.Tensor) -> FourBitInputs:
    """Weights of random nibbles under the given absmax."""
    packed = torch.randint(0, 256, ((N * K + 1) // 2,), dtype=torch.uint8)
    weight = QuantizedWeight(packed, absmax, None, N * K, scheme.group, scheme.weight)
    return FourBitInputs(Problem(1, N, K), scheme, CPU, 0, torch.zeros(1, K), weight, None)


@settings(max_examples=settings().max_examples * 3 // 5)
@given(
    N=st.integers(1, 40),
    K=st.integers(1, 700),
    kind=st.sampled_from(("nf4", "fp4")),
    group=st.sampled_from(BLOCK_SIZES_4BIT),
    nested=st.booleans(),
    threads=st.integers(1, 3),
    dtype=st.sampled_from(DTYPES),
)
def test_bits_equal_the_reference(
    N: int, K: int, kind: str, group: int, nested: bool, threads: int, dtype: torch.dtype
) -> None:
    inputs = make_inputs(Problem(1, N, K), FourBit(kind, group, DType.FP32, nested), CPU, seed=N * K)
    expected = dequantize(inputs.weight, dtype).view(N, K)
    for isa in instruction_sets():
        for streaming in (False, True):
            out = torch.full((N, K), torch.nan, dtype=dtype)
            prepare_dequantize(inputs, out, {"isa": isa.name, "threads": threads, "streaming": streaming})()
            assert torch.equal(bits(out), bits(expected))


@pytest.mark.parametrize("kind", ("nf4", "fp4"))
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_exponent_rounds_to_nearest_even(kind: str, dtype: torch.dtype) -> None:
    """absmax over all of fp32, subnormals, ties and overflow to infinity: numpy computes and rounds the products."""
    exponents = torch.arange(1, 255, dtype=torch.int32) << 23
    mantissas = torch.tensor([0, 1, 0x0FFF, 0x1000, 0x1001, 0x7FFF, 0x8000, 0x8001, 0x18000, 0x3000, 0x7FFFFF])
    patterns = (exponents[:, None] | mantissas[None].int()).reshape(-1)
    subnormal = torch.tensor([0, 1, 2, 3, 0x8000, 0x18000, 0x400000, 0x7FFFFF], dtype=torch.int32)
    absmax = torch.cat((patterns, subnormal)).view(torch.float32)
    inputs = random_bits(absmax.numel(), 64, FourBit(kind, 64, DType.FP32), absmax)
    nibbles = torch.stack((inputs.packed >> 4, inputs.packed & 15), dim=1).reshape(-1, 64).int()
    with np.errstate(over="ignore", under="ignore"):
        product = code_table(kind, torch.device("cpu")).numpy()[nibbles.numpy()] * absmax.numpy()[:, None]
        if dtype == torch.bfloat16:  # keep the upper half; add half a unit, and the odd bit that makes ties even
            pattern = product.view(np.uint32).astype(np.uint64)
            expected = ((pattern + 0x7FFF + ((pattern >> 16) & 1)) >> 16).astype(np.uint16).view(np.int16)
        elif dtype == torch.float16:
            expected = product.astype(np.float16).view(np.int16)
        else:
            expected = product.view(np.int32)
    for isa in instruction_sets():
        out = torch.empty(absmax.numel(), 64, dtype=dtype)
        prepare_dequantize(inputs, out, {"isa": isa.name})()
        wrong = torch.nonzero(bits(out) != torch.from_numpy(expected))
        assert len(wrong) == 0, f"{isa.name}: {len(wrong)} differ, first in row {wrong[0].tolist()}"


@pytest.mark.parametrize("dtype", DTYPES)
def test_nan_and_infinite_absmax(dtype: torch.dtype) -> None:
    absmax = torch.tensor([torch.nan, torch.inf, -torch.inf, 1.0])
    inputs = random_bits(4, 32, FourBit("nf4", 32, DType.FP32), absmax)
    expected = inputs.dequantized(dtype)
    for isa in instruction_sets():
        out = torch.empty(4, 32, dtype=dtype)
        prepare_dequantize(inputs, out, {"isa": isa.name})()
        assert torch.equal(torch.isnan(out), torch.isnan(expected))
        assert torch.equal(out.nan_to_num(nan=0.0), expected.nan_to_num(nan=0.0))


def test_unaligned_out_and_packed() -> None:
    inputs = make_inputs(Problem(1, 33, 65), FourBit("nf4", 32, DType.FP32), CPU, seed=1)
    moved = torch.empty(inputs.packed.numel() + 1, dtype=torch.uint8)[1:].copy_(inputs.packed)
    weight = QuantizedWeight(moved, inputs.absmax, None, inputs.weight.numel, 32, "nf4")
    shifted = FourBitInputs(inputs.problem, inputs.scheme, CPU, 1, inputs.x, weight, None)
    for dtype in DTYPES:
        for isa in instruction_sets():
            buffer = torch.full((33 * 65 + 2,), 7.0, dtype=dtype)
            out = buffer[1:-1].view(33, 65)
            prepare_dequantize(shifted, out, {"isa": isa.name, "streaming": True})()
            assert torch.equal(out, inputs.dequantized(dtype))
            assert buffer[0] == buffer[-1] == 7.0, "written outside of out"


def test_nested_absmax_is_rebuilt_at_every_call() -> None:
    inputs = make_inputs(Problem(1, 16, 256), FourBit("nf4", 64, DType.FP32, nested=True), CPU, seed=1)
    assert inputs.nested is not None
    out = torch.empty(16, 256)
    run = prepare_dequantize(inputs, out)
    run()
    before = out.clone()
    inputs.nested.scale.mul_(2)
    run()
    assert not torch.equal(before, out)


@pytest.mark.parametrize(
    "out",
    (torch.empty(3, 4), torch.empty(8, 4).t(), torch.empty(4, 8, dtype=torch.float64)),
    ids=("size", "stride", "type"),
)
def test_wrong_out(out: torch.Tensor) -> None:
    inputs = make_inputs(Problem(1, 4, 8), FourBit("nf4", 32, DType.FP32), CPU, seed=1)
    with pytest.raises(ValueError, match=r"contiguous \[4, 8\]"):
        prepare_dequantize(inputs, out)

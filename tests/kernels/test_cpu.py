"""The 4-bit kernels of the CPU, for this CPU and for narrower vectors: against fp64 products, and bit by bit."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rooflens.kernels import cpu_info
from rooflens.kernels.fourbit import cpu_library
from rooflens.kernels.fourbit.cpu import BLOCK_M, SIMD_CPU, prepare_dequantize
from rooflens.kernels.fourbit.inputs import FourBitInputs
from rooflens.kernels.fourbit.quantize import QuantizedWeight, code_table, dequantize
from rooflens.kernels.inputs import make_inputs
from rooflens.shapes.errors import UsageError
from rooflens.shapes.problem import Problem
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes.fourbit import BLOCK_SIZES_4BIT, FourBit

from .devices import CPU
from .synthetic import operands, scheme_of

if cpu_library.compiler_command() is None:
    pytest.skip(cpu_library.NO_COMPILER, allow_module_level=True)

DTYPES = (torch.bfloat16, torch.float16, torch.float32)
UNIT = dict(zip(DTYPES, (2.0**-8, 2.0**-11, 2.0**-24), strict=True))


@pytest.fixture(scope="module", params=["native", "x86-64-v3", "x86-64"], autouse=True)
def compiled_for(request: pytest.FixtureRequest) -> Iterator[str]:
    """The library in vectors of 512, 256 and 128 bits, as far as this CPU has them."""
    if request.param != "native" and not cpu_info.flags() >= (
        {"avx2", "fma"} if request.param[-1] == "3" else {"sse2"}
    ):
        pytest.skip(f"this CPU does not run {request.param}")
    with pytest.MonkeyPatch.context() as patch:
        if request.param != "native":
            patch.setenv("CXXFLAGS", f"-march={request.param}")
        cpu_library.library.cache_clear()
        yield request.param
    cpu_library.library.cache_clear()


def inputs_of(problem: Problem, scheme: str, dtype: DType = DType.FP32) -> FourBitInputs:
    return operands(problem, scheme, dtype, seed=3)


def check(inputs: FourBitInputs, out: torch.Tensor) -> None:
    """|out - ref| <= u |ref| (output) + (K + 8) 2^-24 |x| |w| (fp32 sums)."""
    x, weight = inputs.x.double(), inputs.dequantized(torch.float32).double().t()
    reference, magnitude = x @ weight, x.abs() @ weight.abs()
    if inputs.bias is not None:
        reference, magnitude = reference + inputs.bias.double(), magnitude + inputs.bias.double().abs()
    bound = (inputs.problem.K + 8) * 2.0**-24 * magnitude + UNIT[out.dtype] * reference.abs() + 1e-30
    if out.dtype == torch.float16:
        bound += 2.0**-25
    assert torch.isfinite(out).all(), "some elements are not written"
    worst = ((out.double() - reference).abs() / bound).max()
    assert worst <= 1, f"error is {worst:.2f} times its bound"


def test_vectors_are_as_wide_as_the_cpu_that_they_are_compiled_for(compiled_for: str) -> None:
    bits = SIMD_CPU.prepare(inputs_of(Problem(1, 8, 32), "nf4-g32")).config["vector_bits"]
    if (flags := cpu_info.flags()) and compiled_for == "native":
        assert bits == (512 if "avx512f" in flags else 256 if "avx2" in flags else 128)
    elif flags:
        assert bits == {"x86-64-v3": 256, "x86-64": 128}[compiled_for]


@settings(max_examples=settings().max_examples * 6 // 5)
@given(
    M=st.integers(1, 60) | st.sampled_from((BLOCK_M, BLOCK_M + 1, 2 * BLOCK_M + 5)),
    N=st.integers(1, 90),
    K=st.one_of(st.integers(1, 25).map(lambda n: 8 * n), st.sampled_from((256, 288, 1024, 4096, 5120))),
    kind=st.sampled_from(("nf4", "fp4")),
    group=st.sampled_from(BLOCK_SIZES_4BIT),
    dtype=st.sampled_from(DType),
    bias=st.booleans(),
    threads=st.integers(1, 3),
)
def test_products(M: int, N: int, K: int, kind: str, group: int, dtype: DType, bias: bool, threads: int) -> None:
    inputs = make_inputs(Problem(M, N, K), FourBit(kind, group, dtype, bias=bias), CPU, seed=N)
    launch = SIMD_CPU.prepare(inputs, {"threads": threads})
    launch()
    check(inputs, launch.output)
    assert launch.config["threads"] == threads


def shifted(tensor: torch.Tensor) -> torch.Tensor:
    """The same values one element off any alignment that an allocator gives."""
    moved = torch.empty(tensor.numel() + 1, dtype=tensor.dtype)[1:].view(tensor.shape)
    assert moved.data_ptr() % 16
    return moved.copy_(tensor)


@pytest.mark.parametrize("dtype", list(DType))
def test_unaligned_operands(dtype: DType) -> None:
    inputs = inputs_of(Problem(3, 33, 96), "nf4-g32-bias", dtype)
    assert inputs.bias is not None
    old = inputs.weight
    weight = QuantizedWeight(shifted(old.packed), shifted(old.absmax), None, old.numel, old.group, old.kind)
    moved = FourBitInputs(inputs.problem, inputs.scheme, CPU, 3, shifted(inputs.x), weight, shifted(inputs.bias))
    aligned, unaligned = SIMD_CPU.prepare(inputs), SIMD_CPU.prepare(moved)
    aligned()
    unaligned()
    assert torch.equal(aligned.output, unaligned.output)
    for streaming in (False, True):
        buffer = torch.full((33 * 96 + 2,), 7.0, dtype=inputs.dtype)
        out = buffer[1:-1].view(33, 96)
        prepare_dequantize(moved, out, {"streaming": streaming})()
        assert torch.equal(out, inputs.dequantized())
        assert buffer[0] == buffer[-1] == 7.0, "written outside of out"


def test_result_does_not_depend_on_the_threads() -> None:
    """Each output is one task's, summed in one order, whoever runs it."""
    inputs = inputs_of(Problem(30, 200, 512), "nf4-g64")
    one, three = (SIMD_CPU.prepare(inputs, {"threads": threads}) for threads in (1, 3))
    one()
    for _ in range(50):
        three.output.fill_(torch.nan)
        three()
        assert torch.equal(one.output, three.output)


def test_infinities_and_nans_stay_in_their_row_and_column() -> None:
    """A row of X with inf, and a block of W with absmax NaN, spoil their own outputs and no others."""
    inputs = inputs_of(Problem(4, 40, 96), "nf4-g32")
    inputs.x[2, -1] = torch.inf
    inputs.absmax[-1] = torch.nan  # the last columns of the last row
    launch = SIMD_CPU.prepare(inputs)
    launch()
    finite = torch.isfinite(launch.output)
    assert finite[[0, 1, 3], :39].all()
    assert not finite[2].any()
    assert torch.isnan(launch.output[:, 39]).all()


def test_moved_bytes() -> None:
    """Four bits per weight, one more pass over W for rows beyond 240, and a copy of X in fp32 written and read."""
    assert f"BLOCK_M = {BLOCK_M};" in cpu_library.SOURCE.read_text(encoding="utf-8")
    scheme = scheme_of("nf4-g64")
    for M, again in ((1, 0), (BLOCK_M, 0), (BLOCK_M + 1, 1)):
        problem = Problem(M, 4096, 4096)
        once = scheme.weight_bytes(problem) + scheme.scale_bytes(problem)
        copy = 8 * M * problem.K
        assert SIMD_CPU.moved_bytes(problem, scheme, {}) == scheme.compulsory_bytes(problem) + again * once + copy


def test_wrong_config() -> None:
    with pytest.raises(UsageError, match="threads"):
        SIMD_CPU.prepare(inputs_of(Problem(1, 32, 64), "nf4-g32"), {"threads": 0})


# ---- dequantization -------------------------------------------------------------------------------------------------


def bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(torch.int32 if tensor.element_size() == 4 else torch.int16)


def random_bits(N: int, K: int, kind: str, absmax: torch.Tensor) -> FourBitInputs:
    """Weights of random nibbles, K of them under each absmax."""
    packed = torch.randint(0, 256, ((N * K + 1) // 2,), dtype=torch.uint8)
    weight = QuantizedWeight(packed, absmax, None, N * K, K, kind)
    return FourBitInputs(Problem(1, N, K), FourBit(kind, K, DType.FP32), CPU, 0, torch.zeros(1, K), weight, None)


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
def test_bits_equal_the_reference(N, K, kind, group, nested, threads, dtype):
    inputs = make_inputs(Problem(1, N, K), FourBit(kind, group, DType.FP32, nested), CPU, seed=N * K)
    expected = dequantize(inputs.weight, dtype).view(N, K)
    for streaming in (False, True):
        out = torch.full((N, K), torch.nan, dtype=dtype)
        prepare_dequantize(inputs, out, {"threads": threads, "streaming": streaming})()
        assert torch.equal(bits(out), bits(expected))


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_exponent_rounds_to_nearest_even(dtype: torch.dtype) -> None:
    """absmax over all of fp32, subnormals, ties and overflow to infinity: numpy computes and rounds the products."""
    exponents = torch.arange(1, 255, dtype=torch.int32) << 23
    mantissas = torch.tensor([0, 1, 0x0FFF, 0x1000, 0x1001, 0x7FFF, 0x8000, 0x8001, 0x18000, 0x3000, 0x7FFFFF])
    patterns = (exponents[:, None] | mantissas[None].int()).reshape(-1)
    subnormal = torch.tensor([0, 1, 2, 3, 0x8000, 0x18000, 0x400000, 0x7FFFFF], dtype=torch.int32)
    absmax = torch.cat((patterns, subnormal)).view(torch.float32)
    inputs = random_bits(absmax.numel(), 64, "nf4", absmax)
    nibbles = torch.stack((inputs.packed >> 4, inputs.packed & 15), dim=1).reshape(-1, 64).int()
    with np.errstate(over="ignore", under="ignore"):
        product = code_table("nf4", torch.device("cpu")).numpy()[nibbles.numpy()] * absmax.numpy()[:, None]
        if dtype == torch.bfloat16:  # keep the upper half; add half a unit, and the odd bit that makes ties even
            pattern = product.view(np.uint32).astype(np.uint64)
            expected = ((pattern + 0x7FFF + ((pattern >> 16) & 1)) >> 16).astype(np.uint16).view(np.int16)
        elif dtype == torch.float16:
            expected = product.astype(np.float16).view(np.int16)
        else:
            expected = product.view(np.int32)
    out = torch.empty(absmax.numel(), 64, dtype=dtype)
    prepare_dequantize(inputs, out)()
    wrong = torch.nonzero(bits(out) != torch.from_numpy(expected))
    assert len(wrong) == 0, f"{len(wrong)} differ, first in row {wrong[0].tolist()}"


def test_halves_are_widened_exactly() -> None:
    """Every fp16 number as an activation: a product with 1 under absmax 1 returns it."""
    values = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(torch.float16)
    x = torch.zeros(1 << 16, 8, dtype=torch.float16)
    x[:, 0] = torch.where(values.isfinite(), values, 0)
    one = int((code_table("nf4", torch.device("cpu")) == 1).nonzero())
    weight = QuantizedWeight(torch.full((4 * 8,), 17 * one, dtype=torch.uint8), torch.ones(1), None, 64, 64, "nf4")
    inputs = FourBitInputs(Problem(1 << 16, 8, 8), FourBit("nf4", 64, DType.FP16), CPU, 0, x, weight, None)
    launch = SIMD_CPU.prepare(inputs)
    launch()
    assert torch.equal(launch.output, x[:, :1].expand(-1, 8))


@pytest.mark.parametrize("dtype", DTYPES)
def test_nan_and_infinite_absmax(dtype: torch.dtype) -> None:
    inputs = random_bits(4, 32, "nf4", torch.tensor([torch.nan, torch.inf, -torch.inf, 1.0]))
    out = torch.empty(4, 32, dtype=dtype)
    prepare_dequantize(inputs, out)()
    torch.testing.assert_close(out, inputs.dequantized(dtype), rtol=0, atol=0, equal_nan=True)


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

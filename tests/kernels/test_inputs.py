"""Operands: same seed, same bits; activations refreshed in place; the views that providers read."""

import pytest
import torch
from rooflens.kernels.draw import LINES, rms
from rooflens.kernels.fourbit.inputs import FourBitInputs
from rooflens.kernels.fourbit.quantize import dequantize
from rooflens.kernels.inputs import make_inputs, make_weight
from rooflens.shapes.problem import Problem
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes import parse_scheme

from .devices import CPU


def inputs_of(M: int = 3, N: int = 8, K: int = 64, scheme: str = "nf4-g64", dtype: str = "bf16") -> FourBitInputs:
    return make_inputs(Problem(M, N, K), parse_scheme(scheme, DType(dtype)), CPU, seed=7)


def test_shapes_and_types() -> None:
    inputs = inputs_of(M=3, N=9, K=33, scheme="fp4-g32-nested-bias", dtype="fp16")
    assert inputs.x.shape == (3, 33)
    assert inputs.x.dtype == inputs.dtype == torch.float16
    assert inputs.packed.shape == ((9 * 33 + 1) // 2,)
    assert inputs.packed.dtype == torch.uint8
    assert inputs.absmax.shape == (10,)
    assert inputs.absmax.dtype == torch.float32
    assert inputs.nested is not None
    assert inputs.nested.q.shape == (10,)
    assert inputs.nested.scale.shape == (1,)
    assert inputs.nested.code.shape == (256,)
    assert inputs.nested.offset.shape == ()
    assert inputs.code.shape == (16,)
    assert inputs.bias is not None
    assert inputs.bias.shape == (9,)
    assert inputs.bias.dtype == torch.float16
    assert inputs.dequantized().shape == (9, 33)
    assert inputs.dequantized().dtype == torch.float16


def test_plain_schemes_have_neither_bias_nor_nested_absmax() -> None:
    inputs = inputs_of()
    assert inputs.bias is None
    assert inputs.nested is None


def test_same_seed_same_bits_and_another_seed_others() -> None:
    first, again = inputs_of(), inputs_of()
    assert torch.equal(first.x, again.x)
    assert torch.equal(first.packed, again.packed)
    other = make_inputs(first.problem, first.scheme, CPU, seed=8)
    assert not torch.equal(first.x, other.x)
    assert not torch.equal(first.packed, other.packed)


def test_a_shared_weight_equals_a_fresh_one() -> None:
    problem, scheme = Problem(1, 8, 64), parse_scheme("nf4-g64", DType.BF16)
    weight = make_weight(problem, scheme, CPU, seed=7)
    shared = make_inputs(Problem(5, 8, 64), scheme, CPU, seed=7, weight=weight)
    assert shared.weight is weight
    assert torch.equal(shared.packed, inputs_of(M=5).packed)


@pytest.mark.parametrize("dtype", list(DType))
def test_dequantized_weight_is_rounded_once(dtype: DType) -> None:
    inputs = inputs_of(N=4, K=96, dtype=dtype)
    exact = dequantize(inputs.weight, torch.float32).view(4, 96)
    assert torch.equal(inputs.dequantized(torch.float32), exact)
    assert torch.equal(inputs.dequantized(), exact.to(inputs.dtype))


def test_data_look_like_the_distribution_that_is_documented() -> None:
    inputs = inputs_of(M=64, N=256, K=1024, dtype="fp32")
    assert inputs.x.mean().abs() < 0.02
    assert inputs.x.std() == pytest.approx(1.0, abs=0.02)
    weight = inputs.dequantized()
    assert weight.mean().abs() < 0.02
    assert weight.std() == pytest.approx(rms(LINES), abs=0.03)
    normalised = weight.view(256, 16, 64) / inputs.absmax.view(256, 16, 1)
    sizes = inputs.absmax.log2()
    assert normalised.abs().amax() == 1.0
    assert sizes.std() > 1.0, "blocks differ by powers of two"


def test_refresh_overwrites_activations_in_place() -> None:
    inputs = inputs_of()
    pointer, before = inputs.x.data_ptr(), inputs.x.clone()
    inputs.refresh_activations(1)
    assert inputs.x.data_ptr() == pointer
    assert not torch.equal(inputs.x, before)
    fresh = inputs.x.clone()
    inputs.refresh_activations(1)
    assert torch.equal(inputs.x, fresh)


def test_an_output_starts_poisoned() -> None:
    out = inputs_of(M=3, N=8, dtype="fp16").empty_output()
    assert out.shape == (3, 8)
    assert out.dtype == torch.float16
    assert torch.all(torch.isnan(out))

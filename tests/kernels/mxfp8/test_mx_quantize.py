"""The MX-FP8 quantizer against its definition in exact rational numbers and an enumeration of e4m3; references."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rooflens.kernels.inputs import make_inputs
from rooflens.kernels.mxfp8.quantize import dequantize_mx, quantize_mx, scale_values
from rooflens.shapes.problem import Op, Problem
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes.mxfp8 import MxFp8, MxFp8Quant

from ..checks import e4m3
from ..devices import CPU

RULES = ("floor", "ceil", "even", "rceil")
E4M3 = [Fraction(e4m3(code)) for code in range(0x7F)]
"""The 127 finite magnitudes."""


def exponent_by_rule(amax, rule):
    """Unbiased scale exponent of a positive rational, by the table of the format; clamped to -127 as byte 0 is."""
    e = 0
    while amax >= Fraction(2) ** (e + 1):
        e += 1
    while amax < Fraction(2) ** e:
        e -= 1
    m = amax / Fraction(2) ** e
    up = {"floor": False, "ceil": m != 1, "even": m >= Fraction(31, 16), "rceil": m > Fraction(7, 4)}[rule]
    return max(e - 8 + up, -127)


def nearest_e4m3(value):
    """Code of the nearest e4m3 magnitude, ties to the even code, saturating."""
    best = min(range(len(E4M3)), key=lambda code: (abs(E4M3[code] - abs(value)), code % 2))
    return best | (0x80 if value < 0 else 0)


def quantized(values, rule):
    x = torch.tensor(values, dtype=torch.float32).bfloat16()
    q, scales = quantize_mx(x, rule)
    assert q.dtype == torch.float8_e4m3fn
    assert scales.dtype == torch.uint8
    return x, q.view(torch.uint8), scales


@given(
    st.lists(st.floats(-1, 1, width=32), min_size=32, max_size=32),
    st.integers(-100, 100),
    st.sampled_from(RULES),
)
def test_every_rule_is_its_definition_to_the_bit(values, exponent, rule):
    x, q, scales = quantized([value * 2.0**exponent for value in values], rule)
    exact = [Fraction(value) for value in x.tolist()]
    amax = max(abs(value) for value in exact)
    if amax == 0:
        assert scales.tolist() == [0]
        assert not (q & 0x7F).any()
        return
    scale = exponent_by_rule(amax, rule)
    assert scales.tolist() == [scale + 127]
    expected = [nearest_e4m3(value / Fraction(2) ** scale) for value in exact]
    negative = torch.signbit(x)
    assert q.tolist() == [code | 0x80 if sign else code for code, sign in zip(expected, negative.tolist(), strict=True)]


@pytest.mark.parametrize("rule", RULES)
def test_thresholds_of_the_mantissa(rule):
    """The bf16 numbers on and next to 1, 1.75 and 1.9375, in fp32 as well."""
    for m in (1.0, 1.0078125, 1.7421875, 1.75, 1.7578125, 1.9296875, 1.9375, 1.9921875):
        (byte,) = quantized([m] + [0.0] * 31, rule)[2].tolist()
        assert byte == 127 + exponent_by_rule(Fraction(m), rule), m
    for m in np.nextafter(np.float32([1, 1.75, 1.9375]), np.float32(2)):
        _, scale = quantize_mx(torch.tensor([float(m)] + [0.0] * 31), rule)
        assert scale.tolist() == [127 + exponent_by_rule(Fraction(float(m)), rule)]


def test_what_is_not_finite_and_what_is_tiny():
    rows = [[0.0] * 32, [torch.inf] + [1.0] * 31, [-torch.nan] + [1.0] * 31, [2.0**-133] * 32, [-3.3e38] * 32]
    _, q, scales = quantized(rows, "rceil")
    assert scales.tolist() == [[0], [255], [255], [0], [247]]
    assert not q[0].any()
    assert (q[1:3] == 127).all(), "NaN, so that nobody takes it for a number"
    assert (q[3].view(torch.float8_e4m3fn).float() == 2.0**-6).all(), "2^-133 in steps of 2^-127"
    assert dequantize_mx(q.view(torch.float8_e4m3fn), scales, torch.float32)[1:3].isnan().all()


def test_leading_dimensions():
    x = torch.randn(2, 3, 5, 96, generator=torch.manual_seed(0)).bfloat16()
    q, scales = quantize_mx(x, "rceil")
    assert (q.shape, scales.shape) == ((2, 3, 5, 96), (2, 3, 5, 3))
    flat, flat_scales = quantize_mx(x.view(-1, 96), "rceil")
    assert torch.equal(q.view(torch.uint8).view(-1, 96), flat.view(torch.uint8))
    assert torch.equal(scales.view(-1, 3), flat_scales)


def test_a_row_must_be_whole_blocks():
    with pytest.raises(ValueError, match="48 is not a multiple of 32"):
        quantize_mx(torch.zeros(2, 48), "rceil")


def test_scales_are_powers_of_two():
    values = scale_values(torch.arange(256, dtype=torch.uint8), torch.float64)
    assert values[:255].tolist() == [2.0 ** (byte - 127) for byte in range(255)]
    assert values[255].isnan()


def test_dense_weights_are_those_of_the_stored_bits():
    inputs = make_inputs(Problem(3, 7, 64), MxFp8("rceil", DType.BF16), CPU, 5)
    w = dequantize_mx(inputs.w, inputs.w_scale, torch.float64)
    normal = w.abs() >= torch.finfo(torch.bfloat16).tiny
    assert torch.equal(inputs.dequantized().double()[normal], w[normal]), "exact in bf16"
    assert torch.equal(inputs.dequantized(), w.bfloat16())


def test_the_reference_of_a_quantizer_is_its_bits():
    problem = Problem(9, 1, 96, op=Op.QUANTIZE)
    inputs = make_inputs(problem, MxFp8Quant("even", DType.BF16), CPU, 4)
    q, scales = quantize_mx(inputs.x, "even")
    payload, scale_bytes = inputs.reference()
    assert torch.equal(payload, q.view(torch.uint8).double())
    assert torch.equal(scale_bytes, scales.double())
    assert len(set(scales.flatten().tolist())) > 3, "blocks of different magnitude"

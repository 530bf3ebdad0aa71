"""Scales without divisions: the corrections reach the rounded quotient from every magnitude of 16 bits."""

import numpy as np
import pytest
import torch
from rooflens.kernels.jit.quantizing import newton

FP32 = np.float32
MAGNITUDES = {
    "bf16": (np.arange(1, 0x7F80, dtype=np.uint32) << 16).view(FP32),
    "fp16": np.arange(1, 0x7C00, dtype=np.uint16).view(np.float16).astype(FP32),
}


def fma(a, b, c):
    """Rounded once: the product of two fp32 numbers is exact in fp64, and so is the sum or its error shows."""
    total = a.astype(np.float64) * b.astype(np.float64) + np.asarray(c, np.float64)
    wider = a.astype(np.longdouble) * b.astype(np.longdouble) + np.asarray(c, np.longdouble)
    assert np.array_equal(total.astype(FP32), wider.astype(FP32)), "rounded twice"
    return total.astype(FP32)


@pytest.mark.parametrize("largest", [448.0, 240.0, 57344.0])
@pytest.mark.parametrize("kind", list(MAGNITUDES))
def test_quotients_and_reciprocals_are_those_of_a_division(kind, largest):
    """For each of what `rcp.approx` may return: it is within one unit of the last place, here two are tried."""
    drawn = MAGNITUDES[kind]
    a = np.concatenate([drawn[drawn > FP32(1e-12)], [FP32(1e-4)]])
    wanted = FP32(largest) / a
    for units in range(-2, 3):
        inverse = ((FP32(1) / (a * FP32(0.00390625))).view(np.int32) + units).view(FP32)
        near = inverse * FP32(largest / 256)
        rest = fma(-near, a, largest)
        assert np.array_equal(fma(rest * FP32(0.00390625), inverse, near), wanted), units
    near = a * FP32(1 / largest)
    assert np.array_equal(fma(fma(-wanted, near, 1.0), near, near), FP32(1) / wanted)


@pytest.mark.parametrize("largest", [448.0, 240.0])
def test_the_reciprocal_of_the_largest_scale(largest):
    """1e-12, the least amax of some quantizers, has more than 11 bits."""
    scale, near = np.array([largest / 1e-12], FP32), np.array([1e-12], FP32) * FP32(1 / largest)
    assert np.array_equal(fma(fma(-scale, near, 1.0), near, near), FP32(1) / scale)


@pytest.mark.parametrize(
    ("dtype", "place", "wanted", "answer"),
    [
        (torch.bfloat16, "meta", 1, True),
        (torch.float16, "meta", 1, True),
        (torch.float32, "meta", 1, False),
        (torch.bfloat16, "cpu", 1, False),
        (torch.bfloat16, "meta", 0, False),
    ],
)
def test_only_short_types_go_without_divisions(dtype, place, wanted, answer):
    assert newton(torch.empty(2, dtype=dtype, device=place), wanted) is answer

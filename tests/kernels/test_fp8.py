"""Negation and poison of 8-bit floats; which of them a device has is in fp8train/test_fp8train_quantize.py."""

import pytest
import torch
from rooflens.kernels.fp8 import negate_
from rooflens.kernels.inputs import poison


@pytest.mark.parametrize("kind", ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"])
def test_every_value_is_negated_exactly_and_zero_stays_a_number(kind):
    octets = torch.arange(256).to(torch.uint8)
    values = octets.view(getattr(torch, kind)).double()
    finite = values.isfinite()
    negated = octets[finite].clone().view(getattr(torch, kind))
    negate_(negated)
    assert torch.equal(negated.double(), -values[finite])


@pytest.mark.parametrize("kind", ["bfloat16", "float32", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2"])
def test_poison_is_nan_in_every_float(kind):
    assert poison(torch.zeros(4, 6, dtype=getattr(torch, kind)).t()).double().isnan().all()


def test_poison_of_scales_in_bytes_is_the_nan_of_e8m0():
    assert poison(torch.zeros(3, dtype=torch.uint8)).tolist() == [0xFF] * 3

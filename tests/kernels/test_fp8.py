"""The 8-bit floats of a device, and negation in them."""

import dataclasses

import pytest
import torch
from rooflens.harness.machine.device import find_device
from rooflens.kernels.fp8 import e4m3, e5m2, negate_
from rooflens.kernels.inputs import poison

CPU = find_device("cpu")


def test_only_gfx942_has_the_fnuz_types():
    gfx942, gfx950 = (dataclasses.replace(CPU, kind="cuda", vendor="AMD", arch=arch) for arch in ("gfx942", "gfx950"))
    assert (e4m3(gfx942), e5m2(gfx942)) == (torch.float8_e4m3fnuz, torch.float8_e5m2fnuz)
    assert torch.finfo(e4m3(gfx942)).max == 240
    assert torch.finfo(e4m3(gfx950)).max == 448
    assert e5m2(CPU) is torch.float8_e5m2


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

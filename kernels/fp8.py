"""The 8-bit floats of a device, and the negation of what is stored in them."""

import torch

from ..shapes.device import Device

_FNUZ_ARCHES = ("gfx942",)
"""Their matrix units multiply the fnuz types (largest E4M3 240, no negative zero), all others the OCP ones (448)."""


def e4m3(device: Device) -> torch.dtype:
    """Type of weights and activations; ask `torch.finfo` for its largest value."""
    return torch.float8_e4m3fnuz if device.arch in _FNUZ_ARCHES else torch.float8_e4m3fn


def e5m2(device: Device) -> torch.dtype:
    """Type of gradients where a recipe wants their range."""
    return torch.float8_e5m2fnuz if device.arch in _FNUZ_ARCHES else torch.float8_e5m2


def negate_(tensor: torch.Tensor) -> None:
    """Turn x into -x in place, exactly. The byte 0x80 is NaN in fnuz types, whose zero keeps its sign."""
    octets = tensor.view(torch.uint8)
    if tensor.dtype in (torch.float8_e4m3fnuz, torch.float8_e5m2fnuz):
        octets.copy_(torch.where(octets == 0, octets, octets ^ 0x80))
    else:
        octets.bitwise_xor_(0x80)

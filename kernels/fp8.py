"""The 8-bit floats of a device, and the negation of what is stored in them."""

import torch

from ..shapes.device import Device
from ..shapes.gpu_architectures import architecture


def e4m3(device: Device) -> torch.dtype:
    """Type of weights and activations; ask `torch.finfo` for its largest value."""
    return torch.float8_e4m3fnuz if architecture(device.arch).fnuz else torch.float8_e4m3fn


def e5m2(device: Device) -> torch.dtype:
    """Type of gradients where a recipe wants their range."""
    return torch.float8_e5m2fnuz if architecture(device.arch).fnuz else torch.float8_e5m2


_FNUZ = (torch.float8_e4m3fnuz, torch.float8_e5m2fnuz)


def negate_(tensor: torch.Tensor) -> None:
    """Turn x of any floating type into -x in place, exactly."""
    if tensor.itemsize == 1:
        flip_bits_(tensor, 0x80, tensor)
    else:
        tensor.neg_()


def flip_bits_(tensor: torch.Tensor, bits: torch.Tensor | int, source: torch.Tensor) -> None:
    """Overwrite with `source` and other signs: `bits` is 0x80 where they change, else 0; uint8 [K] for [..., K].

    The byte 0x80 is NaN in fnuz types, whose zero keeps its sign.
    """
    target, octets = tensor.view(torch.uint8), source.view(torch.uint8)
    if tensor.dtype in _FNUZ:
        target.copy_(torch.where(octets == 0, octets, octets ^ bits))
    else:
        torch.bitwise_xor(octets, bits, out=target)


def negate_widened_(tensor: torch.Tensor, dtype: torch.dtype) -> None:
    """Do to values of FP8 `dtype` that are stored in a wider type what `negate_` does to them in FP8."""
    tensor.neg_()
    if dtype in _FNUZ:
        tensor.add_(0.0)  # -0 + 0 is +0, and all else stays

"""What the 4-bit kernels take: packed weights as words, absmax in either form, and the instructions of a device."""

import torch

from ...shapes.device import Device
from ..triton_launch import INTERPRETED
from .inputs import FourBitInputs


def target_isa(device: Device) -> str:
    """Which instructions the kernels may use on this device; see `triton_decode.byte_permute`."""
    if INTERPRETED:
        return "ptx_emulated"
    return arch_isa(device.arch)


def arch_isa(arch: str) -> str:
    """Return the instruction set of a GPU architecture, as `triton_decode.byte_permute` names it."""
    if not arch.startswith("gfx"):
        return "ptx"
    if not arch.startswith("gfx9"):
        return "rdna"
    return "cdna_bf16" if arch == "gfx950" else "cdna"


def packed_view(packed: torch.Tensor, words: bool) -> tuple[torch.Tensor, bool]:
    """Packed weights as int32 when they consist of whole, aligned words (and `words` is wanted), else as bytes."""
    words = words and packed.numel() % 4 == 0 and packed.data_ptr() % 4 == 0
    return (packed.view(torch.int32) if words else packed), words


def scale_operands(
    inputs: FourBitInputs,
) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:
    """absmax, q, nested_code and nested_offset as `triton_tiles.load_absmax` wants them."""
    if inputs.nested is None:
        return inputs.absmax, None, None, None
    return inputs.nested.scale, inputs.nested.q, inputs.nested.code, inputs.nested.offset

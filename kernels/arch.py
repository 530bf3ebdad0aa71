"""GPU architectures by what kernels care about: their family, and whether they know FP8."""

from ..shapes.device import Device

NOT_ON_CPU = "Triton kernels need a GPU"
"""Why a Triton provider does not run there."""

ONLY_SM90 = "torch multiplies with blockwise FP8 scales on sm90 only (cuBLAS)"

BLOCK_SCALED = ("sm100", "sm103", "sm120")
"""NVIDIA architectures with block-scaled matrix units, whose library takes the scales in the 128x4 layout."""

_FIRST_FP8_SM = 89
_FP8_GFX = ("gfx942", "gfx950", "gfx12")


def gpu_family(arch: str) -> str:
    """Return the family of a GPU architecture: "cuda" (sm80, ...), "cdna" (gfx9..., waves of 64) or "rdna"."""
    if not arch.startswith("gfx"):
        return "cuda"
    return "cdna" if arch.startswith("gfx9") else "rdna"


def converts_fp8(arch: str) -> bool:
    """Tell whether Triton knows e4m3 on a GPU; AMD's without instructions for it compute the conversion."""
    return arch.startswith("gfx") or int(arch.removeprefix("sm")) >= _FIRST_FP8_SM


def multiplies_fp8(arch: str) -> bool:
    """Tell whether the matrix units of a GPU multiply FP8."""
    return arch.startswith(_FP8_GFX) if arch.startswith("gfx") else converts_fp8(arch)


def fp8_missing(device: Device) -> str:
    """Say why Triton kernels that multiply FP8 cannot run on a device; empty when they can."""
    if not device.is_gpu:
        return NOT_ON_CPU
    if not multiplies_fp8(device.arch):
        return f"{device.arch} has no FP8 matrix instructions: needs sm89 or newer, gfx942, gfx950 or gfx12"
    return ""


def block_scaled_missing(device: Device) -> str:
    """Say why torch cannot multiply with MX scales on a device; empty when it can."""
    if device.arch in BLOCK_SCALED:
        return ""
    return f"needs block-scaled FP8 matrix units ({', '.join(BLOCK_SCALED)}); this is {device.arch}"

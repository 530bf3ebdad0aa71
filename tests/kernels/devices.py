"""Devices that are described, not there."""

from rooflens.shapes.device import Device


def cpu(arch: str = "x86-64") -> Device:
    """A CPU; under the name of a GPU architecture it stands for that one in Triton's interpreter."""
    return Device("cpu", 0, "cpu", "", arch, 2, 1 << 20, 1 << 20, 1 << 30)


def gpu(arch: str = "sm90", compute_units: int = 132) -> Device:
    vendor = "AMD" if arch.startswith("gfx") else "NVIDIA"
    return Device("cuda", 0, arch, vendor, arch, compute_units, 1 << 26, 1 << 26, 1 << 36)


CPU = cpu()
H200 = Device("cuda", 0, "NVIDIA H200", "NVIDIA", "sm90", 132, 1 << 26, 1 << 26, 1 << 37)
MI300X = Device("cuda", 0, "AMD Instinct MI300X", "AMD", "gfx942", 304, 1 << 28, 1 << 22, 1 << 37)

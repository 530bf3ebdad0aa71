"""What a provider of this family can be asked for, and on which devices FP8 exists."""

from ...shapes.device import Device
from ..needs import fp8_missing
from ..provider import Support

LONGEST_ROW = 1 << 24
"""Offsets inside a tile are 32-bit: up to 128 rows (or columns) of this many elements."""


def fp8_support(device: Device) -> Support:
    """Whether the device is a GPU with FP8 conversions and matrix instructions for its own e4m3."""
    missing = fp8_missing(device)
    return Support.no(missing) if missing else Support.yes()

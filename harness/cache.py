"""The state of the caches before a sample: cold evicts the last-level cache, warm leaves everything as it is."""

from typing import Protocol as Interface

import torch

from ..shapes.device import Device
from ..shapes.suite import Cache


class CacheControl(Interface):
    """Called before each sample, outside of the timed region."""

    def __call__(self) -> None:
        """Bring the caches into the state."""


class Cold:
    """Write 2x the last-level cache, then read a clean buffer of 1x.

    The write evicts the operands; the read evicts the dirty lines, whose write-back the timed kernel would pay for.
    Both go through all threads (CPU) or the whole chip (GPU), so that private caches are evicted as well.
    """

    operations = 2

    def __init__(self, device: Device) -> None:
        self._dirty = torch.zeros(2 * device.llc_bytes // 4, dtype=torch.float32, device=device.torch_name)
        self._clean = torch.ones(device.llc_bytes // 4, dtype=torch.float32, device=device.torch_name)
        self._sum = torch.zeros((), dtype=torch.float32, device=device.torch_name)

    def __call__(self) -> None:
        """Evict."""
        self._dirty.fill_(1.0)
        torch.sum(self._clean, dim=0, out=self._sum)


class Warm:
    """Same buffers, back to back."""

    operations = 0

    def __call__(self) -> None:
        """Leave the caches alone."""


def control(cache: Cache, device: Device) -> Cold | Warm:
    """Build the control of one cache state."""
    return Cold(device) if cache is Cache.COLD else Warm()


def has_own_l2(device: Device) -> bool:
    """Tell whether a GPU has an L2 that outlives a launch, in front of a larger last-level cache.

    gfx942's L2 does not survive a launch; a CPU's L2 is private to a core and small, and counts as part of its L3.
    """
    return device.is_gpu and device.l2_bytes < device.llc_bytes and device.arch != "gfx942"


def level_of(working_set_bytes: int, cache: Cache, device: Device) -> str:
    """Level of the memory hierarchy that a launch reads from: dram when cold, else the smallest that holds it."""
    if cache is Cache.COLD or working_set_bytes > device.llc_bytes:
        return "dram"
    return "l2" if has_own_l2(device) and working_set_bytes <= device.l2_bytes else "llc"

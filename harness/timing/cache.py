"""The state of the caches before a sample, and how a cold one is brought about: by a flush or by rotation."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from ...kernels.probes.sweeps import read_once
from ...shapes.device import Device
from ...shapes.errors import UsageError
from ...shapes.suite import Cache
from .accelerator import Action
from .cache_sizes import REUSE, copies_needed, flush_bytes
from .timer import Subject


class Flush:
    """Read a clean buffer of `FLUSH` last-level caches, by all threads (CPU) or the whole chip (GPU).

    Nothing is written: dirty lines would stay behind, and the timed kernel would pay for their write-back. On an H200,
    writing 2 caches and reading 1 made reads of 8 and 32 MB 22 % slower than rotation among copies; reading 2, 3 or 8
    agrees with it within 2 % (docs/measured-facts.md).
    """

    def __init__(self, device: Device) -> None:
        self._clean = torch.ones(flush_bytes(device) // 4, dtype=torch.int32, device=device.torch_name)
        probe = read_once(device, self._clean)
        self._read = probe.run
        self.operations = probe.operations
        """Device operations of one flush."""

    def __call__(self) -> None:
        """Evict."""
        self._read()


class Turns:
    """Launches on copies of the operands, used in turn."""

    def __init__(self, launches: Sequence[Action]) -> None:
        self._launches = tuple(launches)
        self._next = 0

    def __call__(self) -> None:
        """Launch on the next copy."""
        launch = self._launches[self._next]
        self._next = (self._next + 1) % len(self._launches)
        launch()

    def __len__(self) -> int:
        return len(self._launches)

    def copy(self) -> int:
        """Number of the copy that the next launch uses."""
        return self._next


class _SharedFlush(Turns):
    """Turns with one flush before the first copy.

    The flush evicts all copies at once, and each is used once until the next: every launch is cold at a fraction of a
    flush. Copies that were not launched before are launched now, so that no sample is the first to touch an output.
    """

    def __init__(self, launches: Sequence[Action], flush: Action) -> None:
        super().__init__(launches)
        self._flush = flush
        for launch in self._launches[1:]:
            launch()

    def before(self) -> None:
        """Flush, unless the last flush was before the copy at hand was used last."""
        if self._next == 0:
            self._flush()


class Rotation(Turns):
    """Turns among so many copies that what one launch read is evicted before it is read again.

    Raises UsageError when fewer than `REUSE` last-level caches of other bytes pass between two uses of a copy: an
    undersized rotation would be a warm number under a cold label.
    """

    def __init__(self, launches: Sequence[Action], bytes_each: int, device: Device) -> None:
        super().__init__(launches)
        between, needed = (len(self) - 1) * bytes_each, REUSE * device.llc_bytes
        if between < needed:
            raise UsageError(
                f"rotation among {len(self)} copies of {bytes_each} bytes: only {between} bytes pass between two "
                f"uses of one, and {needed} are needed to evict it: make {copies_needed(bytes_each, device)} copies"
            )


def warm(launch: Action) -> Subject:
    """Same buffers, back to back."""
    return Subject(launch)


def flushed(launch: Action, flush: Action, operations: int | None = None) -> Subject:
    """Flush before every launch; `operations` are what the flush itself says, by default."""
    return Subject(launch, flush, getattr(flush, "operations", 1) if operations is None else operations)


def flushed_together(launches: Sequence[Action], flush: Action, operations: int | None = None) -> Subject:
    """Take the next copy at every launch, and flush before the first of them; `operations` as of `flushed`."""
    turns = _SharedFlush(launches, flush)
    return replace(flushed(turns, flush, operations), before=turns.before, copy=turns.copy, turn=len(launches))


def rotated(rotation: Rotation) -> Subject:
    """Take the next copy at every launch."""
    return Subject(rotation, copy=rotation.copy, period=len(rotation))


def has_own_l2(device: Device) -> bool:
    """Return whether a GPU has an L2 that outlives a launch, in front of a larger last-level cache.

    gfx942's L2 does not survive a launch; a CPU's L2 is private to a core and small, and counts as part of its L3.
    """
    return device.is_gpu and device.l2_bytes < device.llc_bytes and device.arch != "gfx942"


def level_of(working_set_bytes: int, cache: Cache, device: Device) -> str:
    """Level of the memory hierarchy that a launch reads from: dram when cold, else the smallest that holds it."""
    if cache is Cache.COLD or working_set_bytes > device.llc_bytes:
        return "dram"
    return "l2" if has_own_l2(device) and working_set_bytes <= device.l2_bytes else "llc"

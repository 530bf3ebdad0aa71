"""The state of the caches before a sample, and how a cold one is brought about: by a flush or by rotation."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from ..kernels.probes.sweeps import read_once
from ..shapes.device import Device
from ..shapes.errors import UsageError
from ..shapes.suite import Cache
from .accelerator import Action
from .timer import Subject

REUSE = 2
"""Last-level caches full of other bytes that pass between two uses of a buffer, before it counts as evicted."""

FLUSH = 3
"""Last-level caches that a flush reads: `REUSE`, and one more for caches that keep a part of a long stream."""

PER_FLUSH = 11
"""Launches, each on its own copy of the operands, that one flush may serve: a warm-up and the ten samples of a short
round."""

CPU_BYTES_PER_S, CPU_FLOPS = 10e9, 50e9
"""What two slow cores reach: how long a flush and a launch take, before either was timed."""

MOST_COPIES = 4096
"""Copies of the operands that rotation may make; smaller weights than these can fill a cache are for a flush."""


def flush_bytes(device: Device) -> int:
    """Bytes that a flush reads."""
    return FLUSH * device.llc_bytes


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


class SharedFlush:
    """Launches on copies of the operands, in turn, with one flush before the first of them.

    The flush evicts all copies at once, and each is used once until the next: every launch is cold at a fraction of a
    flush. Copies that were not launched before are launched now, so that no sample is the first to touch an output.
    """

    def __init__(self, launches: Sequence[Action], flush: Action) -> None:
        self._launches, self._flush = tuple(launches), flush
        self._next = 0
        for launch in self._launches[1:]:
            launch()

    def before(self) -> None:
        """Flush, unless the last flush was before the copy at hand was used last."""
        if self._next == 0:
            self._flush()

    def launch(self) -> None:
        """Launch on the copy at hand, and turn to the next."""
        launch = self._launches[self._next]
        self._next = (self._next + 1) % len(self._launches)
        launch()


class Rotation:
    """Launches on copies of the operands, used in turn: what one launch read is evicted before it is read again.

    Raises UsageError when fewer than `REUSE` last-level caches of other bytes pass between two uses of a copy: an
    undersized rotation would be a warm number under a cold label.
    """

    def __init__(self, launches: Sequence[Action], bytes_each: int, device: Device) -> None:
        between, needed = (len(launches) - 1) * bytes_each, REUSE * device.llc_bytes
        if between < needed:
            raise UsageError(
                f"rotation among {len(launches)} copies of {bytes_each} bytes: only {between} bytes pass between two "
                f"uses of one, and {needed} are needed to evict it: make {copies_needed(bytes_each, device)} copies"
            )
        self._launches = tuple(launches)
        self._next = 0

    def __call__(self) -> None:
        """Launch on the next copy."""
        launch = self._launches[self._next]
        self._next = (self._next + 1) % len(self._launches)
        launch()

    def __len__(self) -> int:
        return len(self._launches)


def copies_needed(bytes_each: int, device: Device) -> int:
    """Number of copies such that `REUSE` last-level caches of other bytes pass between two uses of one.

    Raises UsageError where that is more than anybody wants to prepare.
    """
    copies = 1 + -(-REUSE * device.llc_bytes // max(1, bytes_each))
    if copies > MOST_COPIES:
        raise UsageError(
            f"rotation would take {copies} copies of {bytes_each} bytes, {MOST_COPIES} at most: use --cold-by flush"
        )
    return copies


def copies_per_flush(compulsory_bytes: int, flops: float, device: Device) -> int:
    """Copies of the operands that share one flush on this device; 1 where a flush is cheap.

    A GPU flushes within microseconds. A CPU reads three last-level caches (a gigabyte, on a server) for a
    launch of a millisecond: there as many copies share the flush as can be made (dequantized to 16 bits, in a
    quarter of the bytes of the cache) and launched in about the time that it takes.
    """
    if device.is_gpu:
        return 1
    flush_s = flush_bytes(device) / CPU_BYTES_PER_S
    launch_s = max(flops / CPU_FLOPS, compulsory_bytes / CPU_BYTES_PER_S)
    within = min(int(flush_s / launch_s), device.llc_bytes // (16 * compulsory_bytes))
    return max(1, min(PER_FLUSH, within))


def warm(launch: Action) -> Subject:
    """Same buffers, back to back."""
    return Subject(launch)


def flushed(launch: Action, flush: Action, operations: int | None = None) -> Subject:
    """Flush before every launch; `operations` are what the flush itself says, by default."""
    return Subject(launch, flush, getattr(flush, "operations", 1) if operations is None else operations)


def flushed_together(launches: Sequence[Action], flush: Action, operations: int | None = None) -> Subject:
    """Take the next copy at every launch, and flush before the first of them; `operations` as of `flushed`."""
    turns = SharedFlush(launches, flush)
    return replace(flushed(turns.launch, flush, operations), before=turns.before, turn=len(launches))


def rotated(rotation: Rotation) -> Subject:
    """Take the next copy at every launch."""
    return Subject(rotation, period=len(rotation))


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

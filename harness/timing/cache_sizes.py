"""How many bytes make a sample cold: of a flush, and of the copies of the operands that take turns. Needs no torch."""

from ...shapes.device import Device
from ...shapes.errors import UsageError

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


def copies_needed(bytes_each: int, device: Device) -> int:
    """Number of copies such that `REUSE` last-level caches of other bytes pass between two uses of one.

    Raises UsageError for more than `MOST_COPIES`.
    """
    copies = 1 + -(-REUSE * device.llc_bytes // max(1, bytes_each))
    if copies > MOST_COPIES:
        raise UsageError(
            f"rotation would take {copies} copies of {bytes_each} bytes, {MOST_COPIES} at most: use --set cold_by=flush"
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

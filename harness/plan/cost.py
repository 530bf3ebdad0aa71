"""How long a sweep takes, estimated before it begins: what it does, at the rates of an ordinary device of its kind.

A forecast for `--dry-run`, right within a factor of about two: the rates are those of a slow two-core virtual machine
and of an H200, and what a kernel takes is what its bytes or its products take at least.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ...shapes.device import Device
from ...shapes.protocol import Protocol
from ...shapes.suite import Cache
from ..timing.cache_sizes import copies_per_flush, flush_bytes
from ..timing.stop import BUDGET_OVERRUN, FEWEST, LEAST, REFERENCE_SHARE
from .plan import Cell, Task


@dataclass(frozen=True, slots=True)
class _Rates:
    """What a kind of device takes: seconds for what is done once, and work per second."""

    start_s: float
    ceilings_s: float
    unit_s: float
    sample_s: float
    bytes_per_s: float
    flops: float
    drawn_per_s: float
    referenced_per_s: float
    prepared_per_s: float


_CPU = _Rates(6.0, 5.0, 0.02, 2e-5, 1e10, 5e10, 1.5e7, 5e7, 1.5e8)
_GPU = _Rates(12.0, 8.0, 0.01, 2e-5, 2e12, 2e14, 1e9, 1e10, 1e10)

CEILINGS_CACHES = 60
"""Last-level caches full of bytes that a calibration reads and writes."""


@dataclass(frozen=True, slots=True)
class SweepCost:
    """Seconds of a sweep: to start and for the ceilings, to prepare, and to sample at least and at most.

    `flush_s` is the part of the least that goes into flushes.
    """

    start_s: float
    ceilings_s: float
    prepare_s: float
    least_s: float
    most_s: float
    flush_s: float

    @property
    def range_s(self) -> tuple[float, float]:
        """Seconds of the whole command, at least and at most."""
        fixed = self.start_s + self.ceilings_s + self.prepare_s
        return fixed + self.least_s, fixed + self.most_s


def cost(
    tasks: Iterable[Task],
    protocol: Protocol,
    device: Device,
    runs_here: Callable[[str], bool],
    calibrations: int,
) -> SweepCost:
    """Estimate all `protocol.rounds` of the cells of providers that run here."""
    rates = _GPU if device.is_gpu else _CPU
    prepare_s = least_s = most_s = flush_s = 0.0
    drawn = None
    for task in tasks:
        cells = [cell for cell in task.cells if runs_here(cell.provider)]
        problem = task.problem
        weights = problem.B * max(1, problem.E) * problem.N * problem.K
        if not cells:
            continue
        if drawn != (task.cells[0].shape, task.scheme):
            drawn = (task.cells[0].shape, task.scheme)
            prepare_s += weights / rates.drawn_per_s
        # One reference is for all; of each cell, one sample has activations of its own, where that is drawn.
        reference_s = weights / rates.referenced_per_s
        second_s = min(reference_s, REFERENCE_SHARE * protocol.budget_s)
        prepare_s += protocol.rounds * (reference_s + len(cells) * second_s)
        for cell in cells:
            copies, launch_s, evict_s = _sample(cell, protocol, device, rates)
            prepare_s += weights * copies / rates.prepared_per_s
            least, most = _samples(protocol, launch_s + evict_s / copies)
            # Each copy is touched; checked before and after, on the first and the last; one launch warms up.
            launches = copies + 2 * min(2, copies)
            flushes = math.ceil((1 + least) / copies), math.ceil((1 + most) / copies)
            least_s += protocol.rounds * (rates.unit_s + (launches + least) * launch_s + flushes[0] * evict_s)
            most_s += protocol.rounds * (rates.unit_s + (launches + most) * launch_s + flushes[1] * evict_s)
            flush_s += protocol.rounds * flushes[0] * evict_s
    ceilings_s = rates.ceilings_s + CEILINGS_CACHES * device.llc_bytes / rates.bytes_per_s
    return SweepCost(rates.start_s, calibrations * ceilings_s, prepare_s, least_s, most_s, flush_s)


def _sample(cell: Cell, protocol: Protocol, device: Device, rates: _Rates) -> tuple[int, float, float]:
    """Return the copies of a cell, seconds of a launch, and seconds of a flush (0 where there is none)."""
    moved = cell.scheme.compulsory_bytes(cell.problem)
    launch_s = rates.sample_s + max(moved / rates.bytes_per_s, cell.problem.flops / rates.flops)
    if cell.cache is Cache.WARM or protocol.cold_by == "rotation" or protocol.timer == "graph":
        return 1, launch_s, 0.0
    copies = copies_per_flush(moved, cell.problem.flops, device)
    return copies, launch_s, flush_bytes(device) / rates.bytes_per_s


def _samples(protocol: Protocol, sample_s: float) -> tuple[int, int]:
    """Return how many samples a round takes: those that it needs at least, and those that its budget holds."""
    fits = math.ceil(protocol.budget_s / sample_s)
    slow = max(FEWEST, min(LEAST, protocol.min_samples, BUDGET_OVERRUN * fits))
    return (protocol.min_samples, fits) if fits >= protocol.min_samples else (max(slow, fits),) * 2

"""Measure one (cell, round): warm up, then sample until the stop rule says enough."""

import gc
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from ...shapes.errors import RooflensError
from ...shapes.run_folder.disturbance import Cause, Disturbance, joined
from ..telemetry.source import INVALIDATING, Reading, Telemetry
from .accelerator import Host
from .stop import BUDGET_OVERRUN, FEWEST, StopRule
from .timer import NOT_BLOCKED, Batch, Subject, Timer

WARMUPS = 1
"""Untimed samples before the timed ones, in the same cache state; of a rotation, one launch of each copy.

The check of the output and the timer's own trial have launched it before.
"""

LARGEST_BATCH = 200

LEAST_BATCH_S = 1.5e-3
"""Shorter batches are not worth their synchronization."""

MOST_DISCARDED = 1 / 3
"""A cell that would lose a larger share of its samples keeps them all, and is flagged."""

STEADY_CLOCK = 0.05
"""Relative range of the clock during one round beyond which it counts as moved, unless a power limit explains it."""

BUSY_ELSEWHERE = 0.1
"""Share of the host's cores that others may use before a cell timed on the host counts as disturbed."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """Raw samples of one round in seconds, in order, and how they were taken; fields as in `timer.Batch`.

    `discarded` has one reason per sample, "" for those that count. `readings` are the device's own words with the index
    of the first sample that each speaks of.
    """

    times_s: tuple[float, ...]
    discarded: tuple[str, ...]
    host_s: tuple[float, ...]
    event_s: tuple[float, ...]
    kernels_s: tuple[float, ...]
    blocked: bool | None
    kernels: tuple[str, ...]
    launches_per_sample: int
    readings: tuple[tuple[int, Reading], ...]
    stop_reason: str
    disturbed: str
    remark: str
    elapsed_s: float


@dataclass(slots=True)
class _Taken:
    """Samples so far."""

    times: list[float] = field(default_factory=list)
    discarded: list[str] = field(default_factory=list)
    host: list[float] = field(default_factory=list)
    event: list[float] = field(default_factory=list)
    summed: list[float] = field(default_factory=list)
    blocked: bool | None = None
    kernels: tuple[str, ...] = ()
    readings: list[tuple[int, Reading]] = field(default_factory=list)

    def add(self, batch: Batch, reading: Reading | None) -> None:
        """Append a batch. What the device says of itself during it counts against all its samples."""
        reasons = list(batch.discarded or [""] * len(batch.times_s))
        if reading is not None:
            self.readings.append((len(self.times), reading))
            if bad := " ".join(word for word in reading.slowdown if word in INVALIDATING):
                reasons = [reason or f"{bad} slowdown" for reason in reasons]
        if batch.blocked is False:
            reasons = [reason or NOT_BLOCKED for reason in reasons]
        if batch.blocked is not None:
            self.blocked = batch.blocked and self.blocked is not False
        self.times += batch.times_s
        self.discarded += reasons
        self.host += batch.host_s
        self.event += batch.event_s
        self.summed += batch.kernels_s
        self.kernels = self.kernels or batch.kernels

    def settled(self) -> list[str]:
        """Reasons as they are stored: a cell that would lose too many samples keeps them all.

        Impossible times stay out whatever their number; what a hot or a busy device gave is all there is.
        """
        if sum(map(bool, self.discarded)) <= MOST_DISCARDED * len(self.times):
            return self.discarded
        return [why if time <= 0 else "" for why, time in zip(self.discarded, self.times, strict=True)]

    @property
    def counting(self) -> list[float]:
        """Times that count, in rising order: the stop rule looks at their ranks only, again and again."""
        return sorted(time for time, reason in zip(self.times, self.settled(), strict=True) if not reason)


def measure(subject: Subject, timer: Timer, rule: StopRule, machine: Host, telemetry: Telemetry) -> Measurement:
    """Take samples of `subject` in growing batches until `rule` stops.

    Raises RooflensError where none of them counts.
    """
    begin = machine.now()
    taken, latest = _Taken(), _Latest(telemetry)
    with _no_garbage_collection():
        pace = _warm_up(subject, rule, machine)
        size = _first_size(rule, pace)
        while True:
            if machine.end_persistence():
                size = 1
            taken.add(timer.batch(size, latest.read), latest.reading)
            elapsed = machine.now() - begin
            counting = taken.counting
            if reason := rule.decide(counting, elapsed, len(taken.times)):
                break
            size = _next_size(rule, counting, len(taken.times), elapsed)
    disturbed, settled = _disturbances(taken), taken.settled()
    if all(settled):
        raise RooflensError(f"timer {timer.name}: none of {len(taken.times)} samples has a positive time")
    return Measurement(
        times_s=tuple(taken.times),
        discarded=tuple(settled),
        host_s=tuple(taken.host),
        event_s=tuple(taken.event),
        kernels_s=tuple(taken.summed),
        blocked=taken.blocked,
        kernels=taken.kernels,
        launches_per_sample=timer.launches_per_sample,
        readings=tuple(taken.readings),
        stop_reason=reason,
        disturbed=disturbed,
        remark=timer.remark,
        elapsed_s=machine.now() - begin,
    )


class _Latest:
    """Keeps what the telemetry said last; a batch that the device repeats is read again."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self.reading: Reading | None = None

    def read(self) -> None:
        """Ask the device."""
        self.reading = self._telemetry.read()


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Keep Python's collector from running inside of a sample, or while the device waits for the host."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _warm_up(subject: Subject, rule: StopRule, machine: Host) -> float:
    """Run untimed samples; return the host's seconds for one."""
    begin, preceding, pace = machine.now(), 0.0, 0.0
    for done in range(1, max(WARMUPS, subject.period) + 1):
        start = machine.now()
        subject.before()
        preceding += machine.now() - start
        subject.launch()
        elapsed = machine.now() - begin
        pace = (elapsed - preceding + preceding / subject.turn) / done
        if elapsed > rule.budget_s:
            break
    return pace


def _first_size(rule: StopRule, pace_s: float) -> int:
    """The least samples, or as many of them as a slow launch gets; on a GPU `pace_s` is only the time to queue one."""
    if not pace_s:
        return rule.min_samples
    within, overrun = (int(budgets * rule.budget_s / pace_s) for budgets in (1, BUDGET_OVERRUN))
    return min(rule.min_samples, max(FEWEST, within, min(rule.least, overrun)))


def _next_size(rule: StopRule, counting: Sequence[float], count: int, elapsed_s: float) -> int:
    """What the interval still lacks, at most as many as there are, and not past what the budget holds at this pace.

    The interval narrows with the root of the number of samples. The least worth a batch are a quarter more, and as many
    as take `LEAST_BATCH_S`: what surrounds a batch takes a tenth of that.
    """
    missing = rule.samples_for_target(counting) - len(counting)
    pace_s = elapsed_s / count
    fits = int((rule.budget_s - elapsed_s) / pace_s) if pace_s else count
    worth = max(count // 4, int(LEAST_BATCH_S / pace_s) if pace_s else 0)
    return max(1, min(max(missing, worth), count, fits, LARGEST_BATCH))


def _disturbances(taken: _Taken) -> str:
    """Say what disturbed the samples while they were taken; "" when nothing did."""
    found = []
    if taken.settled() is not taken.discarded:
        reasons = Counter(why for why, time in zip(taken.discarded, taken.times, strict=True) if why and time > 0)
        found += [Disturbance(Cause.SAMPLES, (count, len(taken.times)), why) for why, count in reasons.most_common()]
    readings = [reading for _, reading in taken.readings]
    clocks = [reading.clock_hz for reading in readings if reading.clock_hz]
    capped = any("power_cap" in reading.slowdown for reading in readings)
    if clocks and not capped and max(clocks) - min(clocks) > STEADY_CLOCK * max(clocks):
        found.append(Disturbance(Cause.CLOCK, (min(clocks) / 1e6, max(clocks) / 1e6)))
    if others := max((reading.other_processes or 0 for reading in readings), default=0):
        found.append(Disturbance(Cause.PROCESSES, (others,)))
    busy = max((reading.busy_elsewhere or 0.0 for reading in readings), default=0.0)
    if busy > BUSY_ELSEWHERE:
        found.append(Disturbance(Cause.CORES, (100 * busy,)))
    return joined(found)

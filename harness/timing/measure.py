"""Measure one (cell, round): warm up, then sample until the stop rule says enough."""

import gc
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields

from ...shapes.errors import RooflensError
from ...shapes.run_folder.disturbance import PREEMPTED, Cause, Disturbance, joined
from ..telemetry.source import Reading, Telemetry
from .accelerator import Host
from .samples import Measurement, Samples
from .stop import BUDGET_OVERRUN, FEWEST, StopRule
from .timer import Subject, Timer

WARMUPS = 1
"""Untimed samples before the timed ones, in the same cache state; of a rotation, one launch of each copy.

The check of the output and the timer's own trial have launched it before.
"""

LARGEST_BATCH = 200

LEAST_BATCH_S = 1.5e-3
"""Shorter batches are not worth their synchronization."""

STEADY_CLOCK = 0.05
"""Relative range of the clock in one round beyond which it counts as disturbed, unless a power limit explains it."""

BUSY_ELSEWHERE = 0.1
"""Share of the host's cores that others may use before a cell timed on the host counts as disturbed."""


def measure(subject: Subject, timer: Timer, rule: StopRule, machine: Host, telemetry: Telemetry) -> Measurement:
    """Take samples of `subject` in growing batches until `rule` stops.

    Raises RooflensError where none of them counts.
    """
    begin = machine.now()
    taken = Samples()
    reading: list[Reading] = []

    def read() -> None:
        reading[:] = [telemetry.read()]  # a batch that the device repeats is read again

    with _no_garbage_collection():
        pace = _warm_up(subject, rule, machine)
        size = _first_size(rule, pace)
        while True:
            if machine.end_persistence():
                size = 1
            batch = timer.batch(size, read)
            taken = taken.extended(batch, reading[0] if reading else None)
            elapsed = machine.now() - begin
            # In rising order: the stop rule looks at their ranks only, again and again.
            counting = sorted(time for time, reason in zip(taken.times_s, taken.settled, strict=True) if not reason)
            if reason := rule.decide(counting, elapsed, len(taken.times_s)):
                break
            size = _next_size(rule, counting, len(taken.times_s), elapsed)
    disturbed, settled = _disturbances(taken), taken.settled
    if all(settled):
        raise RooflensError(f"timer {timer.name}: none of {len(taken.times_s)} samples has a positive time")
    samples = {field.name: getattr(taken, field.name) for field in fields(Samples)}
    return Measurement(
        **samples | {"discarded": settled},
        launches_per_sample=timer.launches_per_sample,
        stop_reason=reason,
        disturbed=disturbed,
        remark=timer.remark,
        elapsed_s=machine.now() - begin,
    )


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


def _disturbances(taken: Samples) -> str:
    """Say what disturbed the samples while they were taken; "" when nothing did."""
    found = []
    readings = [reading for _, reading in taken.readings]
    busy = max((share for reading in readings if (share := reading.busy_elsewhere) is not None), default=None)
    if taken.settled != taken.reasons:
        reasons = Counter(why for why, time in zip(taken.discarded, taken.times_s, strict=True) if why and time > 0)
        if busy is not None:  # any system takes a core now and then: what others used in all says whether that matters
            del reasons[PREEMPTED]
        found += [Disturbance(Cause.SAMPLES, (count, len(taken.times_s)), why) for why, count in reasons.most_common()]
    clocks = [reading.clock_hz for reading in readings if reading.clock_hz]
    capped = any("power_cap" in reading.slowdown for reading in readings)
    if clocks and not capped and max(clocks) - min(clocks) > STEADY_CLOCK * max(clocks):
        found.append(Disturbance(Cause.CLOCK, (min(clocks) / 1e6, max(clocks) / 1e6)))
    if others := max((reading.other_processes or 0 for reading in readings), default=0):
        found.append(Disturbance(Cause.PROCESSES, (others,)))
    if busy is not None and busy > BUSY_ELSEWHERE:
        found.append(Disturbance(Cause.CORES, (100 * busy,)))
    return joined(found)

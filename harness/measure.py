"""Measure one (cell, round): warm up, then sample until the stop rule says enough."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from ..kernels.provider import Launch
from .stop import BUDGET_OVERRUN, FEWEST, StopRule
from .timers import Timer

WARMUPS = 2
"""Untimed launches before the samples of a round, each after the cache control, as the samples will be.

One must do for a launch that takes the whole budget.
"""

LARGEST_BATCH = 200


@dataclass(frozen=True, slots=True)
class Measurement:
    """Raw samples of one round in seconds, in order, and how they were taken."""

    times_s: tuple[float, ...]
    host_s: tuple[float | None, ...]
    blocked: bool | None
    stop_reason: str
    elapsed_s: float


def measure(
    launch: Launch,
    timer: Timer,
    before: Callable[[], None],
    rule: StopRule,
    clock: Callable[[], float] = time.perf_counter,
) -> Measurement:
    """Take samples in growing batches until `rule` stops."""
    begin = clock()
    for done in range(1, WARMUPS + 1):
        before()
        launch.run()
        pace = (clock() - begin) / done
        if pace > rule.budget_s:
            break
    times: list[float] = []
    host: list[float | None] = []
    blocked: bool | None = None
    size = _first_size(rule, pace)
    while True:
        batch = timer.batch(launch.run, before, size)
        times += batch.times_s
        host += [*batch.host_s, *[None] * len(batch.times_s)][: len(batch.times_s)]
        blocked = batch.blocked if blocked is None else blocked and bool(batch.blocked)
        if reason := rule.decide(times, clock() - begin):
            return Measurement(tuple(times), tuple(host), blocked, reason, clock() - begin)
        size = _next_size(rule, len(times), clock() - begin)


def _first_size(rule: StopRule, pace_s: float) -> int:
    """The least samples, or as many of them as a slow launch gets; on a GPU `pace_s` is only the time to queue one."""
    fits = int(BUDGET_OVERRUN * rule.budget_s / pace_s) if pace_s else rule.min_samples
    return min(rule.min_samples, max(FEWEST, fits))


def _next_size(rule: StopRule, count: int, elapsed_s: float) -> int:
    """Grow by a quarter, but not past what the rest of the budget holds at the pace of the `count` samples so far."""
    fits = int((rule.budget_s - elapsed_s) * count / elapsed_s)
    return max(1, min(count // 4, fits, LARGEST_BATCH))

"""Measure one (cell, round): warm up, sample until the stop rule says enough, then check the output again."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from ..kernels.provider import Launch
from .stop import StopRule
from .timers import Timer

WARMUPS = 2
"""Untimed launches before the samples of a round, each after the cache control, as the samples will be."""

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
    for _ in range(WARMUPS):
        before()
        launch.run()
    times: list[float] = []
    host: list[float | None] = []
    blocked: bool | None = None
    size = rule.min_samples
    while True:
        batch = timer.batch(launch.run, before, size if not times else _next_size(rule, times, clock() - begin))
        times += batch.times_s
        host += [*batch.host_s, *[None] * len(batch.times_s)][: len(batch.times_s)]
        blocked = batch.blocked if blocked is None else blocked and bool(batch.blocked)
        if reason := rule.decide(times, clock() - begin):
            return Measurement(tuple(times), tuple(host), blocked, reason, clock() - begin)


def _next_size(rule: StopRule, times: list[float], elapsed_s: float) -> int:
    """Grow by a quarter, but not past what the rest of the budget holds at the pace seen so far."""
    pace = elapsed_s / len(times)
    fits = max(1, int((rule.budget_s - elapsed_s) / pace))
    return min(max(1, len(times) // 4), fits, LARGEST_BATCH)

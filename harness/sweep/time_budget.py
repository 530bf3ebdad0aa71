"""A time budget for a sweep: how long each unit may sample, and how many rounds fit."""

import math
from dataclasses import dataclass, field
from statistics import median

LEAST_ROUNDS = 2
"""Rounds that every cell gets first: with fewer there is no interval."""

MOST_ROUNDS = 30
"""Rounds after which a run ends early: further ones narrow an interval by 2 % each."""

IN_HAND = 0.15
"""Share of the remaining time that is held in reserve: the pace is only an estimate."""

SHORTEST_S = 1e-3
"""Least sampling time of a unit, which takes its fewest samples in any case."""


@dataclass(slots=True)
class TaskCost:
    """Cost of one task: seconds in all, before its first round, and while sampling, for the number of timed units."""

    wall_s: float = 0.0
    prepared_s: float = 0.0
    sampled_s: float = 0.0
    units: int = 0
    rounds: int = 0

    @property
    def overhead_s(self) -> float:
        """Seconds per unit other than sampling."""
        return (self.wall_s - self.sampled_s) / self.units


@dataclass(slots=True)
class TimeBudget:
    """Divides the time that is left among units, for at most `most_rounds`."""

    most_rounds: int = MOST_ROUNDS
    _costs: list[TaskCost] = field(default_factory=list)
    _overheads_s: list[float] = field(default_factory=list)
    _planned: int = 0
    _measured: int = 0

    def took(self, cost: TaskCost, planned: int) -> None:
        """Add the cost of a task of `planned` units, of which some may be unsupported."""
        self._planned += planned
        self._measured += cost.units
        if cost.units:
            self._costs.append(cost)
            self._overheads_s.append(cost.overhead_s)

    def sampling_s(self, left_s: float, units_left: int, most_s: float) -> float:
        """Seconds that each remaining unit may sample, at most `most_s`."""
        expected = units_left * (self._measured / self._planned if self._planned else 1.0)
        if not expected:
            return most_s
        # The first task also waits for compilers and imports.
        overheads = self._overheads_s[1:]
        each = (1 - IN_HAND) * left_s / expected - (median(overheads) if overheads else 0.0)
        return min(most_s, max(SHORTEST_S, each))

    def rounds_that_fit(self, left_s: float, rounds: int, tasks: int) -> int:
        """Rounds of `tasks` tasks beyond `rounds` that fit at the pace so far, with one preparation of each.

        One is tried when only the preparation does not fit (what was compiled once is not compiled again), and when
        nothing was measured yet because all was stored.
        """
        if not (tasks and self._costs):
            is_untried = tasks and not self._planned and left_s > 0
            return min(1, max(0, self.most_rounds - rounds)) if is_untried else 0
        share = tasks / len(self._costs)  # of a resumed run, only some tasks may have had something to do
        usual = median(cost.prepared_s for cost in self._costs)
        prepared_s = share * sum(min(cost.prepared_s, 2 * usual) for cost in self._costs)
        round_s = share * sum((cost.wall_s - cost.prepared_s) / cost.rounds for cost in self._costs)
        if not round_s:
            return max(0, self.most_rounds - rounds)
        usable_s = (1 - IN_HAND) * left_s
        fit = max((usable_s - prepared_s) / round_s, min(1.0, usable_s / round_s))
        return max(0, min(self.most_rounds - rounds, math.floor(fit)))

    def begin_pass(self) -> None:
        """Forget the tasks so far: the next pass over the cells has its own pace, and no cells that cannot run."""
        self._costs.clear()
        self._planned = self._measured = 0

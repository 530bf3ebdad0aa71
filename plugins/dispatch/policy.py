"""Policies as values: what to run for which problem, and how sure that is.

A policy is for one architecture. It has rows with rising M for each setting (op, pass, activation type, scheme), either
for all shapes or for each: the row of the smallest M at or above the asked one decides. Whatever is outside (another
arch, another type, another shape, a larger M) runs the incumbent.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

import numpy as np

from ...analysis.statistics.arrays import Ints
from .timings import Setting, Shape, Timings, keys


class EntryStatus(StrEnum):
    """Why an arm is chosen.

    engaged    proven faster than the incumbent by more than the margin
    parity     nothing is: the incumbent stays
    incumbent  every other arm is proven slower than the incumbent by more than the margin
    given      not decided by evidence: a policy that always runs one arm
    """

    ENGAGED = "engaged"
    PARITY = "parity"
    INCUMBENT = "incumbent"
    GIVEN = "given"


@dataclass(frozen=True, slots=True)
class Entry:
    """Run `arm`. `gain` is the mean ln(t_incumbent / t_arm) of the best arm there, `low` the lower end of its interval.

    With parity the best arm is not what runs; `best` names it. None: unknown.
    """

    arm: str
    status: EntryStatus = EntryStatus.GIVEN
    best: str = ""
    gain: float | None = None
    low: float | None = None


Rows: TypeAlias = tuple[tuple[int, Entry], ...]
"""The largest M of each entry, rising."""

Rules: TypeAlias = Mapping[Setting, Mapping[Shape | None, Rows]]
"""Rows by setting and shape; those of None, which come last, hold for every shape without rows of its own."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What to run on `arch`: `rules`, and `incumbent` wherever they have no row."""

    name: str
    arch: str
    incumbent: str
    rules: Rules

    def entry(self, setting: Setting, shape: Shape, M: int) -> Entry | None:
        """Find what decides on `arch`; None where nothing does."""
        rule = self.rules.get(setting, {})
        rows = rule.get(shape, rule.get(None, ()))
        return next((entry for size, entry in rows if size >= M), None)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All entries, each as often as it occurs."""
        return tuple(entry for rule in self.rules.values() for rows in rule.values() for _, entry in rows)


def ranges(rows: Rows, incumbent: str) -> list[tuple[int, str]]:
    """The largest M of each arm; neighbours that run the same arm are one. Beyond the last the incumbent runs."""
    arms = [entry.arm for _, entry in rows] + [incumbent]
    return [(size, arms[place]) for place, (size, _) in enumerate(rows) if arms[place] != arms[place + 1]]


def choices(policy: Policy, timings: Timings) -> Ints:
    """Index of the arm that a policy chooses for each case [C].

    An arm that is not there counts as the policy's incumbent, and that one, if it is not there either, as that of the
    timings. An arm that is chosen where it has no time stays chosen here; `regret` lets the incumbent run instead.
    """
    index = {name: place for place, name in enumerate(timings.arms)}
    default = index.get(policy.incumbent, 0)
    found = [policy.entry(*key) for key in keys(timings.cases)]
    return np.array([index.get(entry.arm, default) if entry else default for entry in found], dtype=np.int64)

"""Policies as values: what to run for which problem, and how sure that is.

A policy knows one architecture and, of every setting (op, pass, activation type, scheme), the range of M that was
measured. Whatever is outside (another arch, another type, a larger M) runs the incumbent.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

import numpy as np

from ...shapes.problem import Op, Pass
from ..statistics.arrays import Flags, Floats, Ints
from .timings import SHAPE, Setting, Shape, Timings, positions


class LeafStatus(StrEnum):
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
class Leaf:
    """Run `arm`. `gain` is the mean ln(t_incumbent / t_arm) of the best arm there, `low` the lower end of its interval.

    With parity the best arm is not what runs; `best` names it. None: unknown.
    """

    arm: str
    status: LeafStatus = LeafStatus.GIVEN
    best: str = ""
    gain: float | None = None
    low: float | None = None
    cases: int = 0


@dataclass(frozen=True, slots=True)
class Split:
    """`low` where feature <= limit, else `high`; where the feature (waves) is unknown, the incumbent runs."""

    feature: str
    limit: int
    low: "Node"
    high: "Node"


Node: TypeAlias = Leaf | Split


@dataclass(frozen=True, slots=True)
class ShapeTable:
    """Rows by shape, each with rising M: the row of the smallest M at or above the asked one decides.

    Shapes that have no rows follow `otherwise` (None: the incumbent). M above a shape's last row runs the incumbent.
    """

    rows: Mapping[Shape, tuple[tuple[int, Leaf], ...]]
    otherwise: Node | None = None


Rule: TypeAlias = Leaf | Split | ShapeTable


@dataclass(frozen=True, slots=True)
class MeasuredRule:
    """The rule of one setting, and the largest M that it was found with."""

    largest_M: int
    rule: Rule


@dataclass(frozen=True, slots=True)
class Policy:
    """What to run on `arch`: `rules` by setting, `incumbent` wherever there is none."""

    name: str
    arch: str
    incumbent: str
    rules: Mapping[Setting, MeasuredRule]

    def choose(
        self,
        arch: str,
        dtype: str,
        scheme: str,
        M: int,
        N: int,
        K: int,
        B: int = 1,
        E: int = 1,
        top_k: int = 1,
        op: str = Op.GEMM,
        pass_: str = Pass.FWD,
        waves: float | None = None,
    ) -> str:
        """Name the arm for one problem."""
        if arch != self.arch:
            return self.incumbent
        sizes = {"M": M, "N": N, "K": K, "B": B, "E": E, "waves": waves}
        leaf = self.leaf((str(op), str(pass_), dtype, scheme), (B, E, top_k, N, K), sizes)
        return leaf.arm if leaf else self.incumbent

    def leaf(self, setting: Setting, shape: Shape, sizes: Mapping[str, float | None]) -> Leaf | None:
        """Find what decides on `arch`, by setting, SHAPE and the FEATURES in `sizes`; None where nothing does."""
        measured = self.rules.get(setting)
        size = sizes["M"]
        if measured is None or size is None or measured.largest_M < size:
            return None
        return _decide(measured.rule, shape, sizes)

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """All leaves, each as often as it occurs in a rule."""
        return tuple(leaf for measured in self.rules.values() for leaf in _leaves(measured.rule))


def _decide(rule: Rule, shape: Shape, sizes: Mapping[str, float | None]) -> Leaf | None:
    """Follow a rule; None: the incumbent."""
    if isinstance(rule, ShapeTable):
        rows = rule.rows.get(shape)
        if rows is None:
            return _decide(rule.otherwise, shape, sizes) if rule.otherwise else None
        place = bisect_left([size for size, _ in rows], float(sizes["M"] or 0))
        return rows[place][1] if place < len(rows) else None
    while isinstance(rule, Split):
        value = sizes[rule.feature]
        if value is None or np.isnan(value):
            return None
        rule = rule.low if value <= rule.limit else rule.high
    return rule


def _leaves(rule: Rule) -> Iterator[Leaf]:
    if isinstance(rule, Leaf):
        yield rule
    elif isinstance(rule, Split):
        yield from _leaves(rule.low)
        yield from _leaves(rule.high)
    else:
        yield from (leaf for rows in rule.rows.values() for _, leaf in rows)
        if rule.otherwise:
            yield from _leaves(rule.otherwise)


def choices(policy: Policy, timings: Timings) -> Ints:
    """Index of the arm that a policy chooses for each case [C].

    An arm that is not there counts as the policy's incumbent, and that one, if it is not there either, as that of the
    timings. An arm that is chosen where it has no time stays chosen here; `regret` lets the incumbent run instead.
    """
    index = {name: place for place, name in enumerate(timings.arms)}
    default = index.get(policy.incumbent, 0)
    index = defaultdict(lambda: default, index)
    found = np.full(len(timings.cases), default, dtype=np.int64)
    sizes = timings.cases["M"].to_numpy(dtype=np.int64)
    for setting, rows in positions(timings.cases).items():
        measured = policy.rules.get(setting)
        if measured is not None:
            mask = np.zeros(len(found), dtype=bool)
            mask[rows] = True
            _choose_all(measured.rule, timings, mask & (sizes <= measured.largest_M), index, found)
    return found


def _choose_all(rule: Rule, timings: Timings, mask: Flags, index: Mapping[str, int], found: Ints) -> None:
    """Write the arms of the cases in `mask` into `found`."""
    if isinstance(rule, Leaf):
        found[mask] = index[rule.arm]
    elif isinstance(rule, Split):
        values: Floats = timings.cases[rule.feature].to_numpy(dtype=np.float64)
        _choose_all(rule.low, timings, mask & (values <= rule.limit), index, found)
        _choose_all(rule.high, timings, mask & (values > rule.limit), index, found)
    else:
        rows = np.flatnonzero(mask)
        columns = [timings.cases[name].to_numpy(dtype=np.int64)[rows].tolist() for name in (*SHAPE, "M")]
        unseen = []
        for row, b, e, top_k, n, k, m in zip(rows.tolist(), *columns, strict=True):
            if (b, e, top_k, n, k) in rule.rows:
                leaf = _decide(rule, (b, e, top_k, n, k), {"M": m})
                if leaf:
                    found[row] = index[leaf.arm]
            else:
                unseen.append(row)
        if rule.otherwise and unseen:
            rest = np.zeros(len(found), dtype=bool)
            rest[unseen] = True
            _choose_all(rule.otherwise, timings, rest, index, found)

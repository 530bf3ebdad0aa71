"""The search for splits: a shallow tree with the least regret, and its shortest form, one threshold.

From the root down, exhaustive at every node: all features, all places between two measured values, and on each side the
arm that costs least. A node looks one level ahead, so that a region that takes two conditions is found ("M <= 4 and
N <= 1024", where neither alone gains anything). The cost of a node is the weighted sum of ln time of its arm; regret
differs from that by a constant. Equal costs go to the earlier feature, the smaller limit, the earlier arm, so that the
same data give the same tree. Afterwards a leaf runs another arm than the incumbent only where that is proven
(`evidence.region_gain`, with all regions that were looked at as candidates), and splits whose sides run the same arm
are taken back.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ..statistics.arrays import Flags, Floats, Ints
from .evidence import Evidence, region_gain
from .policy import Leaf, LeafStatus, Node, Split
from .timings import FEATURES, Timings

WORTH = 0.001
"""A split must save so much ln time, averaged over all cases of the tree: below, it is a line more for nothing."""


@dataclass(frozen=True, slots=True)
class TreeShape:
    """How large a tree may become: levels of splits, and the cases that a leaf has at least."""

    depth: int = 3
    fewest: int = 4
    features: tuple[str, ...] = FEATURES


THRESHOLD = TreeShape(depth=1, fewest=1, features=("M",))
"""One limit in M."""


@dataclass(frozen=True, slots=True, eq=False)
class _Bins:
    """Distinct values of a feature among some cases, rising, and which of them each case has."""

    feature: str
    values: Floats
    codes: Ints

    def limit(self, place: int) -> int:
        """Where to split above the value at `place`.

        M and waves at that value, as tables do with M: what lies between is padded up to the next. Else halfway to the
        next value in log2.
        """
        below, above = float(self.values[place]), float(self.values[place + 1])
        return int(below) if self.feature in ("M", "waves") else int(np.floor(np.sqrt(below * above)))


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """A split above the value at `place`, and what the cases cost with it."""

    cost: float
    bins: _Bins
    place: int


@dataclass(frozen=True, slots=True, eq=False)
class _Division:
    """A split that is made, of `cases`."""

    feature: str
    limit: int
    cases: Ints
    low: "_Regions"
    high: "_Regions"


_Regions: TypeAlias = Ints | _Division


def _first_of(found: "Sequence[_Found | None]") -> "_Found | None":
    """The cheapest; the first of equals."""
    best: _Found | None = None
    for one in found:
        if one and (best is None or one.cost < best.cost - 1e-12):
            best = one
    return best


def _bins(timings: Timings, cases: Ints, feature: str) -> _Bins | None:
    """Number the distinct values of a feature; None where there is one, or where a case has none."""
    values = timings.cases[feature].to_numpy(dtype=np.float64)[cases]
    if np.isnan(values).any():
        return None  # a rule that does not know its feature decides nothing
    distinct, codes = np.unique(values, return_inverse=True)
    return _Bins(feature, distinct, np.asarray(codes, dtype=np.int64)) if len(distinct) > 1 else None


def _cumulative(codes: Ints, size: int, weighed: Floats, inner: int = 0) -> tuple[Floats, Ints]:
    """Sums of `weighed` and numbers of cases up to each code: [size, A] and [size], or [size / inner, inner, ...]."""
    columns = [np.bincount(codes, weighed[:, arm], size) for arm in range(weighed.shape[1])]
    sums: Floats = np.stack(columns, axis=-1).astype(np.float64)
    cases: Ints = np.bincount(codes, minlength=size).astype(np.int64)
    if not inner:
        return np.cumsum(sums, axis=0), np.cumsum(cases)
    grid: Floats = np.cumsum(np.cumsum(sums.reshape(-1, inner, len(columns)), axis=0), axis=1)
    return grid, np.cumsum(np.cumsum(cases.reshape(-1, inner), axis=0), axis=1)


def _cheapest(bins: _Bins, costs: Floats) -> _Found | None:
    if not np.isfinite(costs).any():
        return None
    return _Found(float(costs.min()), bins, int(np.flatnonzero(costs <= costs.min() + 1e-12)[0]))


class _Search:
    """The search for the tree of some cases (positions); `regions` counts those that were looked at."""

    def __init__(self, timings: Timings, evidence: Evidence, cases: Ints, shape: TreeShape, margin: float) -> None:
        self.timings, self.evidence, self.shape, self.margin = timings, evidence, shape, margin
        weights = timings.weights / max(float(timings.weights[cases].sum()), 1e-300)
        # an arm without a time: the incumbent runs in its place
        self.costs: Floats = weights[:, None] * np.nan_to_num(timings.mean)
        self.regions = 0

    def divide(self, cases: Ints, depth: int) -> _Regions:
        """Split until nothing is worth it."""
        if depth == 0 or len(cases) < 2 * self.shape.fewest:
            return cases
        costs = self.costs[cases]
        bins = [one for feature in self.shape.features if (one := _bins(self.timings, cases, feature))]
        best = _first_of([self._stump(one, costs) for one in bins])
        if depth > 1:
            ahead = _first_of([self._with_next(one, bins, costs) for one in bins])
            if ahead and (best is None or ahead.cost < best.cost - WORTH):
                best = ahead
        if best is None or float(costs.sum(axis=0).min()) - best.cost < WORTH:
            return cases
        low = best.bins.codes <= best.place
        sides = [self.divide(cases[side], depth - 1) for side in (low, ~low)]
        return _Division(best.bins.feature, best.bins.limit(best.place), cases, sides[0], sides[1])

    def _allowed(self, counts: Ints, last: Ints) -> Flags:
        """Where both sides of a split have enough cases, of `counts` up to it and `last` in all."""
        return np.asarray((counts >= self.shape.fewest) & (last - counts >= self.shape.fewest))

    def _stump(self, bins: _Bins, costs: Floats) -> _Found | None:
        """The cheapest place to split once; `costs` of each case and arm [n, A]."""
        sums, cases = _cumulative(bins.codes, len(bins.values), costs)
        low, high = sums[:-1], sums[-1] - sums[:-1]
        allowed = self._allowed(cases[:-1], cases[-1])
        self.regions += 2 * int(allowed.sum())
        return _cheapest(bins, np.where(allowed, low.min(axis=1) + high.min(axis=1), np.inf))

    def _with_next(self, first: _Bins, then: "Sequence[_Bins]", costs: Floats) -> _Found | None:
        """The cheapest place to split when each side may be split once more, along any feature."""
        sums, cases = _cumulative(first.codes, len(first.values), costs)
        allowed = self._allowed(cases[:-1], cases[-1])
        sides = sums[:-1].min(axis=1), (sums[-1] - sums[:-1]).min(axis=1)
        for second in then:
            size = len(second.values)
            grid, counts = _cumulative(first.codes * size + second.codes, len(first.values) * size, costs, size)
            parts = (grid[:-1], counts[:-1]), (grid[-1] - grid[:-1], counts[-1] - counts[:-1])
            for least, (part, of) in zip(sides, parts, strict=True):
                ends = self._allowed(of[:, :-1], of[:, -1:]) & allowed[:, None]
                self.regions += 2 * int(ends.sum())
                total = part[:, :-1].min(axis=2) + (part[:, -1:] - part[:, :-1]).min(axis=2)
                np.minimum(least, np.where(ends, total, np.inf).min(axis=1), out=least)
        return _cheapest(first, np.where(allowed, sides[0] + sides[1], np.inf))

    def settle(self, regions: _Regions, candidates: int) -> Node:
        """Turn regions into leaves that are proven, and take back what does not matter."""
        if not isinstance(regions, _Division):
            return self._leaf(regions, candidates)
        low, high = (self.settle(side, candidates) for side in (regions.low, regions.high))
        if isinstance(low, Leaf) and isinstance(high, Leaf) and low.arm == high.arm:
            return self._leaf(regions.cases, candidates)
        return Split(regions.feature, regions.limit, low, high)

    def _leaf(self, cases: Ints, candidates: int) -> Leaf:
        """Run the arm with the least cost, the earlier of equals, if its gain is proven."""
        arms, incumbent = self.timings.arms, self.timings.incumbent
        if not len(cases):
            return Leaf(incumbent, LeafStatus.PARITY)
        sums = self.costs[cases].sum(axis=0)
        arm = int(np.flatnonzero(sums <= sums.min() + 1e-12)[0])
        others = [arm] if arm else range(1, len(arms))
        gains = {one: region_gain(self.timings, self.evidence, cases, one, candidates) for one in others}
        best = max(gains, key=lambda one: gains[one].value)
        gain = gains[best]
        if arm and gain.low > self.margin:
            return Leaf(arms[arm], LeafStatus.ENGAGED, arms[arm], gain.value, gain.low, len(cases))
        slower = all(one.high < -self.margin for one in gains.values())
        status = LeafStatus.INCUMBENT if slower else LeafStatus.PARITY
        return Leaf(incumbent, status, arms[best], gain.value, None if np.isnan(gain.low) else gain.low, len(cases))


def grow(timings: Timings, evidence: Evidence, cases: Ints, shape: TreeShape, margin: float) -> Node:
    """Find the tree of these cases (positions); those without weight do not take part."""
    weighty = cases[timings.weights[cases] > 0]
    search = _Search(timings, evidence, weighty, shape, margin)
    regions = search.divide(weighty, shape.depth)
    return search.settle(regions, (search.regions + 1) * (len(timings.arms) - 1))


def describe(node: Node) -> list[str]:
    """Write a tree as its paths: "4 < M <= 32, N > 4096: mma_4bit"; a single leaf as its arm."""
    return _paths(node, {})


def _paths(node: Node, bounds: Mapping[str, tuple[int | None, int | None]]) -> list[str]:
    """Write the paths below a node whose features are within `bounds`: above the first, up to the second."""
    if isinstance(node, Leaf):
        conditions = ", ".join(_range(feature, *ends) for feature, ends in bounds.items())
        return [f"{conditions}: {node.arm}" if conditions else node.arm]
    low, high = bounds.get(node.feature, (None, None))
    return [
        *_paths(node.low, {**bounds, node.feature: (low, node.limit)}),
        *_paths(node.high, {**bounds, node.feature: (node.limit, high)}),
    ]


def _range(feature: str, low: int | None, high: int | None) -> str:
    if low is None:
        return f"{feature} <= {high}"
    return f"{feature} > {low}" if high is None else f"{low} < {feature} <= {high}"

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

from ..statistics.arrays import Floats, Ints
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


@dataclass(slots=True)
class _Count:
    """Regions that were looked at."""

    regions: int = 0


def grow(timings: Timings, evidence: Evidence, cases: Ints, shape: TreeShape, margin: float) -> Node:
    """Find the tree of these cases (positions); those without weight do not take part."""
    taking_part = cases[timings.weights[cases] > 0]
    costs = np.nan_to_num(timings.mean)  # an arm without a time: the incumbent runs in its place
    weights = timings.weights / max(float(timings.weights[taking_part].sum()), 1e-300)
    count = _Count()
    regions = _divide(timings, costs, weights, taking_part, shape, shape.depth, count)
    candidates = (count.regions + 1) * (len(timings.arms) - 1)
    return _settle(timings, evidence, costs, weights, regions, candidates, margin)


def _divide(
    timings: Timings, costs: Floats, weights: Floats, cases: Ints, shape: TreeShape, depth: int, count: _Count
) -> _Regions:
    """Split until nothing is worth it."""
    if depth == 0 or len(cases) < 2 * shape.fewest:
        return cases
    weighed = weights[cases, None] * costs[cases]
    whole = float(weighed.sum(axis=0).min())
    bins = [one for feature in shape.features if (one := _bins(timings, cases, feature))]
    best = _first_of([_stump(one, weighed, shape.fewest, count) for one in bins])
    if depth > 1:
        ahead = _first_of([_with_next(one, bins, weighed, shape.fewest, count) for one in bins])
        if ahead and (best is None or ahead.cost < best.cost - WORTH):
            best = ahead
    if best is None or whole - best.cost < WORTH:
        return cases
    low = best.bins.codes <= best.place
    sides = [_divide(timings, costs, weights, cases[side], shape, depth - 1, count) for side in (low, ~low)]
    return _Division(best.bins.feature, best.bins.limit(best.place), cases, sides[0], sides[1])


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


def _stump(bins: _Bins, weighed: Floats, fewest: int, count: _Count) -> _Found | None:
    """The cheapest place to split once; `weighed` has the cost of each case and arm [n, A]."""
    sums, cases = _cumulative(bins.codes, len(bins.values), weighed)
    low, high = sums[:-1], sums[-1] - sums[:-1]
    allowed = (cases[:-1] >= fewest) & (cases[-1] - cases[:-1] >= fewest)
    count.regions += 2 * int(allowed.sum())
    return _cheapest(bins, np.where(allowed, low.min(axis=1) + high.min(axis=1), np.inf))


def _with_next(first: _Bins, then: "Sequence[_Bins]", weighed: Floats, fewest: int, count: _Count) -> _Found | None:
    """The cheapest place to split when each side may be split once more, along any feature."""
    sums, cases = _cumulative(first.codes, len(first.values), weighed)
    allowed = (cases[:-1] >= fewest) & (cases[-1] - cases[:-1] >= fewest)
    costs_low, costs_high = sums[:-1].min(axis=1), (sums[-1] - sums[:-1]).min(axis=1)
    for second in then:
        size = len(second.values)
        grid, counts = _cumulative(first.codes * size + second.codes, len(first.values) * size, weighed, size)
        for costs, part, of in (
            (costs_low, grid[:-1], counts[:-1]),
            (costs_high, grid[-1] - grid[:-1], counts[-1] - counts[:-1]),
        ):
            ends = (of[:, :-1] >= fewest) & (of[:, -1:] - of[:, :-1] >= fewest) & allowed[:, None]
            count.regions += 2 * int(ends.sum())
            total = part[:, :-1].min(axis=2) + (part[:, -1:] - part[:, :-1]).min(axis=2)
            np.minimum(costs, np.where(ends, total, np.inf).min(axis=1), out=costs)
    return _cheapest(first, np.where(allowed, costs_low + costs_high, np.inf))


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


def _settle(
    timings: Timings,
    evidence: Evidence,
    costs: Floats,
    weights: Floats,
    regions: _Regions,
    candidates: int,
    margin: float,
) -> Node:
    """Turn regions into leaves that are proven, and take back what does not matter."""
    if isinstance(regions, _Division):
        sides = (regions.low, regions.high)
        low, high = (_settle(timings, evidence, costs, weights, side, candidates, margin) for side in sides)
        if isinstance(low, Leaf) and isinstance(high, Leaf) and low.arm == high.arm:
            arm = _arm(costs, weights, regions.cases)
            return _leaf(timings, evidence, regions.cases, arm, candidates, margin)
        return Split(regions.feature, regions.limit, low, high)
    return _leaf(timings, evidence, regions, _arm(costs, weights, regions), candidates, margin)


def _arm(costs: Floats, weights: Floats, cases: Ints) -> int:
    """Arm with the least cost; the earlier of equals, and so the incumbent first."""
    sums = (weights[cases, None] * costs[cases]).sum(axis=0) if len(cases) else np.zeros(costs.shape[1])
    return int(np.flatnonzero(sums <= sums.min() + 1e-12)[0])


def _leaf(timings: Timings, evidence: Evidence, cases: Ints, arm: int, candidates: int, margin: float) -> Leaf:
    incumbent = timings.incumbent
    if not len(cases):
        return Leaf(incumbent, LeafStatus.PARITY)
    others = range(1, len(timings.arms))
    gains = {one: region_gain(timings, evidence, cases, one, candidates) for one in ([arm] if arm else others)}
    if arm and gains[arm].low > margin:
        gain = gains[arm]
        return Leaf(timings.arms[arm], LeafStatus.ENGAGED, timings.arms[arm], gain.value, gain.low, len(cases))
    best = max(gains, key=lambda one: gains[one].value)
    low = gains[best].low
    status = LeafStatus.INCUMBENT if all(one.high < -margin for one in gains.values()) else LeafStatus.PARITY
    known = None if np.isnan(low) else low
    return Leaf(incumbent, status, timings.arms[best], gains[best].value, known, len(cases))


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

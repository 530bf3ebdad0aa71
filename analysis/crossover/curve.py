"""The crossover of one shape: at which M a challenger is faster than an incumbent, and between which M that changes.

y(M) = ln(t_challenger / t_incumbent) is below 0 where the challenger is faster. At each measured M one of them is
*verified* faster when the 95 % interval of y excludes 0 and |y| exceeds the practical margin `delta`; the other M are
undecided. Successive M with the same verified winner are a `Region`, and the status follows from the order of regions.
Swapping the two providers swaps the winners, `below` with `above`, and `ahead` with `behind`; every M stays as it is.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import isotonic_regression

DELTA = 0.01
"""Practical margin of ln time: differences below 1 % decide nothing."""


class CrossoverStatus(StrEnum):
    """What is known about the crossover of one shape."""

    BELOW = "below"
    ABOVE = "above"
    MULTIPLE = "multiple"
    AHEAD = "ahead"
    BEHIND = "behind"
    UNDECIDED = "undecided"
    UNMEASURED = "unmeasured"

    @property
    def is_informative(self) -> bool:
        """False where too little was measured to say anything of a crossover."""
        return self is not CrossoverStatus.UNMEASURED


SIDES = (CrossoverStatus.BELOW, CrossoverStatus.ABOVE)
"""Where the challenger is faster if the winner changes once."""

MEANINGS = {
    CrossoverStatus.BELOW: "the challenger is faster below the crossover, the incumbent above it",
    CrossoverStatus.ABOVE: "the challenger is faster above the crossover, the incumbent below it",
    CrossoverStatus.MULTIPLE: "the verified winner changes twice or more, so no single threshold describes the shape",
    CrossoverStatus.AHEAD: "only the challenger is verified faster",
    CrossoverStatus.BEHIND: "only the incumbent is verified faster",
    CrossoverStatus.UNDECIDED: "neither is verified faster at any M",
    CrossoverStatus.UNMEASURED: "fewer than two M at which both have a time",
}
"""What each status means, for a reader."""


@dataclass(frozen=True, slots=True)
class Region:
    """From `first_M` to `last_M`, both measured, `winner` ("challenger" or "incumbent") alone is verified faster."""

    first_M: float
    last_M: float
    winner: str


@dataclass(frozen=True, slots=True)
class Crossing:
    """Result for one shape.

    regions         where which one is verified faster, by rising M
    low_M, high_M   the bracket, of a single change: the last M of one region, the first of the other; else 0 and inf
    crossover_M     an `estimate` inside of the bracket; None without one
    undecided       measured M at which neither is verified faster
    """

    status: CrossoverStatus
    regions: tuple[Region, ...] = ()
    crossover_M: float | None = None
    low_M: float = 0.0
    high_M: float = np.inf
    undecided: tuple[int, ...] = ()


def locate(Ms: ArrayLike, y: ArrayLike, low: ArrayLike, high: ArrayLike, delta: float = DELTA) -> Crossing:
    """Find the crossover from y = ln(t_challenger / t_incumbent) at rising `Ms`, and its 95 % interval.

    All arguments are sequences of the same length. `low` and `high` are NaN where there was only one round: nothing is
    verified there.
    """
    m, y_, low_, high_ = (np.asarray(values, dtype=np.float64) for values in (Ms, y, low, high))
    if len(m) < 2:
        return Crossing(CrossoverStatus.UNMEASURED)
    winners = np.where(np.abs(y_) > delta, (low_ > 0).astype(int) - (high_ < 0), 0)
    regions = tuple(_regions(m.tolist(), winners.tolist()))
    status = _status(regions)
    undecided = tuple(m[winners == 0].astype(int).tolist())
    if (ends := bracket(regions, status)) is None:
        return Crossing(status, regions, undecided=undecided)
    return Crossing(status, regions, estimate(m, y_, status, ends), *ends, undecided)


def bracket(regions: Sequence[Region], side: CrossoverStatus | None) -> tuple[float, float] | None:
    """Return the M between which the crossover lies if the challenger is faster on `side` of it, BELOW or ABOVE.

    An end is open, 0 or inf, where only one of the two is verified faster. None where none is, or where the regions
    contradict a single change to that side.
    """
    if side not in SIDES or not regions:
        return None
    before = "challenger" if side is CrossoverStatus.BELOW else "incumbent"
    low = max((region.last_M for region in regions if region.winner == before), default=0.0)
    high = min((region.first_M for region in regions if region.winner != before), default=np.inf)
    return (low, high) if low < high else None


def estimate(Ms: ArrayLike, y: ArrayLike, side: CrossoverStatus, ends: tuple[float, float]) -> float:
    """Return the M between `ends`, of `bracket`, at which an isotonic fit of y crosses zero, interpolated in log2 M.

    Right where y is linear in log2 M there. 0 or inf where an end is open and the fit does not cross before it.
    """
    m, y_ = np.asarray(Ms, dtype=np.float64), np.asarray(y, dtype=np.float64)
    inside = (m >= ends[0]) & (m <= ends[1])
    x, rising = np.log2(m[inside]), y_[inside] if side is CrossoverStatus.BELOW else -y_[inside]
    fit = np.asarray(isotonic_regression(rising).x)
    before, after = np.flatnonzero(fit < 0), np.flatnonzero(fit > 0)
    if not (len(before) and len(after)):
        return np.inf if len(before) else 0.0
    left, right = before[-1], after[0]
    if right > left + 1:  # exact zeros: their middle
        return float(np.exp2((x[left + 1] + x[right - 1]) / 2))
    return float(np.exp2(x[left] - fit[left] * (x[right] - x[left]) / (fit[right] - fit[left])))


def _regions(sizes: Sequence[float], winners: Sequence[int]) -> Iterator[Region]:
    decided = [(size, winner) for size, winner in zip(sizes, winners, strict=True) if winner]
    for winner, cells in groupby(decided, key=lambda cell: cell[1]):
        inside = [size for size, _ in cells]
        yield Region(inside[0], inside[-1], "challenger" if winner < 0 else "incumbent")


def _status(regions: Sequence[Region]) -> CrossoverStatus:
    if not regions:
        return CrossoverStatus.UNDECIDED
    wins = regions[0].winner == "challenger"
    if len(regions) == 1:
        return CrossoverStatus.AHEAD if wins else CrossoverStatus.BEHIND
    if len(regions) == 2:
        return CrossoverStatus.BELOW if wins else CrossoverStatus.ABOVE
    return CrossoverStatus.MULTIPLE

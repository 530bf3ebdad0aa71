"""The crossover of one shape: up to which M a challenger beats an incumbent.

y(M) = ln(t_challenger / t_incumbent) is below 0 where the challenger wins. At each measured M one of them is *verified*
faster when the 95 % interval of y excludes 0 and |y| exceeds the practical margin `delta`. The status follows from the
order of the verified winners, in this order of precedence:

  multiple        the verified winner changes twice or more along M
  single          it changes once; or nothing contradicts a crossing that the fit puts inside the range
  parity          it never changes, and |y| <= delta over an octave of M or more: there is nothing to choose
  always          the challenger is verified faster at every M, and its lead does not shrink by more than delta over the
                  last two octaves: no crossover is in sight
  right_censored  no crossover up to the last M, but the lead shrinks or was not verified at every M: crossover > M_max
  never           the incumbent wins from the first M on: crossover < M_min
  one_m           both ran at one M only, which says nothing of where they cross
  unmeasured      no M at which both ran

`always` and `right_censored` both mean "beyond M_max"; they differ in whether a longer sweep would find a crossover.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import isotonic_regression

from ..statistics.arrays import Floats, Ints

DELTA = 0.01
"""Practical margin of ln time: differences below 1 % decide nothing."""


class CrossoverStatus(StrEnum):
    """What is known about the crossover of one shape."""

    SINGLE = "single"
    MULTIPLE = "multiple"
    ALWAYS = "always"
    NEVER = "never"
    RIGHT_CENSORED = "right_censored"
    PARITY = "parity"
    ONE_M = "one_m"
    UNMEASURED = "unmeasured"

    @property
    def is_beyond(self) -> bool:
        """True where the crossover is above the largest M."""
        return self in (CrossoverStatus.ALWAYS, CrossoverStatus.RIGHT_CENSORED)

    @property
    def is_informative(self) -> bool:
        """False where too little was measured to say anything of a crossover."""
        return self not in (CrossoverStatus.ONE_M, CrossoverStatus.UNMEASURED)


MEANINGS = {
    CrossoverStatus.SINGLE: "the faster one changes once",
    CrossoverStatus.MULTIPLE: "the verified winner changes twice or more",
    CrossoverStatus.ALWAYS: "the challenger is verified faster at every M and its lead does not shrink: no crossover in"
    " sight",
    CrossoverStatus.RIGHT_CENSORED: "no crossover up to the last M, and not shown that the lead holds beyond",
    CrossoverStatus.NEVER: "the incumbent is faster from the first M on",
    CrossoverStatus.PARITY: "within 1% of each other over an octave of M or more: nothing to choose",
    CrossoverStatus.ONE_M: "measured at one M; a crossover needs two",
    CrossoverStatus.UNMEASURED: "no M at which both have a time",
}
"""What each status means, for a reader."""


@dataclass(frozen=True, slots=True)
class WinnerChange:
    """A verified change of the winner, somewhere between two measured M; `winner` is the one above."""

    low_M: float
    high_M: float
    winner: str


@dataclass(frozen=True, slots=True)
class Crossing:
    """Result for one shape.

    crossover_M     where the fit crosses zero; None when it does not within the range, or for parity
    low_M, high_M   last M where the challenger is verified faster, first M beyond it where the incumbent is; 0 and inf
                    when there is none
    challenger_wins "below" the crossover, as usual, or "above" it; "" when there is no crossover
    verified        the status rests on verified winners alone
    """

    status: CrossoverStatus
    crossover_M: float | None
    low_M: float
    high_M: float
    challenger_wins: str
    verified: bool
    changes: tuple[WinnerChange, ...]
    warnings: tuple[str, ...]


def locate(
    Ms: ArrayLike, y: ArrayLike, low: ArrayLike, high: ArrayLike, se: ArrayLike, delta: float = DELTA
) -> Crossing:
    """Find the crossover from y = ln(t_challenger / t_incumbent) at rising `Ms`, its 95 % interval and standard error.

    All arguments are sequences of the same length. `low`, `high` and `se` are NaN where there was only one round:
    nothing is verified there. Point: isotonic regression weighted by 1/se^2, its zero interpolated in log2 M.
    """
    m, y_, low_, high_, se_ = (np.asarray(values, dtype=np.float64) for values in (Ms, y, low, high, se))
    if len(m) == 0:
        return Crossing(CrossoverStatus.UNMEASURED, None, 0.0, np.inf, "", False, (), ())
    if len(m) == 1:
        return Crossing(CrossoverStatus.ONE_M, None, 0.0, np.inf, "", False, (), ())
    clear = np.abs(y_) > delta
    winners = np.where(clear & (high_ < 0), -1, np.where(clear & (low_ > 0), 1, 0))
    runs = _runs(winners)
    changes = tuple(
        WinnerChange(float(m[before[1]]), float(m[after[0]]), "incumbent" if after[2] > 0 else "challenger")
        for before, after in pairwise(runs)
    )
    weights = _weights(se_)
    if changes:
        return _at_change(m, y_, weights, runs, changes, delta)
    crossing = _without_change(m, y_, weights, winners, delta)
    if not winners.any() and crossing.status is not CrossoverStatus.PARITY:
        text = "neither is verified faster at any M: measure more rounds, or over a wider range of M"
        return replace(crossing, warnings=(*crossing.warnings, text))
    return crossing


def _at_change(
    m: Floats,
    y: Floats,
    weights: Floats,
    runs: list[tuple[int, int, int]],
    changes: tuple[WinnerChange, ...],
    delta: float,
) -> Crossing:
    """Locate the first verified crossover of the usual direction, or the only change when it goes the other way."""
    usual = [index for index, change in enumerate(changes) if change.winner == "incumbent"]
    index = usual[0] if usual else 0
    first, last = runs[index][0], runs[index + 1][1]
    if index == 0:
        first = 0
    if index + 2 == len(runs):
        last = len(m) - 1
    part = slice(first, last + 1)
    sign = 1 if usual else -1
    change = changes[index]
    log_m = _zero(np.log2(m[part]), sign * y[part], weights[part])
    point = float(np.clip(np.exp2(log_m), change.low_M, change.high_M))
    status = CrossoverStatus.MULTIPLE if len(changes) > 1 else CrossoverStatus.SINGLE
    warnings = []
    if status is CrossoverStatus.MULTIPLE:
        warnings.append(f"the winner changes {len(changes)} times: one threshold in M does not describe this shape")
    if not usual:
        warnings.append("the challenger wins above the crossover, not below it")
    between = (m >= change.low_M) & (m <= change.high_M)
    if _parity_octave(m[between], y[between], delta):
        warnings.append(f"parity within {delta:.0%} over an octave between M={change.low_M:g} and {change.high_M:g}")
    wins = "below" if usual else "above"
    return Crossing(status, point, change.low_M, change.high_M, wins, True, changes, tuple(warnings))


def _without_change(m: Floats, y: Floats, weights: Floats, winners: Ints, delta: float) -> Crossing:
    ahead, behind = np.flatnonzero(winners < 0), np.flatnonzero(winners > 0)
    low = float(m[ahead[-1]]) if len(ahead) else 0.0
    high = float(m[behind[0]]) if len(behind) else np.inf
    all_verified = bool((winners != 0).all())
    if not all_verified and _parity_octave(m, y, delta):
        return Crossing(CrossoverStatus.PARITY, None, low, high, "", False, (), ())
    log_m = _zero(np.log2(m), y, weights)
    if np.isfinite(log_m) and low < m[-1] and high > m[0]:
        point = float(np.clip(np.exp2(log_m), low, high))
        missing = "incumbent" if len(ahead) else "challenger"
        warnings = (f"the {missing} is verified faster at no M: measure more rounds",) if winners.any() else ()
        return Crossing(CrossoverStatus.SINGLE, point, low, high, "below", False, (), warnings)
    if len(behind) or (log_m < 0 and not len(ahead)):
        return Crossing(CrossoverStatus.NEVER, None, 0.0, high, "", all_verified, (), ())
    steady = all_verified and _lead_is_steady(m, y, delta)
    status = CrossoverStatus.ALWAYS if steady else CrossoverStatus.RIGHT_CENSORED
    return Crossing(status, None, low, np.inf, "", all_verified, (), ())


def _runs(winners: Ints) -> list[tuple[int, int, int]]:
    """Group the verified points by winner, undecided ones between them skipped: (first index, last index, winner)."""
    runs: list[tuple[int, int, int]] = []
    for index in np.flatnonzero(winners):
        winner = int(winners[index])
        if runs and runs[-1][2] == winner:
            runs[-1] = (runs[-1][0], int(index), winner)
        else:
            runs.append((int(index), int(index), winner))
    return runs


def _weights(se: Floats) -> Floats:
    """Return 1/se^2, with `se` floored at its median: from three rounds a small one is mostly luck."""
    known = se[np.isfinite(se) & (se > 0)]
    if len(known) == 0:
        return np.ones_like(se)
    floor = float(np.median(known))
    filled = np.where(np.isfinite(se), np.maximum(se, floor), floor)
    return np.asarray(1 / filled**2, dtype=np.float64)


def _zero(x: Floats, y: Floats, weights: Floats) -> float:
    """Where the weighted isotonic (rising) fit of y crosses zero: -inf before the first x, inf beyond the last."""
    fit = np.asarray(isotonic_regression(y, weights=weights, increasing=True).x)
    below, above = np.flatnonzero(fit < 0), np.flatnonzero(fit > 0)
    if len(below) == 0 and len(above) == len(fit):
        return -np.inf
    if len(above) == 0 and len(below) == len(fit):
        return np.inf
    left = below[-1] if len(below) else 0
    right = above[0] if len(above) else len(fit) - 1
    if len(below) == 0 or len(above) == 0 or right > left + 1:  # a stretch of exact zeros: its middle
        zeros = x[fit == 0]
        return float((zeros[0] + zeros[-1]) / 2)
    return float(x[left] - fit[left] * (x[right] - x[left]) / (fit[right] - fit[left]))


def _parity_octave(m: Floats, y: Floats, delta: float) -> bool:
    """True when |y| <= delta at neighbouring M that span a factor of two or more."""
    start: float | None = None
    for size, value in zip(m, y, strict=True):
        if abs(value) > delta:
            start = None
        elif start is None:
            start = float(size)
        elif size >= 2 * start:
            return True
    return False


def _lead_is_steady(m: Floats, y: Floats, delta: float) -> bool:
    """True when y does not rise by more than delta over the last two octaves; False when the range is shorter."""
    earlier = np.flatnonzero(m <= m[-1] / 4)
    return len(earlier) > 0 and bool(y[-1] - y[earlier[-1]] <= delta)

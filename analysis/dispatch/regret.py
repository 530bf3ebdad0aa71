"""What a choice costs: regret = ln(t_chosen / t_best) of each case, and what that comes to.

The best of several noisy times is flattered by its luck. So the zero of every figure is the same, the best mean over
all rounds, and how far it is flattered is measured: the oracle that chooses on the other rounds and is timed on the
round left out (`holdout.by_round`) loses that much although it knows every case.
"""

import math
from dataclasses import dataclass

import numpy as np

from ..statistics.intervals import Floats
from .timings import Ints, Timings

NEAR = math.log(1.03)
"""Regret up to which a choice counts as good as the best."""


@dataclass(frozen=True, slots=True)
class Score:
    """Regret over cases by their weights, in ln time; `near` is the share of weight within 3 % of the best.

    gain    mean ln(t_incumbent / t_chosen)
    worst   the largest regret of a case with weight, at case `worst_case`
    cases   with a regret
    """

    mean: float
    p95: float
    worst: float
    worst_case: int
    near: float
    gain: float
    cases: int


def best(timings: Timings) -> Floats:
    """ln(t_best / t_incumbent) [C], by the mean over all rounds."""
    return np.asarray(np.nanmin(timings.mean, axis=1), dtype=np.float64)


def relative_time(timings: Timings, chosen: Ints) -> Floats:
    """ln(t_chosen / t_incumbent) [C]; where the chosen arm has no time, the incumbent runs."""
    return np.nan_to_num(timings.mean[np.arange(len(chosen)), chosen])


def score(relative: Floats, best_: Floats, weights: Floats) -> Score | None:
    """Score ln(t_chosen / t_incumbent) [C] against `best` [C]; None where no case with weight has one."""
    known = np.isfinite(relative) & (weights > 0)
    if not known.any():
        return None
    regret = np.where(known, relative - best_, 0.0)
    share = np.where(known, weights, 0.0) / weights[known].sum()
    worst = int(np.where(known, regret, -np.inf).argmax())
    return Score(
        mean=float(share @ regret),
        p95=_quantile(regret[known], share[known], 0.95),
        worst=float(regret[worst]),
        worst_case=worst,
        near=round(float(share[regret <= NEAR].sum()), 12),  # all of them is 1, whatever their sum is
        gain=float(-(share @ np.where(known, relative, 0.0))),
        cases=int(known.sum()),
    )


def _quantile(values: Floats, shares: Floats, probability: float) -> float:
    """Smallest value that `probability` of the weight is at or below."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(shares[order])
    return float(values[order[min(int(np.searchsorted(reached, probability - 1e-12)), len(order) - 1)]])

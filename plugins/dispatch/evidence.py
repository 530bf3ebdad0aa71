"""Which arms are proven faster than the incumbent by more than a margin, cell by cell and over regions.

The gain of an arm is the mean over rounds of ln(t_incumbent / t_arm). Its variance borrows strength from the other
cells (`moderation`) and is never taken below the cell's own. An arm is *engaged* at a cell when the lower
end of the 95 % interval of its gain is above the margin, and stays so when all cells and arms of the run are decided
together: q of Benjamini and Hochberg for "the gain is no more than the margin" is at most 5 %.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ...analysis.statistics.arrays import Flags, Floats, Ints, moments
from ...analysis.statistics.intervals import CONFIDENCE, quantile, survival
from ...analysis.statistics.moderation import adjusted, moderate
from .timings import Timings

MARGIN = 0.03
"""Share of the time below which a gain is not worth another kernel; compared with ln of the ratio of times."""

FALSE_DISCOVERY = 0.05
"""Share of wrong ones that is accepted among the engaged entries of a run."""


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """Per case and arm [C, A], in ln time; NaN where unknown, and for the incumbent's interval.

    `variance` is of a single round, moderated; `freedom` its degrees (inf: normal); `count` the rounds.
    """

    gain: Floats
    low: Floats
    high: Floats
    q: Floats
    variance: Floats
    freedom: Floats
    count: Floats
    engaged: Flags


Interval: TypeAlias = tuple[float, float, float]
"""A mean gain with the lower and the upper end of its interval."""


def weigh_evidence(timings: Timings, margin: float = MARGIN) -> Evidence:
    """Decide for every cell and arm."""
    mean, variance, freedom, count = moments(timings.log_ratio)
    gain = -mean
    moderated, degrees = np.full_like(variance, np.nan), np.zeros_like(freedom)
    others = (slice(None), slice(1, None))
    found = moderate(variance[others].ravel(), freedom[others].ravel())
    moderated[others] = found.variance.reshape(variance[others].shape)
    degrees[others] = found.freedom.reshape(variance[others].shape)
    se = np.where((freedom > 0) & np.isfinite(gain), np.sqrt(moderated / np.maximum(count, 1)), np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.nan_to_num((gain - margin - timings.step) / se, nan=-np.inf)
    p = np.where(np.isfinite(se), survival(t, degrees), np.nan)
    q = adjusted(p.ravel()).reshape(p.shape)
    half = quantile((1 + CONFIDENCE) / 2, degrees) * se + timings.step
    engaged = (q <= FALSE_DISCOVERY) & (gain - half > margin) & (gain > 0)
    return Evidence(gain, gain - half, gain + half, q, moderated, degrees, count, engaged)


def region_gain(timings: Timings, evidence: Evidence, cases: Ints, arm: int, candidates: int) -> Interval:
    """Mean gain of an arm over `cases`, by their weights; where it has no time, the incumbent runs: nothing is gained.

    The interval holds for all `candidates` regions among which this one was found (Bonferroni). Its standard error is
    the larger of what the cells' variances say and what the rounds' means do, so that errors that cells have in common
    count. NaN interval with a single round.
    """
    weights = timings.weights[cases]
    weights = weights / weights.sum() if weights.sum() > 0 else np.full(len(cases), 1 / max(len(cases), 1))
    gain = np.nan_to_num(evidence.gain[cases, arm])
    value = float(weights @ gain)
    variance = evidence.variance[cases, arm] / np.maximum(evidence.count[cases, arm], 1)
    by_cells = float(np.sqrt(np.nansum(weights**2 * variance)))
    rounds = -np.where(np.isfinite(timings.log_ratio[cases, arm]), timings.log_ratio[cases, arm], np.nan)
    absent = ~np.isfinite(rounds).any(axis=1)
    rounds[absent] = 0.0
    means = moments((weights[:, None] * (rounds - gain[:, None])).T).mean * len(cases)
    known = means[np.isfinite(means)]
    if len(known) < 2:
        return value, np.nan, np.nan
    by_rounds = float(np.std(known, ddof=1) / np.sqrt(len(known)))
    freedom = float(np.nansum(np.where(absent, 0.0, evidence.freedom[cases, arm])))
    tail = (1 - CONFIDENCE) / 2 / max(candidates, 1)
    half = float(quantile(1 - tail, np.array([freedom]))[0]) * max(by_cells, by_rounds)
    half += float(weights @ timings.step[cases, arm])
    return value, value - half, value + half

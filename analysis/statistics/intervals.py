"""95 % intervals of means over few rounds, for many cells at once: the one method of times, ratios and their means.

A round is the unit: samples within it are correlated, so that their number says nothing about how far a time can be
trusted. Interval = mean of ln over rounds -+ t * sqrt(variance / rounds), at every number of rounds from 2 on; the
variance borrows from the other cells (`moderation`), and t has the degrees of freedom that this gives.
"""

import math

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from .arrays import Floats
from .moderation import moderate

CONFIDENCE = 0.95

_DRAWS = 200
"""Draws of the variances of all cells that a forecast of their intervals looks at."""


def quantile(probability: float, degrees: Floats) -> Floats:
    """Quantile of Student's t; NaN without a degree of freedom, normal with inf of them."""
    finite = np.where(np.isfinite(degrees) & (degrees > 0), degrees, 1.0)
    found = np.where(np.isinf(degrees), ndtri(probability), stdtrit(finite, probability))
    return np.asarray(np.where(degrees > 0, found, np.nan), dtype=np.float64)


def survival(t: Floats, degrees: Floats) -> Floats:
    """P(T > t) of Student's t; normal with inf degrees of freedom, of one degree without any."""
    finite = np.where(np.isfinite(degrees) & (degrees > 0), degrees, 1.0)
    return np.asarray(np.where(np.isinf(degrees), ndtr(-t), stdtr(finite, -t)), dtype=np.float64)


def mean_interval(
    values: "pd.Series[float]", keys: "pd.Series[str]", pools: "pd.Series[str] | None" = None
) -> pd.DataFrame:
    """Per key: `mean`, `se` (standard error), `low`, `high` (95 %) and `count` of `values`, one value per round.

    Keys borrow variance from each other, of one pool only where `pools` names that of every value. `se`, `low` and
    `high` are NaN for a key with one value.
    """
    stats = values.groupby(keys, sort=False).agg(["mean", "var", "count"])
    count, se = stats["count"].to_numpy(dtype=np.float64), np.full(len(stats), np.nan)
    freedom, variance = np.maximum(count - 1, 0), stats["var"].to_numpy(dtype=np.float64)
    pool = np.zeros(len(stats)) if pools is None else pools.groupby(keys, sort=False).first().factorize()[0]
    degrees = np.zeros(len(stats))
    for one in np.unique(pool):
        members = pool == one
        moderated = moderate(variance[members], freedom[members])
        se[members], degrees[members] = np.sqrt(moderated.variance / count[members]), moderated.freedom
    half = se * quantile((1 + CONFIDENCE) / 2, degrees)
    return stats.assign(se=se, low=stats["mean"] - half, high=stats["mean"] + half).drop(columns="var")


def expected_half_width(rounds: int, ratios: int, scatter: float) -> float:
    """Half-width that the 95 % interval of a ratio will have, where the times of all cells scatter by `scatter`.

    `scatter` is the standard deviation of ln time from round to round; `ratios` cells borrow variance from each other.
    What is returned is the median over cells and draws of their variances, and infinite for a single round, which tells
    nothing of them.
    """
    if rounds < 2:
        return math.inf
    freedom = np.full(max(1, ratios), rounds - 1.0)
    halves = []
    for drawn in np.random.default_rng(0).chisquare(rounds - 1, (_DRAWS, len(freedom))):
        found = moderate(2 * scatter**2 * drawn / freedom, freedom)
        halves.append(quantile((1 + CONFIDENCE) / 2, found.freedom) * np.sqrt(found.variance / rounds))
    return math.expm1(float(np.median(halves)))

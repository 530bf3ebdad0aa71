"""Many cells with few rounds each: variances shrunk towards what cells have in common, and false discovery rates.

Empirical Bayes after Smyth, "Linear models and empirical Bayes methods for assessing differential expression in
microarray experiments" (2004): s_c^2 ~ s0^2 F(df_c, d0). d0 and s0^2 follow from mean and variance of ln s_c^2.
"""

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy.special import digamma, polygamma

from .arrays import Floats

TIED = 1e-24
"""Variance of the logarithms of equal times, at most: they may differ by their rounding as floats, 1e-15, and no two
stored times by less than 1e-11. Left in, a variance of 1e-32 would say that variances differ by any factor."""

FEWEST_CELLS = 10
"""Fewer say too little about what is common."""


Prior: TypeAlias = tuple[float, float]
"""What the variances of a suite share: s0^2, worth d0 degrees of freedom (inf: all)."""

NO_PRIOR: Prior = (0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Moderated:
    """Variances [C] shrunk to the prior, but never below the cell's own.

    `freedom` are the degrees of freedom (inf: all). What has none of its own has NaN and 0: nothing is known of it.
    """

    variance: Floats
    freedom: Floats


def moderate(variances: Floats, freedom: Floats) -> Moderated:
    """Let variances [C] with `freedom` [C] degrees each borrow from each other.

    A cell that is noisier than the others explain keeps its own variance. Simulated, a 95 % interval then covers 93 to
    97 % for 2 to 8 values per cell.
    """
    known = freedom > 0
    drawn, degrees = shrink(variances, freedom, fit_prior(variances, freedom))
    shrunk, own = (np.where(known, one, np.nan) for one in (drawn, variances))
    return Moderated(np.fmax(shrunk, own), np.where(known, degrees, 0.0))


def fit_prior(variances: Floats, freedom: Floats) -> Prior:
    """Fit the prior to variances [C] that have `freedom` [C] degrees each; those up to `TIED` and NaN are excluded.

    `NO_PRIOR` for fewer than ten cells.
    """
    usable = (variances > TIED) & (freedom > 0) & np.isfinite(variances)
    if usable.sum() < FEWEST_CELLS:
        return NO_PRIOR
    half = freedom[usable] / 2
    logs = np.log(variances[usable]) - digamma(half) + np.log(half)
    center = float(logs.mean())
    excess = float(logs.var(ddof=1) - polygamma(1, half).mean())
    if excess <= 0:  # they differ by no more than chance
        return math.exp(center), math.inf
    half_prior = _inverse_trigamma(excess)
    return math.exp(center + float(digamma(half_prior)) - math.log(half_prior)), 2 * half_prior


def shrink(variances: Floats, freedom: Floats, prior: Prior) -> tuple[Floats, Floats]:
    """Return (variances, degrees of freedom) [C] shrunk towards the prior: (d0 s0^2 + df s^2) / (d0 + df), d0 + df."""
    variance, degrees = prior
    if not degrees:
        return variances, freedom
    if math.isinf(degrees):
        return np.where(np.isnan(variances), np.nan, variance), np.full_like(freedom, np.inf)
    return (degrees * variance + freedom * variances) / (degrees + freedom), degrees + freedom


def _inverse_trigamma(value: float) -> float:
    """x with trigamma(x) = value, by Newton's steps on 1 / trigamma, which is convex (Smyth 2004, appendix)."""
    if value > 1e7:
        return 1 / math.sqrt(value)
    if value < 1e-6:
        return 1 / value
    x = 0.5 + 1 / value
    for _ in range(50):
        trigamma = float(polygamma(1, x))
        step = trigamma * (1 - trigamma / value) / float(polygamma(2, x))
        x += step
        if -step / x < 1e-10:
            break
    return x


def adjusted(p: Floats) -> Floats:
    """q values of Benjamini and Hochberg (1995): the least false discovery rate at which each test is called.

    scipy.stats has the same procedure; importing it looks for array libraries that the analysis does without.

    q_(i) = min over j >= i of p_(j) n / j, for p in rising order. NaN stays NaN and does not count.
    """
    q = np.full(p.shape, np.nan)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    count = len(order)
    scaled = p[order] * count / np.arange(1, count + 1)
    q[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return q

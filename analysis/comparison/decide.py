"""The verdict of each cell: faster, slower, same or inconclusive, with the change that could have been found.

A change must exceed a practical margin, not just zero, and the share of false ones among all that are called is held
down over the whole suite (Benjamini and Hochberg 1995).
"""

import math
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from scipy import optimize
from scipy.special import nctdtr, ndtri, stdtrit

from ..stability.canary import SLOWDOWN, slowdown
from ..statistics.arrays import Floats
from ..statistics.intervals import quantile, survival
from ..statistics.moderation import adjusted, moderate

MARGIN = 0.01
"""Changes of less are of no interest."""

MARGIN_SHORT = 0.03
"""The same for launches under `SHORT_S`, where a change of address is worth more than 1 %."""

SHORT_S = 10e-6

FALSE_DISCOVERY = 0.05
"""Share of wrong ones that is accepted among the cells called faster or slower."""

POWER = 0.8
"""The smallest detectable change is found with this probability."""


class Word(StrEnum):
    """Verdict of a cell; `UNVERIFIED` where there is one value per version, and so nothing to decide by."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    INCONCLUSIVE = "inconclusive"
    UNVERIFIED = "unverified"


MEASURED = (Word.FASTER, Word.SLOWER, Word.SAME, Word.INCONCLUSIVE)
"""Verdicts of cells that were measured in rounds."""


@dataclass(frozen=True, slots=True)
class Decisions:
    """Per cell [C]: effect and its 95 % interval, p, q, verdict, and the smallest change found with 80 % power.

    All effects are differences of ln time. `se` is the standard error that decides: from the moderated variance, or the
    cell's own where that is larger; `freedom` are its degrees.
    """

    effect: Floats
    se: Floats
    freedom: Floats
    low: Floats
    high: Floats
    p: Floats
    q: Floats
    words: np.ndarray
    smallest: Floats


def vetoed(cases: Any, moved: Collection[float], is_cpu: bool) -> Any:
    """Return which verdicts a device that changed in between could explain.

    `cases` has word, low, high and margin of one case or, as `Effects.cases`, of several; `moved` are the changes of
    the parts of the canary, as differences of ln time like the others. A part explains a change as large as its own, in
    its direction, and the margin: the end of the interval that is nearer to 0 lies within. What moved by less than
    `SLOWDOWN` explains nothing. That times are the same says nothing where a part moved by more than `slowdown`.
    """
    up, down = max([0.0, *moved]), -min([0.0, *moved])
    found = (cases["word"] == Word.SAME) & (max(up, down) > math.log1p(slowdown(is_cpu)))
    for word, end, by in ((Word.SLOWER, cases["low"], up), (Word.FASTER, -cases["high"], down)):
        found |= (cases["word"] == word) & (by > math.log1p(SLOWDOWN)) & (end <= by + cases["margin"])
    return found


def margins(times_s: Floats) -> Floats:
    """Practical margin of each cell, as a difference of ln time, from its time in seconds [C]."""
    return np.where(times_s < SHORT_S, MARGIN_SHORT, MARGIN)


def decide(effect: Floats, variance: Floats, freedom: Floats, count: Floats, margin: Floats) -> Decisions:
    """Decide on cells with a mean effect, the variance of a single difference, its degrees of freedom and their number.

    `margin` holds what is of no interest and what the timer cannot resolve. Cells without degrees of freedom are
    inconclusive.
    """
    moderated = moderate(variance, freedom)
    known = (freedom > 0) & np.isfinite(effect)
    se = np.where(known, np.sqrt(moderated.variance / np.maximum(count, 1)), np.nan)
    degrees = np.where(known, moderated.freedom, np.nan)
    p = _p_value(effect, se, degrees, margin)
    q = adjusted(p)
    half = quantile(0.975, degrees) * se
    within = np.abs(effect) + quantile(0.95, degrees) * se < margin
    called = q <= FALSE_DISCOVERY
    words = np.where(
        called & (effect > 0),
        Word.SLOWER.value,
        np.where(called, Word.FASTER.value, np.where(within, Word.SAME.value, Word.INCONCLUSIVE.value)),
    )
    # of so many cells that are called, this one among them, the largest p that is called
    rank = np.minimum(called.sum() + ~called, known.sum())
    smallest = margin + _noncentrality(degrees, FALSE_DISCOVERY * rank / max(known.sum(), 1)) * se
    return Decisions(effect, se, degrees, effect - half, effect + half, p, q, words, smallest)


def _p_value(effect: Floats, se: Floats, degrees: Floats, margin: Floats) -> Floats:
    """Probability of so large an effect when the true one is at the margin, on either side."""
    with np.errstate(divide="ignore", invalid="ignore"):
        beyond, against = (np.abs(effect) - margin) / se, (np.abs(effect) + margin) / se
    # without any scatter and exactly at the margin: 0 / 0, which is no evidence
    p = survival(np.nan_to_num(beyond, nan=0.0), degrees) + survival(against, degrees)
    return np.where(np.isfinite(se), np.minimum(p, 1.0), np.nan)


def _noncentrality(degrees: Floats, threshold: Floats) -> Floats:
    """Per cell: by how many standard errors the truth must exceed the margin to be called with probability `POWER`."""
    found = np.full_like(degrees, np.nan)
    for freedom, p in {*zip(degrees[~np.isnan(degrees)], threshold[~np.isnan(degrees)], strict=True)}:
        found[(degrees == freedom) & (threshold == p)] = _one_noncentrality(float(freedom), float(p))
    return found


def _one_noncentrality(degrees: float, threshold: float) -> float:
    if math.isinf(degrees):
        return float(ndtri(POWER) - ndtri(threshold))
    critical = float(-stdtrit(degrees, threshold))
    return float(
        # one minus the noncentral distribution function
        optimize.brentq(lambda shift: 1 - POWER - nctdtr(degrees, shift, critical), 0.0, 2 * critical + 10, xtol=1e-6)
    )

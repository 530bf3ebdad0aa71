"""Which period of N (or K) is slow at its multiples, with a p-value by permutation.

The sizes of a series are cut into strata of neighbours; within a stratum, and nowhere else, sizes are exchangeable when
there is no camping. A candidate period is scored by how much its multiples exceed the other sizes of their strata, in
standard deviations of what permutations within strata give (known in closed form). The p-value is the share of
permutations of which ANY candidate scores as high, so that the number of periods is paid for. Only slow multiples
count: a sawtooth of tiles or waves is fastest at the multiples of its own period.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ...analysis.statistics.arrays import Flags, Floats, Ints

MIN_POINTS = 16
"""Sizes that a series needs before periods are looked for."""

PERMUTATIONS = 1999
LEVEL = 0.05

POWER_Z = 0.84
"""Normal quantile of the 80 % with which a detectable amplitude is found."""

STRATUM = 11
"""Sizes per stratum: no divisor of it is one of the periods, so multiples do not keep to one place in their strata."""

_MIN_MEMBERS = 3
_CLIP = 6.0
_SMALLEST = 0.001
_SURE = 3.0
_TIE = 1e-4
"""Scores that are this near are equal: sums of permutations are in single precision."""
_MAD = 1.4826


@dataclass(frozen=True, slots=True, eq=False)
class SizeSet:
    """A set of sizes that may be slow: the multiples of `period`, or (period 0) grids of a multiple of workgroups."""

    period: int
    members: Flags


@dataclass(frozen=True, slots=True, eq=False)
class PeriodScore:
    """The best candidate of a series.

    p         share of permutations with any score as high
    z         its score
    also      the same sizes in other words: 0 for the grids
    """

    best: SizeSet
    p: float
    z: float
    also: tuple[int, ...]


def candidates(sizes: Ints, on_grid: Flags) -> list[SizeSet]:
    """Return the sets worth a test: multiples of 2^k and 3 x 2^k, and grids of a multiple of 256 workgroups.

    A set has at least three sizes and at most half of them, and every set is there once (a period that is no multiple
    of the step of the scan has the multiples of one that is).
    """
    step = int(np.gcd.reduce(sizes))
    periods = [factor << power for power in range(31) for factor in (1, 3)]
    found = [SizeSet(0, on_grid)] if testable(on_grid) else []
    for period in sorted(period for period in periods if period % step == 0 and period <= sizes.max()):
        members = sizes % period == 0
        if testable(members):
            found.append(SizeSet(period, members))
    return found


def testable(members: Flags) -> bool:
    """Return whether a set has at least three members, and no more than there are others."""
    count = int(members.sum())
    return _MIN_MEMBERS <= count <= len(members) // 2


def strata(workgroups: Floats, waves: Floats) -> tuple[Ints, str]:
    """Number the stratum of each size, and say what its sizes have in common.

    They are `STRATUM` neighbours, never across a change of the number of workgroups (where a scan has several sizes of
    each), or else of the number of waves.
    """
    for values, name in ((workgroups, "workgroups"), (waves, "waves")):
        breaks = np.flatnonzero(np.diff(values) != 0) + 1
        if np.isfinite(values).all() and len(values) / (len(breaks) + 1) >= 4:
            return _cut(len(values), breaks), f"equal {name}"
    return _cut(len(workgroups), np.array([], dtype=np.int64)), "neighbours"


def _cut(count: int, breaks: Ints) -> Ints:
    """Cut runs into strata of about `STRATUM`; a rest of fewer than half of one joins the one before."""
    number = np.zeros(count, dtype=np.int64)
    begin = 0
    for first, last in pairwise((0, *breaks.tolist(), count)):
        pieces = max(1, round((last - first) / STRATUM))
        number[first:last] = begin + np.minimum(np.arange(last - first) // STRATUM, pieces - 1)
        begin = int(number[last - 1]) + 1
    return number


def detrended(values: Floats, sizes: Ints, by: Flags | None = None) -> Floats:
    """Take a cubic in ln size out of `values` [n] or [n, columns]: what changes slowly is no resonance.

    `by` are the sizes that the cubic is fitted to, by default all.
    """
    x = np.log(sizes.astype(np.float64))
    x = (x - x.mean()) / max(float(np.ptp(x)), 1e-9)
    powers = np.stack([x**power for power in range(4)], axis=1)
    fitted = powers if by is None else powers[by]
    basis, triangle = np.linalg.qr(fitted)
    coefficients = np.linalg.solve(triangle, basis.T @ (values if by is None else values[by]))
    return np.asarray(values - powers @ coefficients, dtype=np.float64)


def centred(values: Floats, stratum: Ints) -> Floats:
    """Take the mean of each stratum out, after clipping at six spreads from its median: no single size is the test."""
    count = np.bincount(stratum)
    off = values - _medians(values, stratum)
    limit = _CLIP * max(_MAD * float(np.median(np.abs(off))), _SMALLEST)
    off = np.clip(off, -limit, limit)
    return np.asarray(off - (np.bincount(stratum, off) / count)[stratum], dtype=np.float64)


def _medians(values: Floats, stratum: Ints) -> Floats:
    """Median of each value's stratum."""
    middles = [np.median(values[stratum == number]) for number in range(int(stratum.max()) + 1)]
    return np.array(middles, dtype=np.float64)[stratum]


def amplitude(e: Floats, stratum: Ints, members: Flags) -> float:
    """Median ln time of the members above the median of the others in their strata; 0 where no stratum has both."""
    usual = np.full(len(e), np.nan)
    for number in np.unique(stratum[members]):
        others = (stratum == number) & ~members
        if others.any():
            usual[stratum == number] = np.median(e[others])
    above = (e - usual)[members & np.isfinite(usual)]
    return float(np.median(above)) if len(above) else 0.0


class PeriodScan:
    """One series, ready for scoring: values centred per stratum, candidates with their null variance."""

    def __init__(self, e: Floats, stratum: Ints, sets: list[SizeSet]) -> None:
        self._stratum = stratum
        self._off = e - _medians(e, stratum)
        self._values = centred(e, stratum)
        self.sets = sets
        self._members = np.stack([one.members for one in sets], axis=1).astype(np.float64)
        self._size = np.bincount(stratum).astype(np.float64)
        self._within = np.stack([np.bincount(stratum, self._members[:, j]) for j in range(len(sets))], axis=1)
        squares = np.bincount(stratum, self._values**2)
        share = self._within * (1 - self._within / self._size[:, None])
        # Variance of the sum over a random subset of a finite population, per stratum, added up.
        self._deviation = np.sqrt(np.sum(share * (squares / np.maximum(self._size - 1, 1))[:, None], axis=0))
        self._leverage = np.sum(share, axis=0)
        shuffled = self._values.astype(np.float32)[permutations(tuple(stratum.tolist()))]
        sums = shuffled @ self._members.astype(np.float32)
        self._null = self._scores(sums.astype(np.float64)).max(axis=1)
        """The best score of each permutation."""

    def _scores(self, sums: Floats) -> Floats:
        usable = self._deviation > 1e-12
        return np.where(usable, sums / np.where(usable, self._deviation, 1), 0.0)

    def score(self) -> PeriodScore:
        """Score the candidates against each other and against chance."""
        scores = self._scores(self._values @ self._members)
        best = int(scores.argmax())
        p = (1 + int(np.sum(self._null >= scores[best] - _TIE))) / (1 + PERMUTATIONS)
        chosen = self._refined(self.sets[best])
        same = [one.period for one in self.sets if one is not chosen and (one.members == chosen.members).all()]
        return PeriodScore(chosen, p, float(scores.max()), tuple(same))

    def _refined(self, best: SizeSet) -> SizeSet:
        """Choose between the best set and its subsets: a subset replaces it if the rest is clearly not half as slow.

        Every other multiple of half a period is one of the whole period, so that a half scores well with it.
        """
        noise = _MAD * float(np.median(np.abs(self._off[~best.members])))
        for other in sorted(self.sets, key=lambda one: int(one.members.sum())):
            rest = best.members & ~other.members
            if not rest.any() or (other.members & ~best.members).any():
                continue
            slow, others = float(np.median(self._off[other.members])), float(np.median(self._off[rest]))
            error = noise * np.sqrt(1 / other.members.sum() + 1 / rest.sum())
            if others < slow / 2 and slow - others > _SURE * error:
                return other
        return best

    def detectable(self) -> Iterator[tuple[int, float]]:
        """Yield per candidate its period and the ln time at its multiples that would be found with 80 % power."""
        critical = float(np.quantile(self._null, 1 - LEVEL))
        for one, deviation, leverage in zip(self.sets, self._deviation, self._leverage, strict=True):
            if leverage > 0:
                yield one.period, (critical + POWER_Z) * float(deviation) / float(leverage)


@lru_cache(maxsize=16)
def permutations(stratum: tuple[int, ...]) -> NDArray[np.int32]:
    """`PERMUTATIONS` orders [permutations, n] that keep every row in its stratum; the same ones for the same strata."""
    rng = np.random.default_rng(len(stratum))
    keys = rng.random((PERMUTATIONS, len(stratum)), dtype=np.float32)
    return np.asarray(np.argsort(keys + np.array(stratum, dtype=np.float32), axis=1), dtype=np.int32)

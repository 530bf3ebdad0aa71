"""Comparisons of one number per case: nothing can be verified, but what the file itself excludes can be ranked.

Such a table has no scatter of its own. Three things bound what a change in it can mean: the margin, three times as wide
as between interleaved rounds because the runs lie apart; the step that the source rounded to; and, where the same GEMM
is listed under several models, how far their changes disagree, which is noise that the file shows.
"""

import math
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
import pandas as pd

from ..frames.coordinates import size_label
from ..statistics.arrays import Floats, floats
from .decide import Word
from .effects import Effects
from .suite import UNIQUE

_TIE = 1e-9
"""Differences of ln time that are no more than arithmetic: a change of exactly two steps is not beyond two steps."""


class RankingBound(StrEnum):
    """What a change must exceed to be ranked, whichever is largest."""

    MARGIN = "margin"
    RESOLUTION = "resolution"
    DUPLICATES = "duplicates"


@dataclass(frozen=True, slots=True)
class Duplicates:
    """GEMMs that the file lists under several models, once per model.

    gemms   how many; rows  in how many rows
    spread  largest disagreement between the changes of one GEMM, as a difference of ln time
    where   the GEMM that disagrees most; least, most: its lowest and highest ln(head / base)
    widest  the same in words, with changes of time
    """

    gemms: int
    rows: int
    spread: float
    where: str
    least: float
    most: float
    widest: str


@dataclass(frozen=True, slots=True)
class RoundedChange:
    """Geometric mean of time of head / time of base over `cases`, and what rounding alone lets it be.

    The interval holds whatever the sources measured before they rounded. It says nothing about noise.
    """

    ratio: float
    low: float
    high: float
    cases: int


@dataclass(frozen=True, slots=True, eq=False)
class Unverified:
    """A comparison with one value per case and version: ranked changes.

    cases       the compared cases that have both times, as in `Effects.cases`, with word `unverified`; `low` and `high`
                are what rounding lets the effect be; threshold (of |effect|), bound (what set it), ranked (beyond it)
    duplicates  None when no GEMM is listed under several models
    suite       over all cases, None without any; unique  each distinct GEMM counted once
    """

    cases: pd.DataFrame
    duplicates: Duplicates | None
    suite: RoundedChange | None
    unique: RoundedChange | None

    @property
    def ranked(self) -> pd.DataFrame:
        """Cases beyond their threshold, those first whose change is large however their times were rounded."""
        beyond = self.cases[self.cases["ranked"]]
        sure = np.where(beyond["effect"] > 0, beyond["low"], -beyond["high"])
        return beyond.iloc[np.argsort(-sure, kind="stable")]

    def bounds(self) -> dict[RankingBound, int]:
        """How many cases each bound held back or let pass."""
        counts = self.cases["bound"].value_counts()
        return {bound: int(counts.get(str(bound), 0)) for bound in RankingBound}

    def explanation(self) -> str:
        """One paragraph on the threshold, for a report."""
        counts = self.bounds()
        text = (
            f"One value per case: nothing is verified. {int(self.cases['ranked'].sum())} of {len(self.cases)} cases "
            f"change by more than the largest of three bounds: the margin (decides {counts[RankingBound.MARGIN]}), two "
            f"steps of the rounded times (decides {counts[RankingBound.RESOLUTION]})"
        )
        if self.duplicates is None:
            return f"{text}, and the disagreement of equal GEMMs, of which the tables have none."
        return (
            f"{text}, and the disagreement of equal GEMMs (decides {counts[RankingBound.DUPLICATES]}): "
            f"{self.duplicates.gemms} stand under several models, and {self.duplicates.widest}."
        )


def rank_unverified(effects: Effects) -> Unverified:
    """Rank the changes of imported tables against what the tables themselves exclude."""
    cases = effects.cases[effects.cases["effect"].notna()].copy()
    cases["low"], cases["high"] = rounding_interval(cases)
    duplicates = find_duplicates(cases)
    bounds = {
        RankingBound.MARGIN: floats(cases, "margin"),
        RankingBound.RESOLUTION: _two_steps(cases),
        RankingBound.DUPLICATES: np.full(len(cases), duplicates.spread if duplicates else 0.0),
    }
    stacked = np.stack(list(bounds.values()))
    words = np.array([str(bound) for bound in bounds])
    cases["threshold"] = stacked.max(axis=0)
    cases["bound"] = words[stacked.argmax(axis=0)]
    cases["ranked"] = cases["effect"].abs() > cases["threshold"] + _TIE
    cases["word"] = Word.UNVERIFIED.value
    return Unverified(cases, duplicates, rounded_change(cases), rounded_change(cases, unique=True))


def as_unverified(effects: Effects) -> Effects:
    """Say of every compared case that it is unverified, with what rounding lets its effect be for an interval."""
    cases = effects.cases.copy()
    compared = cases["effect"].notna()
    low, high = rounding_interval(cases[compared])
    cases.loc[compared, ["word", "low", "high"]] = pd.DataFrame(
        {"word": Word.UNVERIFIED.value, "low": low, "high": high}, index=cases.index[compared]
    )
    return replace(effects, cases=cases)


def rounding_interval(cases: pd.DataFrame) -> tuple[Floats, Floats]:
    """Lowest and highest ln(head / base) [C] of times that round to those in the tables."""
    half = floats(cases, "resolution_s") / 2
    base, head = (floats(cases, f"{side}_time_s") for side in ("base", "head"))
    with np.errstate(divide="ignore"):
        low = np.log(np.maximum(head - half, 0)) - np.log(base + half)
        high = np.log(head + half) - np.log(np.maximum(base - half, 0))
    return low, high


def rounded_change(cases: pd.DataFrame, unique: bool = False) -> RoundedChange | None:
    """Geometric mean over cases that have effect, low and high; each distinct GEMM counts once if `unique`."""
    if cases.empty:
        return None
    values = cases[["effect", "low", "high"]]
    if unique:
        keys = cases.groupby([*UNIQUE], sort=False, dropna=False).ngroup()
        values = values.groupby(keys).mean()
    effect, low, high = (math.exp(mean) for mean in values.mean())
    return RoundedChange(effect, low, high, len(values))


def find_duplicates(cases: pd.DataFrame) -> Duplicates | None:
    """Find GEMMs listed under several models: the hardware cannot tell them apart, so their changes should agree.

    Only the ratios are compared, so that what two rows differ in otherwise (a bias, say) cancels.
    """
    groups = cases.groupby([*UNIQUE], sort=False, dropna=False)
    models = groups["model"].transform("nunique")
    several = cases[models > 1]
    if several.empty:
        return None
    ranges = several.groupby([*UNIQUE], sort=False, dropna=False)["effect"].agg(["min", "max", "size"])
    spread = ranges["max"] - ranges["min"]
    widest = int(spread.to_numpy().argmax())
    where = dict(zip(UNIQUE, ranges.index[widest], strict=True))
    least, most = (float(ranges[name].iloc[widest]) for name in ("min", "max"))
    gemm = f"M={where['M']}, {size_label(where, 'x')} ({where['pass']})"
    text = f"those of {gemm} change by {math.expm1(least):+.2%} to {math.expm1(most):+.2%} of time"
    return Duplicates(len(ranges), int(ranges["size"].sum()), float(spread.max()), gemm, least, most, text)


def _two_steps(cases: pd.DataFrame) -> Floats:
    """|ln(head / base)| [C] of a change by one step on either side."""
    steps = 2 * floats(cases, "resolution_s")
    return np.asarray(np.log1p(steps / cases[["base_time_s", "head_time_s"]].min(axis=1).to_numpy()), dtype=np.float64)

"""Comparisons of one number per case: nothing can be verified, but what the file itself excludes can be ranked.

Such a table shows no scatter. Three things bound what a change in it can mean: the margin, three times as wide
as between interleaved rounds because the runs lie apart; the step that the source rounded to; and, where the same GEMM
is listed under several models, how far their changes disagree, which is noise that the file shows.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from ..frames.coordinates import GEMM, size_label
from ..statistics.arrays import Floats, floats
from .decide import Word
from .effects import Effects

_TIE = 1e-9
"""Differences of ln time that are no more than arithmetic: a change of exactly two steps is not beyond two steps."""


UNIQUE = (*GEMM, "provider")
"""Cases that are the same to the hardware: one GEMM under several models."""

BOUNDS = ("margin", "resolution", "duplicates")
"""What a change must exceed to be ranked, whichever is largest."""


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


@dataclass(frozen=True, slots=True, eq=False)
class Unverified:
    """A comparison with one value per case and version: ranked changes.

    cases       the compared cases that have both times, as in `Effects.cases`, with word `unverified`; `low` and `high`
                are what rounding lets the effect be; threshold (of |effect|), bound (what set it), ranked (beyond it)
    duplicates  None when no GEMM is listed under several models
    """

    cases: pd.DataFrame
    duplicates: Duplicates | None

    @property
    def ranked(self) -> pd.DataFrame:
        """Cases beyond their threshold, those first whose change is large however their times were rounded."""
        beyond = self.cases[self.cases["ranked"]]
        sure = np.where(beyond["effect"] > 0, beyond["low"], -beyond["high"])
        return beyond.iloc[np.argsort(-sure, kind="stable")]

    def explanation(self) -> str:
        """One paragraph on the threshold, for a report."""
        margin, resolution, duplicates = (int((self.cases["bound"] == bound).sum()) for bound in BOUNDS)
        text = (
            f"One value per case: nothing is verified. {int(self.cases['ranked'].sum())} of {len(self.cases)} cases "
            f"change by more than the largest of three bounds: the margin (decides {margin}), two steps of the rounded "
            f"times (decides {resolution})"
        )
        if self.duplicates is None:
            return f"{text}, and the disagreement of equal GEMMs, of which the tables have none."
        return (
            f"{text}, and the disagreement of equal GEMMs (decides {duplicates}): "
            f"{self.duplicates.gemms} stand under several models, and {self.duplicates.widest}."
        )


def rank_unverified(effects: Effects) -> Unverified:
    """Rank the changes of imported tables against what the tables themselves exclude."""
    cases = as_unverified(effects).cases
    cases = cases[cases["effect"].notna()].copy()
    duplicates = find_duplicates(cases)
    spread = duplicates.spread if duplicates else 0.0
    bounds = np.stack([floats(cases, "margin"), _two_steps(cases), np.full(len(cases), spread)])
    cases["threshold"] = bounds.max(axis=0)
    cases["bound"] = np.array(BOUNDS)[bounds.argmax(axis=0)]
    cases["ranked"] = cases["effect"].abs() > cases["threshold"] + _TIE
    return Unverified(cases, duplicates)


def rounded_mean(cases: pd.DataFrame) -> tuple[float, float]:
    """What rounding alone lets the geometric mean of time of head / time of base over `cases` be, from low to high.

    The interval holds whatever the sources measured before they rounded. It says nothing about noise.
    """
    low, high = (math.exp(float(bound.mean())) for bound in rounding_interval(cases))
    return low, high


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

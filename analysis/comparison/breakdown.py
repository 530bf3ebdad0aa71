"""Where a change is: its distribution over the cases, what moved most, and the negative controls."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..frames.coordinates import CASE
from ..frames.notes import MIXED
from ..statistics.arrays import Floats, floats
from .decide import FALSE_DISCOVERY, Word
from .effects import Effects

STEPS = (0.01, 0.05)
"""Changes of time that are counted, as shares, on both sides."""

COUNTED = tuple((side, step) for step in STEPS for side in (1, -1))
"""The lines beyond which cases are counted: side (1 above, -1 below) and step."""


@dataclass(frozen=True, slots=True)
class Count:
    """Cases that changed by `step` (a share, with its sign) or more.

    seen  by their point estimates; verified  called slower or faster as well
    """

    step: float
    seen: int
    verified: int


@dataclass(frozen=True, slots=True)
class ChangeDistribution:
    """Changes of time over the compared cases, as shares: head / base - 1, above 0 slower."""

    cases: int
    median: float
    mean: float
    p25: float
    p75: float
    least: float
    most: float
    counts: tuple[Count, ...]


@dataclass(frozen=True, slots=True)
class Controls:
    """Cases whose code and configuration are the same in both versions: what is seen there is not the code.

    spread   standard deviation of their effects; largest  the largest absolute one; called  how many exceed the
    margin beyond chance
    """

    cases: int
    spread: float
    largest: float
    called: int


def distribution(cases: pd.DataFrame) -> ChangeDistribution | None:
    """Distribution of the changes of rows of `Effects.cases` that have an effect; None without any."""
    if cases.empty:
        return None
    change = np.expm1(floats(cases, "effect"))
    p25, median, p75 = np.percentile(change, (25, 50, 75))
    counts = tuple(_count(cases, change, side * step) for side, step in COUNTED)
    return ChangeDistribution(
        len(cases), float(median), float(change.mean()), float(p25), float(p75), float(change.min()),
        float(change.max()), counts,
    )  # fmt: skip


def controls(effects: Effects, same: Sequence[str] = ("identity", "artifact", "config")) -> Controls | None:
    """Look at the cases of which `same` (columns of `DETAILS`) are the same on both sides; None without any.

    Cases without compiled code, or with several over their rounds, are none: a library that was built anew has the
    identity that it had.
    """
    cases = compared(effects)
    alike = cases["base_artifact"] != ""
    for name in same:
        alike &= (cases[f"base_{name}"] == cases[f"head_{name}"]) & (cases[f"base_{name}"] != MIXED)
    unchanged = cases[alike]
    if unchanged.empty:
        return None
    called = (unchanged["q"] <= FALSE_DISCOVERY).sum()  # whatever became of the verdicts
    spread = float(unchanged["effect"].std(ddof=1)) if len(unchanged) > 1 else math.nan
    return Controls(len(unchanged), spread, float(unchanged["effect"].abs().max()), int(called))


def other_choices(effects: Effects) -> pd.DataFrame:
    """Compared cases in which the two versions chose another configuration, kernel or dispatch."""
    cases = compared(effects)
    differs = pd.Series(False, index=cases.index)
    for name in ("config", "dispatched", "kernels"):
        differs |= cases[f"base_{name}"] != cases[f"head_{name}"]
    columns = [f"{side}_{name}" for name in ("config", "dispatched", "kernels") for side in ("base", "head")]
    return cases.loc[differs, [*CASE, "effect", "low", "high", "word", *columns]]


def compared(effects: Effects) -> pd.DataFrame:
    """Rows of `Effects.cases` that have an effect."""
    cases = effects.cases
    return cases[cases["effect"].notna()]


_TIE = 1e-12
"""A change of exactly one step counts, however its logarithm was rounded."""


def _count(cases: pd.DataFrame, change: Floats, step: float) -> Count:
    beyond = math.copysign(1.0, step) * change >= abs(step) - _TIE
    word = Word.SLOWER if step > 0 else Word.FASTER
    return Count(step, int(beyond.sum()), int((beyond & (cases["word"] == word.value)).sum()))

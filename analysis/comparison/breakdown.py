"""Where a change is: its distribution over the cases, by model, what moved most, and the negative controls."""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import ndtr, stdtr

from ..intervals import Floats
from .decide import Word
from .effects import CASE, Effects, Status
from .stored import MIXED
from .suite import SuiteChange, suite_change

STEPS = (0.01, 0.05)
"""Changes of time that are counted, as shares, on both sides."""

COUNTED = tuple((side, step) for step in STEPS for side in (1, -1))
"""The lines beyond which cases are counted: side (1 slower, -1 faster) and step."""


@dataclass(frozen=True, slots=True)
class Count:
    """Cases whose time changed by `step` (a share; negative: shorter) or more.

    seen      by their point estimates; verified  called slower or faster as well
    expected  as many would be seen if nothing had changed, from each case's standard error; None without any
    """

    step: float
    seen: int
    verified: int
    expected: float | None


@dataclass(frozen=True, slots=True)
class Distribution:
    """Changes of time over the compared cases, as shares (above 0: slower)."""

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
    """Cases whose compiled code and configuration are the same in both versions: what is seen there is not the code.

    spread   standard deviation of their effects; largest  the largest absolute one; called  how many got a verdict
    """

    cases: int
    spread: float
    largest: float
    called: int


def distribution(effects: Effects, pass_: str | None = None) -> Distribution | None:
    """Distribution of the changes, of one pass if it is given; None when nothing is compared."""
    cases = _compared(effects)
    if pass_ is not None:
        cases = cases[cases["pass"] == pass_]
    if cases.empty:
        return None
    change = np.expm1(cases["effect"].to_numpy())
    p25, median, p75 = np.percentile(change, (25, 50, 75))
    counts = tuple(_count(cases, change, side * step) for side, step in COUNTED)
    return Distribution(
        len(cases), float(median), float(change.mean()), float(p25), float(p75), float(change.min()),
        float(change.max()), counts,
    )  # fmt: skip


def by_model(effects: Effects) -> list[tuple[str, str, SuiteChange, dict[Word, int]]]:
    """Per model and pass, in order of appearance: geometric mean, and how many cases got which verdict."""
    cases = _compared(effects)
    found = []
    for model, pass_ in cases[["model", "pass"]].drop_duplicates().itertuples(index=False, name=None):
        mine = (effects.cases["model"] == model) & (effects.cases["pass"] == pass_)
        change = suite_change(effects, rows=mine)
        words = effects.cases.loc[mine, "word"].value_counts()
        if change is not None:
            found.append((str(model), str(pass_), change, {word: int(words.get(word.value, 0)) for word in Word}))
    return found


def movers(effects: Effects, most: int = 10) -> pd.DataFrame:
    """Cases that changed, verified ones first, then by the end of their interval that is nearer to no change."""
    cases = _compared(effects)
    verified = cases["word"].isin([Word.SLOWER.value, Word.FASTER.value])
    nearer = np.where(cases["effect"] > 0, cases["low"], -cases["high"])
    sure = pd.Series(nearer, index=cases.index).fillna(-np.inf)
    order = pd.DataFrame({"verified": ~verified, "sure": -sure, "effect": -cases["effect"].abs()})
    ranked = cases.loc[order.sort_values(["verified", "sure", "effect"], kind="stable").index]
    return ranked[ranked["effect"].abs() > 0].head(most)


def controls(effects: Effects) -> Controls | None:
    """Look at the cases that have the same artifact hash and configuration on both sides; None without any."""
    cases = _compared(effects)
    known = ~cases["base_artifact"].isin(["", MIXED]) & (cases["base_config"] != MIXED)
    same = known & (cases["base_artifact"] == cases["head_artifact"])
    mine = cases[same & (cases["base_config"] == cases["head_config"])]
    if mine.empty:
        return None
    called = mine["word"].isin([Word.SLOWER.value, Word.FASTER.value]).sum()
    spread = float(mine["effect"].std(ddof=1)) if len(mine) > 1 else math.nan
    return Controls(len(mine), spread, float(mine["effect"].abs().max()), int(called))


def other_choices(effects: Effects) -> pd.DataFrame:
    """Compared cases in which the two versions chose another configuration, kernel or dispatch."""
    cases = _compared(effects)
    differs = pd.Series(False, index=cases.index)
    for name in ("config", "dispatched", "kernels"):
        differs |= cases[f"base_{name}"] != cases[f"head_{name}"]
    columns = [f"{side}_{name}" for name in ("config", "dispatched", "kernels") for side in ("base", "head")]
    return cases.loc[differs, [*CASE, "effect", "low", "high", "word", *columns]]


def _compared(effects: Effects) -> pd.DataFrame:
    cases = effects.cases
    return cases[(cases["status"] == Status.COMPARED) & cases["effect"].notna()]


def _count(cases: pd.DataFrame, change: Floats, step: float) -> Count:
    sign = math.copysign(1.0, step)
    beyond = sign * change >= abs(step)
    word = Word.SLOWER if step > 0 else Word.FASTER
    known = cases["se"].notna().to_numpy()
    expected = None
    if known.any():
        se, freedom = cases["typical_se"].to_numpy()[known], cases["freedom"].to_numpy()[known]
        expected = float(_beyond(sign * math.log1p(step), se, freedom).sum())
    return Count(step, int(beyond.sum()), int((beyond & (cases["word"] == word.value)).sum()), expected)


def _beyond(distance: float, se: Floats, freedom: Floats) -> Floats:
    """P(error > distance) of each case."""
    with np.errstate(divide="ignore"):
        t = distance / se
    finite = np.where(np.isfinite(freedom), freedom, 1.0)
    return np.asarray(np.where(np.isinf(freedom), ndtr(-t), stdtr(finite, -t)), dtype=np.float64)

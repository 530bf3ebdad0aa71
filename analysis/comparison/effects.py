"""From the rounds of two versions to one row per case: effect, interval, verdict, and what else changed.

A case is a problem, a scheme, a cache state and a provider. It is compared when both versions passed, in times that the
device allows; otherwise its status gives the reason.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
import pandas as pd

from ...shapes.verdict import Verdict
from ..frames.coordinates import CASE, DETAILS
from ..frames.speedup import IMPOSSIBLE
from ..statistics.arrays import Floats, difference, floats, moments
from .decide import Word, decide, margins

SEQUENTIAL_MARGIN = 3.0
"""Two runs that were not interleaved differ by drift too: their margin is so many times as wide."""


class Order(StrEnum):
    """How the versions were measured: in turn, one after the other, or as one number per case from a table."""

    INTERLEAVED = "interleaved"
    SEQUENTIAL = "sequential"
    IMPORTED = "imported"


class Status(StrEnum):
    """Outcome of a case. Only `COMPARED` enters a mean."""

    COMPARED = "compared"
    NEW = "new"
    REMOVED = "removed"
    BROKEN = "broken"
    FIXED = "fixed"
    FAILED = "failed"
    DECLINED = "declined"
    IMPOSSIBLE = "impossible"


@dataclass(frozen=True, slots=True, eq=False)
class Versions:
    """Two versions of the same cases.

    cases   one row per case: CASE, then for `base_` and `head_` each: verdict ("" when absent), reason, time_s, and the
            columns of DETAILS, impossible (shorter than the device allows; False where no device is known);
            `resolution_s`, the step of the coarser timer (0: continuous); flops
    rounds  one row per (case, round): case (position in `cases`), round, base_s, head_s; NaN where one is missing. Of
            sequential runs the numbers of rounds mean nothing across versions
    """

    cases: pd.DataFrame
    rounds: pd.DataFrame
    order: Order


@dataclass(frozen=True, slots=True, eq=False)
class Effects:
    """The cases with what was decided, and the differences per round of those that are compared.

    cases        `Versions.cases` with status, word, withheld (why its word is inconclusive whatever its times
                 are, or ""), margin, rounds, and of `decide` effect, low, high, se, freedom, p, q,
                 smallest; base_gmean_s, head_gmean_s: geometric means of the round medians that the
                 effect is of, so that their ratio is the effect
    differences  [cases, rounds] ln(head) - ln(base) of interleaved rounds; NaN where a round is missing. No columns
                 when rounds are not paired
    """

    cases: pd.DataFrame
    differences: Floats
    order: Order


def align(base: pd.DataFrame, head: pd.DataFrame) -> pd.DataFrame:
    """Join two summaries (one row per cell) to `Versions.cases`, in the order of base, then what only head has."""
    order = list(dict.fromkeys([*_keys(base), *_keys(head)]))
    sides = {side: frame.set_index([*CASE]) for side, frame in (("base", base), ("head", head))}
    index = pd.MultiIndex.from_tuples(order, names=CASE)
    joined: dict[str, object] = {}
    found = {side: frame.reindex(index) for side, frame in sides.items()}
    for side, frame in found.items():
        too_fast = frame["impossible"].eq(True)
        texts = frame[["verdict", "reason", *DETAILS]].fillna("").astype(str)
        texts["reason"] = texts["reason"].mask(too_fast, IMPOSSIBLE)
        joined |= {f"{side}_{name}": texts[name].to_numpy() for name in texts}
        joined[f"{side}_time_s"] = frame["time_s"].to_numpy(dtype=np.float64)
        joined[f"{side}_impossible"] = too_fast.to_numpy()
    steps = [frame["resolution_s"].to_numpy(dtype=np.float64) for frame in found.values()]
    flops = found["head"]["flops"].combine_first(found["base"]["flops"])
    cases = pd.DataFrame(joined, index=index).reset_index()
    return cases.assign(resolution_s=np.fmax(np.fmax(*steps), 0.0), flops=flops.to_numpy(dtype=np.float64))


def status(cases: pd.DataFrame) -> "pd.Series[str]":
    """Return the outcome of each case. `unsupported` counts as absent: the provider does not offer the case."""
    passed, offered = {}, {}
    for side in ("base", "head"):
        verdict = cases[f"{side}_verdict"]
        passed[side] = verdict == Verdict.PASSED
        offered[side] = ~verdict.isin(["", Verdict.UNSUPPORTED])
    too_fast = cases[["base_impossible", "head_impossible"]].any(axis=1)
    first_that_holds = {
        Status.IMPOSSIBLE: passed["base"] & passed["head"] & too_fast,
        Status.COMPARED: passed["base"] & passed["head"],
        Status.BROKEN: passed["base"] & offered["head"],
        Status.FIXED: passed["head"] & offered["base"],
        Status.NEW: passed["head"],
        Status.REMOVED: passed["base"],
        Status.DECLINED: ~offered["base"] & ~offered["head"],
    }
    words = [word.value for word in first_that_holds]
    return pd.Series(np.select([*first_that_holds.values()], words, Status.FAILED.value), index=cases.index)


def margins_of(time_s: Floats, resolution_s: Floats, order: Order) -> Floats:
    """Margin that each case has to exceed, as a difference of ln time, from its time and the step of its timer."""
    margin = margins(time_s) * (1.0 if order is Order.INTERLEAVED else SEQUENTIAL_MARGIN)
    if order is Order.IMPORTED:  # of tables, the step is a separate bound (`unverified`)
        return margin
    # A stable kernel is rounded to the same step in every round: rounds do not average that out.
    return margin + resolution_s / time_s


def measure_effects(versions: Versions) -> Effects:
    """Compare what both versions passed; false discoveries are controlled for each pass separately."""
    cases = versions.cases.assign(status=status(versions.cases))
    compared = (cases["status"] == Status.COMPARED).to_numpy()
    rounds = versions.rounds
    logs = {side: _logs(rounds, rounds[f"{side}_s"], len(cases)) for side in ("base", "head")}
    differences = np.full((len(cases), 0), np.nan)
    if versions.order is Order.INTERLEAVED:
        differences = _logs(rounds, rounds["head_s"] / rounds["base_s"], len(cases))
        logs = {side: np.where(np.isfinite(differences), values, np.nan) for side, values in logs.items()}
    sides = {side: moments(values) for side, values in logs.items()}
    found = moments(differences) if versions.order is Order.INTERLEAVED else difference(sides["base"], sides["head"])
    margin = margins_of(floats(cases, "base_time_s"), cases["resolution_s"].to_numpy(), versions.order)
    usable = compared & np.isfinite(found.mean)
    table = pd.DataFrame(np.nan, index=cases.index, columns=list(_DECIDED))
    table["word"] = np.where(compared, Word.INCONCLUSIVE.value, "")
    for pass_ in cases["pass"].unique():  # each pass is a separate question
        chosen = usable & (cases["pass"] == pass_).to_numpy()
        if chosen.any():
            decided = decide(*(values[chosen] for values in (*found, margin)))
            for name in _DECIDED:
                table.loc[chosen, name] = getattr(decided, name)
            table.loc[chosen, "word"] = decided.words
    table["withheld"] = ""
    table["margin"], table["rounds"] = margin, np.where(usable, found.rounds, 0).astype(np.int64)
    for side, values in sides.items():
        table[f"{side}_gmean_s"] = np.where(usable, np.exp(values.mean), np.nan)
    differences[~usable] = np.nan
    return Effects(pd.concat([cases, table], axis=1), differences, versions.order)


def withhold(effects: Effects, reason: str, chosen: "pd.Series[bool] | bool" = True) -> Effects:
    """Leave the `chosen` compared cases inconclusive, for a reason that is not their own; "": leave all as they are."""
    if not reason:
        return effects
    cases = effects.cases
    judged = (cases["word"] != "") & chosen
    words = cases["word"].mask(judged, Word.INCONCLUSIVE.value)
    reasons = cases["withheld"].mask(judged, reason)
    smallest = cases["smallest"].mask(judged)
    return replace(effects, cases=cases.assign(word=words, withheld=reasons, smallest=smallest))


_DECIDED = ("effect", "low", "high", "se", "freedom", "p", "q", "smallest")


def sum_of_passes(versions: Versions, passes: Sequence[str], name: str) -> Versions:
    """Add the times of several passes of a case, round by round: what a training step pays for both. No other cases.

    The result has the pass `name`; a case that lacks one of them, or did not pass it in a version, is excluded.
    """
    cases = versions.cases
    cases = cases[cases["pass"].isin(list(passes)) & (status(cases) == Status.COMPARED)]
    without = [column for column in CASE if column != "pass"]
    whole = cases.groupby(without, sort=False, dropna=False)["pass"].transform("nunique") == len(passes)
    cases = cases[whole]
    number = cases.groupby(without, sort=False, dropna=False).ngroup()
    added = cases.groupby(number)[["base_time_s", "head_time_s", "resolution_s", "flops"]].sum()
    firsts = cases[~number.duplicated()].reset_index(drop=True).assign(**{"pass": name}, **added)
    rounds = versions.rounds.assign(case=versions.rounds["case"].map(number)).dropna(subset="case")
    sums = rounds.astype({"case": "int64"}).groupby(["case", "round"])[["base_s", "head_s"]].sum(min_count=len(passes))
    return Versions(firsts, sums.reset_index(), versions.order)


def _keys(frame: pd.DataFrame) -> list[tuple[object, ...]]:
    return list(frame[[*CASE]].itertuples(index=False, name=None))


def _logs(rounds: pd.DataFrame, values: "pd.Series[float]", cases: int) -> Floats:
    """[cases, rounds] of ln of `values`, one for each row of `rounds`; NaN where one is missing."""
    numbers, position = np.unique(rounds["round"].to_numpy(), return_inverse=True)
    found = np.full((cases, len(numbers)), np.nan)
    found[rounds["case"].to_numpy(), position] = np.log(values.to_numpy())
    return found

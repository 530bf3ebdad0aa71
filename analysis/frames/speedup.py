"""Time ratios to a baseline, paired by round: providers of one problem alternate within a round, so drift cancels.

Every ratio is time(baseline) / time(provider): above 1 the provider is faster.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.typing import DataFrameGroupBy

from ...shapes.verdict import Verdict
from ..statistics.intervals import mean_interval
from .coordinates import COORDINATES, GEMM, METHOD, SETTING
from .notes import MIXED, disturbed

IMPOSSIBLE = "faster than the device allows, so that its time decides nothing"
"""Why a cell with a time enters no comparison."""

ALIKE = ("timer", "cold_by")
"""What both sides of a ratio must have in common besides their coordinates."""

_CARRIED = ("cell_id", "suite", *COORDINATES, "provider", "role")


def speedups(summary: pd.DataFrame, rounds: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Return one row per cell of every other provider, in the order of `summary`.

    `summary` and `rounds` come from `summarize` and `round_medians`. Columns, besides identity:

    baseline, baseline_cell_id, time_s, baseline_time_s
    log_ratio, log_se               mean over the common rounds of ln ratio, and its standard error (`intervals`)
    ratio, ratio_low, ratio_high    exp of it and of its 95 % interval, with half a step of a coarse timer for each side
    rounds                          number of common rounds
    verdict                         faster, slower, undecided (the interval covers 1, or one round gave none), or ""
    reason                          why there is no ratio, or no interval
    note                            what qualifies a ratio: other tuning, a disturbed side

    A side whose time is impossible has no ratio, so that nothing that is taken from ratios rests on it.
    Sides that were timed by different timers, or made cold in different ways, have no ratio: the reason says so. A
    tuned side against one at its defaults has one, because not every provider has anything to tune: the note says so.
    """
    others = summary.loc[summary["provider"] != baseline]
    partners = summary.loc[summary["provider"] == baseline, [*COORDINATES, *_PARTNER]].rename(columns=_PARTNER)
    pairs = others[[*_CARRIED, *(name for name in _PARTNER if name != "cell_id")]].merge(
        partners, on=list(COORDINATES), how="left", validate="many_to_one"
    )
    pairs["baseline"] = baseline
    passed = (pairs["verdict"] == Verdict.PASSED) & (pairs["baseline_verdict"] == Verdict.PASSED)
    possible = ~pairs["impossible"] & ~pairs["baseline_impossible"].eq(True)
    ratios = _by_round(pairs.loc[passed & possible & _alike(pairs)], rounds)
    pairs = pairs.join(ratios, on="cell_id")
    pairs["rounds"] = pairs["rounds"].fillna(0).astype("int64")
    steps = (pairs["resolution_s"] / pairs["time_s"]).fillna(0) / 2
    steps += (pairs["baseline_resolution_s"] / pairs["baseline_time_s"]).fillna(0) / 2
    pairs["ratio"] = np.exp(pairs["log_ratio"])
    pairs["ratio_low"] = np.exp(pairs["log_low"] - steps)
    pairs["ratio_high"] = np.exp(pairs["log_high"] + steps)
    rows = list(pairs.itertuples(index=False))  # what is of a baseline that was not measured is NaN
    pairs["reason"] = [_reason(row, baseline) for row in rows]
    pairs["note"] = [_note(row, baseline) for row in rows]
    pairs["note"] = pairs["note"].where(pairs["ratio"].notna(), "")
    faster, slower = pairs["ratio_low"] > 1, pairs["ratio_high"] < 1
    pairs["verdict"] = np.select([pairs["ratio"].isna(), faster, slower], ["", "faster", "slower"], "undecided")
    return pairs[[*_COLUMNS]]


def geometric_means(ratios: pd.DataFrame, by: Sequence[str] = ("provider", "baseline", *SETTING, "M")) -> pd.DataFrame:
    """Geometric mean of `ratio` per group of `by`, over distinct GEMMs: a GEMM under two model names is one vote.

    Columns: by, ratio, ratio_low, ratio_high, ratio_min, ratio_max, gemms (in the mean), cells (with a ratio), excluded
    (cells without one: a side failed, is missing or has an impossible time). A group without any ratio keeps its row,
    with an empty ratio.

    ratio_low and ratio_high are the geometric means of the bounds of the ratios, as if their errors were one: at least
    as wide as a 95 % interval of the mean, whatever the cells of a run have in common. NaN where a ratio has no bounds.
    """
    keys = list(by)
    counts = ratios.groupby(keys, sort=False).agg(cells=("log_ratio", "count"), rows=("log_ratio", "size"))
    identity = list(dict.fromkeys([*keys, *GEMM]))
    known = ratios.dropna(subset=["log_ratio"])
    known = known.assign(low=np.log(known["ratio_low"]), high=np.log(known["ratio_high"]))
    votes = _means_of_all(known.groupby(identity, sort=False)[["log_ratio", "low", "high"]]).reset_index()
    means = votes.groupby(keys, sort=False)["log_ratio"].agg(["mean", "min", "max", "size"])
    bounds = _means_of_all(votes.groupby(keys, sort=False)[["low", "high"]])
    joined = counts.join(means).join(bounds)
    return pd.DataFrame(
        {
            "ratio": np.exp(joined["mean"]),
            "ratio_low": np.exp(joined["low"]),
            "ratio_high": np.exp(joined["high"]),
            "ratio_min": np.exp(joined["min"]),
            "ratio_max": np.exp(joined["max"]),
            "gemms": joined["size"].fillna(0).astype("int64"),
            "cells": joined["cells"],
            "excluded": joined["rows"] - joined["cells"],
        }
    ).reset_index()


def _means_of_all(groups: "DataFrameGroupBy[Any, Any]") -> pd.DataFrame:
    """Mean of every column per group, NaN when any value is."""
    return groups.mean().where(groups.count().eq(groups.size(), axis=0))


def best_speedups(ratios: pd.DataFrame, by: Sequence[str] = ("provider", "baseline")) -> pd.DataFrame:
    """The best ratio of each group with all its coordinates: the "up to 44.8x (fp32, small GQA k/v, M=1)".

    A verified win beats a larger ratio that is not one. Among verified wins the largest LOWER bound is the best: the
    largest of many noisy ratios is mostly noise. Groups without any ratio have no row.
    """
    known = ratios.dropna(subset=["ratio"]).assign(verified=lambda frame: frame["verdict"] == "faster")
    ranked = known.sort_values(["verified", "ratio_low", "ratio"], ascending=False, kind="stable")
    return ranked.drop_duplicates(list(by)).sort_index().drop(columns="verified").reset_index(drop=True)


def one_cache(ratios: pd.DataFrame, providers: Sequence[str]) -> pd.DataFrame:
    """Return the rows of `providers` that have a ratio, in one cache state: cold unless only another was measured."""
    known = ratios[ratios["provider"].isin(providers) & ratios["ratio"].notna()]
    states = sorted(known["cache"].unique(), key=lambda cache: cache != "cold")
    return known[known["cache"].isin(states[:1])]


def by_wins(ratios: pd.DataFrame, providers: Sequence[str]) -> tuple[str, ...]:
    """Order `providers` by what `speedups` says of them, in one cache state; those without a ratio are last.

    One wins a problem where it is the fastest of them and verified to be faster than the baseline. Among equals, the
    larger geometric mean is first.
    """
    known = one_cache(ratios, providers).drop_duplicates(["provider", *GEMM])
    fastest = known.loc[known.groupby([*GEMM], sort=False)["log_ratio"].idxmax()]
    wins = fastest.loc[fastest["verdict"] == "faster", "provider"].value_counts()
    means = known.groupby("provider")["log_ratio"].mean()
    return tuple(sorted(providers, key=lambda name: (-wins.get(name, 0), -means.get(name, -np.inf))))


_PARTNER = {
    name: f"baseline_{name}"
    for name in ("cell_id", "verdict", "reason", "time_s", "resolution_s", "impossible", "disturbed", *METHOD)
}


_COLUMNS = (
    *_CARRIED,
    *("baseline", "baseline_cell_id", "time_s", "baseline_time_s", "log_ratio", "log_se"),
    *("ratio", "ratio_low", "ratio_high", "rounds", "verdict", "reason", "note"),
)


def _alike(pairs: pd.DataFrame) -> "pd.Series[bool]":
    """True where both sides were timed in the same way throughout."""
    alike = pd.Series(True, index=pairs.index)
    for name in ALIKE:
        alike &= (pairs[name] == pairs[_PARTNER[name]]) & (pairs[name] != MIXED)
    return alike


def _by_round(both: pd.DataFrame, rounds: pd.DataFrame) -> pd.DataFrame:
    """Per cell_id of `both`: log_ratio, log_se, log_low, log_high and rounds over the rounds that both sides have.

    Variance is borrowed among the cells of one provider, so that the interval of a ratio does not depend on who else is
    compared.
    """
    paired = _paired(both, rounds)
    return mean_interval(np.log(paired["ratio"]), paired["cell_id"], paired["provider"]).rename(
        columns={"mean": "log_ratio", "se": "log_se", "low": "log_low", "high": "log_high", "count": "rounds"}
    )


def _paired(both: pd.DataFrame, rounds: pd.DataFrame) -> pd.DataFrame:
    """Return cell_id, provider and ratio of each round that both sides have."""
    medians = rounds[["cell_id", "round", "median_s"]]
    own = both[["cell_id", "baseline_cell_id", "provider"]].merge(medians, on="cell_id")
    partner = medians.rename(columns={"cell_id": "baseline_cell_id", "median_s": "baseline_median_s"})
    paired = own.merge(partner, on=["baseline_cell_id", "round"])
    return paired.assign(ratio=paired["baseline_median_s"] / paired["median_s"])


def bands(ratios: pd.DataFrame, rounds: pd.DataFrame) -> pd.DataFrame:
    """Return low, high and rounds per cell_id: the least and the largest ratio of a common round, and their number.

    `ratios` comes from `speedups`, `rounds` from `summarize.round_medians`; cells without a ratio, or without a common
    round, are excluded.
    """
    groups = _paired(ratios.dropna(subset=["ratio"]), rounds).groupby("cell_id", sort=False)
    return groups.agg(low=("ratio", "min"), high=("ratio", "max"), rounds=("ratio", "size"))


def _reason(row: Any, baseline: str) -> str:
    """Say why there is no ratio, or no interval of it."""
    if row.verdict != Verdict.PASSED:
        return _because(row.verdict, row.reason)
    if not isinstance(row.baseline_verdict, str):
        return f"{baseline} was not measured here"
    if row.baseline_verdict != Verdict.PASSED:
        return f"{baseline} {_because(row.baseline_verdict, row.baseline_reason)}"
    if row.impossible:
        return IMPOSSIBLE
    if row.baseline_impossible:
        return f"{baseline} {IMPOSSIBLE}"
    for name in ALIKE:
        if getattr(row, name) != getattr(row, _PARTNER[name]) or getattr(row, name) == MIXED:
            return f"{_difference(name, row, baseline)}: measure both with one {name}"
    if row.rounds == 0:
        return f"no round in common with {baseline}"
    return "one common round: no interval" if row.rounds == 1 else ""


def _note(row: Any, baseline: str) -> str:
    """Say what qualifies a ratio."""
    notes = []
    if row.tuning != row.baseline_tuning:
        notes.append(f"{_difference('tuning', row, baseline)}: tune both to compare them at their best")
    sides = [text for text in (row.disturbed, row.baseline_disturbed) if isinstance(text, str) and text]
    if sides:
        notes.append(disturbed(f"it or {baseline}", *sides))
    return "; ".join(notes)


def _difference(name: str, row: Any, baseline: str) -> str:
    own, other = getattr(row, name), getattr(row, _PARTNER[name])
    return f"{name} differs: {own or 'unknown'} here, {other or 'unknown'} for {baseline}"


def _because(verdict: str, reason: str) -> str:
    return f"{verdict}: {reason}" if reason else f"{verdict}"

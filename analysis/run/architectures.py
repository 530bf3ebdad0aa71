"""Runs of one suite on several architectures, side by side: the results of their analyses joined, none computed anew.

A frame of this module has one row per case and, for every field, one column per architecture: `named("ratio", "sm90")`.
Nothing is ever averaged over architectures. What one of them has and another has not stays, with the reason.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from ...shapes.errors import UsageError
from ..crossover.curve import SIDES, CrossoverStatus, Region, bracket
from ..frames.coordinates import COORDINATES, SETTING, SHAPE
from ..frames.speedup import geometric_means
from .pipeline import Analysis

KEYS = (*COORDINATES, "provider")
"""What a cell of one architecture and one of another have in common to share a row."""

OUTCOME = (
    *("verdict", "reason", "time_s", "time_low_s", "time_high_s"),
    *("bound_class", "fraction_of_bound", "bound_note"),
)
"""Fields of `Analysis.cells` that are laid side by side; `fraction_of_bound` is the share of the roofline."""

GAINS = {
    "log_ratio": "log_ratio",
    "ratio": "ratio",
    "ratio_low": "ratio_low",
    "ratio_high": "ratio_high",
    "rounds": "rounds",
    "verdict": "speedup",
    "reason": "why",
    "note": "remark",
}
"""Column of `Analysis.speedups` -> the field that it becomes; the verdict and reason of the cell itself keep theirs."""

CROSSING = (
    *("status", "crossover_M", "low_M", "high_M", "regions", "undecided"),
    *("M_min", "M_max", "Ms", "missing", "warnings"),
)
"""Fields of `crossovers.crossovers` that are laid side by side."""

ABSENT = "absent"
"""First word of the reason why an architecture has no cell where another has one; the verdict is then ""."""

GROUP = ("provider", *SETTING, "M")
"""What one number over shapes is of."""


def named(field: str, architecture: str) -> str:
    """Name the column of a field of one architecture."""
    return f"{field}[{architecture}]"


def side_by_side(analyses: Mapping[str, Analysis]) -> pd.DataFrame:
    """Return one row per (shape, pass, dtype, scheme, cache, M, provider) that any architecture has a cell of.

    Columns: KEYS; then for each architecture, in the order of `analyses`, OUTCOME and the values of GAINS (`ratio` is
    time(baseline) / time(provider) on that architecture, NaN for the baseline itself). Where an architecture has no
    such cell, its verdict is "", its numbers are NaN, and its `reason` and `why` begin with ABSENT.

    Raises UsageError when the runs have different baselines: their speedups are then of different things.
    """
    baselines = {architecture: analysis.run.baseline for architecture, analysis in analyses.items()}
    if len(set(baselines.values())) > 1:
        named_all = ", ".join(f"{baseline} on {architecture}" for architecture, baseline in baselines.items())
        raise UsageError(f"the runs have different baselines ({named_all}): their speedups cannot stand side by side")
    frame = _every_key(analysis.cells for analysis in analyses.values())
    for architecture, analysis in analyses.items():
        gains = analysis.speedups[[*KEYS, *GAINS]].rename(columns=GAINS)
        own = analysis.cells[[*KEYS, *OUTCOME]].merge(gains, on=list(KEYS), how="left", validate="one_to_one")
        joined = frame[[*KEYS]].merge(own, on=list(KEYS), how="left", validate="one_to_one")
        absent = joined["verdict"].isna()
        joined[_TEXTS] = joined[_TEXTS].astype(object).fillna("")  # where there is none, it is no text yet
        joined["rounds"] = joined["rounds"].astype("float64").fillna(0).astype("int64")
        reasons = joined.loc[absent, "provider"].map(_absences(analysis, architecture, frame["provider"].unique()))
        joined.loc[absent, "reason"] = joined.loc[absent, "why"] = reasons
        columns = [str(name) for name in joined if name not in KEYS]
        frame = frame.assign(**{named(name, architecture): joined[name] for name in columns})
    return frame


def side(frame: pd.DataFrame, architecture: str) -> pd.DataFrame:
    """Return the keys and the columns of one architecture, under the plain names of their fields."""
    suffix = named("", architecture)
    names = list(map(str, frame))
    own = {name: name.removesuffix(suffix) for name in names if name.endswith(suffix)}
    keys = [name for name in names if "[" not in name]
    return frame[[*keys, *own]].rename(columns=own)


def crossovers_side_by_side(found: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return one row per (challenger, shape, pass, dtype, scheme, cache) that any architecture has a crossover row of.

    `found` has the frames of `crossovers.crossovers`. Columns: challenger, those of the place, and CROSSING of each
    architecture; its status is "" where it has no such row, and it has no regions there.
    """
    keys = ("challenger", *SHAPE, *SETTING)
    frame = _every_key(found.values(), keys)
    for architecture, own in found.items():
        joined = frame[[*keys]].merge(own[[*keys, *CROSSING]], on=list(keys), how="left", validate="one_to_one")
        joined["status"] = joined["status"].astype(object).fillna("")
        for name in ("regions", "undecided"):
            joined[name] = [found if isinstance(found, tuple) else () for found in joined[name]]
        places = ["crossover_M", "low_M", "high_M", "M_min", "M_max"]
        joined[places] = joined[places].astype("float64")  # nothing in them is of no type yet
        frame = frame.assign(**{named(name, architecture): joined[name] for name in CROSSING})
    return frame


def common_means(frame: pd.DataFrame, architectures: Sequence[str]) -> pd.DataFrame:
    """Geometric mean over shapes of `ratio` per architecture and GROUP, of the shapes that all architectures have.

    Means over different shapes do not compare, so a shape counts only where every architecture has a ratio of it. An
    architecture that has none in a group at all (the provider cannot run there, say) takes nothing from the others.
    Columns: architecture, those of `speedup.geometric_means`, and left_out: cells of this architecture with a ratio
    that are not in the mean. No row where an architecture has no ratio in common with the others.
    """
    known = {name: frame[named("ratio", name)].notna() for name in architectures}
    shared = _shared(frame, known)
    means = []
    for name in architectures:
        own = side(frame.loc[known[name] & shared], name)
        left_out = frame.loc[known[name] & ~shared].groupby([*GROUP], sort=False).size().rename("left_out")
        mean = geometric_means(own, GROUP).merge(left_out.reset_index(), on=list(GROUP), how="left")
        means.append(mean.assign(architecture=name, left_out=mean["left_out"].fillna(0).astype("int64")))
    return pd.concat(means, ignore_index=True)


def common_shares(frame: pd.DataFrame, architectures: Sequence[str]) -> pd.DataFrame:
    """Median over shapes of the share of the roofline per architecture and GROUP, of the shapes that all have.

    Shapes count as in `common_means`. Columns: architecture, GROUP, share (0 to 1), cells (in the median), left_out.
    """
    known = {name: frame[named("fraction_of_bound", name)].notna() for name in architectures}
    shared = _shared(frame, known)
    shares = []
    for name in architectures:
        groups = side(frame.loc[known[name]].assign(shared=shared), name)
        inside = groups.loc[groups["shared"]].groupby([*GROUP], sort=False)["fraction_of_bound"]
        found = inside.agg(share="median", cells="size").reset_index()
        sizes = groups.groupby([*GROUP], sort=False).size().rename("all").reset_index()
        found = found.merge(sizes, on=list(GROUP), how="left")
        shares.append(found.assign(architecture=name, left_out=found["all"] - found["cells"]).drop(columns="all"))
    return pd.concat(shares, ignore_index=True)


def agreement(frame: pd.DataFrame, architectures: Sequence[str]) -> "pd.Series[str]":
    """Say of each row whether the architectures agree on who is faster, provider or baseline.

    "faster" and "slower": verified so wherever there is a ratio; "reversed": verified faster on one and slower on
    another; "undecided": the rest; "" where fewer than two architectures have a ratio.
    """
    verdicts = frame[[named("speedup", name) for name in architectures]]
    ratios = (verdicts != "").sum(axis=1)
    faster, slower = ((verdicts == word).sum(axis=1) for word in ("faster", "slower"))
    words = np.select(
        [ratios < 2, (faster > 0) & (slower > 0), faster == ratios, slower == ratios],
        ["", "reversed", "faster", "slower"],
        "undecided",
    )
    return pd.Series(words, index=frame.index)


def reversals(frame: pd.DataFrame, architectures: Sequence[str]) -> pd.DataFrame:
    """Return the rows in which a provider is verified faster than the baseline somewhere and slower elsewhere.

    Added: `contrast`, the largest lower bound of a ratio where it wins over the smallest upper bound where it loses:
    by at least so much its standing differs. Largest contrast first.
    """
    rows = frame.loc[agreement(frame, architectures) == "reversed"]
    wins = pd.DataFrame(
        {a: rows[named("ratio_low", a)].where(rows[named("speedup", a)] == "faster") for a in architectures}
    )
    losses = pd.DataFrame(
        {a: rows[named("ratio_high", a)].where(rows[named("speedup", a)] == "slower") for a in architectures}
    )
    found = rows.assign(contrast=wins.max(axis=1) / losses.min(axis=1))
    return found.sort_values("contrast", ascending=False, kind="stable").reset_index(drop=True)


def crossings_apart(crossings: pd.DataFrame, architectures: Sequence[str]) -> "pd.Series[bool]":
    """True where two architectures cross between M that do not overlap, the challenger being faster on the same side.

    An architecture on which only one of the two is verified faster crosses beyond the M where it is.
    """
    regions = crossings[[named("regions", name) for name in architectures]].itertuples(index=False, name=None)
    return pd.Series([any(_are_apart(row, side) for side in SIDES) for row in regions], crossings.index, dtype=bool)


def _are_apart(regions: Sequence[Sequence[Region]], side: CrossoverStatus) -> bool:
    """True where all regions allow a crossover to that side, and some two of them none at the same M."""
    found = [bracket(own, side) for own in regions if own]
    ends = [one for one in found if one]
    return len(ends) == len(found) > 1 and max(low for low, _ in ends) >= min(high for _, high in ends)


_TEXTS = ["verdict", "reason", "bound_class", "bound_note", "speedup", "why", "remark"]


def _every_key(frames: Iterable[pd.DataFrame], keys: Sequence[str] = KEYS) -> pd.DataFrame:
    """Keys of all frames, each once, in the order of the first that has it."""
    filled = [frame[[*keys]] for frame in frames if len(frame)]
    if not filled:
        return pd.DataFrame(columns=list(keys))
    return pd.concat(filled, ignore_index=True).drop_duplicates(ignore_index=True)


def _absences(analysis: Analysis, architecture: str, providers: Iterable[str]) -> dict[str, str]:
    """Say per provider why a cell of it is not in the run of an architecture."""
    present = set(analysis.cells["provider"])
    missing = analysis.coverage.rounds_to_do
    still = f"; {missing} of its planned rounds are missing" if missing else ""
    return {
        name: f"{ABSENT}: the run on {architecture} has no such cell{still}"
        if name in present
        else f"{ABSENT}: {name} has no cell in the run on {architecture}{still}"
        for name in providers
    }


def _shared(frame: pd.DataFrame, known: Mapping[str, "pd.Series[bool]"]) -> "pd.Series[bool]":
    """True in the rows that count: every architecture that is known anywhere in the group of a row is known in it."""
    groups = [frame[name] for name in GROUP]
    shared = pd.Series(True, index=frame.index)
    for own in known.values():
        shared &= own | ~own.groupby(groups, sort=False).transform("any")
    return shared

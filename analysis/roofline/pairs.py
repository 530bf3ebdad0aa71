"""The same cell cold and warm, each against the roof of the level that its operands are in."""

import numpy as np
import pandas as pd

from ...shapes.verdict import Verdict
from ..frames.coordinates import COORDINATES, SETTING
from ..frames.notes import MIXED
from ..frames.speedup import IMPOSSIBLE
from .bounds import Bound

KEYS = (*(name for name in COORDINATES if name != "cache"), "provider")
"""What both states of a pair have in common."""

ALIKE = ("timer", "tuning")
"""How both must have been measured, for their times to be compared."""

TAKEN = {
    "cell_id": "cell_id",
    "time_s": "time_s",
    "time_low_s": "low_s",
    "time_high_s": "high_s",
    "memory_level": "level",
    "bound_time_s": "bound_s",
    "fraction_of_bound": "fraction",
    "bound_class": "class",
}
"""Column of a placed cell -> its name behind cold_ and warm_."""


def pairs(placed: pd.DataFrame) -> pd.DataFrame:
    """Return one row per cell that has a time in both cache states, in the order of the cold ones.

    Columns: `KEYS` and role; of each state (cold_, warm_) what `TAKEN` names: times in seconds, the memory level, the
    bound and its fraction on that level's own roof, the class. Then

    ratio           cold over warm; NaN where timer or tuning differ, or a time is impossible (reason says so)
    cost_s          cold less warm: what it costs that nothing is in a cache
    roof_ratio      cold bound over warm bound: the ratio that the roofs alone predict
    told_apart      the intervals of both times are known and do not overlap
    reason          why there is no ratio, or why none is to be expected; ""
    """
    has_time = placed["verdict"] == Verdict.PASSED
    sides = {cache: placed.loc[has_time & (placed["cache"] == cache)] for cache in ("cold", "warm")}
    taken = {name: name for name in ALIKE} | TAKEN
    cold = sides["cold"][[*KEYS, "role", *taken]].rename(columns={old: f"cold_{new}" for old, new in taken.items()})
    warm = sides["warm"][[*KEYS, *taken]].rename(columns={old: f"warm_{new}" for old, new in taken.items()})
    found = cold.merge(warm, on=[*KEYS], how="inner", validate="one_to_one")
    reasons = np.full(len(found), "", dtype=object)
    same_level = found["warm_level"] == "dram"
    reasons[same_level.to_numpy()] = "does not fit in a cache: warm reads from memory as well"
    for name in ALIKE:
        differs = (found[f"cold_{name}"] != found[f"warm_{name}"]) | (found[f"cold_{name}"] == MIXED)
        reasons[differs.to_numpy()] = f"measured with a different {name}: use one for both"
    too_fast = (found[["cold_class", "warm_class"]] == Bound.IMPOSSIBLE).any(axis=1)
    reasons[too_fast.to_numpy()] = f"one of both is {IMPOSSIBLE}"
    comparable = ~pd.Series(reasons, index=found.index, dtype="str").str.startswith("measured") & ~too_fast
    apart = (found["cold_low_s"] > found["warm_high_s"]) | (found["warm_low_s"] > found["cold_high_s"])
    return found.assign(
        ratio=(found["cold_time_s"] / found["warm_time_s"]).where(comparable),
        cost_s=(found["cold_time_s"] - found["warm_time_s"]).where(comparable),
        roof_ratio=found["cold_bound_s"] / found["warm_bound_s"],
        told_apart=apart & comparable,
        reason=[str(reason) for reason in reasons],
    )


def pair_means(found: pd.DataFrame) -> pd.DataFrame:
    """What cold costs each provider: setting but cache, provider, warm_level, pairs, ratio and roof_ratio (geometric
    means over pairs that have both), and cold_fraction and warm_fraction (geometric means, NaN where one is unknown).
    """
    by = [*(name for name in SETTING if name != "cache"), "provider", "warm_level"]
    names = ["ratio", "roof_ratio", "cold_fraction", "warm_fraction"]
    known = found.dropna(subset=["ratio", "roof_ratio"])
    logs = known[by].assign(**{name: np.log(known[name]) for name in names})
    groups = logs.groupby(by, sort=False)
    means = groups[names].mean()
    means = means.assign(**{name: np.exp(means[name]) for name in names}, pairs=groups.size())
    return means.reset_index()[[*by, "pairs", *names]]

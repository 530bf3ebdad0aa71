"""Decisions that differ between two ways to dispatch: what a reviewer of a new table wants to see."""

import numpy as np
import pandas as pd

from ...shapes.errors import UsageError, quote
from ..statistics.arrays import Ints, moments
from ..statistics.intervals import CONFIDENCE, quantile
from ..statistics.moderation import moderate
from .fit import oracle
from .policy import choices
from .study import Study
from .timings import Timings

COLUMNS = ("label", "op", "pass", "dtype", "scheme", "B", "E", "top_k", "M", "N", "K")


def changes(timings: Timings, before: Ints, after: Ints) -> pd.DataFrame:
    """Return the cases whose arm differs, those that save the most time per launch first.

    `before` and `after` are indices of arms [C]. Columns: COLUMNS, before, after, speedup = t_before / t_after with
    speedup_low and speedup_high (95 % over rounds; NaN with a single one), saved_s per launch, weight. Where one of the
    two has no time, they are NaN, and the case comes last.
    """
    rows = np.flatnonzero(before != after)
    was, now = before[rows], after[rows]
    gain = timings.log_ratio[rows, was] - timings.log_ratio[rows, now]
    mean, variance, freedom, rounds = moments(gain)
    moderated = moderate(variance, freedom)
    half = quantile((1 + CONFIDENCE) / 2, moderated.freedom) * np.sqrt(moderated.variance / np.maximum(rounds, 1))
    found = timings.cases.loc[rows, [*COLUMNS]].assign(
        before=np.array(timings.arms, dtype=object)[was],
        after=np.array(timings.arms, dtype=object)[now],
        speedup=np.exp(mean),
        speedup_low=np.exp(mean - half),
        speedup_high=np.exp(mean + half),
        saved_s=timings.time_s[rows, was] - timings.time_s[rows, now],
        weight=timings.weights[rows],
    )
    return found.sort_values("saved_s", ascending=False, kind="stable", na_position="last").reset_index(drop=True)


def chosen_by(study: Study, name: str) -> Ints:
    """Index of the arm that each case [C] gets from `name`.

    That is an arm (which then always runs), a fitted policy, the oracle, or a provider with a rule of its own. Raises
    UsageError for other names, and for a rule that dispatched to anything but arms.
    """
    table = study.timings
    if name in table.arms:
        return np.full(len(table.cases), table.arms.index(name), dtype=np.int64)
    if any(one.name == name and one.policy for one in study.scored):
        return choices(study.policy(name), table)
    if name == "oracle":
        return oracle(table)
    if name in table.rules:
        kernels = [word.partition(":")[0].strip() for word in table.rules[name][1]]  # what follows is the reason
        if unknown := [kernel or "nothing" for kernel in dict.fromkeys(kernels) if kernel not in table.arms]:
            raise UsageError(
                f"{name} dispatched to {', '.join(unknown)}, and only {', '.join(table.arms)} were compared: "
                "name one of these, or a file of --emit json"
            )
        return np.array([table.arms.index(kernel) for kernel in kernels], dtype=np.int64)
    names = [*table.arms, *table.rules, *(one.name for one in study.scored if one.policy)]
    raise UsageError(f"no decisions of {quote(name)}: name a file of --emit json, or one of {', '.join(names)}")

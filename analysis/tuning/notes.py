"""What a reader of a tuned table must be told beside its winners: what disturbed the searches, and what failed."""

import re
from collections import Counter
from typing import NamedTuple

import pandas as pd

from ...shapes.run_folder.disturbance import worst
from ...shapes.verdict import Verdict
from .searches import CELL, canonical

SEARCH = ["cell_id", "search"]
"""Columns that name one search."""

WHOLE_CELL = ("{}", "")
"""Configuration of a row that speaks for all configurations of its cell."""

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")


class Disturbed(NamedTuple):
    """How many of the searches something disturbed, and the worst of each kind of cause ("" for none)."""

    searches: int
    of: int
    worst: str


def disturbed(frame: pd.DataFrame) -> Disturbed:
    """Sum up the `disturbed` of tuning.csv: a search is disturbed when one of its candidates is."""
    rows = frame.loc[frame["disturbed"] != ""]
    touched, everyone = (len(some[SEARCH].drop_duplicates()) for some in (rows, frame))
    return Disturbed(touched, everyone, worst(rows["disturbed"]))


def whole_searches(frame: pd.DataFrame) -> int | None:
    """Count the searches of tuning.csv; None when one of them lacks some of its rows."""
    sizes = frame.groupby(SEARCH)["candidates"].agg(["size", "first"])
    return len(sizes) if (sizes["size"] == sizes["first"]).all() else None


def failures(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one row per provider, configuration and verdict other than passed, in the order of the table.

    Columns: provider; config (canonical JSON); verdict; failed and searches (in how many of those that tried it, or of
    all of the provider's where the cell failed as a whole); reason (the first); others (further reasons that differ in
    more than their numbers).
    """
    rows = canonical(frame)
    tried = Counter(zip(rows["provider"], rows["config"], strict=True))
    searches = Counter(rows[["provider", *SEARCH]].drop_duplicates()["provider"])
    failed = rows.loc[rows["verdict"] != Verdict.PASSED]
    found = []
    for key, group in failed.groupby(["provider", "config", "verdict"], sort=False):
        provider, config, verdict = map(str, key)
        kinds = group["reason"].map(lambda reason: _NUMBER.sub("#", reason))
        found.append(
            {
                "provider": provider,
                "config": config,
                "verdict": verdict,
                "failed": len(group),
                "searches": searches[provider] if config in WHOLE_CELL else tried[provider, config],
                "reason": group["reason"].iloc[0],
                "others": kinds.nunique() - 1,
            }
        )
    return pd.DataFrame(found, columns=["provider", "config", "verdict", "failed", "searches", "reason", "others"])


def why_no_drift(frame: pd.DataFrame) -> str:
    """Say why no two searches of one cell can be compared."""
    if not frame["winner"].any():
        return "no cell has a winner"
    per_cell = frame[[*CELL, *SEARCH]].drop_duplicates().groupby(list(CELL)).size()
    if (per_cell > 1).any():
        return "no cell has a winner in two searches"
    return "no cell was searched twice: --searches 2 tells how far a choice can be relied on"

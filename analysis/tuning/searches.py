"""What searches found: what tuning gains over the default, and how often two searches of one cell disagree.

A search is one (cell_id, search) of `tuning.csv`. Two are of the same cell when they agree in `CELL` (problem, scheme,
provider and its source, cache state, kind of device). Costs and gains are differences of ln time, so that means are
geometric.
"""

import json
import re
from collections import Counter
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from ...shapes.run_folder.disturbance import worst
from ...shapes.verdict import Verdict
from ..frames.tables import flat_settings

CELL = (
    *("arch", "compute_units", "op", "pass", "B", "E", "top_k", "M", "N", "K"),
    *("dtype", "scheme", "provider", "cache", "source"),
)
"""Columns that say what was tuned."""


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Disagreement of searches over `cells` cells that were searched twice or more.

    A cell flips when two of its searches chose different configurations. What a flip costs in one of the two is
    ln(time of the other search's winner / time of the search's own winner), both timed in that search, and nothing
    where the other's winner was faster there: a default that is not proven slower stays. That makes two costs for each
    pair of searches, of which `median_cost` and `worst_cost` are told: None without a flip that has a cost.

    Of the flipped cells, `harmless` ones are between near ties: in neither search was the other's winner proven slower.
    In `opposed` ones each of two searches finds its own winner faster than the other's.
    """

    cells: int
    flipped: int
    harmless: int
    opposed: int
    median_cost: float | None
    worst_cost: float | None

    @property
    def flip_share(self) -> float | None:
        """Share of the cells that flip; None without a cell."""
        return self.flipped / self.cells if self.cells else None


def drift(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one row per cell and pair of its searches that both have a winner; `frame` is tuning.csv.

    Columns: CELL, first, second (the numbers of the searches), first_config, second_config, flipped; cost_first,
    cost_second: what the other search's winner costs in the first and in the second search, never below 0 (NaN: no
    time there, or no flip); harmless; opposed (both costs are above 0).
    """
    found: list[dict[str, object]] = []
    for cell, group in canonical(frame).groupby(list(CELL), sort=False):
        searches = _searches(group)
        for a, b in combinations([one for one in searches if one.winner is not None], 2):
            flipped = a.winner != b.winner
            costs = (a.cost(b.winner), b.cost(a.winner)) if flipped else (np.nan, np.nan)
            found.append(
                dict(zip(CELL, cell, strict=True))
                | {"first": a.number, "second": b.number, "first_config": a.winner, "second_config": b.winner}
                | {"flipped": flipped, "cost_first": costs[0], "cost_second": costs[1]}
                | {"harmless": flipped and b.winner in a.near and a.winner in b.near}
                | {"opposed": all(cost > 0 for cost in costs)}
            )
    return pd.DataFrame(found, columns=[*CELL, *_DRIFT])


_DRIFT = (
    *("first", "second", "first_config", "second_config"),
    *("flipped", "cost_first", "cost_second", "harmless", "opposed"),
)


def summarize_drift(pairs: pd.DataFrame) -> Disagreement:
    """Sum `drift` up over cells: one cell is one vote, however many pairs of searches it has."""
    flips = pairs.loc[pairs["flipped"].astype(bool)]
    known = pd.concat([flips["cost_first"], flips["cost_second"]]).astype(float).dropna()
    per_cell = flips.groupby(list(CELL), sort=False).agg({"harmless": "all", "opposed": "any"})
    return Disagreement(
        cells=len(pairs[list(CELL)].drop_duplicates()),
        flipped=len(per_cell),
        harmless=int(per_cell["harmless"].sum()),
        opposed=int(per_cell["opposed"].sum()),
        median_cost=float(known.median()) if len(known) else None,
        worst_cost=float(known.max()) if len(known) else None,
    )


def gain(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one row per provider: what its searches cost, and what they gain over the default.

    Columns: provider, cells (with a winner), failed (cells whose every candidate failed in every search), unsupported
    (cells), searches, tried (configurations, over all searches), seconds, changed (searches that did not choose the
    default), near_ties (runners-up not proven slower, over all searches);
    gain          geometric mean over cells of time of the default / time of the winner, both of the same search; 1 or
                  more except for near ties, and flattered: the winner was chosen by these very times
    gain_checked  the same with the winner of each OTHER search of the cell: what a stored table gains when it is used;
                  NaN where no cell was searched twice
    excluded      cells with a winner whose default has no time, which are in neither mean
    """
    rows = canonical(frame)
    found = []
    for provider, own_rows in rows.groupby("provider", sort=False):
        cells = [_searches(group) for _, group in own_rows.groupby(list(CELL), sort=False)]
        won = [[one for one in searches if one.winner is not None] for searches in cells]
        own = [[-one.over_default(one.winner) for one in searches] for searches in won]
        others = [
            [-one.over_default(other.winner) for one in searches for other in searches if other is not one]
            for searches in won
        ]
        unsupported = sum(all(one.is_unsupported for one in searches) for searches in cells)
        everyone = [one for searches in cells for one in searches]
        found.append(
            {
                "provider": provider,
                "cells": sum(bool(searches) for searches in won),
                "failed": sum(not winners for winners in won) - unsupported,
                "unsupported": unsupported,
                "searches": len(everyone),
                "tried": int((own_rows["verdict"] != Verdict.UNSUPPORTED).sum()),
                "seconds": sum(one.seconds for one in everyone),
                "changed": sum(one.winner is not None and one.winner != one.default for one in everyone),
                "near_ties": int(own_rows["near_tie"].sum()),
                "gain": _geometric(own),
                "gain_checked": _geometric(others),
                "excluded": sum(bool(logs) and not any(np.isfinite(logs)) for logs in own),
            }
        )
    return pd.DataFrame(found)


def hits(frame: pd.DataFrame) -> pd.DataFrame:
    """Return how often searches chose each value of the options that their candidates vary.

    Columns: provider; option (`dgrad.BLOCK_M` of an option inside another); value ("" where the winner has none); hits
    and searches (of this provider that have a winner). Most hits first.
    """
    found = []
    for provider, rows in frame.loc[frame["verdict"] == Verdict.PASSED].groupby("provider", sort=False):
        configs = {
            text: {name: str(value) for name, value in flat_settings(json.loads(text or "{}"))}
            for text in rows["config"].unique()
        }
        winners = [configs[text] for text in rows.loc[rows["winner"].astype(bool), "config"]]
        for option in dict.fromkeys(name for config in configs.values() for name in config):
            if len({config.get(option, "") for config in configs.values()}) > 1:
                chosen = Counter(config.get(option, "") for config in winners)
                found += [(provider, option, value, count, len(winners)) for value, count in chosen.most_common()]
    return pd.DataFrame(found, columns=["provider", "option", "value", "hits", "searches"])


class _Searched:
    """One search: time of each configuration, the winner and the default as canonical texts."""

    def __init__(self, rows: pd.DataFrame) -> None:
        self.number = int(rows["search"].iloc[0])
        self.is_unsupported = bool((rows["verdict"] == Verdict.UNSUPPORTED).all())
        timed = rows.dropna(subset=["time_s"])
        self.times: dict[str, float] = dict(zip(timed["config"], timed["time_s"].astype(float), strict=True))
        winners = rows.loc[rows["winner"].astype(bool), "config"]
        self.winner: str | None = str(winners.iloc[0]) if len(winners) else None
        near = set(rows.loc[rows["near_tie"].astype(bool), "config"])
        self.near: set[str] = near | {self.winner} if self.winner is not None else near
        defaults = rows.loc[rows["candidate"] == 0, "config"]
        self.default: str | None = str(defaults.iloc[0]) if len(defaults) else None
        seconds = rows["search_s"].dropna()
        self.seconds = float(seconds.iloc[0]) if len(seconds) else 0.0

    def cost(self, config: str | None) -> float:
        """Return what taking `config` costs in this search: ln(its time / time of the winner), 0 where it is faster.

        NaN when one of them has no time here.
        """
        cost = self._log_ratio(config, self.winner)
        return cost if np.isnan(cost) else max(0.0, cost)

    def over_default(self, config: str | None) -> float:
        """Return ln(time of `config` / time of the default) in this search; NaN when one has no time here."""
        return self._log_ratio(config, self.default)

    def _log_ratio(self, config: str | None, other: str | None) -> float:
        times = [self.times.get(name) if name is not None else None for name in (config, other)]
        return float(np.log(times[0] / times[1])) if times[0] and times[1] else np.nan


def _searches(rows: pd.DataFrame) -> list[_Searched]:
    return [_Searched(one) for _, one in rows.groupby(SEARCH, sort=False)]


def _geometric(logs_by_cell: list[list[float]]) -> float:
    """Geometric mean over cells of the mean of each; NaN without a value."""
    known = [[value for value in logs if np.isfinite(value)] for logs in logs_by_cell]
    means = [float(np.mean(logs)) for logs in known if logs]
    return float(np.exp(np.mean(means))) if means else np.nan


def canonical(frame: pd.DataFrame) -> pd.DataFrame:
    """Give equal configurations equal texts: tuning.csv with its `config` as canonical JSON."""
    texts = {text: json.dumps(json.loads(text), sort_keys=True) if text else "" for text in frame["config"].unique()}
    return frame.assign(config=frame["config"].map(texts))


SEARCH = ["cell_id", "search"]
"""Columns that name one search."""

WHOLE_CELL = ("{}", "")
"""Configuration of a row that speaks for all configurations of its cell."""

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def disturbed(frame: pd.DataFrame) -> dict[str, Any]:
    """Sum up the `disturbed` of tuning.csv: a search is disturbed when one of its candidates is.

    searches of how many (`of`), and the worst of each kind of cause ("" for none).
    """
    rows = frame.loc[frame["disturbed"] != ""]
    touched, everyone = (len(some[SEARCH].drop_duplicates()) for some in (rows, frame))
    return {"searches": touched, "of": everyone, "worst": worst(rows["disturbed"])}


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
    return "no cell was searched twice: --searches 2 shows how reliable a choice is"

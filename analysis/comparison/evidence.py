"""What the versions ran: whether their compiled code differs, which settings they chose, and what choosing cost."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pandas as pd

from ...shapes.files.json_file import parse_value
from ..frames.notes import MIXED
from ..frames.tables import flat_settings
from .breakdown import compared
from .effects import Effects


def binaries(effects: Effects) -> list[dict[str, Any]]:
    """One entry per provider and pass of the compared cases that has compiled code anywhere.

    same, other  cases with the same or other compiled code in both versions, among `cases`
    unknown      no hash of the code in a version, or several over its rounds
    configured   cases with the same configuration in both
    base, head   distinct binaries in each version
    """
    found = []
    for place, rows in _places(effects):
        known = ~rows["base_artifact"].isin(["", MIXED]) & ~rows["head_artifact"].isin(["", MIXED])
        same = known & (rows["base_artifact"] == rows["head_artifact"])
        counts = {"same": same, "other": known & ~same, "unknown": ~known}
        counts["configured"] = rows["base_config"] == rows["head_config"]
        distinct = {side: rows.loc[known, f"{side}_artifact"].nunique() for side in ("base", "head")}
        if known.any():
            sums = {name: int(one.sum()) for name, one in counts.items()}
            found.append(place | {"cases": len(rows)} | sums | distinct)
    return found


def _places(effects: Effects) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """Yield each provider and pass with its compared cases."""
    for (provider, pass_), rows in compared(effects).groupby(["provider", "pass"], sort=False):
        yield {"provider": str(provider), "pass": str(pass_)}, rows


def settings(effects: Effects) -> list[dict[str, Any]]:
    """Settings, in the order of configurations, that `base` and `head` chose in different numbers of `cases`.

    One entry per provider, pass and setting.
    """
    found = []
    for place, rows in _places(effects):
        sides = {side: _counted(rows, side) for side in ("base", "head")}
        for name in sorted({*sides["base"], *sides["head"]}, key=_natural):
            counts = {side: counter[name] for side, counter in sides.items()}
            if counts["base"] != counts["head"]:
                found.append(place | {"setting": name, "cases": len(rows)} | counts)
    return found


def _counted(cases: pd.DataFrame, side: str) -> Counter[str]:
    return Counter(name for text in cases[f"{side}_config"] if text not in ("", MIXED) for name in settings_of(text))


def settings_of(text: str) -> Iterator[str]:
    """Yield "BLOCK_M=16", "wgrad.num_warps=4" of a configuration as it is stored; nothing of what is none."""
    try:
        content = parse_value(text)
    except ValueError:
        return
    if isinstance(content, dict):
        yield from (f"{name}={value}" for name, value in flat_settings(content))


def _natural(name: str) -> tuple[str, int, str]:
    """Order of settings: by name, and numbers by their value."""
    key, _, value = name.partition("=")
    return key, int(value) if value.lstrip("-").isdigit() else 0, value


class SearchCost(NamedTuple):
    """Searches of one version: the most `candidates` that one had, how many there were, their wall time together."""

    candidates: int
    searches: int
    seconds: float


def costs(searched: Mapping[str, pd.DataFrame]) -> dict[tuple[str, str], dict[str, SearchCost]]:
    """Costs per (provider, pass) and side, of tuning.csv by side; sides without a search are excluded."""
    found: dict[tuple[str, str], dict[str, SearchCost]] = {}
    for side, frame in searched.items():
        for (provider, pass_), rows in frame.groupby(["provider", "pass"], sort=False):
            searches = rows.drop_duplicates(["cell_id", "search"])
            seconds = float(searches["search_s"].sum(min_count=1))
            cost = SearchCost(int(searches["candidates"].max()), len(searches), seconds)
            found.setdefault((str(provider), str(pass_)), {})[side] = cost
    return found

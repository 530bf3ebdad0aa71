"""What finding the configurations cost in each version: candidates per search and wall time."""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True, slots=True)
class Cost:
    """Searches of one provider and pass in one version.

    candidates  most configurations that one search had; searches  how many; seconds  wall time of all of them
    """

    candidates: int
    searches: int
    seconds: float


def costs(searched: Mapping[str, pd.DataFrame]) -> dict[tuple[str, str], dict[str, Cost]]:
    """Costs per (provider, pass) and side, of tuning.csv by side; sides without a search are left out."""
    found: dict[tuple[str, str], dict[str, Cost]] = {}
    for side, frame in searched.items():
        for (provider, pass_), mine in frame.groupby(["provider", "pass"], sort=False):
            searches = mine.drop_duplicates(["cell_id", "search"])
            known = searches["search_s"].dropna()
            found.setdefault((str(provider), str(pass_)), {})[side] = Cost(
                int(searches["candidates"].max()), len(searches), float(known.sum()) if len(known) else float("nan")
            )
    return found

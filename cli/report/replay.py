"""Cases that chose another configuration in head, run again with both configurations in both versions."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...analysis.comparison.attribution import ARMS, attribute
from ...analysis.comparison.effects import Status
from ...analysis.comparison.versions import MIXED
from ...analysis.frames.coordinates import CASE
from ...analysis.frames.load import RunData, load_run
from ...analysis.run.summarize import round_medians, summarize
from ...harness.compare.replay import write_only, write_table
from ...harness.compare.spec import CompareSpec, read_state
from ...shapes.run_folder.manifest import MANIFEST

if TYPE_CHECKING:
    import pandas as pd

    from ...analysis.comparison.result import Result

FOLDER = "replay"
"""Folder of the replay inside that of its comparison."""


def flips(result: "Result") -> "pd.DataFrame":
    """Compared cases that stand on another configuration in head, with all that `Effects.cases` says of them."""
    cases = result.effects.cases
    both = ~cases["base_config"].isin(["", MIXED]) & ~cases["head_config"].isin(["", MIXED])
    return cases[(cases["status"] == Status.COMPARED) & both & (cases["base_config"] != cases["head_config"])]


Measure = Callable[[Path, CompareSpec], bool]
"""Measure a comparison in its folder, on one device or a fleet; True when it is complete."""


def replay(folder: Path, what: CompareSpec, result: "Result", measure: Measure) -> bool:
    """Measure the four arms for the flips of `result`; True when they are complete, as they are without any flip."""
    rows = flips(result).to_dict("records")
    if not rows:
        return True
    inside = folder.resolve() / FOLDER
    device = load_run(folder / "base").device
    tables = {side: str(write_table(inside / f"{side}.csv", rows, side, device)) for side in ("base", "head")}
    again = replace(
        what,
        commits={arm: what.commits[arm.partition("+")[0]] for arm in ARMS},
        tables=dict(zip(ARMS, (tables["base"], tables["head"], tables["head"], tables["base"]), strict=True)),
        only=str(write_only(inside / "only.json", rows)),
    )
    return measure(inside, again)


def attributed(folder: Path, result: "Result") -> "pd.DataFrame | None":
    """Attribute the flips of a comparison from its stored replay; None where none is complete.

    Rows have CASE, both configurations, and the columns of `attribute`.
    """
    state = read_state(folder / FOLDER)
    if state is None or not state.is_complete:
        return None
    runs = {arm: load_run(folder / FOLDER / arm) for arm in ARMS if (folder / FOLDER / arm / MANIFEST).is_file()}
    if set(runs) != set(ARMS):
        return None
    cases = flips(result)[[*CASE, "base_config", "head_config"]].reset_index(drop=True)
    keys = {key: number for number, key in enumerate(cases[[*CASE]].itertuples(index=False, name=None))}
    rounds = 1 + max(int(run.cells["round"].max()) for run in runs.values())
    times = np.full((len(cases), rounds, len(ARMS)), np.nan)
    offered = np.ones(len(cases), dtype=bool)
    for arm, run in enumerate(runs.values()):
        for number, place, median, pinned in _rounds(run, keys):
            times[number, place, arm] = median
            offered[number] &= pinned
    return cases.join(attribute(times, offered & np.isfinite(times).any(axis=1).all(axis=1)))


def _rounds(run: RunData, keys: dict[Any, int]) -> "list[tuple[int, int, float, bool]]":
    """(case, round, median, whether the given configuration ran) of every stored round."""
    summary = summarize(run).set_index("cell_id")
    numbers = summary[[*CASE]].apply(tuple, axis=1).map(keys)
    pinned = summary["tuning"] == "pinned"
    medians = round_medians(run)[["cell_id", "round", "median_s"]].itertuples(index=False, name=None)
    return [
        (int(numbers[cell]), int(number), float(median), bool(pinned[cell]))
        for cell, number, median in medians
        if numbers[cell] == numbers[cell]  # a case that is no flip has no number
    ]

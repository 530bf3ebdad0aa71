"""The same points in different worker processes, each with its own allocations.

Which addresses a buffer gets is decided anew in every process. What shows in three of them and fails in none belongs to
the size; what shows in some belongs to addresses; and one or two processes cannot tell.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from ...analysis.frames.deciding import deciding
from .points import POINT

ENOUGH = 3
"""Processes that must show an excess before it is called reproduced."""


def reproduction(shown: int, measured: int) -> dict[str, Any]:
    """Judge from the processes that measured something, and how many of those show it: columns of a table.

    reproduced: yes, no, or unknown after too few processes.
    """
    verdict = "yes" if measured >= ENOUGH else "unknown"
    return {"processes": measured, "shown": shown, "reproduced": verdict if shown == measured else "no"}


def together(parts: Sequence[tuple[pd.DataFrame, pd.DataFrame]]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Join (round medians, rows of cells.csv) of runs of the same cells: rounds and processes are counted on."""
    rounds, cells = [], []
    first_round = first_process = 0
    for medians, rows in parts:
        rounds.append(medians.assign(round=medians["round"] + first_round))
        cells.append(rows.assign(round=rows["round"] + first_round, process=rows["process"] + first_process))
        first_round += int(rows["round"].max()) + 1
        first_process += int(rows["process"].max()) + 1
    return pd.concat(rounds, ignore_index=True), pd.concat(cells, ignore_index=True)


def times_by_process(
    found: pd.DataFrame, placed: pd.DataFrame, rounds: pd.DataFrame, cells: pd.DataFrame
) -> pd.DataFrame:
    """Return ln time [points, processes], NaN where a point was not measured.

    `found` are the points of `placed`, `rounds` from `round_medians`, `cells` the rows of cells.csv.
    """
    number = pd.Series(range(len(found)), index=pd.MultiIndex.from_frame(found[[*POINT]]))
    known = deciding(placed)[["cell_id", *POINT]]
    known = known.assign(point=number.reindex(pd.MultiIndex.from_frame(known[[*POINT]])).to_numpy())
    timed = rounds[["cell_id", "round", "median_s"]].merge(known[["cell_id", "point"]], on="cell_id")
    timed = timed.merge(cells[["cell_id", "round", "process"]], on=["cell_id", "round"])
    timed["ln_time"] = np.log(timed["median_s"])
    per_cell = timed.groupby(["point", "process", "cell_id"], sort=False)["ln_time"].median()
    return per_cell.groupby(["point", "process"]).mean().unstack("process").reindex(range(len(found)))

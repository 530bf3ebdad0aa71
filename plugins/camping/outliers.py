"""Sizes that stand out, with what else could explain them: one row per shape, provider and axis."""

from typing import Any

import numpy as np
import pandas as pd

from ...analysis.statistics.arrays import floats
from .neighbour_test import MIN_EXCESS, SIDE, NeighbourTest
from .padding import Paddings
from .points import POINT, SHAPES
from .processes import reproduction

SHAPE = tuple(name for name in POINT if name != "M")

OUTLIER_COLUMNS = (
    *SHAPE,
    *("model", "layer", "axis", "size", "Ms", "ratio", "excess_s", "z", "below", "above", "workgroups", "on_grid"),
    *("explained", "ruled_out", "remark", "processes", "shown", "reproduced", "pad", "saved"),
)

_MS = 2
"""M at which a shape has to stand out among others of its size: they differ from it in more than where they begin."""


def outliers(rows: pd.DataFrame, found: NeighbourTest, times: pd.DataFrame) -> pd.DataFrame:
    """Return one row per (shape, provider, axis, explanation) with a cell that stands out.

    rows   of `points.series`; found: their standing
    times  ln time by process [points, processes]

    Columns, besides `SHAPE`: axis and size along it; Ms (that stand out); ratio (median time over the slower side of
    the neighbours, waves and tiles taken out), excess_s (median), z (largest); below, above (nearest sizes);
    workgroups, on_grid; explained ("" for a suspect of camping), ruled_out; remark; processes that measured it, those
    that show it, reproduced; pad, saved (`padding`).
    """
    out = np.flatnonzero(found.stands_out | found.explained)
    why = [_explanation(rows, found, row) for row in out.tolist()]
    keys = rows.loc[out, [*SHAPE, "axis"]].assign(why=why, row=out)
    paddings = Paddings(rows, found.stands_out)
    groups = keys.groupby([*SHAPE, "axis", "why"], sort=False, dropna=False)["row"].agg(list)
    measured = rows.groupby([*SHAPE, "axis"], sort=False, dropna=False).indices
    described = []
    for key, own in groups.items():
        assert isinstance(key, tuple)
        every = measured[key[:-1]]
        if rows["axis"].iloc[own[0]] == SHAPES and len(own) < min(_MS, len(every)):
            continue
        described.append(_from_cells(rows, found, own, times, paddings) | {"explained": key[-1]})
    # A shape with neighbours along both axes is reported along the first.
    return pd.DataFrame(described, columns=list(OUTLIER_COLUMNS)).drop_duplicates([*SHAPE, "explained"])


_IDENTITY = (*SHAPE, "model", "layer", "axis", "size", "workgroups", "on_grid")
_STEPS = "steps of any origin"


def _explanation(rows: pd.DataFrame, found: NeighbourTest, row: int) -> str:
    """Say what explains a row that stands out; "" where nothing does."""
    if found.explained[row]:
        return "waves or tiles"
    own = rows["kernel"].iloc[row]
    beside = [rows["kernel"].iloc[other] for other in (found.near[row, 0], found.near[row, SIDE]) if other >= 0]
    if len(beside) == 2 and beside[0] == beside[1] != own:
        return "another configuration"
    return ""


def _from_cells(
    rows: pd.DataFrame, found: NeighbourTest, own: list[int], times: pd.DataFrame, paddings: Paddings
) -> dict[str, Any]:
    """Describe a size by the cells (one per M) in which it stands out."""
    here, over = rows.iloc[own[0]], found.over[own]
    nearest = [found.near[own[0], 0], found.near[own[0], SIDE]]
    below, above = (float(rows["size"].iloc[other]) if other >= 0 else np.nan for other in nearest)
    known = np.isfinite(here["ln_idle"]) and np.isfinite(here["ln_padded"])
    worst = max(own, key=lambda row: found.over[row])
    return {
        **here[[*_IDENTITY]],
        "Ms": tuple(int(size) for size in rows["M"].iloc[own]),
        "ratio": float(np.exp(np.median(over))),
        # What waves and tiles explain has no excess left; the ratio to the neighbours is still reported.
        "excess_s": float(np.median(floats(rows, "time_s")[own] * -np.expm1(-over))),
        "z": float(np.max(over / found.spread[own])),
        "below": below,
        "above": above,
        "ruled_out": "waves and tiles" if known else _STEPS,
        "remark": f"was disturbed while it was measured ({here['disturbed']})" if here["disturbed"] else "",
        **reproduction(*_in_processes(rows, found, worst, times)),
        **paddings.best(own, helped=len(own)),
    }


def _in_processes(rows: pd.DataFrame, found: NeighbourTest, row: int, times: pd.DataFrame) -> tuple[int, int]:
    """Count the processes in which a row exceeds the slower side by the margin, and those that measured it.

    Neighbours that a process did not measure have their time over all processes.
    """
    near = found.near[row]
    points = rows["point"].to_numpy()
    whole = np.log(floats(rows, "time_s"))
    sides = [[int(other) for other in side if other >= 0] for side in (near[:SIDE], near[SIDE:])]
    if not all(sides):
        return 0, 0
    # What is taken out of the times (trend, waves, tiles) is the same in every process.
    usual = [float(np.median(whole[side])) for side in sides]
    own = times.loc[points[row]].to_numpy(dtype=np.float64)
    shown = measured = 0
    for process, time in enumerate(own):
        if np.isnan(time):
            continue
        measured += 1
        moved = []
        for side, middle in zip(sides, usual, strict=True):
            there = times.iloc[points[side], process].to_numpy(dtype=np.float64)
            moved.append(float(np.median(np.where(np.isnan(there), whole[side], there))) - middle)
        # The slower side may be another one in this process: the one that moved up more is the stricter.
        shown += (time - whole[row]) - max(moved) + found.over[row] > np.log(MIN_EXCESS)
    return shown, measured

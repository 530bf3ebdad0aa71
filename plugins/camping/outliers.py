"""Sizes that stand out, with what else could explain them: one row per shape, provider and axis."""

from typing import Any

import numpy as np
import pandas as pd

from ...analysis.statistics.arrays import floats
from .intercept import MAX_M, SHAPE
from .neighbour_test import MIN_EXCESS, SIDE, NeighbourTest, sides
from .padding import Paddings
from .points import SHAPES
from .processes import Reproduced, reproduction

OUTLIER_COLUMNS = (
    *SHAPE,
    *("model", "layer", "axis", "size", "Ms", "ratio", "excess_s", "z", "below", "above", "workgroups", "on_grid"),
    *("explained", "ruled_out", "remark", "processes", "shown", "reproduced", "pad", "saved"),
    *("intercept_s", "intercept_se_s", "usual_intercept_s", "raises"),
)

FIXED, ROWS = "intercept", "slope"

_STEEP = 0.5
"""Share of the excess that growth with M must explain, at M = 16, to be called more than a fixed stall."""

_MS = 2
"""M at which a shape has to stand out among others of its size: they differ from it in more than where they begin."""


def outliers(rows: pd.DataFrame, found: NeighbourTest, lines: pd.DataFrame, times: pd.DataFrame) -> pd.DataFrame:
    """Return one row per (shape, provider, axis, explanation) with a cell or an intercept that stands out.

    rows   of `points.series`; found: their standing
    lines  of `lines_of`, intercepts with their standing
    times  ln time by process [points, processes]

    Columns, besides `SHAPE`: axis and size along it; Ms (that stand out; those of the line where only the intercept
    does); ratio (median time over the slower side of the neighbours, waves and tiles taken out), excess_s (median), z
    (largest); below, above (nearest sizes); workgroups, on_grid; explained ("" for a suspect of camping), ruled_out;
    remark; processes that measured it, those that show it, reproduced; pad, saved (`padding`); intercept_s with its
    standard error and usual_intercept_s of the neighbours; raises: what of t = a + b M is above theirs, "intercept",
    "intercept and slope", "slope" or "" (not enough M).
    """
    out = np.flatnonzero(found.stands_out | found.explained)
    why = {row: _explanation(rows, found, row) for row in out.tolist()}
    keys = rows.loc[out, [*SHAPE, "axis"]].assign(why=[why[row] for row in out.tolist()], row=out)
    paddings = Paddings(rows, found.stands_out)
    groups = keys.groupby([*SHAPE, "axis", "why"], sort=False, dropna=False)["row"].agg(list)
    by_shape = {tuple(key): line for *key, line in lines[[*SHAPE, "axis"]].assign(line=range(len(lines))).to_numpy()}
    described = []
    measured = rows.groupby([*SHAPE, "axis"], sort=False, dropna=False).size()
    for key, own in groups.items():
        assert isinstance(key, tuple)
        if rows["axis"].iloc[own[0]] == SHAPES and len(own) < min(_MS, measured[key[:-1]]):
            continue
        line = by_shape.get(key[:-1])
        described.append(
            _from_cells(rows, found, own, times, paddings)
            | {"explained": key[-1]}
            | (dict(lines.iloc[line][[*_OF_LINE]]) if line is not None else {"raises": ""})
        )
    seen = {key[:-1] for key in groups.index}
    for key, line in by_shape.items():
        if lines["stands_out"].iloc[line] and key not in seen:
            described.append(_from_line(rows, lines.iloc[line], times, paddings))
    # A shape with neighbours along both axes is reported along the first.
    return pd.DataFrame(described, columns=list(OUTLIER_COLUMNS)).drop_duplicates([*SHAPE, "explained"])


_IDENTITY = (*SHAPE, "model", "layer", "axis", "size", "workgroups", "on_grid")
_OF_LINE = ("intercept_s", "intercept_se_s", "usual_intercept_s", "raises")
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


def lines_of(lines: pd.DataFrame, found: NeighbourTest) -> pd.DataFrame:
    """Return `lines` (intercepts along an axis) with stands_out, over, z, usual_intercept_s, raises and near rows."""
    sizes = floats(lines, "size")
    # Slopes of neighbours, for a size like the row's own.
    steepest = np.fmax(*sides(floats(lines, "slope_s") / sizes, found.near)) * sizes
    usual = floats(lines, "intercept_s") * np.exp(-found.over)
    stalls = floats(lines, "intercept_s") - usual
    grows = MAX_M * (floats(lines, "slope_s") - steepest)
    fixed = found.over > 0.0
    steep = np.nan_to_num(grows) > _STEEP * np.abs(stalls)
    raises = np.select(
        [~found.tested, fixed & ~steep, fixed & steep, steep], ["", FIXED, f"{FIXED} and {ROWS}", ROWS], ""
    )
    return lines.assign(
        stands_out=found.stands_out,
        over=found.over,
        z=found.over / found.spread,
        usual_intercept_s=usual,
        raises=raises,
        below=np.append(sizes, np.nan)[found.near[:, 0]],
        above=np.append(sizes, np.nan)[found.near[:, SIDE]],
    )


def _from_line(rows: pd.DataFrame, line: "pd.Series[Any]", times: pd.DataFrame, paddings: Paddings) -> dict[str, Any]:
    """Describe a size of which only the intercept stands out."""
    own = rows.index[(rows["point"] == line["first"]) & (rows["axis"] == line["axis"])].tolist()
    return {
        **rows.loc[own[0], [*_IDENTITY]],
        **line[[*_OF_LINE, "Ms", "z", "below", "above"]],
        "ratio": float(np.exp(line["over"])),
        "excess_s": float(line["intercept_s"] - line["usual_intercept_s"]),
        "explained": "",
        "ruled_out": _STEPS,
        "remark": "only the line through its M stands out, no single M does",
        "processes": int(times.loc[line["first"]].notna().sum()),
        "shown": np.nan,
        "reproduced": Reproduced.UNKNOWN.value,
        **paddings.best(own, helped=len(own)),
    }

"""Sizes that stand out, with what else could explain them: one row per shape, provider and axis."""

from typing import Any

import numpy as np
import pandas as pd

from ..statistics.intervals import Floats
from .intercept import MAX_M, SHAPE
from .neighbours import MIN_EXCESS, SIDE
from .padding import Paddings
from .points import SHAPES, floats
from .processes import reproduced
from .standing import Standing

SUSPECT_COLUMNS = (
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


def suspects(rows: pd.DataFrame, found: Standing, lines: pd.DataFrame, times: pd.DataFrame) -> pd.DataFrame:
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
    told = []
    measured = rows.groupby([*SHAPE, "axis"], sort=False, dropna=False).size()
    for key, own in groups.items():
        assert isinstance(key, tuple)
        if rows["axis"].iloc[own[0]] == SHAPES and len(own) < min(_MS, measured[key[:-1]]):
            continue
        line = by_shape.get(key[:-1])
        told.append(
            _from_cells(rows, found, own, times, paddings)
            | {"explained": key[-1]}
            | (_line(lines.iloc[line]) if line is not None else _NO_LINE)
        )
    seen = {key[:-1] for key in groups.index}
    for key, line in by_shape.items():
        if lines["stands_out"].iloc[line] and key not in seen:
            told.append(_from_line(rows, lines.iloc[line], times, paddings))
    # A shape with neighbours along both axes is told along the first.
    return pd.DataFrame(told, columns=list(SUSPECT_COLUMNS)).drop_duplicates([*SHAPE, "explained"])


_NO_LINE = {"intercept_s": np.nan, "intercept_se_s": np.nan, "usual_intercept_s": np.nan, "raises": ""}


def _explanation(rows: pd.DataFrame, found: Standing, row: int) -> str:
    """Say what explains a row that stands out; "" where nothing does."""
    if found.explained[row]:
        return "waves or tiles"
    own = rows["kernel"].iloc[row]
    beside = [rows["kernel"].iloc[other] for other in (found.near[row, 0], found.near[row, SIDE]) if other >= 0]
    if len(beside) == 2 and beside[0] == beside[1] != own:
        return "another configuration"
    return ""


def _from_cells(
    rows: pd.DataFrame, found: Standing, own: list[int], times: pd.DataFrame, paddings: Paddings
) -> dict[str, Any]:
    """Describe a size by the cells (one per M) in which it stands out."""
    first = own[0]
    over = found.over[own]
    # What waves and tiles explain has no excess left; what it takes over its neighbours is still said.
    seconds = floats(rows, "time_s")[own] * -np.expm1(-over)
    worst = max(own, key=lambda row: found.over[row])
    shown, measured = _in_processes(rows, found, worst, times)
    padded = paddings.for_all(own)
    return _described(rows, found, first) | {
        "Ms": tuple(int(size) for size in rows["M"].iloc[own]),
        "ratio": float(np.exp(np.median(over))),
        "excess_s": float(np.median(seconds)),
        "z": float(np.max(over / found.spread[own])),
        "processes": measured,
        "shown": shown,
        "reproduced": reproduced(shown, measured).value,
        "pad": padded[0] if padded else np.nan,
        "saved": padded[1] if padded else np.nan,
    }


def _described(rows: pd.DataFrame, found: Standing, row: int) -> dict[str, Any]:
    """Coordinates of a size, its neighbours, and what was ruled out."""
    here = rows.iloc[row]
    waves = np.isfinite(here["ln_idle"]) and np.isfinite(here["ln_padded"])
    nearest = [found.near[row, 0], found.near[row, SIDE]]
    below, above = (float(rows["size"].iloc[other]) if other >= 0 else np.nan for other in nearest)
    known = "waves and tiles" if waves else "steps of any origin"
    names = [*SHAPE, "model", "layer", "axis", "size", "workgroups", "on_grid"]
    return {name: here[name] for name in names} | {
        "below": below,
        "above": above,
        "ruled_out": known,
        "remark": f"disturbed while it was measured ({here['disturbed']})" if here["disturbed"] else "",
    }


def _in_processes(rows: pd.DataFrame, found: Standing, row: int, times: pd.DataFrame) -> tuple[int, int]:
    """Count the processes in which a row exceeds the slower side by the margin, and those that measured it.

    Neighbours that a process did not measure stand in with their time over all processes.
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


def lines_of(lines: pd.DataFrame, found: Standing) -> pd.DataFrame:
    """Return `lines` (intercepts along an axis) with stands_out, over, z, usual_intercept_s, raises and near rows."""
    low, high = (_median_of(lines, found.near[:, side], "slope_s") for side in (slice(0, SIDE), slice(SIDE, None)))
    usual = floats(lines, "intercept_s") * np.exp(-found.over)
    steeper = floats(lines, "slope_s") - np.fmax(low, high)
    stalls = floats(lines, "intercept_s") - usual
    grows = MAX_M * steeper
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
        below=_size(lines, found.near[:, 0]),
        above=_size(lines, found.near[:, SIDE]),
    )


def _median_of(lines: pd.DataFrame, near: Any, name: str) -> Floats:
    """Median over neighbours of a quantity per size, for a size like the row's own."""
    per_size = floats(lines, name) / floats(lines, "size")
    padded = np.append(per_size, np.nan)[near]
    some = np.isfinite(padded).any(axis=1)
    middle = np.full(len(lines), np.nan)
    middle[some] = np.nanmedian(padded[some], axis=1)
    return np.asarray(middle * floats(lines, "size"), dtype=np.float64)


def _size(lines: pd.DataFrame, near: Any) -> Floats:
    return np.asarray(np.append(floats(lines, "size"), np.nan)[near], dtype=np.float64)


def _line(line: "pd.Series[Any]") -> dict[str, Any]:
    return {name: line[name] for name in _NO_LINE}


def _from_line(rows: pd.DataFrame, line: "pd.Series[Any]", times: pd.DataFrame, paddings: Paddings) -> dict[str, Any]:
    """Describe a size of which only the intercept stands out."""
    own = rows.index[(rows["point"] == line["first"]) & (rows["axis"] == line["axis"])].tolist()
    measured = int(times.loc[line["first"]].notna().sum())
    here = rows.loc[own[0]]
    names = [*SHAPE, "model", "layer", "axis", "size", "workgroups", "on_grid"]
    padded = paddings.for_all(own)
    return {name: here[name] for name in names} | _line(line) | {
        "Ms": line["Ms"],
        "ratio": float(np.exp(line["over"])),
        "excess_s": float(line["intercept_s"] - line["usual_intercept_s"]),
        "z": float(line["z"]),
        "below": line["below"],
        "above": line["above"],
        "explained": "",
        "ruled_out": "steps of any origin",
        "remark": "only the line through its M stands out, no single M does",
        "processes": measured,
        "shown": np.nan,
        "reproduced": "unknown",
        "pad": padded[0] if padded else np.nan,
        "saved": padded[1] if padded else np.nan,
    }  # fmt: skip

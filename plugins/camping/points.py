"""Cells as points along an axis: one point per GEMM, provider and way of timing, in series over N or over K."""

import numpy as np
import pandas as pd

from ...analysis.frames.coordinates import GEMM
from ...analysis.frames.deciding import deciding
from ...analysis.statistics.arrays import Ints, floats

SCANNED = ("N", "K")
SHAPES = "NK"
AXES = (*SCANNED, SHAPES)
"""What neighbours are neighbours in: N at one K, K at one N, or N K for shapes that have none of either."""

POINT = (*GEMM, "provider", "timer", "cold_by")
"""What makes two cells the same measurement: a GEMM under two model names is one point."""

GRID = 256
"""Grids of a multiple of this many workgroups are marked: a scheduler is known that spreads them badly (ROCm, gfx11 and
gfx12; bitsandbytes launches one workgroup more there)."""

_FIRST = (
    *("model", "layer", "role", "half", "expected_s", "workgroups", "waves", "ln_idle", "ln_busy", "ln_padded"),
    *("kernel", "disturbed"),
)


def points(placed: pd.DataFrame) -> pd.DataFrame:
    """Return one row per point of the `deciding` cells of `roofline.place`, in their order.

    Columns, besides `POINT`: model, layer, role (of the first cell); time_s (geometric mean over its cells), half
    (relative half-width of its 95 % interval, NaN where unknown); expected_s, e = ln(time_s / expected_s); workgroups;
    waves (the whole number); ln_idle, ln_busy, ln_padded (`quantization`; NaN where unknown); on_grid (multiple of 256
    workgroups); kernel (configuration and kernels as one text); disturbed.

    expected_s is an empty launch and the longer of compulsory bytes and useful FLOPs at their ceilings: a sum, because
    neighbours are compared, and a maximum of all three has a kink between them.
    """
    passed = deciding(placed)
    limits = [_number(passed, "memory_time_s"), _number(passed, "compute_time_s")]
    work = pd.concat(limits, axis=1).max(axis=1)
    # Without any ceiling the bytes alone give the slope; their unit cancels between neighbours.
    expected = _number(passed, "launch_time_s").fillna(0) + work.fillna(passed["compulsory_bytes"] * 1e-12)
    waves, tile_factor = _number(passed, "waves"), _number(passed, "tile_factor")
    passed = passed.assign(
        expected_s=expected,
        ln_time=np.log(passed["time_s"]),
        half=np.log(passed["time_high_s"] / passed["time_low_s"]) / 2,
        workgroups=_number(passed, "workgroups"),
        waves=np.ceil(waves),
        ln_idle=np.log(np.ceil(waves) / waves),
        ln_busy=-np.log(_number(passed, "wave_share")),
        ln_padded=np.log(np.fmax(tile_factor, _padding(passed))),
        kernel=passed["config"] + " " + passed["kernels"] + " " + passed["dispatched"],
    )
    groups = passed.groupby(list(POINT), sort=False, dropna=False)
    kept = {name: (name, "first") for name in _FIRST}
    found = groups.agg(ln_time=("ln_time", "mean"), **kept).reset_index()
    found["time_s"] = np.exp(found["ln_time"])
    found["e"] = found["ln_time"] - np.log(found["expected_s"])
    found["on_grid"] = (found["workgroups"] > 0) & (found["workgroups"] % GRID == 0)
    return found.drop(columns="ln_time")


def series(found: pd.DataFrame) -> pd.DataFrame:
    """Return one row per (point, axis) that has others of its series, ordered by series and size.

    Columns: those of `points`; point (its row), axis, series (number), size (its N, K or N K), fixed (the other one, or
    0). A series has everything but its size in common; one of fewer than three points has no inner one and is excluded.
    """
    parts = []
    first = 0
    for axis in AXES:
        size = found["N"] * found["K"] if axis == SHAPES else found[axis]
        fixed = found["N" if axis == "K" else "K"] * (axis != SHAPES)
        rows = found.assign(point=found.index, axis=axis, size=size, fixed=fixed)
        keys = [name for name in POINT if name not in axis]
        number = found.groupby(keys, sort=False, dropna=False).ngroup()
        many = number.map(number.value_counts()) >= 3
        rows = rows.assign(series=number + first).loc[many]
        first += int(number.max()) + 1 if len(number) else 0
        parts.append(rows)
    return pd.concat(parts).sort_values(["series", "size"], kind="stable").reset_index(drop=True)


def _padding(cells: pd.DataFrame) -> "pd.Series[float]":
    """Issued per useful work by the tiles alone, for cells that store no FLOPs."""
    padded = pd.Series(1.0, index=cells.index)
    for tile, size in (("tile_M", "M"), ("tile_N", "N")):
        extent = _number(cells, tile)
        padded *= np.ceil(cells[size] / extent) * extent / cells[size]
    return padded


def _number(cells: pd.DataFrame, name: str) -> "pd.Series[float]":
    return pd.Series(floats(cells, name), index=cells.index)


def stretches(number: Ints) -> list[tuple[int, int]]:
    """Begin and end of each stretch of equal numbers."""
    begins = np.flatnonzero(np.diff(number, prepend=-1)).tolist()
    return list(zip(begins, [*begins[1:], len(number)], strict=True)) if begins else []

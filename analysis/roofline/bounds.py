"""Which limit bounds a cell, from its time and the time of each limit."""

from enum import StrEnum

import numpy as np
import pandas as pd

from ..frames.coordinates import SETTING, SHAPE
from ..frames.deciding import deciding
from ..statistics.arrays import Flags, Floats, Ints, floats


class Bound(StrEnum):
    """What bounds a cell."""

    DRAM = "dram"
    LLC = "llc"
    L2 = "l2"
    COMPUTE = "compute"
    ALU = "alu"
    LATENCY = "latency"
    LAUNCH = "launch"
    BALANCED = "balanced"
    UNEXPLAINED = "unexplained"
    IMPOSSIBLE = "impossible"


LIMITS = (Bound.DRAM, Bound.LLC, Bound.L2, Bound.COMPUTE, Bound.ALU, Bound.LATENCY, Bound.LAUNCH)
"""Limits that have a time of their own; the columns of `times` below."""

SERIES = (*SHAPE, *SETTING, "provider")
"""What the cells of one curve over M have in common."""

BALANCED_MARGIN = 1.1
"""Below this ratio of the longest time to the next, neither is the limit."""

UNEXPLAINED_FACTOR = 1.5
"""Beyond this multiple of all times added up (no overlap at all), the limits do not explain the cell."""

IMPOSSIBLE_FACTOR = 0.98
"""Faster than this share of the hard limit is a fault of the measurement or of the model; 2 % is timing error."""

FLAT_SPREAD, FLAT_GROWTH = 1.1, 4
"""Time within 10 % while FLOPs grow fourfold: something that does not depend on the work takes it."""

FLOOR_LAUNCHES = 10
"""A flat time of at most this many empty launches is a launch floor (several kernels, wrappers). A longer one is a
fixed cost of another kind, such as dequantizing the weight."""


def terms(times: Floats, fill: Floats) -> Floats:
    """Return what the class of a cell compares: T_launch, T_latency, and T_fill with each of the others.

    `times` [n, limits], `fill` [n]; latency has no fill, for the schedule of a workgroup begins with what fills it.
    0 where a limit is unknown or does not apply.
    """
    whole = np.isin(LIMITS, (Bound.LAUNCH, Bound.LATENCY))
    return np.where(np.isnan(times), 0.0, times + np.where(whole, 0.0, np.nan_to_num(fill)[:, None]))


def implemented(times: Floats, fill: Floats, between: Floats) -> Floats:
    """Return max(T_launch, T_between + max(T_latency, T_fill + max(the others))) [n], 0 where nothing is known.

    While no kernel of the launch runs, `between` [n] seconds, none of them reads, multiplies or decodes. T_launch
    contains that time already.
    """
    during = np.array(LIMITS) != Bound.LAUNCH
    return np.asarray((terms(times, fill) + np.where(during, between[:, None], 0.0)).max(axis=1), dtype=np.float64)


def classify(
    time: Floats, times: Floats, fill: Floats, launch: Floats, hard: Floats, flat: Flags, incomputable: Flags
) -> tuple[list[str], Floats]:
    """Return the class of each cell, and the ratio of its longest limit to the next.

    time   [n] seconds, NaN for a cell without one
    times  [n, len(LIMITS)] seconds, NaN where a limit is unknown or does not apply
    fill   [n] seconds that a kernel takes to fill and drain, NaN where unknown
    launch  [n] seconds of an empty launch, NaN where unknown
    hard   [n] least possible seconds, 0 where nothing is known
    flat   [n] from `flat_cells`
    incomputable  [n] cells that are not compute-bound whatever the times say: launch-bound, or flat

    The class is "" and the ratio NaN without a time or without any limit.
    """
    serial = np.nansum(times, axis=1)
    unexplained = time > UNEXPLAINED_FACTOR * (serial + np.nan_to_num(fill))
    floor = flat & unexplained & (time <= FLOOR_LAUNCHES * launch)
    compared = terms(times, fill)
    compared[incomputable, LIMITS.index(Bound.COMPUTE)] = 0.0
    ranked = np.sort(compared, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        margin = ranked[:, -1] / ranked[:, -2]
    names = np.array([limit.value for limit in LIMITS])[compared.argmax(axis=1)]
    known = (serial > 0) & np.isfinite(time)
    impossible = time < IMPOSSIBLE_FACTOR * hard
    classes = np.select(
        [~known, impossible, floor, unexplained | (ranked[:, -1] == 0), margin < BALANCED_MARGIN],
        ["", Bound.IMPOSSIBLE.value, Bound.LAUNCH.value, Bound.UNEXPLAINED.value, Bound.BALANCED.value],
        names,
    )
    return classes.tolist(), np.where(known, margin, np.nan)


def flat_cells(cells: pd.DataFrame, work: str = "flops") -> "pd.Series[bool]":
    """True for cells in a stretch of M over which one provider's time stays within 10 % and its work grows fourfold.

    `work` is the column that says how much there is to do.
    """
    timed = deciding(cells)[[*SERIES, work, "time_s"]]
    code = series_codes(timed)
    size = timed[work].to_numpy(dtype=np.float64)
    order = np.lexsort((size, code))
    code, size, time = code[order], size[order], np.log(floats(timed, "time_s")[order])
    last = _furthest(code, time)
    first = np.flatnonzero(size[last] >= FLAT_GROWTH * size)
    first = first[size[first] > 0]
    edges = np.zeros(len(code) + 1, dtype=np.int64)
    np.add.at(edges, first, 1)
    np.add.at(edges, last[first] + 1, -1)
    flat = pd.Series(False, index=cells.index)
    flat.loc[timed.index[order]] = np.cumsum(edges)[:-1] > 0
    return flat


def _furthest(code: Ints, log_time: Floats) -> Ints:
    """Last position up to which the time stays within 10 %, for each position and within its series."""
    count = len(code)
    last = np.arange(count, dtype=np.int64)
    low, high, alive, step = log_time.copy(), log_time.copy(), np.arange(count), 0
    while len(alive):
        step += 1
        alive = alive[alive + step < count]
        alive = alive[code[alive + step] == code[alive]]
        low[alive] = np.minimum(low[alive], log_time[alive + step])
        high[alive] = np.maximum(high[alive], log_time[alive + step])
        alive = alive[high[alive] - low[alive] <= np.log(FLAT_SPREAD)]
        last[alive] = alive + step
    return last


def near_floor(cells: pd.DataFrame, classes: list[str], flat: Flags, launch: Floats) -> Flags:
    """True for unexplained cells within 10 % of the least floor that flat series of the same provider and setting show.

    Such a series proves a fixed cost of a few launches; a shape with too few M to show it itself pays it too. A cell
    that is much faster does not pay it: it took another path.
    `classes` and `flat` are those of `classify`, `launch` the seconds of an empty launch.
    """
    time = floats(cells, "time_s")
    named = np.array(classes, dtype=object)
    floor = (named == Bound.LAUNCH.value) & flat & (time <= FLOOR_LAUNCHES * launch)
    alike = [cells[name] for name in ("op", *SETTING, "provider")]
    least = cells["time_s"].where(floor).groupby(alike).transform("min")
    ratio = time / least.to_numpy()
    return np.asarray((named == Bound.UNEXPLAINED.value) & (ratio >= 1 / FLAT_SPREAD) & (ratio <= FLAT_SPREAD))


def series_codes(cells: pd.DataFrame) -> Ints:
    """Number the curves over M that the cells belong to."""
    return np.asarray(cells.groupby([*SERIES], sort=False, dropna=False).ngroup(), dtype=np.int64)

"""Which limit bounds a cell, from its time and the time of each limit."""

from collections.abc import Iterator
from enum import StrEnum

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..shapes.verdict import Verdict
from .coordinates import SETTING, SHAPE

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


class Bound(StrEnum):
    """What bounds a cell."""

    DRAM = "dram"
    LLC = "llc"
    L2 = "l2"
    COMPUTE = "compute"
    LAUNCH = "launch"
    BALANCED = "balanced"
    UNEXPLAINED = "unexplained"
    IMPOSSIBLE = "impossible"


LIMITS = (Bound.DRAM, Bound.LLC, Bound.L2, Bound.COMPUTE, Bound.LAUNCH)
"""Limits that have a time of their own; the columns of `times` below."""

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


def classify(time: Floats, times: Floats, hard: Floats, flat: Flags) -> tuple[list[str], Floats]:
    """Return the class of each cell, and the ratio of its longest limit to the next.

    time   [n] seconds, NaN for a cell without one
    times  [n, len(LIMITS)] seconds, NaN where a limit is unknown or does not apply
    hard   [n] least possible seconds, 0 where nothing is known
    flat   [n] from `flat_cells`: never compute-bound

    The class is "" and the ratio NaN without a time or without any limit.
    """
    serial = np.nansum(times, axis=1)
    unexplained = time > UNEXPLAINED_FACTOR * serial
    floor = flat & unexplained & (time <= FLOOR_LAUNCHES * times[:, LIMITS.index(Bound.LAUNCH)])
    filled = np.nan_to_num(times, nan=0.0)
    filled[flat, LIMITS.index(Bound.COMPUTE)] = 0.0
    ranked = np.sort(filled, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        margin = ranked[:, -1] / ranked[:, -2]
    names = np.array([limit.value for limit in LIMITS])[filled.argmax(axis=1)]
    known = (serial > 0) & np.isfinite(time)
    impossible = time < IMPOSSIBLE_FACTOR * hard
    classes = np.select(
        [~known, impossible, floor, unexplained | (ranked[:, -1] == 0), margin < BALANCED_MARGIN],
        ["", Bound.IMPOSSIBLE.value, Bound.LAUNCH.value, Bound.UNEXPLAINED.value, Bound.BALANCED.value],
        names,
    )
    return classes.tolist(), np.where(known, margin, np.nan)


def flat_cells(cells: pd.DataFrame) -> "pd.Series[bool]":
    """True for cells in a stretch of M over which one provider's time stays within 10 % and FLOPs grow fourfold."""
    flat = pd.Series(False, index=cells.index)
    timed = cells.loc[cells["verdict"] == Verdict.PASSED].sort_values("flops", kind="stable")
    for _, series in timed.groupby([*SHAPE, *SETTING, "provider"], sort=False):
        for first, last in _stretches(series["time_s"].to_numpy(), series["flops"].to_numpy()):
            flat.loc[series.index[first : last + 1]] = True
    return flat


def _stretches(times: Floats, flops: Floats) -> Iterator[tuple[int, int]]:
    for first in range(len(times)):
        last = first
        while last + 1 < len(times) and np.ptp(np.log(times[first : last + 2])) <= np.log(FLAT_SPREAD):
            last += 1
        if flops[last] >= FLAT_GROWTH * flops[first]:
            yield first, last

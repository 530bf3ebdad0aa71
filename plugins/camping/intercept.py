"""What a launch takes before its first row: t = a + b M over small M.

A stall that does not depend on the work raises a, and leaves b as it is; more traffic or more arithmetic raises b.
"""

import numpy as np
import pandas as pd

from ...analysis.statistics.arrays import Floats, Ints, floats, moments
from .points import POINT, stretches

MAX_M = 16
"""Rows up to which time is taken to be a line."""

MIN_MS = 3
"""Different M that a line needs here: two always lie on one."""

SHAPE = tuple(name for name in POINT if name != "M")


def intercepts(found: pd.DataFrame, rounds: pd.DataFrame) -> pd.DataFrame:
    """Return one row per shape and provider with three or more M up to 16.

    `rounds` is ln time [points, rounds]. Columns, besides `SHAPE`: intercept_s, slope_s (Theil-Sen: the median of the
    slopes between any two M, and the median of what is left, so that one M out of line does not matter),
    intercept_se_s, slope_se_s (from the lines of single rounds, NaN with fewer than two), expected_s (of the smallest
    M), Ms, and first (the point with the smallest M).
    """
    small = found.loc[found["M"] <= MAX_M].sort_values("M", kind="stable")
    number: Ints = np.asarray(small.groupby([*SHAPE], sort=False, dropna=False).ngroup(), dtype=np.int64)
    order = np.argsort(number, kind="stable")
    small, number = small.iloc[order], number[order]
    rows = []
    Ms = small["M"].to_numpy()
    parts = [slice(first, last) for first, last in stretches(number) if last - first >= MIN_MS]
    alike: dict[tuple[int, ...], list[slice]] = {}
    for part in parts:
        alike.setdefault(tuple(Ms[part].tolist()), []).append(part)
    every_round = np.exp(rounds.reindex(small.index).to_numpy(dtype=np.float64))
    whole = floats(small, "time_s")
    firsts = small.index.to_numpy()
    for sizes, places in alike.items():
        x = np.array(sizes, dtype=np.float64)
        a, b = _lines(x, np.stack([whole[part] for part in places]))
        per_round = np.stack([every_round[part].T for part in places])  # [shapes, rounds, M]
        a_r, b_r = _lines(x, per_round)
        a_se, b_se = (np.sqrt(one.variance / one.rounds) for one in map(moments, (a_r, b_r)))
        for index, part in enumerate(places):
            rows.append((firsts[part][0], a[index], b[index], a_se[index], b_se[index], sizes))
    names = ["first", "intercept_s", "slope_s", "intercept_se_s", "slope_se_s", "Ms"]
    lines = pd.DataFrame(rows, columns=names)
    return lines.join(found[[*SHAPE, "expected_s", "model", "layer", "disturbed"]], on="first")


def _lines(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Theil-Sen intercepts and slopes of y [..., n] over x [n]; NaN where a y is."""
    left, right = np.triu_indices(len(x), 1)
    slope = np.median((y[..., right] - y[..., left]) / (x[right] - x[left]), axis=-1)
    intercept = np.median(y - slope[..., None] * x, axis=-1)
    return intercept, slope

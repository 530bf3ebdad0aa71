"""What a launch takes before its first row: t = a + b M over small M.

A stall that does not depend on the work raises a, and leaves b as it is; more traffic or more arithmetic raises b.
"""

from typing import Any

import numpy as np

from ...analysis.statistics.arrays import Floats

MAX_M = 16
"""Rows up to which time is taken to be a line."""

MIN_MS = 3
"""Different M that a line needs here: two always lie on one."""

FIXED, ROWS = "intercept", "slope"

_STEEP = 0.5
"""Share of the excess that growth with M must explain, at M = 16, to be called more than a fixed stall."""


def raised(M: Floats, time_s: Floats, over: Floats) -> dict[str, Any]:
    """Compare the line through the times of a size with that through the times of its neighbours.

    `over` is ln time above the neighbours' (NaN unknown). Returns intercept_s, usual_intercept_s of the neighbours, and
    raises: which of a and b is above theirs, "intercept", "intercept and slope", "slope" or "" (fewer than three M).
    """
    known = (M <= MAX_M) & np.isfinite(over)
    if known.sum() < MIN_MS:
        return {"intercept_s": np.nan, "usual_intercept_s": np.nan, "raises": ""}
    M, time_s, over = M[known], time_s[known], over[known]
    (own, slope), (usual, usual_slope) = line(M, time_s), line(M, time_s * np.exp(-over))
    what = [FIXED] * (own > usual) + [ROWS] * (MAX_M * (slope - usual_slope) > _STEEP * abs(own - usual))
    return {"intercept_s": own, "usual_intercept_s": usual, "raises": " and ".join(what)}


def line(x: Floats, y: Floats) -> tuple[float, float]:
    """Return intercept and slope by Theil and Sen: the median of the slopes between any two points, and of the rest.

    One point out of line does not matter.
    """
    left, right = np.triu_indices(len(x), 1)
    slope = float(np.median((y[right] - y[left]) / (x[right] - x[left])))
    return float(np.median(y - slope * x)), slope

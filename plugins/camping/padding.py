"""A size that is a little larger and takes less time: from measured points only."""

import numpy as np
import pandas as pd

from ...analysis.statistics.arrays import Flags, Floats, Ints, floats
from .points import SHAPES

REACH = 1.25
"""Largest padding that is proposed, as a ratio of sizes."""

MIN_SAVED = 0.02
"""Least share of the time that padding has to save."""


class Paddings:
    """Answers for the rows of `points.series`; `slow` are rows that must not be padded to."""

    def __init__(self, rows: pd.DataFrame, slow: Flags) -> None:
        self._series: Ints = rows["series"].to_numpy(dtype=np.int64)
        self._size: Ints = rows["size"].to_numpy(dtype=np.int64)
        self._time: Floats = floats(rows, "time_s")
        self._half: Floats = floats(rows, "half")
        self._slow = slow | (rows["axis"] == SHAPES).to_numpy(dtype=bool)  # nobody pads to another shape

    def faster(self, row: int) -> dict[int, float]:
        """Larger sizes of the row's series that are faster beyond their intervals: padding -> share of time saved.

        None where a time has no interval.
        """
        found = {}
        for other in range(row + 1, len(self._size)):
            if self._series[other] != self._series[row] or self._size[other] > REACH * self._size[row]:
                break
            gain = float(np.log(self._time[row] / self._time[other]))
            certain = gain > self._half[row] + self._half[other] and -np.expm1(-gain) >= MIN_SAVED
            if certain and not self._slow[other]:
                found[int(self._size[other] - self._size[row])] = float(-np.expm1(-gain))
        return found

    def best(self, rows: list[int], helped: float) -> dict[str, float]:
        """Return the smallest padding (`pad`) that helps at least `helped` of these rows.

        `saved` is the median over the rows that it helps. Both are NaN where nothing that was measured helps.
        """
        saved: dict[int, list[float]] = {}
        for row in rows:
            for pad, share in self.faster(row).items():
                saved.setdefault(pad, []).append(share)
        enough = [pad for pad, shares in saved.items() if len(shares) >= helped]
        if not enough:
            return {"pad": np.nan, "saved": np.nan}
        return {"pad": min(enough), "saved": float(np.median(saved[min(enough)]))}

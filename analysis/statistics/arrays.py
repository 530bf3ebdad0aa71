"""Arrays: their types, columns of frames as arrays, and moments over the last axis of arrays with gaps (NaN)."""

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


def floats(frame: pd.DataFrame, name: str) -> Floats:
    """Return a column as an array; NaN where it is unknown, and throughout where a run of an older version lacks it."""
    if name not in frame:
        return np.full(len(frame), np.nan)
    return frame[name].to_numpy(dtype=np.float64, na_value=np.nan)


class Moments(NamedTuple):
    """Of the known values along an axis: mean (NaN without any), variance (NaN with fewer than two), and how many."""

    mean: Floats
    variance: Floats
    known: Floats

    @property
    def freedom(self) -> Floats:
        """Degrees of freedom of the variance."""
        return np.maximum(self.known - 1, 0)


def moments(values: Floats) -> Moments:
    """Return mean, variance and number of the known values over the last axis."""
    known = np.isfinite(values)
    count = np.asarray(known.sum(axis=-1), dtype=np.float64)
    mean = _over(np.where(known, values, 0.0).sum(axis=-1), count)
    squares = np.where(known, values - mean[..., None], 0.0) ** 2
    return Moments(mean, _over(squares.sum(axis=-1), count - 1), count)


def _over(sums: Floats, count: Floats) -> Floats:
    return np.asarray(np.where(count > 0, sums / np.maximum(count, 1), np.nan), dtype=np.float64)


def row_medians(values: Floats) -> Floats:
    """Return the median of the known values of each row; NaN for a row without any, and no warning."""
    ordered = np.sort(values, axis=1)  # NaN goes last
    count = np.sum(~np.isnan(values), axis=1)
    low, high = (
        np.take_along_axis(ordered, np.maximum(0, place)[:, None], axis=1)[:, 0]
        for place in ((count - 1) // 2, count // 2 - (count == 0))
    )
    return np.where(count > 0, (low + high) / 2, np.nan)

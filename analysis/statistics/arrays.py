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
    """Mean (NaN without a value), variance of a single value (NaN with fewer than two), and degrees of freedom of it.

    variance / rounds is the squared standard error of the mean; `rounds` is the number of known values.
    """

    mean: Floats
    variance: Floats
    freedom: Floats
    rounds: Floats


def moments(values: Floats) -> Moments:
    """Take the moments of the known values over the last axis."""
    known = np.isfinite(values)
    count = np.asarray(known.sum(axis=-1), dtype=np.float64)
    mean = _over(np.where(known, values, 0.0).sum(axis=-1), count)
    squares = np.where(known, values - mean[..., None], 0.0) ** 2
    return Moments(mean, _over(squares.sum(axis=-1), count - 1), np.maximum(count - 1, 0), count)


def difference(first: Moments, second: Moments) -> Moments:
    """Second mean less the first of independent values, with the degrees of freedom of Welch and Satterthwaite.

    `rounds` is the harmonic mean of both. Nothing is known of the scatter where one side has fewer than two values.
    """
    counts = np.stack([first.rounds, second.rounds], axis=-1)
    each = np.stack([first.variance, second.variance], axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        each = each / counts
        total = each.sum(axis=-1)
        freedom = total**2 / (each**2 / (counts - 1)).sum(axis=-1)
        rounds = 2 / (1 / counts).sum(axis=-1)
    fewest = counts.min(axis=-1)
    alone = fewest < 2
    freedom = np.where(total > 0, freedom, fewest - 1)  # no scatter at all: the variances say nothing about freedom
    return Moments(
        second.mean - first.mean,
        np.where(alone, np.nan, total * rounds),
        np.where(alone, 0.0, freedom),
        np.where(alone, 0.0, rounds),
    )


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

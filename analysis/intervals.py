"""Confidence intervals over many groups at once."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtrit

from ..shapes.median import interval_ranks

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CONFIDENCE = 0.95


def t_quantile(count: "pd.Series[int]") -> Floats:
    """Two-sided 95 % quantile of Student's t with count - 1 degrees of freedom; NaN where count < 2."""
    freedom = count.to_numpy(dtype=float) - 1
    return np.asarray(stdtrit(np.where(freedom > 0, freedom, np.nan), (1 + CONFIDENCE) / 2), dtype=np.float64)


def mean_interval(values: "pd.Series[float]", keys: "pd.Series[str]") -> pd.DataFrame:
    """Per key: `mean`, `se` (standard error), `low`, `high` (95 %, Student's t) and `count` of `values`.

    `se`, `low` and `high` are NaN for a key with one value.
    """
    stats = values.groupby(keys, sort=False).agg(["mean", "std", "count"])
    se = stats["std"] / np.sqrt(stats["count"])
    half = se * t_quantile(stats["count"])
    return pd.DataFrame(
        {"mean": stats["mean"], "se": se, "low": stats["mean"] - half, "high": stats["mean"] + half}
        | {"count": stats["count"]}
    )


def median_interval(ordered: Floats, starts: Ints, counts: Ints) -> tuple[Floats, Floats]:
    """95 % order-statistic interval of the median of each group (`shapes.median`); NaN for groups that are too small.

    `ordered` holds the groups one after another, each sorted; group g is ordered[starts[g] : starts[g] + counts[g]].
    """
    low, high = np.full(len(starts), np.nan), np.full(len(starts), np.nan)
    for count in np.unique(counts):
        ranks = interval_ranks(int(count), CONFIDENCE)
        if ranks is not None:
            group = counts == count
            low[group] = ordered[starts[group] + ranks[0]]
            high[group] = ordered[starts[group] + ranks[1]]
    return low, high

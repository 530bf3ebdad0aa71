"""The median and its distribution-free interval, used by the stop rule and by the analysis alike."""

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist, median

__all__ = ["interval", "interval_ranks", "median"]


@lru_cache(maxsize=4096)
def interval_ranks(count: int, confidence: float = 0.95) -> tuple[int, int] | None:
    """Zero-based ranks (low, high) of the order statistics that cover the median with at least `confidence`.

    With X ~ Binomial(n, 1/2), the interval [x_(j), x_(n+1-j)] covers the median with probability 1 - 2 P(X <= j-1), and
    the largest such j is taken (Conover, Practical Nonparametric Statistics, 3rd ed., section 3.2). None when even the
    whole range does not reach `confidence` (n < 6 at 95 %).
    """
    tail = (1 - confidence) / 2
    if count > 1000:  # normal approximation with continuity, conservative by a rank; exact sums lose nothing but time
        low = math.floor(count / 2 + NormalDist().inv_cdf(tail) * math.sqrt(count) / 2 - 1)
        return low, count - 1 - low
    cumulative, low = 0, -1
    limit = tail * 2**count
    for rank in range(count):
        cumulative += math.comb(count, rank)
        if cumulative > limit:
            break
        low = rank
    return None if low < 0 else (low, count - 1 - low)


def interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float] | None:
    """Confidence interval of the median of independent values by order statistics; None when there are too few."""
    ranks = interval_ranks(len(values), confidence)
    if ranks is None:
        return None
    ordered = sorted(values)
    return ordered[ranks[0]], ordered[ranks[1]]

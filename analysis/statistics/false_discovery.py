"""Many tests at once: which of them may be believed.

scipy.stats has the same procedure; importing it looks for array libraries that the analysis does without.
"""

import numpy as np

from .intervals import Floats


def adjusted(p: Floats) -> Floats:
    """q values of Benjamini and Hochberg (1995): the least false discovery rate at which each test is called.

    q_(i) = min over j >= i of p_(j) n / j, for p in rising order. NaN stays NaN and does not count.
    """
    q = np.full(p.shape, np.nan)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    count = len(order)
    scaled = p[order] * count / np.arange(1, count + 1)
    q[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return q

"""Waves and tiles: what of a series follows from how its work is cut up, and has nothing to do with memory.

A launch of W workgroups on S slots (compute units times what each of them holds) takes ceil(W / S) waves, of which
the last is partly idle; of its U compute units the busiest does ceil(W / U) workgroups, more than the mean; and tiles
at the edge compute what is not needed. Where nothing but one of these counted, time would be multiplied by
ceil(W / S) S / W, by ceil(W / U) U / W or by issued / useful FLOPs: ln_idle, ln_busy and ln_padded. How far a kernel
follows each is a fraction between 0 (a kernel that waits for memory, say) and 1, and is estimated per series.
"""

import numpy as np
import pandas as pd
from scipy.optimize import nnls

from ...analysis.statistics.arrays import Floats, floats
from .points import stretches

CAUSES = ("ln_idle", "ln_busy", "ln_padded")

MIN_POINTS = 12
"""Least points that show how far a series follows its waves and tiles; a shorter one is taken to follow them fully."""

_ROUNDS = 15
_SMALLEST = 1e-4
"""Least ln time that counts in the weights of the robust fit: a hundredth of a percent."""


def predicted(rows: pd.DataFrame) -> Floats:
    """Return per row of `points.series` the ln time that waves and tiles cost, 0 where they are unknown.

    Within a series only differences count. The fractions come from a least-absolute fit of the steps between adjacent
    sizes, which a few slow sizes do not influence, kept within 0 and 1.
    """
    causes = np.nan_to_num(np.stack([floats(rows, name) for name in CAUSES], axis=1))
    e = floats(rows, "e")
    effect = np.zeros(len(rows))
    for first, last in stretches(rows["series"].to_numpy(dtype=np.int64)):
        own = causes[first:last]
        if not np.ptp(own, axis=0).any():
            continue
        if last - first >= MIN_POINTS:
            effect[first:last] = own @ _fractions(np.diff(own, axis=0), np.diff(e[first:last]))
        else:
            effect[first:last] = own[:, :2].max(axis=1) + own[:, 2]
    return effect


def _fractions(causes: Floats, steps: Floats) -> Floats:
    """Least absolute deviations of `steps` [n] from `causes` [n, 3] @ fractions, by reweighting; each in 0..1."""
    weights = np.ones(len(steps))
    fractions = np.zeros(len(CAUSES))
    for _ in range(_ROUNDS):
        fractions = np.minimum(nnls(causes * weights[:, None], steps * weights)[0], 1)
        weights = 1 / np.sqrt(np.maximum(np.abs(steps - causes @ fractions), _SMALLEST))
    return fractions

"""M that a refinement added: where one may take part, and how little it counts.

A refinement measures further M of single shapes, around their crossovers, and of two providers only. An M that some arm
was never asked for would be decided without it, although the table gives its row to the M below as well. And a shape
does not become more important by having been measured more often.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ..statistics.intervals import Floats, Ints

Bools = NDArray[np.bool_]


def asked_of_all(place: Ints, places: int, arm: Ints, arms: int) -> Bools:
    """Tell for each of `places` whether every arm has a cell there, whatever became of it.

    `place` and `arm` have one entry per cell; an `arm` of `arms` or above is none.
    """
    asked = np.zeros((places, arms), dtype=bool)
    one = arm < arms
    asked[place[one], arm[one]] = True
    return np.asarray(asked.all(axis=1))


def shared_weights(sizes: Ints, refined: Bools, groups: Iterable[Ints]) -> Floats:
    """Weights of cases, which sum to 1; `sizes` are their M, `groups` the positions of each shape and setting.

    Every swept M counts 1. It stands for all M above the next smaller swept one, because kernels and tables pad M up;
    what a refinement measured among these takes its part of that, by widths in log2 M.
    """
    weights = np.ones(len(sizes))
    for rows in groups:
        if refined[rows].any() and not refined[rows].all():
            weights[rows] = _shared(sizes[rows], refined[rows])
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def _shared(sizes: Ints, refined: Bools) -> Floats:
    order = np.argsort(sizes, kind="stable")
    logs = np.log2(sizes[order].astype(np.float64))
    widths = np.diff(logs, prepend=logs[0] - 1)
    swept = np.flatnonzero(~refined[order])
    # beyond the last swept M there is none to pad up to: these share its weight
    stands_for = np.minimum(np.searchsorted(swept, np.arange(len(order))), len(swept) - 1)
    totals = np.bincount(stands_for, widths)
    found: Floats = np.empty(len(order))
    found[order] = widths / totals[stands_for]
    return found

"""Steps of an origin that is not stored: is a series a sawtooth of ceil(size / Q)?

Tiles and waves make time jump just beyond the multiples of some Q, which is unknown where a run stores no tiles. Such a
sawtooth is looked for before any resonance, and removed if it explains more than the best resonance would.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ...analysis.statistics.arrays import Floats, Ints
from .resonance import LEVEL, SizeSet, detrended, permutations

_PERMUTATIONS = 199
_WIDTHS = 256
_MOST = 2
"""Sawteeth of one series: of tiles, and of waves."""


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """`e` without the sawteeth that were found, and their `widths` (multiples at which a step ends)."""

    e: Floats
    widths: tuple[int, ...]


def without_steps(e: Floats, sizes: Ints, sets: list[SizeSet]) -> Steps:
    """Take up to two sawteeth out of ln time `e` [n], each if chance gives none as good and no set of `sets` is.

    The height of a sawtooth is estimated; where time follows whole steps only it is ln(ceil(size / Q) Q / size).
    """
    widths, teeth = _teeth(tuple(sizes.tolist()))
    if not len(widths):
        return Steps(e, ())
    combs = _unit(np.stack([one.members for one in sets], axis=1).astype(np.float64), sizes)
    orders = permutations((0,) * len(sizes))[:_PERMUTATIONS]
    found: list[int] = []
    for _ in range(_MOST):
        rest = detrended(e, sizes)
        if not rest.any():
            break
        fits = rest @ teeth
        best = int(fits.argmax())
        chance = (1 + np.sum((rest[orders] @ teeth).max(axis=1) >= fits[best])) / (1 + _PERMUTATIONS)
        if chance > LEVEL / 5 or fits[best] <= (rest @ combs).max(initial=0.0):
            break
        e = e - fits[best] * teeth[:, best]
        found.append(int(widths[best]))
    return Steps(e, tuple(found))


@lru_cache(maxsize=64)
def _teeth(of: tuple[int, ...]) -> tuple[Ints, Floats]:
    """Widths of steps that hold at least two sizes and of which there are two, and a sawtooth [n] for each."""
    sizes = np.array(of, dtype=np.int64)
    step = int(np.gcd.reduce(sizes))
    most = int(sizes.max()) // 2
    widths = np.arange(2 * step, most + 1, max(step, most // _WIDTHS // step * step), dtype=np.int64)
    return widths, _unit(np.log(np.ceil(sizes[:, None] / widths) * widths / sizes[:, None]), sizes)


def _unit(shapes: Floats, sizes: Ints) -> Floats:
    """Take the slow part out of each column and scale it to length one; a column without anything else is zero."""
    rest = detrended(shapes, sizes)
    length = np.linalg.norm(rest, axis=0)
    return np.asarray(rest / np.where(length > 1e-9, length, np.inf), dtype=np.float64)

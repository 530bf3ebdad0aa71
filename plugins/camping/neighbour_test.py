"""Sizes that take longer than the sizes on BOTH sides of them.

An edge (of a wave, of a tile, of a dispatch rule) is as slow as one of its sides; a size that camps is slower than
both. So the excess of a size is taken over the slower side. Where waves and tiles are not known, a step may keep time
as it is over some larger sizes, but never lets it fall: the larger sizes then count with their time, and not with what
they take of their expected time. So no step, known or not, is an outlier.
"""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from ...analysis.frames.coordinates import SETTING
from ...analysis.statistics.arrays import Flags, Floats, Ints, floats, row_medians

SIDE = 3
"""Neighbours on each side, at most; those of the same number of workgroups alone, where there are any."""

REACH = 2.0
"""Largest ratio of two sizes that are neighbours."""

MIN_EXCESS = 1.10
"""Least ratio to the slower side that is reported."""

MIN_Z = 5.0
"""Least excess in units of the spread between neighbours."""

OWN, POOLED = 16, 6
"""Least inner sizes of a series, or of all series of one provider, that show the spread between neighbours."""

SMALLEST_SPREAD = 0.002
"""Spread of ln time that is never undercut: repetitions of one cell differ by about as much."""

_MAD = 1.4826
"""A normal distribution's standard deviation per median absolute deviation."""


def around(sizes: Ints, series: Ints) -> Ints:
    """Return [n, 2 SIDE] the rows of each row's neighbours, -1 for none: first those below, nearest first.

    Rows are ordered by series, then size.
    """
    count = len(sizes)
    found = np.full((count, 2 * SIDE), -1, dtype=np.int64)
    row = np.arange(count)
    for distance in range(1, SIDE + 1):
        for column, offset in ((distance - 1, -distance), (SIDE + distance - 1, distance)):
            other = np.clip(row + offset, 0, max(0, count - 1))
            inside = (row + offset >= 0) & (row + offset < count) & (series[other] == series)
            ratio = np.maximum(sizes[other], sizes) / np.minimum(sizes[other], sizes)
            found[:, column] = np.where(inside & (ratio <= REACH), other, -1)
    return found


def alike(rows: Ints, workgroups: Floats) -> Ints:
    """Keep of the neighbours on each side those with the row's own number of workgroups, if there are any."""
    kept = rows.copy()
    same = (rows >= 0) & (workgroups[rows] == workgroups[:, None])
    for side in (slice(0, SIDE), slice(SIDE, 2 * SIDE)):
        some = same[:, side].any(axis=1)
        kept[:, side] = np.where(some[:, None] & ~same[:, side], -1, kept[:, side])
    return kept


def sides(values: Floats, rows: Ints, allowance: Floats | None = None) -> tuple[Floats, Floats]:
    """Median of `values` over the neighbours below, and over those above; NaN for a side without any.

    `allowance` [n, 6] is added to each neighbour's value, if given.
    """
    found = np.append(values, np.nan)[rows]
    if allowance is not None:
        found = found + allowance
    return row_medians(found[:, :SIDE]), row_medians(found[:, SIDE:])


def step_allowance(ln_expected: Floats, rows: Ints, known: Flags) -> Floats:
    """How much more of its expected time each neighbour may have taken without a step [n, 6]: 0 below, and where known.

    `known` are rows whose waves and tiles are known. Time that does not fall from a size to a larger one is a share of
    the expected time that falls by the ratio of the expected times.
    """
    grows = np.append(ln_expected, np.nan)[rows] - ln_expected[:, None]
    both = known[:, None] & np.append(known, False)[rows]
    above = np.arange(2 * SIDE) >= SIDE
    return np.where(above & ~both, np.maximum(np.nan_to_num(grows), 0), 0.0)


def spreads(values: Floats, low: Floats, high: Floats, series: Ints, pools: Ints) -> Floats:
    """Per row the spread of ln time about the middle of its neighbours, in its series or pool; NaN if neither knows.

    A median absolute deviation, which a few slow sizes hardly change.
    """
    middle = values - (low + high) / 2
    frame = pd.DataFrame({"value": middle, "series": series, "pool": pools})
    spread = pd.Series(np.nan, index=frame.index)
    for key, least in (("series", OWN), ("pool", POOLED)):
        groups = frame.groupby(key)["value"]
        deviation = (frame["value"] - groups.transform("median")).abs()
        own = _MAD * deviation.groupby(frame[key]).transform("median")
        spread = spread.fillna(own.where(groups.transform("count") >= least))
    return np.maximum(spread.to_numpy(dtype=np.float64), SMALLEST_SPREAD)


def outlying(over: Floats, spread: Floats) -> Flags:
    """Find the excesses that are both large and far beyond the spread."""
    with np.errstate(invalid="ignore"):
        return np.asarray((over > np.log(MIN_EXCESS)) & (over > MIN_Z * spread), dtype=np.bool_)


@dataclass(frozen=True, slots=True, eq=False)
class NeighbourTest:
    """Per row: how it compares with its neighbours.

    near        rows of its neighbours [n, 6], -1 for none
    allowed     ln time by which it may exceed them because of a step: 0 where waves and tiles are known
    over        ln time above the slower side, waves and tiles taken out; NaN without both sides
    spread      of ln time between neighbours; NaN where too few are known
    stands_out  beyond its neighbours, with waves and tiles as they are and without them
    explained   beyond its neighbours, but not once waves and tiles are taken out
    """

    near: Ints
    allowed: Floats
    over: Floats
    spread: Floats
    stands_out: Flags
    explained: Flags

    @property
    def tested(self) -> Flags:
        """Rows that could have stood out: with neighbours on both sides, and a known spread."""
        return np.isfinite(self.over) & np.isfinite(self.spread)

    def where_not(self, rows: Flags) -> "NeighbourTest":
        """Return the same with `rows` untested."""
        over = np.where(rows, np.nan, self.over)
        return replace(self, over=over, stands_out=self.stands_out & ~rows, explained=self.explained & ~rows)


def neighbour_test(rows: pd.DataFrame, e: Floats, effect: Floats, error: Floats) -> NeighbourTest:
    """Test rows that are ordered by series and size.

    e is ln time per expected time, effect what waves and tiles make of it, error its standard error (NaN: unknown).
    """
    series = rows["series"].to_numpy(dtype=np.int64)
    near = alike(around(rows["size"].to_numpy(dtype=np.int64), series), floats(rows, "workgroups"))
    bare = e - effect
    known = np.isfinite(floats(rows, "ln_idle")) & np.isfinite(floats(rows, "ln_padded"))
    allowance = step_allowance(np.log(floats(rows, "expected_s")), near, known)
    raw, over = (values - np.maximum(*sides(values, near, allowance)) for values in (e, bare))
    pools: Ints = np.asarray(rows.groupby(["provider", *SETTING, "axis"], sort=False).ngroup(), dtype=np.int64)
    between = spreads(bare, *sides(bare, near), series, pools)
    spread = np.where(np.isnan(between), np.nan, np.fmax(between, error))
    with np.errstate(invalid="ignore"):
        stands_out = outlying(over, spread) & (raw > np.log(MIN_EXCESS))
        explained = outlying(raw, spread) & ~outlying(over, spread)
    return NeighbourTest(near, allowance.max(axis=1, initial=0.0), over, spread, stands_out, explained)

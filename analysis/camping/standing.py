"""The neighbour test on a table of sizes: cells, or intercepts."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from ..frames.coordinates import SETTING
from ..statistics.intervals import Floats, Ints
from .neighbours import MIN_EXCESS, Flags, alike, around, outlying, sides, spreads, step_allowance
from .points import floats


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """Per row: how it stands among its neighbours.

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

    def where_not(self, rows: Flags) -> "Standing":
        """Return the same with `rows` untested."""
        over = np.where(rows, np.nan, self.over)
        return replace(self, over=over, stands_out=self.stands_out & ~rows, explained=self.explained & ~rows)


def standing(rows: pd.DataFrame, e: Floats, effect: Floats, error: Floats) -> Standing:
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
    return Standing(near, allowance.max(axis=1, initial=0.0), over, spread, stands_out, explained)

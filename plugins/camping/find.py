"""All tests of camping on one run."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ...analysis.frames.coordinates import SETTING
from ...analysis.statistics.arrays import Flags, floats
from ...shapes.verdict import Verdict
from .neighbour_test import MIN_EXCESS, MIN_Z, NeighbourTest, neighbour_test
from .outliers import outliers
from .periods import scan
from .points import SHAPES, points, series
from .processes import times_by_process, together
from .quantization import predicted


@dataclass(frozen=True, slots=True, eq=False)
class Camping:
    """What was found, and what would have been.

    suspects  `outliers.OUTLIER_COLUMNS`, worst first; those with an explanation are not suspected of camping
    periods   `periods.PERIOD_COLUMNS`, by provider and axis
    scans     `periods.SCAN_COLUMNS`: every series that was searched for periods
    sizes     one row per point and axis: what a resonance plot shows (see `find`)
    coverage  per provider and setting: cells (with a time), impossible (of these, excluded), points, tested (with
              neighbours on both sides), series (along N or K) and the longest, scans, detectable (least ratio to the
              neighbours that the median point would have been named for; NaN where none was tested)
    """

    suspects: pd.DataFrame
    periods: pd.DataFrame
    scans: pd.DataFrame
    sizes: pd.DataFrame
    coverage: pd.DataFrame


def find(
    placed: pd.DataFrame,
    rounds: pd.DataFrame,
    cells: pd.DataFrame,
    again: Sequence[tuple[pd.DataFrame, pd.DataFrame]] = (),
) -> Camping:
    """Look for camping in a run: `placed` of `roofline.place`, `rounds` of `round_medians`, `cells` of cells.csv.

    `again` are the rounds and cells of further runs of the same cells: what they show counts as reproduced, and nothing
    else of them is used.

    `sizes` has the columns of `points.series` and over (ln time above the slower side of the neighbours), spread,
    stands_out, explained, and period (that it is a multiple of, of those found; NaN for none).
    """
    found = points(placed)
    rows = series(found)
    effect = predicted(rows)
    test = neighbour_test(rows, floats(rows, "e"), effect, floats(rows, "half") / 2)
    test = test.where_not(_superfluous(rows, test))
    times = times_by_process(found, placed, *together([(rounds, cells), *again]))
    along = (rows["axis"] != SHAPES).to_numpy()
    scans, periods = scan(rows.loc[along], effect[along], times, test.stands_out[along])
    listed = outliers(rows, test, times)
    order = listed.assign(plain=listed["explained"] != "").sort_values(["plain", "excess_s"], ascending=[True, False])
    marked = rows.assign(
        over=test.over, spread=test.spread, stands_out=test.stands_out, explained=test.explained,
        period=_period_of(rows, periods),
    )  # fmt: skip
    return Camping(
        suspects=order.drop(columns="plain").reset_index(drop=True),
        periods=periods,
        scans=scans,
        sizes=marked,
        coverage=_coverage(placed, found, rows, test, scans),
    )


def _superfluous(rows: pd.DataFrame, test: NeighbourTest) -> Flags:
    """Rows that compare a shape with others of its size although it was tested along N or K, which says more."""
    closer = (rows["axis"] != SHAPES) & test.tested
    return ((rows["axis"] == SHAPES) & rows["point"].isin(rows.loc[closer, "point"])).to_numpy(dtype=bool)


def _period_of(rows: pd.DataFrame, periods: pd.DataFrame) -> "pd.Series[float]":
    """The period found in a row's series that its size is a multiple of; NaN for none."""
    period = pd.Series(np.nan, index=rows.index)
    for number, value, sizes in periods[["series", "period", "sizes"]].itertuples(index=False, name=None):
        inside = (rows["series"] == number) & rows["size"].isin(sizes)
        period = period.where(~inside | period.notna(), value)
    return period


def _coverage(
    placed: pd.DataFrame, found: pd.DataFrame, rows: pd.DataFrame, test: NeighbourTest, scans: pd.DataFrame
) -> pd.DataFrame:
    """Say per provider and setting what was tested, and how small an excess would have been named."""
    keys = ["provider", *SETTING]
    needed = np.maximum(np.log(MIN_EXCESS), MIN_Z * test.spread) + test.allowed
    along = rows[[*keys, "point", "series"]].assign(needed=np.where(test.tested, needed, np.nan))
    tested = along.loc[along["needed"].notna()]
    table = (
        placed.loc[placed["verdict"] == Verdict.PASSED]
        .groupby(keys, sort=False)
        .agg(cells=("cell_id", "size"), impossible=("impossible", "sum"))
    )
    table["points"] = found.groupby(keys).size()
    table["tested"] = tested.drop_duplicates("point").groupby(keys).size()
    table["detectable"] = np.exp(tested.groupby(keys)["needed"].median())
    lengths = along.loc[rows["axis"] != SHAPES].groupby([*keys, "series"]).size()
    table["series"] = lengths.groupby(keys).size()
    table["longest"] = lengths.groupby(keys).max()
    table["scans"] = scans.groupby(keys).size() if len(scans) else 0
    counts = ["points", "tested", "series", "longest", "scans"]
    table[counts] = table[counts].fillna(0).astype("int64")
    return table.reset_index()

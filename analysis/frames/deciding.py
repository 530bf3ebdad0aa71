"""Which times may decide something: whatever compares, sums or averages times of cells takes its rows from here."""

import pandas as pd

from ...shapes.verdict import Verdict


def deciding(cells: pd.DataFrame) -> pd.DataFrame:
    """Rows of cells that have passed and whose time is not impossible.

    `cells` has the columns verdict and impossible of `summarize`. Cells that are impossible are shown with their time,
    and what excludes them reports how many.
    """
    return cells.loc[(cells["verdict"] == Verdict.PASSED) & ~cells["impossible"]]

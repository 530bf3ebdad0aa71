"""What a scan kept constant while its size changed: the configuration of each provider, its number of workgroups."""

from collections.abc import Iterator

import pandas as pd

from ...shapes.run_folder.manifest import StoredScan
from ...shapes.verdict import Verdict
from ..frames.coordinates import SETTING

MOST_SIZES = 6
"""Sizes that are listed at most."""

PINNED = "pinned"


def held(cells: pd.DataFrame, scan: StoredScan | None) -> Iterator[str]:
    """Yield a line per provider of a scan: what was constant, what was not, and which sizes are equal in workgroups.

    `cells` are rows of cells.csv. Yields nothing for a run that is no scan.
    """
    if scan is None or scan.axis not in cells:
        return
    axis = scan.axis
    passed = cells.loc[cells["verdict"] == Verdict.PASSED].drop_duplicates("cell_id")
    base = passed["layer"].str.replace(rf" {axis}=\d+$", "", regex=True)
    for provider, own in passed.assign(base=base).groupby("provider", sort=False):
        yield f"scan of {axis}: {provider} {_configuration(own, axis)}; {_workgroups(own, axis)}"


def _configuration(own: pd.DataFrame, axis: str) -> str:
    pinned = own["tuning"] == PINNED
    if not pinned.any():
        return "chooses for itself at every size"
    if pinned.all():
        return "held its configuration"
    return f"was not held at {_sizes(own.loc[~pinned], axis)}, where it does not offer that configuration"


def _workgroups(own: pd.DataFrame, axis: str) -> str:
    known = own.dropna(subset=["workgroups"])
    if known.empty:
        return "workgroups unknown"
    series = [group for _, group in known.groupby(["model", "base", "M", *SETTING], sort=False)]
    if all(group["workgroups"].nunique() == 1 for group in series):
        return "as many workgroups at every size"
    alone = all(group["workgroups"].is_unique for group in series)
    shared = max(int(group["workgroups"].value_counts().iloc[0]) for group in series)
    return "other workgroups at every size" if alone else f"at most {shared} sizes have as many workgroups"


def _sizes(rows: pd.DataFrame, axis: str) -> str:
    sizes = sorted({int(size) for size in rows[axis]})
    more = f" and {len(sizes) - MOST_SIZES} more" if len(sizes) > MOST_SIZES else ""
    return f"{axis}={','.join(map(str, sizes[:MOST_SIZES]))}{more}"

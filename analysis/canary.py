"""What the canary (a frozen GEMM and a frozen copy, timed now and then) says of the device itself.

It never changes with suite or provider: when its time moves, the device has moved. `drifts` looks at a whole run,
`moved` at the readings before and after each round of each cell.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from .intervals import Floats

KINDS = ("gemm", "copy")
"""The parts of the canary; `<kind>_s` is their column."""

MOVED = 0.03
"""A change beyond this share between the readings around a round disturbs it."""

MOVED_ON_CPU = 0.10
"""The same on a CPU, which shares its memory and its power with neighbours that come and go."""


@dataclass(frozen=True, slots=True)
class Drift:
    """How far one part of the canary moved over a run, as shares of its time; None with fewer than two readings.

    range   slowest reading over fastest, minus 1
    trend   change over the run along the line through ln(time) against time whose slope is the median of the slopes
            between all pairs of readings (Theil and Sen): one odd reading does not tilt it; above 0: it became slower
    """

    kind: str
    readings: int
    range: float | None
    trend: float | None


def drifts(canary: pd.DataFrame, several_devices: bool = False) -> tuple[Drift, ...]:
    """Return the drift of GEMM and copy from the rows of canary.csv; empty without any.

    With `several_devices` the readings of each process stand alone, and the one that moved most is what counts.
    """
    if canary.empty:
        return ()
    timed = canary.assign(at=seconds(canary["at"])).sort_values("at", kind="stable")
    groups = [rows for _, rows in timed.groupby("process")] if several_devices else [timed]
    return tuple(_drift(groups, kind, len(canary)) for kind in KINDS)


def moved(cells: pd.DataFrame, canary: pd.DataFrame, several_devices: bool = False) -> pd.DataFrame:
    """Change of the canary across each row of cells.csv: the reading after it over the reading before it, minus 1.

    Columns gemm and copy, on the index of `cells`; NaN where a reading is missing on either side. A row lasts from
    `started_at` for `elapsed_s`. With `several_devices` only the readings of its own process count for it.
    """
    changes = pd.DataFrame(np.nan, index=cells.index, columns=list(KINDS))
    begin = seconds(cells["started_at"])
    end = begin + cells["elapsed_s"].fillna(0)
    groups = cells.groupby("process").groups if several_devices else {None: cells.index}
    for process, rows in groups.items():
        own = canary if process is None else canary.loc[canary["process"] == process]
        readings = own.assign(at=seconds(own["at"])).dropna(subset=["at"]).sort_values("at", kind="stable")
        at = readings["at"].to_numpy()
        before = np.searchsorted(at, begin.loc[rows].to_numpy(), side="right") - 1
        after = np.searchsorted(at, end.loc[rows].to_numpy(), side="left")
        between = (before >= 0) & (after < len(at)) & begin.loc[rows].notna().to_numpy()
        for kind in KINDS:
            times = readings[f"{kind}_s"].to_numpy(dtype=np.float64)
            changes.loc[rows[between], kind] = times[after[between]] / times[before[between]] - 1
    return changes


def disturbances(
    cells: pd.DataFrame, canary: pd.DataFrame, several_devices: bool = False, threshold: float = MOVED
) -> "pd.Series[str]":
    """Say per cell_id by how much the canary moved around its rounds; a cell that it did not disturb is not in it."""
    changes = moved(cells, canary, several_devices)
    largest = pd.DataFrame({kind: _largest(changes[kind], cells["cell_id"], threshold) for kind in KINDS})
    texts = [_text(dict(zip(KINDS, row, strict=True))) for row in largest.itertuples(index=False, name=None)]
    return pd.Series(texts, index=largest.index, dtype="str")


def _drift(groups: list[pd.DataFrame], kind: str, readings: int) -> Drift:
    several = [rows for rows in groups if len(rows) > 1]
    if not several:
        return Drift(kind, readings, None, None)
    times = [rows[f"{kind}_s"] for rows in several]
    slopes = [_trend(rows["at"].to_numpy(), rows[f"{kind}_s"].to_numpy()) for rows in several]
    trends = [trend for trend in slopes if trend is not None]
    spread = max(float(one.max() / one.min()) - 1 for one in times)
    return Drift(kind, readings, spread, max(trends, key=abs, default=None))


def _trend(at: Floats, times: Floats) -> float | None:
    """Relative change from the first reading to the last along the Theil-Sen line; None when they are of one moment."""
    first, second = np.triu_indices(len(at), k=1)
    apart = at[second] > at[first]
    if not apart.any():
        return None
    rise = np.log(times[second] / times[first])[apart]
    slope = float(np.median(rise / (at[second] - at[first])[apart]))
    return float(np.expm1(slope * (np.nanmax(at) - np.nanmin(at))))


def seconds(stamps: "pd.Series[str]") -> "pd.Series[float]":
    """Seconds since 1970 of ISO 8601 texts; NaN for what is none."""
    parsed = pd.to_datetime(stamps, utc=True, format="ISO8601", errors="coerce")
    return (parsed - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(seconds=1)


def _largest(changes: "pd.Series[float]", cell_ids: "pd.Series[str]", threshold: float) -> "pd.Series[float]":
    """Per cell the change farthest from 0, of those that count as moved."""
    far = changes.loc[changes.abs() > threshold].sort_values(key=abs, kind="stable")
    return far.groupby(cell_ids.loc[far.index]).last()


def _text(changes: dict[str, float]) -> str:
    parts = [f"{change:+.1%} ({kind})".replace("%", " %") for kind, change in changes.items() if not np.isnan(change)]
    return f"canary moved {', '.join(parts)}"

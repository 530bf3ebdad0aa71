"""What the canary (a frozen GEMM and a frozen copy, timed now and then) says of the device itself.

It never changes with suite or provider: when its time changes, the device has changed. `drifts_by_device` looks at a
whole run, `changes` at the readings before and after each round of each cell. Only a slowdown disturbs a cell: a canary
that became faster says that something had ended before, or that the device had warmed up.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ...shapes.run_folder.disturbance import Cause, Disturbance
from ..frames.load import seconds
from ..statistics.arrays import Floats
from ..statistics.intervals import quantile

KINDS = ("gemm", "copy")
"""The parts of the canary; `<kind>_s` is their column."""

SLOWDOWN = 0.03
"""A canary that takes longer by more than this share after a round than before it disturbs that round."""

SLOWDOWN_ON_CPU = 0.10
"""The same on a CPU, which shares its memory and its power with neighbours that come and go."""

SURE = 0.995
"""Probability that readings of one moment are less far apart than what disturbs."""

MOST_READINGS = 500
"""A trend is that of so many readings at most, evenly picked: the pairs among them grow with their square."""


@dataclass(frozen=True, slots=True)
class Drift:
    """How far one part of the canary drifted over a run, as shares of its time; None with fewer than two readings.

    range   slowest reading over fastest, minus 1
    trend   change over the run along the line through ln(time) against time whose slope is the median of the slopes
            between all pairs of readings (Theil and Sen): one odd reading does not tilt it; above 0: it became slower
    """

    kind: str
    readings: int
    range: float | None
    trend: float | None


def slowdown(is_cpu: bool) -> float:
    """Return the least slowdown that disturbs on such a device."""
    return SLOWDOWN_ON_CPU if is_cpu else SLOWDOWN


def device_numbers(processes: "pd.Series[int]", device_of: Mapping[int, int] | None) -> "pd.Series[int]":
    """Number of the device of each worker process; 0 throughout for a run of one device (`device_of` None).

    A process that `device_of` does not know is taken for a device of its own, numbered -1 - process.
    """
    if device_of is None:
        return pd.Series(0, index=processes.index, dtype="int64")
    numbers = {process: device_of.get(int(process), -1 - int(process)) for process in processes.unique()}
    return processes.map(numbers).astype("int64")


def drifts_by_device(canary: pd.DataFrame, device_of: Mapping[int, int] | None) -> dict[int, tuple[Drift, ...]]:
    """Return the drift of GEMM and copy of each device that has a reading, by its number (`device_numbers`).

    `device_of` has the device of each worker process where a run has several (`RunData.device_of`).
    """
    timed = canary.assign(at=seconds(canary["at"])).sort_values("at", kind="stable")
    groups = timed.groupby(device_numbers(timed["process"], device_of))
    return {int(number): tuple(_drift(rows, kind) for kind in KINDS) for number, rows in groups}


def worst_drifts(of_devices: Iterable[tuple[Drift, ...]]) -> tuple[Drift, ...]:
    """Join the drifts of devices, part by part: all readings, the widest range, the steepest trend; () without any."""
    return tuple(
        Drift(
            kind,
            sum(drift.readings for drift in alike),
            max((drift.range for drift in alike if drift.range is not None), default=None),
            max((drift.trend for drift in alike if drift.trend is not None), key=abs, default=None),
        )
        for kind, alike in zip(KINDS, zip(*of_devices, strict=True), strict=False)
    )


def thresholds(starts: pd.DataFrame, is_cpu: bool) -> dict[str, float]:
    """Return the slowdown of each part beyond which it disturbs: more than this machine's own scatter explains.

    `starts` is `RunData.starts`. Of a machine that stays the same, one reading exceeds another by more once in 200
    times (Student's t).
    """
    freedom = len(starts) - starts["process"].nunique()
    logs = pd.DataFrame(np.log(starts[[f"{kind}_s" for kind in KINDS]]))
    apart = logs - logs.groupby(starts["process"]).transform("mean")
    spread = np.sqrt((apart**2).sum().to_numpy() / max(freedom, 1))
    explained = quantile(SURE, np.array(float(freedom))) * math.sqrt(2) * spread  # NaN without a second reading
    found = np.fmax(slowdown(is_cpu), np.expm1(np.minimum(explained, 700.0)))
    return dict(zip(KINDS, found.tolist(), strict=True))


def changes(cells: pd.DataFrame, canary: pd.DataFrame, device_of: Mapping[int, int] | None = None) -> pd.DataFrame:
    """Change of the canary across each row of cells.csv: the reading after it over the reading before it, minus 1.

    Columns gemm and copy, on the index of `cells`; NaN where a reading is missing on either side. A row lasts from
    `started_at` for `elapsed_s`. With `device_of` only the readings of its own device count for it.
    """
    readings = canary.assign(at=seconds(canary["at"]), device=device_numbers(canary["process"], device_of))
    readings = readings.dropna(subset=["at"]).sort_values("at", kind="stable")
    rows = pd.DataFrame({"at": seconds(cells["started_at"]), "device": device_numbers(cells["process"], device_of)})
    rows = rows.rename_axis("row").reset_index().dropna(subset=["at"]).sort_values("at", kind="stable")
    before = pd.merge_asof(rows, readings, on="at", by="device").set_index("row")
    rows["at"] += rows["row"].map(cells["elapsed_s"].fillna(0))
    ended = rows.sort_values("at", kind="stable")
    after = pd.merge_asof(ended, readings, on="at", by="device", direction="forward").set_index("row")
    return pd.DataFrame({kind: after[f"{kind}_s"] / before[f"{kind}_s"] - 1 for kind in KINDS}).reindex(cells.index)


def disturbances(
    cells: pd.DataFrame,
    canary: pd.DataFrame,
    device_of: Mapping[int, int] | None,
    least: Mapping[str, float],
) -> "pd.Series[str]":
    """Say per cell_id by how much the canary slowed down across its rounds; an undisturbed cell is not in it.

    `least` has the `thresholds`.
    """
    found = changes(cells, canary, device_of)
    largest = found.where(found > pd.Series(least)).groupby(cells["cell_id"]).max().dropna(how="all")
    texts = [str(_slowed(row)) for row in largest.itertuples(index=False, name=None)]
    return pd.Series(texts, index=largest.index, dtype="str")


def _drift(rows: pd.DataFrame, kind: str) -> Drift:
    """Drift of one device; `rows` in the order of time."""
    times = rows[f"{kind}_s"].to_numpy(dtype=np.float64)
    if len(times) < 2:
        return Drift(kind, len(times), None, None)
    return Drift(kind, len(times), float(times.max() / times.min()) - 1, _trend(rows["at"].to_numpy(), times))


def _trend(at: Floats, times: Floats) -> float | None:
    """Relative change from the first reading to the last along the Theil-Sen line; None when they are of one moment."""
    span = np.nanmax(at) - np.nanmin(at) if np.isfinite(at).any() else 0.0
    step = -(-len(at) // MOST_READINGS)
    at, times = at[::step], times[::step]
    first, second = np.triu_indices(len(at), k=1)
    apart = at[second] > at[first]
    if not apart.any():
        return None
    rise = np.log(times[second] / times[first])[apart]
    slope = float(np.median(rise / (at[second] - at[first])[apart]))
    return float(np.expm1(slope * span))


def _slowed(changes: Iterable[float]) -> Disturbance:
    parts = {kind: 100 * change for kind, change in zip(KINDS, changes, strict=True) if not np.isnan(change)}
    return Disturbance(Cause.CANARY, tuple(parts.values()), " ".join(parts))

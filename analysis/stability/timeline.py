"""When telemetry and the canary were read: their values over the time of the run, and thinned to what can be drawn.

Telemetry is stored per batch of a (cell, round), whose row of cells.csv has begin and duration. Batches share that
time evenly: a batch has no clock of its own, and a round takes far less time than a picture can resolve.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from ..frames.load import RunData, seconds
from ..statistics.arrays import Floats

QUANTITIES = ("clock_hz", "temperature_c", "power_w", "busy_elsewhere")
"""Columns of telemetry.csv whose course is worth a look."""


def telemetry_over_time(run: RunData) -> pd.DataFrame:
    """Return the rows of telemetry.csv by time: at_s (seconds since `origin`), process, `QUANTITIES`, slowdown.

    Rows of a cell without a time are excluded.
    """
    columns = ["at_s", "process", *QUANTITIES, "slowdown"]
    units = run.cells[["cell_id", "round", "process", "elapsed_s"]].assign(begin=seconds(run.cells["started_at"]))
    rows = run.telemetry.merge(units, on=["cell_id", "round"], how="inner")
    batches = rows.groupby(["cell_id", "round"])["batch"].transform("max") + 1
    into = (rows["batch"] + 0.5) / batches * rows["elapsed_s"].fillna(0.0)
    timed = rows.assign(at_s=rows["begin"] + into - origin(run)).dropna(subset=["at_s"])
    return timed.sort_values("at_s", kind="stable")[columns].reset_index(drop=True)


def canary_over_time(run: RunData) -> pd.DataFrame:
    """Return the readings of canary.csv by time: at_s (seconds since `origin`), process, gemm_s, copy_s."""
    rows = run.canary.assign(at_s=seconds(run.canary["at"]) - origin(run))
    timed = rows.dropna(subset=["at_s"]).sort_values("at_s", kind="stable")
    return timed[["at_s", "process", "gemm_s", "copy_s"]].reset_index(drop=True)


def origin(run: RunData) -> float:
    """Seconds since 1970 at which the first cell or the first reading of the canary began; NaN where none says."""
    return float(np.fmin(seconds(run.cells["started_at"]).min(), seconds(run.canary["at"]).min()))


def thinned(rows: pd.DataFrame, names: Sequence[str], bins: int) -> pd.DataFrame:
    """Cut the time into `bins` equal parts; return at_s (median of the part's readings) and per name three columns.

    They are `name`, the median of the part, and `<name>_low` and `<name>_high`, its least and largest value: nothing
    that stood out is lost. Parts without a reading are skipped. With no more than `bins` readings each is a part of
    its own.
    """
    if len(rows) <= bins:
        part = pd.Series(range(len(rows)), index=rows.index)
    else:
        at = rows["at_s"]
        width = (at.max() - at.min()) / bins or 1.0
        part = ((at - at.min()) / width).astype("int64").clip(upper=bins - 1)
    groups = rows.groupby(part, sort=True)
    columns = {"at_s": groups["at_s"].median()}
    for name in names:
        columns |= {name: groups[name].median(), f"{name}_low": groups[name].min(), f"{name}_high": groups[name].max()}
    return pd.DataFrame(columns).reset_index(drop=True)


def slowdown_spans(rows: pd.DataFrame, join_s: float) -> list[tuple[str, float, float]]:
    """Return (word, first, last) in seconds for each stretch of readings that name a slowdown, by word and time.

    Readings with one word that are no more than `join_s` apart belong to one stretch.
    """
    named = [set(str(text).split()) for text in rows["slowdown"]]
    at = rows["at_s"].to_numpy(dtype=np.float64)
    spans: list[tuple[str, float, float]] = []
    for word in sorted(set().union(*named)):
        when = at[[word in words for words in named]]
        ends = np.flatnonzero(np.diff(when) > join_s)
        firsts, lasts = when[np.append(0, ends + 1)], when[np.append(ends, len(when) - 1)]
        spans += [(word, float(first), float(last)) for first, last in zip(firsts, lasts, strict=True)]
    return spans


def pauses(at: Floats, longest_s: float) -> list[tuple[float, float]]:
    """Return (end, too long by) in seconds of every gap between the times `at` of more than `longest_s`, in order."""
    times = np.sort(at)
    gaps = np.diff(times)
    return [(float(times[i + 1]), float(gaps[i] - longest_s)) for i in np.flatnonzero(gaps > longest_s)]


def without_pauses(at: Floats, cut: list[tuple[float, float]]) -> Floats:
    """Return the times with the gaps of `pauses` cut to their longest."""
    ends, lengths = (np.array([pause[part] for pause in cut], dtype=np.float64) for part in (0, 1))
    total = np.append(0.0, np.cumsum(lengths))
    return np.asarray(at - total[np.searchsorted(ends, at, side="right")], dtype=np.float64)

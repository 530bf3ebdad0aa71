"""Periods of all scans of a run, with one false discovery rate over the scans."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ...analysis.frames.load import REFERENCE
from ...analysis.statistics.arrays import Flags, Floats, Ints, floats
from ...analysis.statistics.moderation import adjusted
from ...shapes.errors import UsageError
from ...shapes.problem import Op, Problem
from ...shapes.scheme import DType
from ...shapes.schemes import parse_scheme
from .padding import Paddings
from .points import POINT, stretches
from .processes import reproduction
from .resonance import (
    LEVEL,
    MIN_POINTS,
    PeriodScan,
    PeriodScore,
    SizeSet,
    amplitude,
    candidates,
    detrended,
    strata,
    testable,
)
from .sawtooth import without_steps

_MOST = 4
"""Periods of one scan."""

_FURTHER = 0.01
"""Level of the second and later periods of a scan, which are tried only because there was a first."""

_SHARE = 0.9
"""A process counts for a scan of which it measured at least this share."""

SCAN_COLUMNS = (
    *POINT,
    *("model", "layer", "axis", "series", "fixed", "points", "size_min", "size_max", "step", "within", "steps"),
    *("p", "q", "found", "detectable", "detectable_period", "hardest", "hardest_period"),
)
PERIOD_COLUMNS = (
    *POINT,
    *("model", "layer", "axis", "series", "fixed", "period", "row_bytes", "also_grid", "sizes", "ratio", "p", "z"),
    *("pad", "saved", "processes", "shown", "reproduced"),
)


@dataclass(frozen=True, slots=True, eq=False)
class _Scanned:
    """One series: its rows, ln time without trend, waves, tiles and steps, and its periods, the first found first."""

    first: int
    last: int
    rest: Floats
    stratum: Ints
    within: str
    steps: tuple[int, ...]
    scores: tuple[tuple[PeriodScore, Flags], ...]
    detectable: tuple[tuple[int, float], ...]


def scan(rows: pd.DataFrame, effect: Floats, times: pd.DataFrame, slow: Flags) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Look for periods in every series of 16 sizes or more; return tables of `SCAN_COLUMNS` and of `PERIOD_COLUMNS`.

    rows    of `points.series`
    effect  ln time that waves and tiles cost
    times   ln time by process [points, processes]
    slow    rows that stand out of their neighbours: nothing is padded to them

    A scan: p (of its best period) and q (over all scans), within (what the sizes that are compared have in common),
    steps (widths of the sawteeth that were taken out), found (periods), detectable and hardest (the least and the most
    ln time at all multiples of a period that would have been found with 80 % power, and those periods).
    A period: 0 is grids of a multiple of 256 workgroups, also_grid says that these are the same sizes; row_bytes is the
    period in bytes of the row that has this size: of W along K, of Y along N (NaN where the scheme has no such rows);
    sizes are its multiples, ratio their time to that of the others.
    """
    scanned = []
    for first, last in stretches(rows["series"].to_numpy(dtype=np.int64)):
        if last - first >= MIN_POINTS and (one := _scan(rows.iloc[first:last], effect[first:last], first)):
            scanned.append(one)
    p = np.array([one.scores[0][0].p for one in scanned], dtype=np.float64)
    q = adjusted(p)
    further = _FURTHER * (q <= LEVEL).mean() if len(q) else 0.0
    kept = [
        (one.scores[0], *(entry for entry in one.scores[1:] if entry[0].p <= further)) if good else ()
        for one, good in zip(scanned, q <= LEVEL, strict=True)
    ]
    members = slow.copy()
    for one, entries in zip(scanned, kept, strict=True):
        for _, inside in entries:
            members[one.first : one.last] |= inside
    paddings = Paddings(rows, members)
    found = [
        row
        for one, entries in zip(scanned, kept, strict=True)
        for entry in entries
        for row in _rows(rows, one, entry, paddings, times)
    ]
    summaries = [_summary(rows, one, *at) for one, *at in zip(scanned, p, q, map(len, kept), strict=True)]
    return pd.DataFrame(summaries, columns=list(SCAN_COLUMNS)), pd.DataFrame(found, columns=list(PERIOD_COLUMNS))


def _scan(own: pd.DataFrame, effect: Floats, first: int) -> _Scanned | None:
    """Score one series; None where it has no set of sizes to compare."""
    sizes = own["size"].to_numpy(dtype=np.int64)
    sets = candidates(sizes, own["on_grid"].to_numpy(dtype=bool))
    if not sets:
        return None
    cleaned = without_steps(floats(own, "e") - effect, sizes, sets)
    stratum, within = strata(floats(own, "workgroups"), floats(own, "waves"))
    left = np.ones(len(own), dtype=bool)
    scores: list[tuple[PeriodScore, Flags]] = []
    tried = None
    while len(scores) < _MOST and left.sum() >= MIN_POINTS:
        parts = [SizeSet(one.period, one.members[left]) for one in sets]
        parts = [part for part in parts if testable(part.members)]
        if not parts:
            break
        rest = detrended(cleaned.e[left], sizes[left])
        tried = PeriodScan(rest, np.unique(stratum[left], return_inverse=True)[1], parts)
        score = tried.score()
        inside = left.copy()
        inside[left] = score.best.members
        scores.append((score, inside))
        if score.p > (_FURTHER if len(scores) > 1 else LEVEL):
            break
        left &= ~inside
    if tried is None:
        return None
    # What would have been found follows from what is left when all periods are taken out.
    detectable = tuple(tried.detectable())
    level = detrended(cleaned.e, sizes, by=left) if left.sum() >= MIN_POINTS else detrended(cleaned.e, sizes)
    return _Scanned(first, first + len(own), level, stratum, within, cleaned.widths, tuple(scores), detectable)


def _summary(rows: pd.DataFrame, one: _Scanned, p: float, q: float, found: int) -> dict[str, Any]:
    """Say of one scan what was looked for, and what would have been found."""
    sizes = rows["size"].iloc[one.first : one.last]
    easiest = min(one.detectable, key=lambda entry: entry[1], default=(0, np.nan))
    hardest = max(one.detectable, key=lambda entry: entry[1], default=(0, np.nan))
    return _identity(rows, one) | {
        "points": len(sizes),
        "size_min": int(sizes.min()),
        "size_max": int(sizes.max()),
        "step": int(np.gcd.reduce(sizes.to_numpy(dtype=np.int64))),
        "within": one.within,
        "steps": one.steps,
        "p": p,
        "q": q,
        "found": found,
        "detectable": easiest[1],
        "detectable_period": easiest[0],
        "hardest": hardest[1],
        "hardest_period": hardest[0],
    }


def _identity(rows: pd.DataFrame, one: _Scanned) -> dict[str, Any]:
    names = (*POINT, "model", "layer", "axis", "series", "fixed")
    first = rows.iloc[one.first]
    return {name: first[name] for name in names}


def _rows(
    rows: pd.DataFrame, one: _Scanned, entry: tuple[PeriodScore, Flags], paddings: Paddings, times: pd.DataFrame
) -> Iterator[dict[str, Any]]:
    """Describe one period of one scan."""
    score, inside = entry
    height = amplitude(one.rest, one.stratum, inside)
    places = (np.flatnonzero(inside) + one.first).tolist()
    yield _identity(rows, one) | {
        "period": score.best.period or next(iter(score.also), 0),
        "row_bytes": _row_bytes(rows.iloc[one.first]) * (score.best.period or np.nan),
        "also_grid": score.best.period == 0 or 0 in score.also,
        "sizes": tuple(rows["size"].iloc[places].astype(int)),
        "ratio": float(np.exp(height)),
        "p": score.p,
        "z": score.z,
        **paddings.best(places, helped=max(2, len(places) / 2)),
        **reproduction(*_in_processes(rows, one, inside, height, times)),
    }


def _row_bytes(row: "pd.Series[Any]") -> float:
    """Bytes per element of the row of W[N,K] that K is the length of, or of the row of Y that N is."""
    if row["op"] != Op.GEMM or row["dtype"] not in tuple(DType):
        return np.nan
    dense = DType(row["dtype"])
    if row["axis"] == "N" or row["role"] == REFERENCE:
        return dense.bytes
    try:
        scheme = parse_scheme(row["scheme"], dense)
    except UsageError:
        return np.nan
    side = 4096
    return scheme.weight_bytes(Problem(M=1, N=side, K=side)) / side**2


def _in_processes(
    rows: pd.DataFrame, one: _Scanned, inside: Flags, height: float, times: pd.DataFrame
) -> tuple[int, int]:
    """Count the processes in which the multiples are slow by half of `height`, and all that measured them."""
    own = rows.iloc[one.first : one.last]
    off = times.reindex(own["point"]).to_numpy(dtype=np.float64) - np.log(floats(own, "time_s"))[:, None]
    shown = measured = 0
    for process in range(off.shape[1]):
        known = np.isfinite(off[:, process])
        if known.mean() < _SHARE or not known[inside].all():
            continue
        measured += 1
        there = amplitude((one.rest + off[:, process])[known], one.stratum[known], inside[known])
        shown += there > 0 and there >= height / 2
    return shown, measured

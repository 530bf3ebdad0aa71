"""Where each cell is against the limits of its device, which of them bounds it, and which ceilings it beats.

The matrix units have three ceilings: the published peak, that peak at the clock that was observed, and the best GEMM
that was measured. The yardstick is the last one; the gap of a cell starts at the first.

A probe is one kernel: what is faster shows that the device can do more than it found. Only what was measured is raised.
What is published or derived is a limit of the device: a cell beyond it is impossible.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ...shapes.device import Device
from ...shapes.verdict import Verdict
from ..frames.coordinates import shape_label
from ..statistics.arrays import Flags, Floats, floats
from .bounds import FLAT_SPREAD, IMPOSSIBLE_FACTOR, LIMITS, Bound, classify, flat_cells, implemented, near_floor
from .ceilings import REACHED, Ceiling, Ceilings
from .limits import COLUMNS, choose, hard_times, impossible, limit_times, math_dtypes, published_clock, uncached_bytes
from .notes import cell_notes
from .traffic import pattern


def place(summary: pd.DataFrame, ceilings: pd.DataFrame, device: Device) -> pd.DataFrame:
    """Return `summary` with the columns of the roofline; `bound_class` is "" for cells that have not passed.

    `ceilings` are the rows of ceilings.csv, `device` is that of run.json (`llc_bytes`, `compute_units`, and `name` and
    `arch`, by which the published clock is found where no ceiling has it). `COMPUTED` describes the added columns:
    those of the bound are the yardstick, alike for all providers of a problem; those of the implementation are what a
    provider does, as far as the time of the cell itself does not refute it.
    """
    limits = Ceilings.of(ceilings)
    with np.errstate(invalid="ignore", divide="ignore"):
        times = limit_times(summary, choose(summary, limits, device), device)
        hard = hard_times(summary, limits, device)
    flops = summary["flops"].where(summary["flops"] > 0)
    placed = summary.assign(
        intensity=flops / summary["compulsory_bytes"], moved_intensity=flops / summary["moved_bytes"], **times
    )
    time = floats(placed, "time_s")
    parts = placed[[COLUMNS[limit] for limit in LIMITS]].to_numpy(dtype=np.float64)
    fill = floats(placed, "fill_time_s")
    classes, margins, flat = _classes(placed, time, parts, fill, hard)
    possible = np.where(time < IMPOSSIBLE_FACTOR * hard, np.nan, time)
    bound = placed[["memory_time_s", "compute_time_s", "launch_time_s"]].max(axis=1).to_numpy(dtype=np.float64)
    taken = implemented(parts, fill, floats(placed, "between_kernels_s"))
    taken = np.where(np.isnan(parts).all(axis=1), np.nan, taken)
    placed = placed.assign(
        bound_time_s=bound,
        fraction_of_bound=np.minimum(bound / possible, 1),
        implemented_time_s=taken,
        fraction_of_implemented=np.minimum(taken / possible, 1),
        is_flat=flat,
        bound_class=classes,
        bound_margin=margins,
    )
    limited = placed.assign(hard_time_s=hard, math_type=math_dtypes(summary))
    return placed.assign(bound_note=cell_notes(limited, limits, device))


def _classes(
    placed: pd.DataFrame, time: Floats, parts: Floats, fill: Floats, hard: Floats
) -> tuple[list[str], Floats, Flags]:
    """Return class and margin of each cell, and whether its time is flat."""
    launch = floats(placed, "launch_time_s")
    flat = flat_cells(placed).to_numpy()
    # A time that is flat because a tile is as large for one row as for many may well be that of the matrix units.
    padded = placed.assign(work=placed["flops"] * placed["tile_factor"].fillna(1.0))
    incomputable = flat & flat_cells(padded, "work").to_numpy()
    incomputable |= time <= FLAT_SPREAD * launch
    classes, margins = classify(time, parts, fill, launch, hard, flat, incomputable)
    near = near_floor(placed, classes, flat, launch)
    return [Bound.LAUNCH.value if is_near else name for name, is_near in zip(classes, near, strict=True)], margins, flat


def bound_shares(placed: pd.DataFrame, by: Sequence[str] = ()) -> pd.DataFrame:
    """Share of the passed cells per bound class, within each group of `by`: by, bound_class, cells, share.

    Classes in the order of `Bound`, absent ones excluded; cells without any known limit are not counted.
    """
    known = placed.loc[placed["bound_class"] != "", [*by, "bound_class"]]
    order = {bound.value: position for position, bound in enumerate(Bound)}
    group = known.groupby([*by], sort=False).ngroup() if by else 0
    known = known.assign(group=group, rank=known["bound_class"].map(order))
    counts = known.groupby(["group", "rank", *by, "bound_class"]).size().rename("cells").reset_index()
    share = counts["cells"] / counts.groupby("group")["cells"].transform("sum")
    return counts.assign(share=share).drop(columns=["group", "rank"])


def raise_ceilings(summary: pd.DataFrame, ceilings: pd.DataFrame, device: Device) -> pd.DataFrame:
    """Return the rows of ceilings.csv, and one more for each measured ceiling that a cell of `summary` beats.

    Raised are GEMM peaks (useful FLOPs over time), bandwidths of memory (bytes that must be read from it over time) and
    the launch floor, each to what the fastest cell shows if that is beyond the 2 % by which a time may be wrong. The
    source names the cell. `device` is that of run.json.
    """
    limits = Ceilings.of(ceilings)
    with np.errstate(invalid="ignore", divide="ignore"):
        cells = summary.loc[(summary["verdict"] == Verdict.PASSED) & ~impossible(summary, ceilings, device)]
        found = [*_peaks(cells, limits), *_bandwidths(cells, limits, device), *_launch(cells, limits)]
    rows = pd.DataFrame(found, columns=list(ceilings.columns))
    return pd.concat([ceilings, rows], ignore_index=True) if found else ceilings


def _peaks(cells: pd.DataFrame, limits: Ceilings) -> Iterator[dict[str, Any]]:
    dtypes = math_dtypes(cells).to_numpy()
    rates = (cells["flops"] / cells["time_s"]).to_numpy(dtype=np.float64)
    for dtype in dict.fromkeys(dtypes):
        yield from _raised(
            cells, np.where(dtypes == dtype, rates, 0.0), limits.peak(dtype), ("peak", "", "gemm", dtype)
        )


def _bandwidths(cells: pd.DataFrame, limits: Ceilings, device: Device) -> Iterator[dict[str, Any]]:
    patterns = np.array(pattern(cells), dtype=object)
    rates = uncached_bytes(cells, device) / floats(cells, "time_s")
    for name in dict.fromkeys(patterns):
        alike = np.where(patterns == name, rates, 0.0)
        yield from _raised(cells, alike, limits.bandwidth("dram", name), ("bandwidth", "dram", name, ""))


def _launch(cells: pd.DataFrame, limits: Ceilings) -> Iterator[dict[str, Any]]:
    if floor := limits.launch():
        rates = 1 / floats(cells, "time_s")
        yield from _raised(cells, rates, replace(floor, value=1 / floor.value), ("launch", "", "empty", ""))


_UNITS = {"peak": "FLOP/s", "bandwidth": "byte/s", "launch": "s"}


def _raised(
    cells: pd.DataFrame, rates: Floats, ceiling: Ceiling | None, names: tuple[str, str, str, str]
) -> Iterator[dict[str, Any]]:
    """Give the row of the cell with the highest rate, if it beats a measured ceiling. That of a launch is 1 / time."""
    if ceiling is None or ceiling.kind != "measured" or not len(rates):
        return
    at = int(np.argmax(rates))
    if not IMPOSSIBLE_FACTOR * rates[at] > ceiling.value:
        return
    what = dict(zip(("ceiling", "level", "pattern", "dtype"), names, strict=True))
    is_time = what["ceiling"] == "launch"
    cell, power = cells.iloc[at], -1 if is_time else 1
    source = (
        f"{REACHED}{cell['provider']} at {shape_label(cell.to_dict())}, M={cell['M']}, {cell['cache']}: "
        f"{(rates[at] / ceiling.value) ** power:.3g} times what the probe measured"
    )
    value = float(rates[at]) ** power
    yield what | {"value": value, "unit": _UNITS[what["ceiling"]], "kind": "measured", "source": source}


class CeilingInUse(NamedTuple):
    """One ceiling. `what` is bandwidth (byte/s), peak (FLOP/s), vector (op/s), clock (Hz), launch or fill (seconds).

    cells   cells that it is a limit of; 0 for one that is listed beside the limit in use
    bounds  cells that it bounds, by their class
    """

    roof: str
    what: str
    value: float
    kind: str
    source: str
    cells: int
    bounds: int


def roofs(placed: pd.DataFrame, ceilings: pd.DataFrame, device: Device) -> pd.DataFrame:
    """Return one row per known ceiling in use, memory first; columns: the fields of `CeilingInUse`."""
    limits = Ceilings.of(ceilings)
    passed = placed.loc[placed["verdict"] == Verdict.PASSED]
    rows = [*_of_memory(passed, limits), *_of_matrix_units(passed, limits, device)]
    rows += _of_vector_units(passed, limits, device.arch)
    if launch := limits.launch():
        rows.append(_roof("launch", launch, len(passed), _count(passed, Bound.LAUNCH)))
    for cache in pd.unique(passed["cache"]):
        if fill := limits.fill(cache):
            rows.append(_roof("fill", fill, int((passed["cache"] == cache).sum()), 0))
    return pd.DataFrame(rows, columns=list(CeilingInUse._fields))


def _of_memory(passed: pd.DataFrame, limits: Ceilings) -> Iterator[CeilingInUse]:
    used = pd.DataFrame({"level": passed["memory_level"], "pattern": pattern(passed), "bound": passed["bound_class"]})
    counts: dict[Ceiling, tuple[int, int]] = {}  # reads may be held against the copy, so that two patterns share one
    for (level, traffic), cells in used.groupby(["level", "pattern"], sort=True):
        if ceiling := limits.bandwidth(str(level), str(traffic)):
            limited, bounded = counts.get(ceiling, (0, 0))
            counts[ceiling] = (limited + len(cells), bounded + int((cells["bound"] == level).sum()))
    for ceiling, (limited, bounded) in counts.items():
        yield _roof("bandwidth", ceiling, limited, bounded)
    for level in sorted(set(used["level"])):
        if published := limits.published_bandwidth(level):
            yield _roof("bandwidth", published, 0, 0)


def _of_matrix_units(passed: pd.DataFrame, limits: Ceilings, device: Device) -> Iterator[CeilingInUse]:
    multiplied = passed.loc[passed["flops"] > 0]
    clock = limits.clock() or published_clock(device)
    for dtype, cells in multiplied.groupby(math_dtypes(multiplied), sort=False):
        published, best = limits.published_peak(str(dtype)), limits.peak(str(dtype))
        if published and published != best:
            yield _roof("peak", published, 0, 0)
        if observed := limits.peak_at_clock(str(dtype), float(cells["clock_ratio"].median())):
            yield _roof("peak", observed, 0, 0)
        if (hard := limits.hard_peak(str(dtype))) and hard not in (published, best):
            yield _roof("peak", hard, 0, 0)
        if best:
            yield _roof("peak", best, len(cells), _count(cells, Bound.COMPUTE))
    if clock:
        yield _roof("clock", clock, int(multiplied["clock_ratio"].notna().sum()), 0)


def _of_vector_units(passed: pd.DataFrame, limits: Ceilings, arch: str) -> Iterator[CeilingInUse]:
    decoding = passed.loc[passed["alu_time_s"].notna()]
    vector = limits.vector(arch)
    bounded = decoding.loc[decoding["bound_class"] == Bound.ALU, "alu_ceiling"]
    if vector:
        yield _roof("vector", vector, len(decoding), int((bounded == str(vector)).sum()))
    known = "decode_integer_per_weight" in decoding and decoding["decode_integer_per_weight"].notna()
    if (integer := limits.integer()) and integer != vector and np.any(known):
        yield _roof("vector", integer, int(np.sum(known)), int((bounded == str(integer)).sum()))


def _count(cells: pd.DataFrame, bound: Bound) -> int:
    return int((cells["bound_class"] == bound).sum())


def _roof(what: str, ceiling: Ceiling, cells: int, bounds: int) -> CeilingInUse:
    return CeilingInUse(ceiling.name, what, ceiling.value, ceiling.kind, ceiling.source, cells, bounds)

"""Ceilings that cells beat. A probe is one kernel: what is faster shows that the device can do more than it found.

Only what was measured is raised. What is published or derived is a limit of the device: a cell beyond it is impossible.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from ...shapes.device import Device
from ...shapes.verdict import Verdict
from ..frames.coordinates import shape_label
from ..statistics.arrays import Floats, floats
from .bounds import IMPOSSIBLE_FACTOR
from .ceilings import REACHED, Ceiling, Ceilings
from .limits import impossible, math_dtypes, uncached_bytes
from .traffic import pattern


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

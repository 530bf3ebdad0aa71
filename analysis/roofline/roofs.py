"""The ceilings that the cells of a run are compared with, each with its kind and its source.

The matrix units have three: the published peak, that peak at the clock that was observed, and the best GEMM that was
measured. The yardstick is the last one; the gap of a cell starts at the first.
"""

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import pandas as pd

from ...shapes.device import Device
from ...shapes.verdict import Verdict
from .bounds import Bound
from .ceilings import Ceiling, Ceilings
from .limits import math_dtypes, published_clock
from .traffic import pattern

_Row: TypeAlias = tuple[str, str, float, str, str, int, int]


def roofs(placed: pd.DataFrame, ceilings: pd.DataFrame, device: Device) -> pd.DataFrame:
    """Return one row per known ceiling in use, memory first.

    Columns: roof, what (bandwidth: byte/s, peak: FLOP/s, vector: op/s, clock: Hz, launch or fill: seconds), value,
    kind, source; cells that it is a limit of, 0 for one that is listed beside the limit in use; bounds: cells that it
    bounds, by their class.
    """
    limits = Ceilings.of(ceilings)
    passed = placed.loc[placed["verdict"] == Verdict.PASSED]
    rows = [*_of_memory(passed, limits), *_of_matrix_units(passed, limits, device)]
    rows += _of_vector_units(passed, limits, device.arch)
    if launch := limits.launch():
        rows.append(_roof("launch", launch, len(passed), _count(passed, Bound.LAUNCH)))
    for cache in pd.unique(passed["cache"]):
        if fill := limits.fill(cache):
            rows.append(_roof("fill", fill, int((passed["cache"] == cache).sum()), 0))
    return pd.DataFrame(rows, columns=["roof", "what", "value", "kind", "source", "cells", "bounds"])


def _of_memory(passed: pd.DataFrame, limits: Ceilings) -> Iterator[_Row]:
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


def _of_matrix_units(passed: pd.DataFrame, limits: Ceilings, device: Device) -> Iterator[_Row]:
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


def _of_vector_units(passed: pd.DataFrame, limits: Ceilings, arch: str) -> Iterator[_Row]:
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


def _roof(what: str, ceiling: Ceiling, cells: int, bounds: int) -> _Row:
    return ceiling.name, what, ceiling.value, ceiling.kind, ceiling.source, cells, bounds

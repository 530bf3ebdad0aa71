"""The gap between the ideal and the measured time of a cell, in steps that add up to it.

The steps are those of a bound that is sharpened in a fixed order, each by one more thing that is known of the launch.
What a step costs is what it adds to the bound at its place in the order: a cost that hides behind a longer limit adds
nothing. With W the useful FLOPs, P the published peak, Q the compulsory bytes at the level where the operands are:

    ideal     max(Q / bandwidth, W / P)
    clock     P at the observed clock instead of the published one; below 0 where the device ran above it
    tile      FLOPs padded to whole tiles instead of useful ones
    wave      of the units, the busiest decides
    dequant   max(..., decoding on the vector units)
    memory    max(..., what the provider's own algorithm moves, by the level that serves it)
    schedule  max(..., the workgroups that a unit runs one after another, each as if it were alone)
    startup   max(empty launches, between kernels + max(..., fill + ...))
    residual  the measured time less all of that: camping, bank conflicts, instructions that are not counted

A step is unknown (NaN) where its figures are, and where the measured time refutes them; what it costs is then in the
residual. But for the 2 % that a time may be wrong by, the residual is below 0 only where the ideal itself takes longer
than the cell did.
"""

import numpy as np
import pandas as pd

from ...shapes.problem import Op
from ..frames.coordinates import COORDINATES, SETTING
from ..frames.load import REFERENCE
from ..statistics.arrays import Floats, floats
from .bounds import IMPOSSIBLE_FACTOR, Bound

STEPS = ("clock", "tile", "wave", "dequant", "memory", "schedule", "startup")
"""Steps between the ideal and the residual, in their order. Startup is less than what makes a cell launch-bound
(`Bound.LAUNCH`), which is also a floor of several kernels, or of what wraps them."""

NAMED = tuple(step for step in STEPS if step != "schedule")
"""Steps that are named where they are unknown. Of vendors' kernels, and on most devices, no schedule is known."""

PARTS = ("ideal", *STEPS, "residual")
"""What a measured time is the sum of."""


def gaps(placed: pd.DataFrame) -> pd.DataFrame:
    """Return one row per cell with a time and a known ideal: coordinates, provider, role, bound_class, time_s, and
    `<part>_s` for each of `PARTS` in seconds. They add up to time_s, unknown ones (NaN) counted as 0.

    Also ideal_limit ("memory" or "compute"), and unknown: the steps that are NaN, comma-separated.
    """
    compute = placed["compute_spec_time_s"].fillna(placed["compute_time_s"])
    cells = placed.loc[(placed["bound_class"] != "") & (np.fmax(placed["memory_time_s"], compute) > 0)]
    stairs, steps = _climb(cells)
    parts = {"ideal": stairs.ideal} | steps | {"residual": stairs.time - stairs.bound}
    memory = np.nan_to_num(floats(cells, "memory_time_s"))
    return (
        cells[[*COORDINATES, "provider", "role", "bound_class", "time_s"]]
        .assign(ideal_limit=np.where(memory >= stairs.ideal, "memory", "compute"), unknown=_unknown(steps))
        .assign(**{f"{part}_s": seconds for part, seconds in parts.items()})
        .reset_index(drop=True)
    )


def gap_totals(gaps: pd.DataFrame) -> pd.DataFrame:
    """Share of every part in the total time, per setting and provider: total seconds over total seconds.

    Columns: SETTING, provider, cells, impossible (cells that are excluded), time_s (the total), `<part>_share` for each
    of `PARTS` (NaN where a step is known of no cell), and unknown: what is not known, "tile, wave; dequant of 40% of
    the time".
    """
    by = [*SETTING, "provider"]
    rows = []
    for key, group in gaps.groupby(by, sort=False):
        possible = group.loc[group["bound_class"] != Bound.IMPOSSIBLE]
        total = float(possible["time_s"].sum())
        row = dict(zip(by, key, strict=True)) | {"cells": len(possible), "impossible": len(group) - len(possible)}
        sums = possible[[f"{part}_s" for part in PARTS]].sum(min_count=1)
        row |= {"time_s": total} | {
            f"{part}_share": float(sums[f"{part}_s"]) / total if total else np.nan for part in PARTS
        }
        rows.append(row | {"unknown": _unknown_of(possible, total)})
    shares = [f"{part}_share" for part in PARTS]
    return pd.DataFrame(rows, columns=[*by, "cells", "impossible", "time_s", *shares, "unknown"])


class _Stairs:
    """A bound that is sharpened step by step; a step that the measured time refutes is not taken."""

    def __init__(self, time: Floats, memory: Floats, compute: Floats) -> None:
        self.time, self.memory, self.compute = time, memory, compute
        self.ideal = np.fmax(memory, compute)
        self.bound = self.ideal

    def step(self, candidate: Floats) -> Floats:
        """Raise the bound to `candidate` where that is known and possible; return what it adds, NaN elsewhere."""
        taken = candidate <= self.time / IMPOSSIBLE_FACTOR
        added = np.where(taken, candidate - self.bound, np.nan)
        self.bound = np.where(taken, candidate, self.bound)
        return added

    def scale(self, factor: Floats) -> Floats:
        """Let the matrix units take `factor` times as long."""
        compute = np.where(self.compute > 0, self.compute * factor, self.compute)
        added = self.step(np.where(np.isnan(compute), np.nan, np.fmax(self.memory, compute)))
        self.compute = np.where(np.isnan(added), self.compute, compute)
        return added


def _climb(cells: pd.DataFrame) -> tuple[_Stairs, dict[str, Floats]]:
    """Take all steps of each cell."""
    compute = floats(cells, "compute_spec_time_s")
    ratio = np.where(np.isnan(compute), np.nan, floats(cells, "clock_ratio"))  # a measured peak had a clock of its own
    compute = np.where(np.isnan(compute), floats(cells, "compute_time_s"), compute)
    stairs = _Stairs(floats(cells, "time_s"), floats(cells, "memory_time_s"), compute)
    steps = {
        "clock": stairs.scale(1 / ratio),
        "tile": stairs.scale(floats(cells, "tile_factor")),
        "wave": stairs.scale(1 / floats(cells, "wave_share")),
    }
    # that decoding costs a reference nothing is known
    encoded = (cells["role"] != REFERENCE) & (cells["op"] != Op.QUANTIZE)
    decoding = np.where(encoded, floats(cells, "decode_time_s"), 0.0)
    steps["dequant"] = stairs.step(_longer(stairs.bound, decoding))
    levels = cells[["dram_time_s", "llc_time_s", "l2_time_s"]].max(axis=1).where(cells["moved_bytes"].notna())
    steps["memory"] = stairs.step(_longer(stairs.bound, levels.to_numpy(dtype=np.float64)))
    before = stairs.bound
    scheduled = np.fmax(floats(cells, "latency_time_s"), floats(cells, "pipe_time_s"))
    steps["schedule"] = stairs.step(_longer(before, scheduled))
    filled = before + np.nan_to_num(floats(cells, "fill_time_s"))  # a schedule begins with what fills it
    started = floats(cells, "between_kernels_s") + np.fmax(stairs.bound, filled)
    steps["startup"] = stairs.step(_longer(started, floats(cells, "launches_time_s")))
    return stairs, steps


def _longer(bound: Floats, limit: Floats) -> Floats:
    """The larger of both; NaN where the limit is unknown."""
    return np.where(np.isnan(limit), np.nan, np.maximum(bound, limit))


def _unknown(steps: dict[str, Floats]) -> list[str]:
    """Names of the steps that are NaN, per cell."""
    missing = np.isnan(np.stack([steps[name] for name in NAMED], axis=1))
    patterns, of = np.unique(missing, axis=0, return_inverse=True)
    texts = [", ".join(name for name, nan in zip(NAMED, row, strict=True) if nan) for row in patterns]
    return [texts[position] for position in of.ravel()]


def _unknown_of(cells: pd.DataFrame, total: float) -> str:
    """Say which steps are unknown, and of which share of the time where not of all of it."""
    missing = {name: cells[f"{name}_s"].isna() for name in NAMED}
    whole = ", ".join(name for name, nan in missing.items() if len(cells) and nan.all())
    partly = [
        f"{name} of {cells.loc[nan, 'time_s'].sum() / total:.0%} of the time"
        for name, nan in missing.items()
        if nan.any() and not nan.all()
    ]
    return "; ".join(filter(None, (whole, *partly)))

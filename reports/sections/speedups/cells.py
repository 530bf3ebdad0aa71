"""Throughput: what each provider reached at best and over the whole shape set, and the time and rates of every cell."""

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import pandas as pd

from ... import formatting as fmt
from ...cells import is_impossible, rate_cell, rate_unit, traffic_cell
from ...model import Cells, Column, Section, Table, TableCell, Text, table
from ...view import Row, Slice, View, shape_of, sliced
from .flat import tables_of_cells


def throughput(view: View) -> Section | None:
    """Build the tables of every slice."""
    if view.cells["time_s"].notna().sum() == 0:
        return Section("throughput", "Throughput", (Text("No cell has a time."),))
    return sliced("throughput", "Throughput", view.slices, partial(_slice, view))


def _slice(view: View, part: Slice) -> Iterator[Table | None]:
    rows = [row for row in view.rows(view.cells, part) if not math.isnan(row["time_s"])]
    if rows:
        yield from (_peaks(rows, part), _whole_set(view, rows, part))
        yield from (replace(listed, detail=True, listing=True) for listed in tables_of_cells(view, part))


def _has_flops(rows: list[Row]) -> bool:
    """False for quantizations, whose work is counted in bytes alone."""
    return any(row["flops"] > 0 for row in rows)


def _peaks(rows: list[Row], part: Slice) -> Table:
    flops = _has_flops(rows)
    providers = dict.fromkeys(str(row["provider"]) for row in rows)
    every, rows = len(rows), [row for row in rows if not is_impossible(row)]
    unit = rate_unit(rows)
    fast_at, wide_at = (Column("at", is_text=True, key=key) for key in ("rate", "bandwidth"))
    lines = []
    for provider in providers:
        mine = [row for row in rows if row["provider"] == provider]
        fast, wide = (
            max(mine, key=lambda row: float(row[name]), default=None)
            for name in ("flops_per_s", "bandwidth_bytes_per_s")
        )
        line: Cells = {"provider": provider}
        if flops:
            line |= {Column("highest rate", unit): rate_cell(fast, unit), fast_at: _where(fast)}
        lines.append(line | {Column("highest bandwidth", "GB/s"): traffic_cell(wide), wide_at: _where(wide)})
    how = f"{'Useful FLOPs over time; compulsory' if flops else 'Compulsory'} bytes over time."
    return table(f"peaks-{part.id}", "Highest rates reached", lines, _left_out(every, rows), how_to_read=how)


def _left_out(every: int, rows: list[Row]) -> str:
    left = every - len(rows)
    return f"{fmt.count(left, every)} cells are excluded, faster than the device allows." if left else ""


def _where(row: Row | None) -> str:
    return f"{shape_of(row).label} {shape_of(row).size}, M={row['M']}" if row is not None else ""


def _whole_set(view: View, rows: list[Row], part: Slice) -> Table | None:
    """Total work over total time per provider and M, over the shapes that all of its providers passed.

    Work is FLOPs, or compulsory bytes where there are none. A size that several models share counts once.
    """
    flops = _has_flops(rows)
    work = "flops" if flops else "compulsory_bytes"
    every, rows = len(rows), [row for row in rows if not is_impossible(row)]
    frame = pd.DataFrame({name: [row[name] for row in rows] for name in ("provider", "M", work, "time_s")})
    providers = [name for name in view.providers if name in set(frame["provider"])]
    frame["shape"] = [(*shape_of(row)[2:], row["top_k"]) for row in rows]
    sizes = sorted(int(m) for m in frame["M"].unique())
    common: dict[int, set[Any]] = {}
    for m in sizes:
        sets = [set(frame[(frame["M"] == m) & (frame["provider"] == name)]["shape"]) for name in providers]
        common[m] = set.intersection(*(shapes for shapes in sets if shapes))
    if frame["shape"].nunique() < 2:
        return None
    rates: dict[tuple[str, int], float] = {}
    for name, m in product(providers, sizes):
        mine = frame[(frame["M"] == m) & (frame["provider"] == name) & frame["shape"].isin(common[m])]
        if len(mine):
            once = mine.groupby("shape")[[work, "time_s"]].mean().sum()
            rates[name, m] = float(once[work] / once["time_s"])
    unit = fmt.flops_unit(rates.values()) if flops else "GB/s"
    columns = {m: Column(f"M={m}") for m in sizes}
    lines: list[Cells] = [
        {"provider": name, **{columns[m]: TableCell(_in(unit, rate := rates.get((name, m))), rate) for m in sizes}}
        for name in providers
    ]
    lines.append({"provider": "sizes in it", **{columns[m]: len(common[m]) for m in sizes}})
    how = (
        f"Sum of {'FLOPs' if flops else 'compulsory bytes'} over sum of times, over the sizes that every provider "
        "listed has a time for at that M, each once; large ones weigh most."
    )
    title, left = f"Rate over the whole shape set, {unit}", _left_out(every, rows)
    return table(f"whole-{part.id}", title, lines, left, how_to_read=how, detail=part.is_later, footer=1)


def _in(unit: str, rate: float | None) -> str:
    """Write a rate in the unit of its table."""
    return fmt.gigabytes(rate) if unit == "GB/s" else fmt.flops_in(unit, rate)

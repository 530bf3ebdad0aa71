"""What a serving stack reaches on the problems of a run, beside the fastest provider here: nothing is divided by it."""

from collections.abc import Iterator

import pandas as pd

from ....analysis.run.serving import DECODED, Serving, classes_of, comparable
from ... import formatting as fmt
from ...cells import time_cell
from ...model import Bullets, Cells, Column, Section, Table, TableCell, Tone, table
from ...view import Row, Slice, View, chapter, shape_of

OPEN_ROWS = 50
"""Rows of a table that is no detail."""

HOW = (
    "Rows of AIConfigurator's tables that the reader has named, of the same GPU and exactly this M, N and K. They were "
    "not measured here: a row is the forward call of a linear layer on bf16 activations, with their quantization where "
    "it multiplies in 8 bits, the mean of six replays of a CUDA graph (plain launches of vLLM's fp8_block) over up to "
    "six layers in turn, so that small weights stay in the cache; its kernel, of several the fastest, is in the "
    "footnote. Beside it stands the fastest provider of this run with operands of as many bits (bfloat16: the fastest "
    "reference); scales and what a call includes may differ. No row enters a ratio, a mean, a winner or a crossover."
)


def serving(view: View) -> Section | None:
    """List the rows of the serving stacks that match a cell, one table per slice; None without `View.serving`."""
    if not view.serving:
        return None
    parts = [part for number, of in enumerate(view.slices) if (part := _slice(view, of, number))]
    return chapter("serving", "What a serving stack reaches", (Bullets(tuple(_found(view))),), parts)


def _found(view: View) -> Iterator[str]:
    """Say of every table how much of it matches, or why nothing does."""
    sizes = ["M", "N", "K"]
    problems = comparable(view.analysis)[sizes].drop_duplicates()
    for one in view.serving:
        if one.unmet:
            yield f"{one.name}: nothing stands beside this run, because {one.unmet}."
            continue
        usable = pd.concat([_beside(one, wanted) for wanted in _wanted(view)])
        stacks = ", ".join(dict.fromkeys(one.rows["stack"]))
        counted = fmt.count(len(usable[sizes].drop_duplicates()), len(problems))
        stored = ", ".join(dict.fromkeys(one.rows["stored"]))
        why = "" if len(usable) else f"; its rows of these sizes are {stored}, which no cell of this run is stored as"
        yield f"{one.name} ({stacks}): rows for {counted} problems (M, N, K){why}."


def _wanted(view: View) -> set[tuple[str, ...]]:
    cells = comparable(view.analysis)[["scheme", "dtype", "provider"]].drop_duplicates()
    return {_classes(view, row) for row in cells.to_dict("records")}


def _classes(view: View, row: Row) -> tuple[str, ...]:
    return classes_of(row["scheme"], row["dtype"], view.run.is_reference(row["provider"]))


def _beside(serving: Serving, stored: tuple[str, ...]) -> pd.DataFrame:
    return serving.rows[serving.rows["stored"].isin(stored)]


def _slice(view: View, part: Slice, number: int) -> Section | None:
    tables = tuple(
        listed
        for stored in sorted(_wanted(view), key=lambda stored: stored == DECODED)
        if (listed := _table(view, part, stored))
    )
    return Section(f"serving-{part.id}", part.title, tables, folded=number > 0) if tables else None


def _table(view: View, part: Slice, stored: tuple[str, ...]) -> Table | None:
    """One row per problem that any stack has, one column per stack and storage; None where there is no row."""
    found = pd.concat([_beside(one, stored) for one in view.serving])
    if found.empty:
        return None
    beside: dict[tuple[int, ...], dict[tuple[str, str], Row]] = {}
    for row in found.to_dict("records"):
        beside.setdefault((row["M"], row["N"], row["K"]), {})[row["stack"], row["stored"]] = row
    stacks = list(dict.fromkeys(zip(found["stack"], found["stored"], strict=True)))
    rows: list[Cells] = [
        {
            "shape": f"{shape_of(row).label} {shape_of(row).size}",
            Column("M"): row["M"],
            "provider": view.named(row["provider"]),
            Column("time"): time_cell(row, note="; ".join(row["remarks"])),
            **{Column(" ".join(stack)): _time(beside[size].get(stack)) for stack in stacks},
        }
        for row in _fastest(view, part, stored)
        if (size := (row["M"], row["N"], row["K"])) in beside
    ]
    if not rows:
        return None
    title = f"The fastest {'reference' if stored == DECODED else 'provider'} here, and serving stacks"
    name = f"serving-{part.id}-{stored[0]}"
    return table(name, view.titled(title, part), rows, stub=2, detail=len(rows) > OPEN_ROWS, how_to_read=HOW)


def _fastest(view: View, part: Slice, stored: tuple[str, ...]) -> list[Row]:
    """Return the fastest cell of each problem that is stored so, in the order of the run."""
    best: dict[tuple[object, ...], Row] = {}
    for row in view.rows(comparable(view.analysis), part):
        place = (shape_of(row), row["M"])
        if _classes(view, row) == stored and (place not in best or row["time_s"] < best[place]["time_s"]):
            best[place] = row
    return list(best.values())


def _time(beside: Row | None) -> TableCell:
    if beside is None:
        return TableCell("", tone=Tone.MISSING)
    time_s = float(beside["time_s"])
    return TableCell(fmt.time(time_s), time_s, note=str(beside["kernel"]))

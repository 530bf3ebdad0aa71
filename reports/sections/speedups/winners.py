"""Which provider wins where: how many shapes each is verified the fastest of, and every time with its winner."""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial

import pandas as pd

from ... import formatting as fmt
from ...cells import is_impossible, time_cell
from ...model import Block, Cells, Column, Section, Table, TableCell, Tone, table
from ...view import Row, ShapeKey, Slice, View, sliced
from .sides import ratios_over
from .sizes import averaged, counting, label_and_size

MOST_LEADERS = 3
"""Providers that may share a win; where more are not told apart, nobody has won."""

NOBODY = "none verified"

_SHARED = (
    "not distinguished: the 95% interval of the ratio between these includes 1, or they were timed in different ways"
)

Rows = Mapping[tuple[ShapeKey, int], Mapping[str, Row]]
"""Per shape and M, the rows of the providers with a time."""

Leaders = Mapping[tuple[ShapeKey, int], tuple[str, ...]]
"""Per shape and M, the fastest provider by its time, and after it all that are not verified to be slower."""


def winners(view: View) -> Section | None:
    """Count the wins of each slice, and list its times; nothing where only one provider has a time."""
    slower = slower_pairs(view)
    return sliced("winners", "Fastest provider", view.slices, partial(_slice, view, slower))


def slower_pairs(view: View) -> frozenset[tuple[str, str]]:
    """Pairs of cells (first, second) of which the second is verified to be slower than the first."""
    found: list[tuple[str, str]] = []
    for name in view.providers:
        pairs = ratios_over(view, name)
        slow: pd.DataFrame = pairs.loc[pairs["verdict"] == "slower", ["baseline_cell_id", "cell_id"]]
        found += slow.itertuples(index=False, name=None)
    return frozenset(found)


def _slice(view: View, slower: frozenset[tuple[str, str]], part: Slice) -> Iterator[Block]:
    rows: dict[tuple[ShapeKey, int], dict[str, Row]] = {}
    for provider in view.providers:
        for at, row in view.by_cell(view.cells, part, provider).items():
            if fmt.known(row["time_s"]):
                rows.setdefault(at, {})[provider] = row
    names = [name for name in view.providers if any(name in found for found in rows.values())]
    if len(names) < 2:
        return
    rivals = {at: _rivals(view, found) for at, found in rows.items()}
    leaders = {at: leading(found, slower) for at, found in rivals.items() if len(found) > 1}
    left = sum(is_impossible(row) for found in rows.values() for row in found.values())
    told = f"{fmt.plural(left, 'time')} excluded, faster than the device allows." if left else ""
    if leaders:
        yield _counts(part, leaders, told)
    yield _times(view, part, rows, names, leaders)


def leading(found: Mapping[str, Row], slower: frozenset[tuple[str, str]]) -> tuple[str, ...]:
    """Return the fastest provider of one problem by its time, and after it all that are not verified to be slower.

    `found` has the row of each provider with a time, `slower` is of `slower_pairs`.
    """
    order = sorted(found, key=lambda name: float(found[name]["time_s"]))
    first = str(found[order[0]]["cell_id"])
    return (order[0], *(name for name in order[1:] if (first, str(found[name]["cell_id"])) not in slower))


def _won_by(leaders: tuple[str, ...]) -> str:
    """Name the winners; alike in whatever order they stand."""
    return NOBODY if len(leaders) > MOST_LEADERS else " or ".join(sorted(leaders))


def _rivals(view: View, found: Mapping[str, Row]) -> dict[str, Row]:
    """Keep the providers that could be dispatched to, with a time that the device allows."""
    return {name: row for name, row in found.items() if not (view.run.is_reference(name) or is_impossible(row))}


def _counts(part: Slice, leaders: Leaders, left_out: str) -> Table:
    sizes = sorted({m for _, m in leaders})
    wins = Counter((_won_by(names), m) for (_, m), names in leaders.items())
    totals = Counter(_won_by(names) for names in leaders.values())
    order = sorted(totals, key=lambda name: (name == NOBODY, -totals[name], name))
    shapes = Counter(m for _, m in leaders)
    columns = {m: Column(f"M={m}") for m in sizes}
    lines: list[Cells] = [
        {"fastest": name, **{columns[m]: wins[name, m] for m in sizes}, Column("all"): totals[name]} for name in order
    ]
    lines.append({"fastest": "cells", **{columns[m]: shapes[m] for m in sizes}, Column("all"): len(leaders)})
    reading = (
        "Number of shapes at which a provider is verified to be faster than every other one with a time there: the "
        "95% interval of each of its ratios, paired by round, excludes 1. Providers that are not distinguished from "
        f"the fastest share its win, up to {MOST_LEADERS} of them. References are not counted."
    )
    return table(f"wins-{part.id}", "Wins by M", lines, left_out, footer=1, how_to_read=reading)


def _times(view: View, part: Slice, rows: Rows, names: list[str], leaders: Leaders) -> Table:
    shapes = [shape for shape in view.shapes if any(shape == other for other, _ in rows)]
    columns = {name: Column(view.named(name), key="provider") for name in names}
    lines: list[Cells] = []
    for shape in shapes:
        for m in sorted(m for other, m in rows if other == shape):
            found = rows[shape, m]
            first, *others = leaders.get((shape, m), ("",))  # nothing to win without a rival
            best = TableCell(_won_by((first, *others)), first, note=_SHARED if others else "")
            tones = {} if others else {first: Tone.BEST}
            times: Cells = {columns[name]: time_cell(found.get(name), tones.get(name, Tone.PLAIN)) for name in names}
            lines.append({**label_and_size(shape), Column("M"): m, **times, "best": best})
    every = [row for found in rows.values() for row in found.values()]
    reading = (
        f"Time: {averaged(view.cells)} of the round's median. Bold: verified to be the fastest of its "
        f"row; empty: no time, see the cells without one. {counting(every)}{view.legend_of(names)}"
    )
    return table(f"times-{part.id}", "Times and winners", lines, how_to_read=reading, detail=len(lines) > 30)

"""The table that ends a run: geometric mean speedup of each provider and M, and where it wins and loses most.

It takes a row per slice and provider, with as many M as there is room for.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ...reports.formatting import thinned
from ...reports.listing import listing
from ...reports.model import Section, Table, Text
from ...reports.render.layout import shown_len
from ...reports.render.terminal import lines
from ...reports.render.visible import visible
from ..shared.tables import NO_WIDTH, show, terminal_width

if TYPE_CHECKING:
    from ...reports.view import View

MOST_LINES = 10
"""Rows of the table: with the headline and the paths, the end of a run fits on 24 lines."""


class ProviderRow(NamedTuple):
    """Geometric means of one provider in one slice, by M, and over how many shapes; its crossover, "" without one.

    `operands` names the slice, where there are several.
    """

    operands: str
    provider: str
    means: dict[int, str]
    shapes: dict[int, int]
    crossover: str


def print_final_table(view: "View") -> None:
    """Print the table; nothing for a run without a ratio."""
    every = rows_of(view)
    if not every:
        return
    shown, width = _chosen(every, view.challengers), terminal_width()
    every_size = sizes = sorted({m for row in shown for m in row.means})
    while len(sizes) > 2 and _width(_table(shown, sizes)) > width:
        sizes = thinned(every_size, len(sizes) - 1)
    texts = []
    if left := len(every_size) - len(sizes):
        texts.append(f"{left} more M between these are in the report")
    if left := len(every) - len(shown):
        texts.append(f"{left} more line{'s' * (left > 1)} in the grids of the report")
    show(_table(shown, sizes, _title(view.baseline, shown)), *map(Text, texts))


def rows_of(view: "View") -> list[ProviderRow]:
    """Return a row per slice and provider that has a ratio, in the order of the report."""
    from ...analysis.run.headline import verified_crossover
    from ...reports.cells import mean_cell, median_text

    if view.uncompared or view.baseline not in view.providers:
        return []
    found = []
    for part in view.slices:
        for provider in view.others:
            rows = [row for row in view.rows(view.analysis.means, part, provider=provider) if row["ratio"] > 0]
            means = {int(row["M"]): mean_cell(row).text for row in rows}
            shapes = {int(row["M"]): int(row["gemms"]) for row in rows}
            median = verified_crossover(view.analysis, provider, part.setting)
            if means:
                operands = part.title if len(view.slices) > 1 else ""
                crossover = median_text(median) if median else ""
                found.append(ProviderRow(operands, visible(provider), means, shapes, crossover))
    return found


def _chosen(rows: list[ProviderRow], challengers: Sequence[str]) -> list[ProviderRow]:
    """Keep what fits: all providers, else the challengers, else the first of them, of the first slices at least."""
    named = [visible(name) for name in challengers]
    own = [row for row in rows if row.provider in named] or rows
    first = [row for row in own if row.provider == own[0].provider]
    return next((some for some in (rows, own) if len(some) <= MOST_LINES), first[:MOST_LINES])


def _title(baseline: str, rows: Sequence[ProviderRow]) -> str:
    counts = sorted({count for row in rows for count in row.shapes.values()})
    fewer = f"; * over {', '.join(map(str, counts[:-1]))}" if counts[:-1] else ""
    over = f"; geometric mean over {counts[-1]} shapes{fewer}" if counts[-1] > 1 else ""
    return f"{visible(baseline)} ÷ provider (time), > 1: provider is faster{over}"


def _table(rows: Sequence[ProviderRow], sizes: Sequence[int], title: str = "") -> Table:
    """List the means at some sizes; * marks one that is over fewer shapes than others."""
    most = max(count for row in rows for count in row.shapes.values())
    crosses = any(row.crossover for row in rows)
    body = [
        (
            *(row.operands, row.provider),
            *(row.means.get(m, "").removesuffix("×") + "*" * (row.shapes.get(m, most) < most) for m in sizes),
            *([row.crossover] if crosses else ()),
        )
        for row in rows
    ]
    names = ("operands", "provider", *(f"M={m}" for m in sizes), *(["crossover"] if crosses else ()))
    return listing(names, body, title, once=("operands",), heading=("operands",))


def _width(table: Table) -> int:
    """Columns that a table takes on lines that are not wrapped."""
    return max(map(shown_len, lines(Section("", "", (table,)), NO_WIDTH, str)))

"""The table that ends a run: geometric mean speedup of each provider and M, and where it wins and loses most.

On a terminal the cells are coloured as in the page, and a line of blocks shows the course over M; a pipe gets plain
text. The numbers are those of the report's grids.
"""

import math
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click
from rich.cells import cell_len, set_cell_size

from ...analysis.frames.coordinates import SETTING
from ...reports.formatting import thinned
from ...reports.render.layout import wrap
from ...reports.render.visible import visible
from ..shared.tables import bold, terminal_width
from ..shared.terminal import style

if TYPE_CHECKING:
    from ...reports.model import TableCell
    from ...reports.view import Slice, View

MOST_LINES = 10
"""Rows of the table: with the headline and the paths, the end of a run fits on 24 lines."""

MOST_NAMED = 2
"""Challengers whose worst cell is printed."""

CROSSOVER = "crossover"

SHORTEST_NAME, LONGEST_NAME = 8, 24
"""Columns of a provider's name."""

BLOCKS = "▁▂▃▄▅▆▇█"
OCTAVES = 3.0
"""log2 ratio at which the blocks are lowest and highest: 1/8x and 8x."""

FASTER = (255, 189, 153, 117, 75, 33, 26, 25)
SLOWER = (255, 224, 217, 210, 203, 167, 160, 124)
"""Codes of xterm's 256 colours from neutral to blue and to red, as far as they resemble the page's scale."""

BLACK, WHITE, GREYS = 16, 231, 232
"""Codes: the ends of the colour cube, and the first of the greys behind it."""


@dataclass(frozen=True, slots=True)
class ProviderRow:
    """Geometric means of one provider in one slice, by M, and over how many shapes; its crossover, "" without one."""

    part: str
    provider: str
    means: dict[int, "TableCell"]
    shapes: dict[int, int]
    crossover: str


def print_final_table(view: "View", headed: bool = False) -> None:
    """Print the table, and the best and worst cell of each challenger; `headed`: without those of the first.

    Prints nothing for a run in which nothing is compared.
    """
    every = lines_of(view)
    if not every:
        return
    shown = _chosen(every, view.challengers)
    width = terminal_width()
    fancy = sys.stdout.isatty() and (sys.stdout.encoding or "").lower().startswith("utf")
    for text in _laid_out(view, shown, width, fancy):
        click.echo(text)
    if impossible := int(view.cells["impossible"].sum()):
        text = f"excluded, faster than the device allows: {impossible} of {view.cells['time_s'].notna().sum()} cells"
        click.echo("\n".join(wrap(text, width)))
    if left := len(every) - len(shown):
        click.echo(f"{left} more line{'s' * (left > 1)} in the grids of the report")
    for text in _extremes(view, headed):
        click.echo("\n".join(wrap(text, width)))


def lines_of(view: "View") -> list[ProviderRow]:
    """Return a line per slice and provider that has a ratio, in the order of the report."""
    from ...analysis.run.headline import verified_crossover
    from ...reports.cells import mean_cell, median_text

    if view.uncompared or view.baseline not in view.providers:
        return []
    lines = []
    for part in view.slices:
        for provider in view.others:
            rows = view.rows(view.analysis.means, part, provider=provider)
            means = {int(row["M"]): mean_cell(row) for row in rows if not math.isnan(row["ratio"])}
            median = verified_crossover(view.analysis, provider, part.setting)
            if means:
                shapes = {int(row["M"]): int(row["gemms"]) for row in rows}
                lines.append(
                    ProviderRow(_title(view, part), provider, means, shapes, median_text(median) if median else "")
                )
    return lines


def _title(view: "View", part: "Slice") -> str:
    return part.title if len(view.slices) > 1 else ""


def _chosen(lines: Sequence[ProviderRow], challengers: Sequence[str]) -> list[ProviderRow]:
    """Keep what fits: all providers, else the challengers, else the first of them, of the first slices at least."""
    own = [line for line in lines if line.provider in challengers] or list(lines)
    first = [line for line in own if line.provider == own[0].provider]
    for some in (list(lines), own):
        if len(some) + _headings(some) <= MOST_LINES:
            return some
    return first[:MOST_LINES]


def _headings(lines: Sequence[ProviderRow]) -> int:
    """Lines that name a slice: none where one provider is shown, whose lines are named by their slice."""
    several = len({line.provider for line in lines}) > 1
    return len({line.part for line in lines} - {""}) if several else 0


def _laid_out(view: "View", lines: Sequence[ProviderRow], width: int, fancy: bool) -> Iterator[str]:
    counts = sorted({line.shapes[m] for line in lines for m in line.means})
    headed = _headings(lines) > 0
    by_part = not headed and any(line.part for line in lines)
    who = visible(lines[0].provider) if by_part else "provider"
    fewer = f"; * over {', '.join(map(str, counts[:-1]))}" if counts[:-1] else ""
    over = f"; geometric mean over {counts[-1]} shapes{fewer}" if counts[-1] > 1 else ""
    yield from wrap(f"{visible(view.baseline)} ÷ {who} (time), > 1: {who} is faster{over}", width)
    indent = "  " if headed else ""
    labels = [indent + _short(visible(line.part if by_part else line.provider)) for line in lines]
    grid = _Grid(lines, max(SHORTEST_NAME, *map(cell_len, labels)), width, fancy)
    yield bold(grid.header())
    last = ""
    for line, label in zip(lines, labels, strict=True):
        if headed and line.part != last:
            last = line.part
            yield last
        yield grid.row(line, label)
    if left := len(grid.sizes) - len(grid.shown_sizes):
        yield f"{left} more M between these are in the report"


class _Grid:
    """Columns of the table at one width: every M, or as many as there is room for."""

    def __init__(self, lines: Sequence[ProviderRow], name: int, width: int, fancy: bool) -> None:
        self._name, self._fancy = name, fancy
        self.sizes = sorted({m for line in lines for m in line.means})
        self._most = max(line.shapes[m] for line in lines for m in line.means)
        self._widths = {m: 1 + max(len(str(m)), *(len(self._text(line, m)) for line in lines)) for m in self.sizes}
        crossing = max(len(line.crossover) for line in lines)
        self._tail = 2 + max(len(CROSSOVER), crossing) if crossing else 0
        self.shown_sizes = self.sizes
        while len(self.shown_sizes) > 2 and self._taken() > width:
            self.shown_sizes = thinned(self.sizes, len(self.shown_sizes) - 1)
        self._blocks = fancy and len(self.sizes) > 2 and self._taken() + 2 + len(self.sizes) <= width

    def _taken(self) -> int:
        return self._name + sum(self._widths[m] for m in self.shown_sizes) + self._tail

    def header(self) -> str:
        blocks = " " * (2 + len(self.sizes)) if self._blocks else ""
        sizes = "".join(f"{m:>{self._widths[m]}}" for m in self.shown_sizes)
        return f"{'M':<{self._name}}{blocks}{sizes}" + (f"  {CROSSOVER}" if self._tail else "")

    def row(self, line: ProviderRow, label: str) -> str:
        """Write one line: its label, its course over every M, its numbers and its crossover."""
        course = f"  {_course(line, self.sizes)}" if self._blocks else ""
        cells = "".join(
            _coloured(line.means.get(m), f"{self._text(line, m):>{self._widths[m]}}", self._fancy)
            for m in self.shown_sizes
        )
        text = f"{label}{' ' * (self._name - cell_len(label))}{course}{cells}"
        return f"{text}  {line.crossover}" if line.crossover else text.rstrip()

    def _text(self, line: ProviderRow, m: int) -> str:
        """Write a mean, with * where it is over fewer shapes than others."""
        cell = line.means.get(m)
        return "" if cell is None else cell.text.removesuffix("×") + "*" * (line.shapes[m] < self._most)


def _short(name: str) -> str:
    """Cut a name that would take the room of the numbers."""
    return name if cell_len(name) <= LONGEST_NAME else f"{set_cell_size(name, LONGEST_NAME - 1).rstrip()}…"


def _course(line: ProviderRow, sizes: Sequence[int]) -> str:
    """Draw the means over M as blocks, a blank where there is none."""
    drawn = []
    for m in sizes:
        cell = line.means.get(m)
        if cell is None or cell.level is None:
            drawn.append(" ")
            continue
        position = (max(-OCTAVES, min(OCTAVES, cell.level)) + OCTAVES) / (2 * OCTAVES)
        drawn.append(BLOCKS[min(len(BLOCKS) - 1, int(position * len(BLOCKS)))])
    return "".join(drawn)


def _coloured(cell: "TableCell | None", text: str, fancy: bool) -> str:
    """Write the text of a number on the step of the scale of the page's grids, on a terminal that has 256 colours."""
    from ...reports.figures import colours

    if cell is None or cell.level is None or not fancy or not _has_colours():
        return text
    code = code_of(cell.level)
    ink = BLACK if colours.text_on(hex_of(code)) == "#000000" else WHITE
    return f" {style(text[1:], bg=code, fg=ink)}"


def code_of(level: float) -> int:
    """Return the code among 256 colours for log2 of a ratio."""
    scale = FASTER if level > 0 else SLOWER
    return scale[round(min(1.0, abs(level) / OCTAVES) * (len(scale) - 1))]


def hex_of(code: int) -> str:
    """Return the colour that terminals show for a code of their 6 x 6 x 6 cube or of their greys."""
    if code >= GREYS:
        return "#" + f"{8 + 10 * (code - GREYS):02x}" * 3
    steps = (0, 95, 135, 175, 215, 255)
    places = ((code - BLACK) // 36, (code - BLACK) // 6 % 6, (code - BLACK) % 6)
    return "#" + "".join(f"{steps[place]:02x}" for place in places)


def _has_colours() -> bool:
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") not in ("dumb", "linux", "vt100")


def _extremes(view: "View", headed: bool) -> Iterator[str]:
    """Say where challengers win and lose most; the headline of a report has said so of the first."""
    from ...reports.cells import ratio_cell
    from ...reports.view import shape_of

    for provider in view.challengers[headed:MOST_NAMED]:
        rows = [row for row in view.rows(view.ratios, provider=provider) if not math.isnan(row["ratio"])]
        ordered = sorted(rows, key=lambda row: float(row["ratio"]))
        for word, row in (("best", ordered[-1]), ("worst", ordered[0])) if len(ordered) > 1 else ():
            shape = shape_of(row)
            part = view.slice_of([row[name] for name in SETTING])
            where = f"{shape.label} ({shape.size}), M={int(row['M'])}, {part.title}"
            yield visible(f"{provider} {word}: {ratio_cell(row).text} at {where}")

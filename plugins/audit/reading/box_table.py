"""Tables whose columns are separated by marks: GitHub's markdown, ASCII and box drawing, and CSV among prose."""

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass

from .printed import EMPHASIS, read_printed

_BARS = re.compile(r"(?<!\\)[|│┃║┆┊]")

_BORDER = re.compile(r"[\s|│┃║+:=\-─━═┄┈┌┐└┘├┤┬┴┼╭╮╰╯┏┓┗┛┣┫┳┻╋┡┩╇╞╪╡╔╗╚╝╠╣╦╩╬┢┪┠┨]+")


WIDEST = 100
"""Columns of the widest table that is read: rules try pairs of columns."""


@dataclass(frozen=True, slots=True)
class Found:
    """Cells of a table in a text: line numbers from 0, and the first line after the table.

    Without rows it is none that can be read: filled up, it would have more cells than characters.
    """

    header: list[str]
    rows: list[list[str]]
    lines: list[int]
    end: int


class BarredTables:
    """Tables with bars in `lines`. Each line is looked at once, so that asking at every line takes linear time."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._borders = [_is_border(line) for line in lines]
        bars = [bool(line.strip()) and bool(_BARS.search(line)) for line in lines]
        parts = [bar or border for bar, border in zip(bars, self._borders, strict=True)]
        self._is_part = parts
        self._ends = run_ends(parts)
        self._border_ends = run_ends(self._borders)
        edges = [border or bool(_BARS.match(line.strip())) for line, border in zip(lines, self._borders, strict=True)]
        self._edges, self._edge_ends = edges, run_ends(edges)

    def at(self, start: int) -> Found | None:
        """Read the table that begins at line `start`; None when none does. A ragged row is filled up or cut."""
        if not self._is_part[start]:
            return None
        lines, end = self._lines, self._ends[start]
        first = start if not self._borders[start] else self._border_ends[start]
        if first >= end:
            return None
        first_rule = self._border_ends[first]
        if first_rule >= end or self._border_ends[first_rule] >= end:  # no line above a border, or none below it
            return None
        has_edge = self._edges[start] and self._edge_ends[start] >= end
        width = len(_cells(lines[first], has_edge))
        if not 2 <= width <= WIDEST:
            return None
        below = [place for place in range(first_rule, end) if not self._borders[place]]
        if width * len(below) > sum(map(len, lines[start:end])):
            return Found([], [], [], end)
        above = [_cells(line, has_edge) for line in lines[first:first_rule]]
        names = [" ".join(filter(None, (row[at] for row in above if at < len(row)))) for at in range(width)]
        rows = [(_cells(lines[place], has_edge) + [""] * width)[:width] for place in below]
        return Found(names, rows, below, end)


def run_ends(keys: Sequence[object]) -> list[int]:
    """Return for each place the first one after it with another key, or the number of keys."""
    ends = list(range(1, len(keys) + 1))
    for place in range(len(keys) - 2, -1, -1):
        if keys[place] == keys[place + 1]:
            ends[place] = ends[place + 1]
    return ends


def _is_border(line: str) -> bool:
    text = line.strip()
    return bool(_BORDER.fullmatch(text)) and any(mark in text for mark in "-─━═=")


def _cells(line: str, has_edge: bool) -> list[str]:
    """Cut a line; `has_edge`: all lines begin with a bar, so that nothing stands before it."""
    parts = _BARS.split(line.strip())
    if has_edge:
        parts = parts[1:]
    if parts and not parts[-1].strip():
        parts = parts[:-1]
    return [clean(part.replace("\\|", "|")) for part in parts]


_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()]*\)")


def clean(text: str) -> str:
    """Return the text of a cell without emphasis, links and images."""
    plain = EMPHASIS.sub(" ", _LINK.sub(r"\1", text))
    plain = " ".join(plain.split())
    return plain.strip("*") or plain


class DelimitedTables:
    """CSV (comma, semicolon or tab) among the `lines` of a text: lines of as many fields, three or more.

    Prose has commas too: a row must hold a number in at least a third of its fields, and its header in none. Each line
    is cut once for each mark, so that asking at every line takes linear time.
    """

    def __init__(self, lines: Sequence[str]) -> None:
        self._marks = [_Delimited(lines, mark) for mark in ("\t", ";", ",")]

    def at(self, start: int) -> Found | None:
        """Read the table whose header is line `start`; None when none is."""
        return next((found for one in self._marks if (found := one.at(start)) is not None), None)


class _Delimited:
    """The same for one mark: fields of every line that has two marks or more, and where their number changes."""

    def __init__(self, lines: Sequence[str], mark: str) -> None:
        self._fields = [next(csv.reader([line], delimiter=mark)) if line.count(mark) >= 2 else [] for line in lines]
        self._ends = run_ends([len(fields) for fields in self._fields])
        counts = [_numbers(fields) for fields in self._fields]
        self._has_number = [count > 0 for count in counts]
        is_row = [3 * count >= len(fields) for count, fields in zip(counts, self._fields, strict=True)]
        self._is_row, self._row_ends = is_row, run_ends(is_row)

    def at(self, start: int) -> Found | None:
        end = self._ends[start]
        width = len(self._fields[start])
        if not 3 <= width <= WIDEST or self._has_number[start] or end == start + 1:
            return None
        if not self._is_row[start + 1] or self._row_ends[start + 1] < end:
            return None
        header, *body = ([cell.strip() for cell in fields] for fields in self._fields[start:end])
        return Found(header, body, list(range(start + 1, end)), end)


def _numbers(cells: Sequence[str]) -> int:
    return sum(read_printed(cell) is not None for cell in cells)

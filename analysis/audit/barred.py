"""Tables whose columns are separated by marks: GitHub's markdown, ASCII and box drawing, and CSV among prose."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ...shapes.csv_file import split
from .printed import EMPHASIS, read_printed

_BARS = re.compile(r"(?<!\\)[|│┃║┆┊]")

_BORDER = re.compile(r"[\s|│┃║+:=\-─━═┄┈┌┐└┘├┤┬┴┼╭╮╰╯┏┓┗┛┣┫┳┻╋┡┩╇╞╪╡╔╗╚╝╠╣╦╩╬┢┪┠┨]+")


@dataclass(frozen=True, slots=True)
class Found:
    """Cells of a table in a text: line numbers from 0, and the first line after the table."""

    header: list[str]
    rows: list[list[str]]
    lines: list[int]
    end: int


def barred_table(lines: Sequence[str], start: int) -> Found | None:
    """Read the table that begins at line `start`; None when none does. A ragged row is filled up or cut."""
    end = start
    while end < len(lines) and lines[end].strip() and (_BARS.search(lines[end]) or _is_border(lines[end])):
        end += 1
    borders = [place for place in range(start, end) if _is_border(lines[place])]
    content = [place for place in range(start, end) if place not in set(borders)]
    if len(content) < 2 or not any(place > content[0] for place in borders):
        return None
    first_rule = next(place for place in borders if place > content[0])
    has_edge = all(_BARS.match(lines[place].strip()) for place in content)
    above = [_cells(lines[place], has_edge) for place in content if place < first_rule]
    below = [place for place in content if place > first_rule]
    width = len(above[0])
    if width < 2 or not below:
        return None
    names = [" ".join(filter(None, (row[at] for row in above if at < len(row)))) for at in range(width)]
    rows = [(_cells(lines[place], has_edge) + [""] * width)[:width] for place in below]
    return Found(names, rows, below, end)


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


def delimited_table(lines: Sequence[str], start: int) -> Found | None:
    """Read CSV (comma, semicolon or tab) that begins at line `start`: lines of as many fields, three or more.

    Prose has commas too: a row must hold a number in at least a third of its fields, and its header in none.
    """
    for mark in ("\t", ";", ","):
        if lines[start].count(mark) < 2:
            continue
        end = start
        while end < len(lines) and mark in lines[end]:
            end += 1
        rows = split(lines[start:end], mark)
        if not rows:
            continue
        count = next((at for at, row in enumerate(rows) if len(row) != len(rows[0])), len(rows))
        header, body = [name.strip() for name in rows[0]], [[cell.strip() for cell in row] for row in rows[1:count]]
        if body and not _numbers(header) and all(3 * _numbers(row) >= len(row) for row in body):
            return Found(header, body, list(range(start + 1, start + count)), start + count)
    return None


def _numbers(cells: Sequence[str]) -> int:
    return sum(read_printed(cell) is not None for cell in cells)

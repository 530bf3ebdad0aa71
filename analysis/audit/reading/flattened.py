"""Tables of plain text: columns aligned by blanks, or flattened to single blanks by copying from a page.

A body is what gives such a table away: lines with the same sequence of numbers and texts below a line of words.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from .box_table import WIDEST, Found, run_ends
from .headers import cut_header, pieces_of, strongest_bond
from .printed import is_blank, read_printed
from .words import SIZES, SUMMARIES

_TOKENS = re.compile(r"\([^()]*\)|\S+")

_GAPS = re.compile(r"\s{2,}|\t")

_KEYED = re.compile(r"[A-Za-z_]\w*\s*[:=]\s*[-+~]?\d")

_RULE = re.compile(r"[\s\-=─━]+")

_UNITS = frozenset(("us", "µs", "μs", "ms", "s", "ns", "TFLOPS", "GFLOPS", "GB/s", "TB/s", "%", "x", "×"))

LEAST_NUMBERS = 2
"""Columns of numbers that make lines of words a table; a tuple of sizes counts as many."""


class FlattenedTables:
    """Such tables in `lines`. Each line is cut once, so that asking at every line takes linear time."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._rows = [_row(line) for line in lines]
        self._kinds = ["" if row is None else _kinds(row) for row in self._rows]
        self._ends = run_ends(self._kinds)

    def at(self, start: int) -> Found | None:
        """Read the table whose header is line `start`; None when the lines below it are not rows."""
        lines, header = self._lines, self._lines[start].strip()
        first = start + 1
        if first < len(lines) and lines[first].strip() and _RULE.fullmatch(lines[first]):
            first += 1
        if first >= len(lines) or not self._kinds[first] or self._kinds[start] == self._kinds[first]:
            return None
        rows = [row for row in self._rows[first : self._ends[first]] if row is not None]
        if sum(bool(_KEYED.match(cell)) for cell in _GAPS.split(lines[first].strip())) > 1:  # rows name their own cells
            return None
        names = _aligned(lines, start, first, len(rows)) or _named(header, lines, first, rows)
        if names is None:
            return None
        header_cells, cells = names
        if len(cells) == 1 and not {"M", "N", "K"} <= {*pieces_of(header)}:  # one line proves no pattern
            return None
        if len(header_cells) > WIDEST:
            return None
        end = first + len(cells)
        if summary := self._summary(end, cells[0]):
            cells, end = [*cells, summary], end + 1
        return Found(header_cells, cells, list(range(first, end)), end)

    def _summary(self, place: int, row: Sequence[str]) -> list[str] | None:
        """Row that sums up those above it: its name, and the numbers of the last columns ("average 270.8")."""
        words = self._lines[place].split() if place < len(self._lines) else []
        if len(words) < 2 or words[0].strip(":").lower() not in SUMMARIES or len(words) > len(row):
            return None
        blanks = len(row) - len(words)
        is_alike = all(
            _kind(word) == _kind(cell) == "number" for word, cell in zip(words[1:], row[blanks + 1 :], strict=True)
        )
        return [words[0], *[""] * blanks, *words[1:]] if is_alike else None


def _row(line: str) -> list[str] | None:
    """Cut a line into cells: numbers, tuples of sizes, and texts between them; None for prose."""
    cells: list[str] = []
    last = ""
    for token in _TOKENS.findall(line):
        kind = _kind(token)
        if (last == "number" and token in _UNITS) or kind == last == "text":
            cells[-1] += f" {token}"
        else:
            cells.append(token)
            last = kind
    kinds = [_kind(cell) for cell in cells]
    numbers = kinds.count("number") + 3 * kinds.count("sizes")
    wordy = any(kind == "text" and len(cell.split()) > 2 for kind, cell in zip(kinds[1:], cells[1:], strict=True))
    is_wide = len(cells) > 2 or "sizes" in kinds
    return cells if numbers >= max(LEAST_NUMBERS, len(cells) / 2) and is_wide and not wordy else None


@lru_cache(maxsize=4096)  # a token is asked for alone, as a cell, and in its row
def _kind(cell: str) -> str:
    if read_printed(cell) is not None or (is_blank(cell) and cell.strip()):
        return "number"
    if re.fullmatch(r"\(\s*\d+(\s*[,x×]\s*\d+)+\s*\)|\d+([x×]\d+)+", cell):
        return "sizes"
    return "text"


def _kinds(row: Sequence[str]) -> str:
    return "".join(_kind(cell)[0] for cell in row)


def _aligned(lines: Sequence[str], start: int, first: int, count: int) -> tuple[list[str], list[list[str]]] | None:
    """Cut at wide gaps, where header and rows agree on their number."""
    header = _GAPS.split(lines[start].strip())
    rows = [_GAPS.split(line.strip()) for line in lines[first : first + count]]
    least = LEAST_NUMBERS if _kind(rows[0][0]) == "sizes" else LEAST_NUMBERS + 1
    if len(header) < least or any(len(row) != len(header) for row in rows):
        return None
    return header, rows


def _named(
    header: str, lines: Sequence[str], first: int, rows: list[list[str]]
) -> tuple[list[str], list[list[str]]] | None:
    """Cut the header by its words: into the words of the rows if they are as many, else into their cells."""
    pieces = pieces_of(header)
    if pieces and (pieces[0] in "•*-" or pieces[0].endswith(":")):
        return None
    wide = _GAPS.split(header)
    tokens = [_TOKENS.findall(line) for line in lines[first : first + len(rows)]]
    for names in (wide, pieces):
        if len(names) < LEAST_NUMBERS:
            continue
        if all(len(row) == len(names) for row in tokens) and (names is wide or strongest_bond(names) < 1):
            return names, tokens
        if all(len(row) == len(names) + 1 and row[0] == str(at) for at, row in enumerate(tokens)):
            return ["index", *names], tokens  # as pandas prints a frame
    cut = cut_header(header, len(rows[0]))
    if cut is None or any(len(name.split()) > 6 for name in cut):
        return None
    known = sum(name.split(" ")[0] in SIZES for name in cut)
    return (cut, rows) if known or len(pieces) <= 4 * len(cut) else None

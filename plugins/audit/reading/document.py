"""The tables of a text, each with the line it starts at.

Tables have a header, and may be CSV (comma, semicolon or tab), GitHub's markdown, HTML, drawn with bars or box
characters, or aligned by blanks. Everything else is not read.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from ....analysis.imports import aiconfigurator
from ....analysis.imports.parquet_table import MAGIC, parse_parquet, refuse_pointer
from ....analysis.imports.table import ImportedTable, parse
from ....shapes.errors import UsageError, shorten
from ....shapes.files.csv_file import split
from ....shapes.files.file_text import decoded
from . import serving_tables
from .aligned import AlignedTables
from .box_table import WIDEST, BarredTables, DelimitedTables
from .html_table import HtmlTables
from .printed import read_printed

LONGEST_TITLE = 100

LEAD = 12
"""Lines above a table that may say what it holds, ..."""

LONGEST_LEAD = 1000
"""... and how many characters of them."""

LONGEST_LINE = 100_000
"""Characters of a line that is read; a row of a published table has some hundred."""

LARGEST = 4 << 20
"""Bytes of a text that is read: some forty thousand rows."""

EXAMPLE = "M,N,K,time_us"
"""A header that is understood."""


@dataclass(frozen=True, slots=True)
class Titled:
    """A table, what the line above it calls it, and the line of its header in the text.

    `lead` is the prose between the table before it and this one, as far as it is near. `column_lines` are the lines of
    the columns of a table that lies on its side; empty of any other.
    """

    table: ImportedTable
    title: str
    line: int
    lead: str = ""
    column_lines: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """How findings call it: its file, line and title."""
        return f"{self.table.where} line {self.line}" + (f" ({shorten(self.title)})" if self.title else "")


@dataclass(frozen=True, slots=True)
class Document:
    """All tables of a text, in order; `unread` are lines that are too long, or a table too wide."""

    name: str
    tables: tuple[Titled, ...]
    unread: tuple[int, ...] = ()


def read_document(content: bytes, name: str) -> Document:
    """Find the tables of a text, or of a parquet file. Raises UsageError if it has none, is too long or torn.

    A line of more than LONGEST_LINE characters is left out of a text; a CSV with one is refused, as is one with more
    than WIDEST columns.
    """
    if len(content) > LARGEST:
        raise UsageError(
            f"{name} has {len(content) / 1e6:.1f} MB, and at most {LARGEST / 1e6:.0f} MB are read; give the part that "
            "has the tables"
        )
    refuse_pointer(content, name)
    if content.startswith(MAGIC):
        return _whole(parse_parquet(content, name))
    text = decoded(content, name, "give a CSV or a text")
    if not text.strip():
        raise UsageError(f"{name} is empty; give a table: CSV or markdown")
    if PurePath(name).suffix.lower() in (".csv", ".tsv") or _is_csv(text):
        if long := _too_long(text.splitlines()):
            raise UsageError(f"{name} line {long[0]} has more than {LONGEST_LINE} characters; give narrower columns")
        return _whole(parse(content, name))
    return _scan(text, name)


def _whole(table: ImportedTable) -> Document:
    """Make a document of a file that is one table, or several of serving stacks in one."""
    name = table.where
    if len(table.header) > WIDEST:
        raise UsageError(f"{name} has {len(table.header)} columns, and at most {WIDEST} are read; leave some out")
    titled = [(PurePath(name).stem.replace("_", " "), table)]
    if aiconfigurator.matches(table):
        titled = serving_tables.split(table)
    size = sum(len(text) + 1 for _, part in titled for row in part.rows for text in row)
    if size > LARGEST:
        raise UsageError(f"{name} has {size / 1e6:.1f} MB of text, and at most {LARGEST / 1e6:.0f} MB are read")
    return Document(name, tuple(Titled(part, title, 1) for title, part in titled))


def _is_csv(text: str) -> bool:
    """True when every line has as many fields, three or more, by some delimiter, with numbers and without bars."""
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) < 2 or any("|" in line or line.lstrip().startswith("<") for line in lines[:2]):
        return False
    for mark in ("\t", ";", ","):
        if lines[0].count(mark) < 2 and not (mark != "," and mark in lines[0]):
            continue
        rows = list(split(lines, mark))
        has_numbers = any(read_printed(text) is not None for row in rows[1:] for text in row)
        if has_numbers and len({len(fields) for fields in rows}) == 1:
            return True
    return False


def _too_long(lines: Sequence[str]) -> list[int]:
    return [number for number, line in enumerate(lines, 1) if len(line) > LONGEST_LINE]


def _scan(text: str, name: str) -> Document:
    lines = text.splitlines()
    unread = _too_long(lines)
    for number in unread:
        lines[number - 1] = ""
    readers = (HtmlTables(lines), BarredTables(lines), AlignedTables(lines), DelimitedTables(lines))
    tables: list[Titled] = []
    place, last_table = 0, 0
    while place < len(lines):
        if not lines[place].strip():
            place += 1
            continue
        found = next((one for reader in readers if (one := reader.at(place)) is not None), None)
        if found is None:
            place += 1
            continue
        if not found.rows:
            unread += range(place + 1, found.end + 1)
            place = found.end
            continue
        header, rows = _with_second_row(found.header, found.rows)
        places = tuple(line + 1 for line in found.lines[len(found.rows) - len(rows) :])
        table = ImportedTable(name, tuple(header), tuple(map(tuple, rows)), places)
        lead = " ".join(lines[max(last_table, place - LEAD) : place])
        tables.append(Titled(table, _title(lines, place, last_table), place + 1, lead[-LONGEST_LEAD:]))
        place = last_table = found.end
    if not tables:
        left_out = f" (line {unread[0]} is too long, or its table too wide)" if unread else ""
        raise UsageError(f"{name} has no table with a header that can be read{left_out}; write it as CSV: {EXAMPLE}")
    return Document(name, tuple(tables), tuple(sorted(unread)))


def _with_second_row(header: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[list[str], Sequence[Sequence[str]]]:
    """Join a header that has blanks with a first row that has names only: "H100 | |" above "M | ms | TFLOPS".

    A blank stands for the name to its left, as merged cells do.
    """
    filled = [cell for cell in rows[0] if cell.strip()] if rows else []
    blanks = sum(not name.strip() for name in header)
    if len(rows) < 2 or not blanks or len(filled) < max(2, blanks):
        return list(header), rows
    if any(read_printed(cell) is not None for cell in filled) or not any(read_printed(cell) for cell in rows[1]):
        return list(header), rows
    above: list[str] = []
    for name in header:
        above.append(name if name.strip() or not above else above[-1])
    return [
        f"{own if not below.strip() else top} {below}".strip()
        for own, top, below in zip(header, above, rows[0], strict=True)
    ], rows[1:]


_HEADING = re.compile(r"#{1,6}\s|\d+(\.\d+)*\.?\s+\S")


def _title(lines: Sequence[str], table: int, last_table: int) -> str:
    """Return the nearest heading above a table and below the one before it, else a short line right above it."""
    nearest = ""
    for place in range(table - 1, last_table - 1, -1):
        line = lines[place].strip()
        if not re.search(r"\w", line) or len(line) > LONGEST_TITLE or line.startswith(("```", "~~~")):
            continue
        alone = place == 0 or not lines[place - 1].strip()
        alone = alone and (place == table - 1 or not lines[place + 1].strip())
        if _HEADING.match(line) or (alone and line[-1] not in ".!?,;"):
            return line.strip("#*: ")
        if not nearest and place >= table - 2 and line[-1] not in ".!?,;":
            nearest = line.strip("#*: ")
    return nearest

"""A text that somebody pasted, as its tables and paragraphs, each with the line it starts at.

Tables may be CSV (comma, semicolon or tab), GitHub's markdown, HTML, drawn with bars or box characters, aligned by
blanks, or flattened to single blanks by copying from a web page. Everything else is prose.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from ...shapes.csv_file import split
from ...shapes.errors import UsageError
from ...shapes.file_text import decoded
from ..imports.table import Table, parse
from .barred import Found, barred_table, delimited_table
from .flattened import flattened_table
from .html_table import html_table

LONGEST_TITLE = 100

MOST_COLUMNS = 1000
"""Of a table: the rules look at pairs of columns, and no published table comes near."""


@dataclass(frozen=True, slots=True)
class Titled:
    """A table, what the line above it calls it, and the line of its header in the text."""

    table: Table
    title: str
    line: int

    @property
    def name(self) -> str:
        """How findings call it: its file, line and title."""
        return f"{self.table.where} line {self.line}" + (f" ({self.title})" if self.title else "")


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Prose with its line breaks; `line` is that of its first character."""

    where: str
    line: int
    text: str

    def line_of(self, offset: int) -> int:
        """Line of a character of the text."""
        return self.line + self.text.count("\n", 0, offset)


@dataclass(frozen=True, slots=True)
class Document:
    """All tables and paragraphs of a text, in order."""

    name: str
    tables: tuple[Titled, ...]
    paragraphs: tuple[Paragraph, ...]


def read_document(content: bytes, name: str) -> Document:
    """Find the tables of a text. Raises UsageError when it is no text, a CSV that is torn, or a table too wide."""
    found = _read(content, name)
    for titled in found.tables:
        if (columns := len(titled.table.header)) > MOST_COLUMNS:
            raise UsageError(
                f"{name} line {titled.line}: a table of {columns} columns; at most {MOST_COLUMNS} are audited: "
                "give those that belong together"
            )
    return found


def _read(content: bytes, name: str) -> Document:
    text = decoded(content, name, "give a CSV or a text")
    if not text.strip():
        raise UsageError(f"{name} is empty; give a table: CSV, markdown or pasted text")
    if PurePath(name).suffix.lower() in (".csv", ".tsv") or _is_csv(text):
        table = parse(content, name)
        return Document(name, (Titled(table, PurePath(name).stem.replace("_", " "), 1),), ())
    return _scan(text, name)


def _is_csv(text: str) -> bool:
    """True when every line has the same number of fields, three or more, by some delimiter, and no bars."""
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) < 2 or any("|" in line or line.lstrip().startswith("<") for line in lines[:2]):
        return False
    for mark in ("\t", ";", ","):
        if lines[0].count(mark) < 2 and not (mark != "," and mark in lines[0]):
            continue
        counts = {len(fields) for fields in split(lines, mark)}
        if len(counts) == 1:
            return True
    return False


def _scan(text: str, name: str) -> Document:
    lines = text.splitlines()
    tables: list[Titled] = []
    prose: list[int] = []
    place, last_table = 0, 0
    while place < len(lines):
        if not lines[place].strip():
            place += 1
            continue
        found = _table_at(lines, place)
        if found is None:
            prose.append(place)
            place += 1
            continue
        rows = tuple(tuple(row) for row in found.rows)
        table = Table(name, tuple(found.header), rows, tuple(line + 1 for line in found.lines))
        tables.append(Titled(table, _title(lines, place, last_table), place + 1))
        place = last_table = found.end
    return Document(name, tuple(tables), tuple(_paragraphs(lines, prose, name)))


def _table_at(lines: Sequence[str], place: int) -> Found | None:
    readers = (html_table, barred_table, flattened_table, delimited_table)
    return next((found for read in readers if (found := read(lines, place)) is not None), None)


def _paragraphs(lines: Sequence[str], prose: Sequence[int], name: str) -> Iterator[Paragraph]:
    """Join neighbouring lines of prose."""
    start = 0
    for end in range(1, len(prose) + 1):
        if end == len(prose) or prose[end] != prose[end - 1] + 1:
            block = prose[start:end]
            yield Paragraph(name, block[0] + 1, "\n".join(lines[at] for at in block))
            start = end


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

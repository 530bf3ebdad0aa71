"""The tables of a file: of a CSV, a parquet file, the JSON of a benchmark, or a text, with the line each starts at.

In a text, tables are GitHub's markdown, CSV (comma, semicolon or tab), or in columns: with two blanks between them, as
reStructuredText has them, or with the ends of all fields below those of the header, as pandas prints a frame. All have
a header. Everything else is not read.
"""

import io
import re
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import NamedTuple

from ...shapes.errors import RooflensError, UsageError, shorten
from ...shapes.files.csv_file import split
from ...shapes.files.file_text import decoded
from .json_results import is_json, tables_of_json
from .printed import EMPHASIS, is_blank, read_printed
from .table import EXAMPLE, ImportedTable, parse, with_points

LONGEST_TITLE = 100

LEAD, LONGEST_LEAD = 12, 1000
"""Lines above a table that may say what it holds, and how many characters of them."""

LONGEST_LINE = 100_000
"""Characters of a line that is read; a row of a published table has some hundred."""

LEAST = 3
"""Columns of a table without a rule below its header."""


def tables_in(content: bytes, where: str, suffix: str = "") -> list[ImportedTable]:
    """Find the tables of a file, whose name ends in `suffix` (else as `where` does). Raises UsageError without any."""
    if content.startswith(LFS_POINTER):
        raise UsageError(f"{where} is a pointer of Git LFS and not the table: fetch it with git lfs pull")
    if content.startswith(MAGIC):
        return [parse_parquet(content, where)]
    if is_json(content):
        return tables_of_json(content, where)
    text = decoded(content, where, f"give a CSV: {EXAMPLE}")
    lines = text.splitlines()
    if long := next((number for number, line in enumerate(lines, 1) if len(line) > LONGEST_LINE), None):
        raise UsageError(f"{where} line {long} has more than {LONGEST_LINE} characters; give narrower columns")
    if (suffix or PurePath(where).suffix).lower() in (".csv", ".tsv") or not text.strip() or _is_csv(lines):
        return [parse(content, where)]
    if not (tables := _scan(lines, where)):
        raise UsageError(f"{where} has no table with a header that can be read; write it as CSV: {EXAMPLE}")
    return [with_points(table) for table in tables]


def _is_csv(lines: Sequence[str]) -> bool:
    """True when all lines have as many fields by some delimiter, with numbers below a header without, and no bars."""
    lines = [line for line in lines if line.strip()]
    if len(lines) < 2 or any("|" in line for line in lines[:2]):
        return False
    for mark in ("\t", ";", ","):
        if lines[0].count(mark) < (2 if mark == "," else 1):
            continue
        header, *rows = split(lines, mark) or [[]]
        if len({len(fields) for fields in (header, *rows)}) == 1:
            return not any(map(read_printed, header)) and any(read_printed(text) for row in rows for text in row)
    return False


class _Found(NamedTuple):
    """Cells of a table, their first line, counted from 0, and the first one after the table."""

    header: list[str]
    rows: list[list[str]]
    first: int
    end: int


def _scan(lines: Sequence[str], where: str) -> list[ImportedTable]:
    readers: tuple[_Markdown | _Runs, ...] = (
        _Markdown(lines),
        _Aligned(lines, str.split, LEAST),
        _Runs(lines, _by_blanks, 2),
        *(_Runs(lines, by, LEAST) for by in _BY_MARKS),
    )
    tables, place, last = list[ImportedTable](), 0, 0
    while place < len(lines):
        found = next((one for reader in readers if (one := reader.at(place)) is not None), None)
        if found is None:
            place += 1
            continue
        lead = " ".join(lines[max(last, place - LEAD) : place])[-LONGEST_LEAD:]
        numbers = tuple(range(found.first + 1, found.end + 1))
        rows, title = tuple(map(tuple, found.rows)), _title(lines, place, last)
        tables.append(ImportedTable(where, tuple(found.header), rows, numbers, title, place + 1, lead))
        place = last = found.end
    return tables


_BAR = re.compile(r"(?<!\\)\|")

_DASHES = re.compile(r"\s*:?-+:?\s*")


class _Markdown:
    """Tables of GitHub's markdown: a header, a rule of dashes, and rows with bars; a ragged row is filled up or cut."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._cells = [_BAR.split(line.strip()) if "|" in line else [] for line in lines]
        self._is_rule = [len(row) > 1 and all(map(_DASHES.fullmatch, filter(None, row))) for row in self._cells]
        self._ends = run_ends([bool(row) for row in self._cells])

    def at(self, start: int) -> _Found | None:
        first, end = start + 2, self._ends[start]
        if first >= end or not self._is_rule[start + 1] or self._is_rule[start]:
            return None
        has_edge = not self._cells[start + 1][0]  # "  | a" without one has a first column without a name
        lines = [row[has_edge : len(row) - (not row[-1].strip())] for row in self._cells[start:end]]
        header, _, *rows = ([clean(cell.replace("\\|", "|")) for cell in row] for row in lines)
        filled = [(row + [""] * len(header))[: len(header)] for row in rows]
        return _Found(header, filled, first, end) if len(header) > 1 else None


_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()]*\)")


def clean(text: str) -> str:
    """Return the text of a cell without emphasis, links and images."""
    plain = EMPHASIS.sub(" ", _LINK.sub(r"\1", text))
    plain = " ".join(plain.split())
    return plain.strip("*") or plain


_GAPS = re.compile(r"\s{2,}")

_RULE = re.compile(r"[\s\-=]+")


def _by_blanks(line: str) -> list[str]:
    return _GAPS.split(line.strip()) if line.strip() else []


def _by(mark: str) -> Callable[[str], list[str]]:
    return lambda line: [one.strip() for one in (split([line], mark) or [[]])[0]] if line.count(mark) >= 2 else []


_BY_MARKS = tuple(map(_by, "\t;,"))


class _Runs:
    """Tables in lines that `cut` cuts into as many fields, a third of them numbers, below a header without any.

    Each line is cut once, so that asking at every line takes linear time. `least`: columns below a header with a rule.
    """

    def __init__(self, lines: Sequence[str], cut: Callable[[str], list[str]], least: int) -> None:
        self._lines, self._rows, self._least = lines, [cut(line) for line in lines], least
        self._is_rule = [bool(line.strip() and _RULE.fullmatch(line)) for line in lines]
        numbers = [sum(map(_is_number, row)) for row in self._rows]
        self._has_numbers = [count > 0 for count in numbers]
        counts = zip(self._rows, numbers, strict=True)
        self._widths = [len(row) if 0 < len(row) <= 3 * count else 0 for row, count in counts]
        self._ends = run_ends(self._widths)

    def at(self, start: int) -> _Found | None:
        header, first = self._rows[start], start + 1
        has_rule = self._least < LEAST and first < len(self._rows) and self._is_rule[first]
        first += has_rule
        if first >= len(self._rows) or self._has_numbers[start] or not self._widths[first]:
            return None
        end = self._ends[first]
        rows = self._rows[first:end]
        if len(rows[0]) == len(header) + 1 and all(row[0] == str(at) for at, row in enumerate(rows)):
            header = ["index", *header]  # as pandas prints a frame
        if len(header) != len(rows[0]) or len(header) < (self._least if has_rule else LEAST):
            return None
        return _Found(header, rows, first, end)


class _Aligned(_Runs):
    """Tables whose fields end below those of their header, as pandas prints texts: one blank may separate them."""

    def at(self, start: int) -> _Found | None:
        found = super().at(start)
        lines = self._lines[start : found.end] if found else []
        ends = {tuple(field.end() for field in re.finditer(r"\S+", line))[-len(self._rows[start]) :] for line in lines}
        return found if len(ends) == 1 else None


def _is_number(cell: str) -> bool:
    return read_printed(cell) is not None or (is_blank(cell) and cell != "")


def run_ends(keys: Sequence[object]) -> list[int]:
    """Return for each place the first one after it with another key, or the number of keys."""
    ends = list(range(1, len(keys) + 1))
    for place in range(len(keys) - 2, -1, -1):
        if keys[place] == keys[place + 1]:
            ends[place] = ends[place + 1]
    return ends


_HEADING = re.compile(r"#{1,6}\s|\d+(\.\d+)*\.?\s+\S")


def _title(lines: Sequence[str], table: int, last: int) -> str:
    """Return the nearest heading above a table and below the one before it, else a short line right above it."""
    nearest = ""
    for place in range(table - 1, last - 1, -1):
        line = lines[place].strip()
        if not re.search(r"\w", line) or len(line) > LONGEST_TITLE or line.startswith(("```", "~~~")):
            continue
        is_short = line[-1] not in ".!?,;"
        alone = (place == 0 or not lines[place - 1].strip()) and (place == table - 1 or not lines[place + 1].strip())
        if _HEADING.match(line) or (alone and is_short):
            return line.strip("#*: ")
        if not nearest and place >= table - 2 and is_short:
            nearest = line.strip("#*: ")
    return nearest


MAGIC = b"PAR1"
"""Bytes that a parquet file begins with."""

LFS_POINTER = b"version https://git-lfs.github.com/spec/"
"""What a file begins with whose content Git LFS keeps elsewhere."""

MOST_ROWS = 2_000_000
"""Rows of a file that is read; the tables of published measurements have a tenth of that."""

MOST_BYTES = 1 << 30
"""Bytes of a file that is read, once unpacked."""


def parse_parquet(content: bytes, where: str) -> ImportedTable:
    """Read a parquet file, numbers with all digits. Raises UsageError for one that is damaged, empty or too long.

    Raises RooflensError where pyarrow is not installed.
    """
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError:
        raise RooflensError(f"{where} is parquet, which needs pyarrow: pip install 'rooflens[parquet]'") from None
    try:
        file = parquet.ParquetFile(io.BytesIO(content))
        rows = file.metadata.num_rows
        if rows > MOST_ROWS:
            raise UsageError(f"{where} has {rows} rows, and at most {MOST_ROWS} are read; give a part of it")
        groups = (file.metadata.row_group(number) for number in range(file.metadata.num_row_groups))
        if sum(group.total_byte_size for group in groups) > MOST_BYTES:
            raise UsageError(f"{where} unpacks to more than {MOST_BYTES >> 30} GiB; give a part of it")
        found = file.read()
        columns = [["" if value is None else str(value) for value in column.to_pylist()] for column in found.columns]
    except (arrow.ArrowException, OSError) as error:
        raise UsageError(f"{where}: damaged parquet ({shorten(str(error))}); fetch it again") from None
    return ImportedTable(where, tuple(found.column_names), tuple(zip(*columns, strict=True)), tuple(range(1, rows + 1)))

"""A table as texts that know where they stand, so that every complaint names file, line and column."""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import NoReturn

from ...shapes.errors import UsageError, quote, shorten
from ...shapes.files import csv_file
from ...shapes.files.file_text import decoded
from ...shapes.verdict import Verdict
from .printed import SECONDS, read_printed, read_size
from .rounding import Rounding, RoundingKind, detect
from .words import sizes_named

FAILURES = {
    "error": (Verdict.RUNTIME_ERROR, "ERROR in the file"),
    "fail": (Verdict.INCORRECT, "FAIL in the file"),
    "skip": (Verdict.UNSUPPORTED, "SKIP in the file"),
    "skipped": (Verdict.UNSUPPORTED, "skipped in the file"),
    **dict.fromkeys(("", "none", "n/a", "nan"), (Verdict.UNSUPPORTED, "no time in the file")),
    "inf": (Verdict.UNSUPPORTED, "time is inf in the file: no candidate ran"),
    **dict.fromkeys(("oom", "cuda oom"), (Verdict.OOM, "out of memory")),
    "not supported": (Verdict.UNSUPPORTED, "not supported"),
}
"""Words that stand where a time should."""


EXAMPLE = "M,N,K,provider,time_us"
"""A header that is understood."""


@dataclass(frozen=True, slots=True)
class TimeCell:
    """What a cell says about a time: seconds and the step it was rounded to, or why there is none."""

    verdict: Verdict
    reason: str = ""
    time_s: float = float("nan")
    resolution_s: float = 0.0


Reader = Callable[[int], TimeCell]
"""What reads the time of a row."""

CHECKS = ("pass", "passed", "correct", "is_correct", "valid", "ok")
"""Headers, in lower case, of a column that says whether the output was right."""

RIGHT = ("pass", "passed", "ok", "true", "1", "yes")

WRONG = ("fail", "failed", "false", "0", "no")
"""Cells of such a column."""


class RowError(UsageError):
    """What is wrong with one row, which is then skipped: the others are as they were."""


@dataclass(frozen=True, slots=True)
class ImportedTable:
    """Header and rows as texts; `lines[i]` is the line, counted from 1, at which row i starts.

    title, lead  what the line above calls it, and the prose above it, of a table in a longer text
    line         line of the header
    source       the tool whose JSON it was; rows are then counted by entry, and numbers were not rounded
    notes        what of the file is not in the table
    """

    where: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    lines: tuple[int, ...]
    title: str = ""
    line: int = 1
    lead: str = ""
    source: str = ""
    notes: tuple[str, ...] = ()
    _position: dict[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        positions: dict[str, int] = {}
        for position, name in enumerate(self.header):
            positions.setdefault(name, position)  # nvbench writes two columns "Noise", that of the CPU first
        object.__setattr__(self, "_position", positions)

    def __contains__(self, name: str) -> bool:
        return name in self._position

    @property
    def name(self) -> str:
        """How findings call it: its file, line and title."""
        return f"{self.where} line {self.line}" + (f" ({shorten(self.title)})" if self.title else "")

    def of_rows(self, kept: Sequence[int]) -> "ImportedTable":
        """Return the table with some of its rows."""
        return replace(self, rows=tuple(self.rows[at] for at in kept), lines=tuple(self.lines[at] for at in kept))

    def wrong(self, named: Collection[str] = ()) -> dict[int, str]:
        """Rows whose output was wrong, and the column that says so ("Pass": True, False): they timed something else.

        A column that is `named` has another role.
        """
        for name in (name for name in self.header if name not in named):
            words = [text.lower() for text in self.texts(name)]
            if name.lower() in CHECKS and {*words} <= {"", *RIGHT, *WRONG}:
                return {row: name for row, word in enumerate(words) if word in WRONG}
        return {}

    def __len__(self) -> int:
        return len(self.rows)

    def text(self, row: int, name: str, otherwise: str = "") -> str:
        """Text of a cell without surrounding space; `otherwise` when there is no such column or it is empty."""
        if name not in self._position:
            return otherwise
        return self.rows[row][self._position[name]].strip() or otherwise

    def size(self, row: int, name: str, otherwise: int | None = None) -> int:
        """Positive whole number in a cell; `otherwise` when there is no such column."""
        if name not in self._position and otherwise is not None:
            return otherwise
        text = self.text(row, name)
        if not (size := read_size(re.sub(r"\.0*$", "", text))):
            self.fail(row, name, f"{quote(text)} is not a positive whole number")
        return size

    def reader(self, name: str, unit_s: str, free_text: bool = False) -> Reader:
        """Return what reads the time of a row in column `name`, with the rounding of the whole column.

        It is of `unit_s` seconds each ("0.001": exact) unless the cell has its own unit. `free_text`: anything that is
        not a number is the message of an error; otherwise only the words of `FAILURES`. Raises RowError.
        """
        rounding = self.rounding(name)

        def reading(row: int) -> TimeCell:
            text = self.text(row, name)
            cell = read_printed(text)
            if cell is None or cell.unit not in ("", *SECONDS):
                known = FAILURES.get(text.lower().lstrip("+-"))
                if known is None and not free_text:
                    self.fail(
                        row, name, f"{quote(text)} is not a time; correct it, or empty it where nothing was timed"
                    )
                return TimeCell(*known) if known else TimeCell(Verdict.RUNTIME_ERROR, " ".join(text.split()))
            if cell.value < 0:
                self.fail(row, name, f"{text} is negative: no time; delete the line, or measure again")
            if not cell.value:
                return TimeCell(Verdict.UNSUPPORTED, f"time is {text} in the file: not timed, or less than half a step")
            unit = SECONDS[cell.unit] if cell.unit else unit_s
            step = rounding.step(cell.digits) * float(unit)
            return TimeCell(Verdict.PASSED, "", float(Decimal(cell.digits) * Decimal(unit)), step)

        return reading

    def rounding(self, name: str) -> Rounding:
        """How the positive numbers of a column were rounded; those with several units are as printed."""
        if self.source:
            return Rounding(RoundingKind.NONE)
        cells = [cell for text in self.texts(name) if (cell := read_printed(text)) is not None and cell.value > 0]
        if len({cell.unit for cell in cells}) > 1:
            return Rounding(RoundingKind.EACH)
        return detect([cell.digits for cell in cells])

    def texts(self, name: str) -> list[str]:
        """Texts of a column, "" where there is no such column."""
        return [self.text(row, name) for row in range(len(self))]

    def sized(self, row: int, names: Iterable[str]) -> tuple[dict[str, int], dict[str, str]]:
        """Sizes in the columns that are called like one (`sizes_named`), and the texts of the others."""
        here = [name for name in names if name in self]
        named = sizes_named(here)
        texts = {name: self.text(row, name) for name in here if name not in named}
        return {size: self.size(row, name) for name, size in named.items()}, texts

    def place(self, row: int) -> str:
        """Where a row is."""
        return f"{'entry' if self.source else 'line'} {self.lines[row]}"

    def fail(self, row: int, name: str, message: str) -> NoReturn:
        """Raise RowError that names the place."""
        raise RowError(f"{self.where} {self.place(row)}, column {shorten(name)}: {message}")


def parse(content: bytes, where: str) -> ImportedTable:
    """Split a CSV file; the delimiter is a semicolon or a tab where its header has one, else a comma."""
    text = decoded(content, where, f"give a CSV: {EXAMPLE}")
    first = text.split("\n", 1)[0]
    delimiter = next((mark for mark in (";", "\t") if mark in first), ",")
    found = csv_file.records(text, where, delimiter=delimiter, way_out=csv_file.CORRECT)
    records = [(line, fields) for line, fields in found if any(one.strip() for one in fields)]
    if not records:
        raise UsageError(f"{where} is empty; give a table: CSV or markdown")
    header = tuple(name.strip() for name in records[0][1])
    for line, fields in records[1:]:
        if len(fields) == len(header) - 1:  # some of aiter's tables omit an empty last field; pandas reads them
            fields.append("")
        if len(fields) != len(header):
            column = header[min(len(fields), len(header) - 1)]
            raise UsageError(
                f"{where} line {line}, column {shorten(column)}: {len(fields)} fields instead of {len(header)}"
            )
    rows = tuple(tuple(fields) for _, fields in records[1:])
    table = ImportedTable(where, header, rows, tuple(line for line, _ in records[1:]))
    return with_points(table, semicolons=delimiter == ";")


_COMMA = re.compile(r"([+-]?\d+),(\d+(?:[eE][+-]?\d+)?(?:\s*[a-zA-Zµμ%/]+)?)")
"""A number with a decimal comma, and its unit."""


def with_points(table: ImportedTable, semicolons: bool = False) -> ImportedTable:
    """Turn the decimal commas of a file with semicolons into points. Raises UsageError where they are not all such."""
    columns = [[text.strip() for text in column] for column in zip(*table.rows, strict=True)]
    for texts in columns:
        commas = [found for text in texts if (found := _COMMA.fullmatch(text))]
        others = any(re.match(r"[+-]?\d[\d.]*,\d", text) and not _COMMA.fullmatch(text) for text in texts)
        is_read = any(found[1].strip("+-") == "0" for found in commas) and any(
            found[2][1:2].isdigit() for found in commas
        )
        if others and commas if semicolons else is_read:
            raise UsageError(f"{table.where}: numbers with a decimal comma ({commas[0][0]}): write a point")
        texts[:] = [_COMMA.sub(r"\1.\2", text) if semicolons and _COMMA.fullmatch(text) else text for text in texts]
    return replace(table, rows=tuple(zip(*columns, strict=True)))

"""CSV in files that may be damaged, hostile, or written by hand: records with their lines, or one line that says why.

A field may have 131,072 characters at most, the limit of Python's `csv`.

What we write as CSV, for people and in run folders, goes through `write_rows` or `as_text`. A spreadsheet takes a field
that begins with = + - @, a tab or a carriage return for a formula, and computes it. Texts of others (names of providers
and models, reasons) could be that. So such a field is written with an apostrophe before it, unless it is a number; and
so is one that has apostrophes and then such a sign. Spreadsheets show either as text, and every reader here takes one
apostrophe away again.
"""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO

from ..errors import UsageError, quote
from .file_text import decoded

_FORMULA = re.compile(r"'*[=+\-@\t\r]")

RESTORE = "restore the file from a copy"
CORRECT = "correct the file"


def as_text(value: object) -> object:
    """Return a field as it is to be written, so that a spreadsheet shows a text as it is and computes nothing."""
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) and not _is_number(value) else value


def from_text(field: str) -> str:
    """Return the text that `as_text` was given."""
    return field[1:] if field.startswith("'") and _FORMULA.match(field) else field


def csv_text(header: Sequence[str] | None, rows: Iterable[Iterable[object]]) -> str:
    """Return rows as CSV; None is an empty field."""
    buffer = io.StringIO()
    write_rows(buffer, [header] if header else [])
    write_rows(buffer, rows)
    return buffer.getvalue()


def write_rows(file: TextIO, rows: Iterable[Iterable[object]]) -> None:
    """Write rows to a file that was opened with `newline=""`, as `csv_text`."""
    writer = csv.writer(_Lines(file), lineterminator="\r\n")
    writer.writerows([as_text(value) for value in row] for row in rows)


class _Lines:
    """Ends lines with a line feed alone, though the writer, which quotes what ends its lines, must know of both."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, line: str) -> int:
        """Write a line as `csv.writer` gives it."""
        return self._file.write(line.removesuffix("\r\n") + "\n")


def _is_number(text: str) -> bool:
    """Return whether a field is a number; an infinite one is a word, with which no spreadsheet computes."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def records(
    content: str | bytes | io.TextIOBase | Iterable[bytes],
    where: object,
    *,
    delimiter: str = ",",
    way_out: str = RESTORE,
) -> Iterator[tuple[int, list[str]]]:
    """Yield (line at which it starts, fields) of each record; one of an empty line has no fields.

    `content` is a text, a whole file, one opened with `newline=""`, or its lines as they come. Raises UsageError, with
    `where` and the line, where it is not UTF-8, a quote is not closed or is followed by anything, or a field is too
    long.
    """
    if isinstance(content, bytes):
        content = decoded(content, where, way_out)
    if isinstance(content, str):
        content = io.StringIO(content, newline="")
    lines = content if isinstance(content, io.TextIOBase) else (line.decode() for line in content)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    start = 1
    try:
        for fields in reader:
            yield start, [from_text(field) for field in fields]
            start = reader.line_num + 1
    except csv.Error as error:
        raise UsageError(f"{where} line {start}: {_plain(error)}; {way_out}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{where} line {start}: not a text in UTF-8 ({error.reason}); {way_out}") from None


def rows(
    content: str | bytes | Iterable[bytes],
    where: object,
    needed: Sequence[str] = (),
    known: Sequence[str] = (),
    *,
    way_out: str = CORRECT,
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows below the header: the line where each starts, and its fields by column; empty lines are skipped.

    Text that is no CSV raises as in `records`.

    Raises UsageError as well for a header that lacks one of the `needed` columns, has one twice, or has one that is not
    among the `known` ones, where there are any; and for a row with more or fewer fields than the header.
    """
    table = records(content, where, way_out=way_out)
    _, header = next(table, (1, []))
    if known and (unknown := [name for name in header if name not in known]):
        raise UsageError(f"{where} line 1: unknown column {quote(unknown[0])}; known: {', '.join(known)}")
    if missing := [name for name in needed if name not in header]:
        raise UsageError(f"{where} line 1: column {quote(missing[0])} is missing; {way_out}")
    if twice := [name for name in header if header.count(name) > 1]:
        raise UsageError(f"{where} line 1: column {quote(twice[0])} appears twice; {way_out}")
    for line, fields in table:
        if fields and len(fields) != len(header):
            raise UsageError(f"{where} line {line}: {len(fields)} fields instead of {len(header)}; {way_out}")
        if fields:
            yield line, dict(zip(header, fields, strict=True))


def split(lines: Iterable[str], delimiter: str) -> list[list[str]]:
    """Return the fields of lines that may be a table among prose, whatever their quotes; [] where they cannot be."""
    try:
        return list(csv.reader(lines, delimiter=delimiter))
    except csv.Error:
        return []


def _plain(error: csv.Error) -> str:
    text = str(error)
    if "field limit" in text:
        return f"a field of more than {csv.field_size_limit()} characters"
    return "a quote is not closed" if "unexpected end" in text else text

"""Tables on the disk: rows as CSV text by the schema, appended and replaced so that what is written survives."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

from ...shapes.errors import RooflensError, UsageError
from ...shapes.files import csv_file
from ...shapes.files.stored_file import open_table
from ...shapes.run_folder.columns import CELLS, ColumnSchema, ColumnType, TableSchema

LONGEST_TEXT = 1 << 16
"""Characters of a text that are stored; Python's csv module reads fields of twice as many."""


class StorageError(RooflensError):
    """The disk refuses what is to be stored."""


@contextmanager
def reported(folder: Path) -> Iterator[None]:
    """Turn an OSError into one line that names the folder and the way out."""
    try:
        yield
    except OSError as error:
        raise disk_error(folder, error) from error


def disk_error(folder: Path, error: OSError) -> StorageError:
    """Build the error for a disk that refuses: one line with the way out."""
    return StorageError(
        f"cannot write to {folder}: {error.strerror or error}; everything committed before is kept: "
        "free some space or fix the permissions, then run again with --resume"
    )


def make_folder(folder: Path) -> None:
    """Make a folder for results, with its parents; a new `runs` or `tuned` around it is kept out of git."""
    around = folder.parent
    is_new = around.name in ("runs", "tuned") and not around.exists()
    folder.mkdir(parents=True, exist_ok=True)
    if is_new:
        (around / ".gitignore").write_text("*\n")


def fields(table: TableSchema, row: Mapping[str, Any]) -> list[str]:
    """Return a row as the texts of its fields, in the order of `table`; raise ValueError for a column it lacks.

    A line break inside a text becomes a space, or a torn line would look whole.
    """
    if unknown := set(row) - set(table.names):
        raise ValueError(f"not in the schema of {table.file}: {', '.join(sorted(unknown))}")
    return [_text(column, row.get(column.name)) for column in table.columns]


def _text(column: ColumnSchema, value: Any) -> str:
    if value is None or value == "" or value != value:  # NaN is unknown
        return ""
    if column.kind is ColumnType.JSON:
        return json.dumps(value, sort_keys=True, separators=(",", ":"))
    if column.kind is ColumnType.BOOL:
        return "true" if value else "false"
    if column.kind is ColumnType.FLOAT:
        return repr(stored_s(float(value)) if column.unit == "s" else float(value))
    text = str(value).replace("\r", " ").replace("\n", " ")
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}..."


def stored_s(seconds: float) -> float:
    """Round a time to 0.1 ns, or to five significant digits where those are finer: under 10 us.

    Clocks here step by 1 ns (CUPTI, the host) and more: ties stay ties, and gaps between kernels, differences of long
    times, stay what they were. A mean of many launches steps by less, but its sample lasts thousands of steps, which
    five digits tell apart.
    """
    return float(f"{seconds:.5g}") if abs(seconds) < 1e-5 else round(seconds, 10)


def append(path: Path, text: str) -> None:
    """Append text to a file and wait for the disk."""
    with ExitStack() as files:
        os.fsync(written_to(files, path, text).fileno())


def written_to(files: ExitStack, path: Path, text: str) -> TextIO:
    """Append `text`; it survives this process, but not the machine before the file is synced."""
    file = files.enter_context(path.open("a", encoding="utf-8", newline=""))
    file.write(text)
    file.flush()
    return file


def replace(path: Path, content: str | bytes) -> None:
    """Write a file as a whole (text as UTF-8), or leave the old one; a power cut after this leaves the new one."""
    partial = path.with_name(f".{path.name}.partial")
    with partial.open("wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make what the folder lists survive a power cut, as its files do."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def rows_of(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Rows of a table with their line numbers; raises UsageError where it is no CSV in UTF-8."""
    with path.open("rb") as file:
        yield from csv_file.rows(file, path, way_out=csv_file.RESTORE)


def count_rows(folder: Path) -> int | None:
    """Count the rows of cells.csv, or its compressed form; None where it cannot be read.

    A row is a whole line below the header: a stored field never holds a line break.
    """
    with suppress(OSError, UsageError):
        if table := open_table(folder / CELLS.file):
            with table:
                return max(0, table.read().count(b"\n") - 1)
    return None

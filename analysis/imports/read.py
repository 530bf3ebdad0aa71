"""Read a table of times of any tool: its format is recognised by its header."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from ...shapes.errors import UsageError, shorten
from ...shapes.files.file_text import read_content
from . import aiconfigurator, aiter_moe, aiter_tuned, nvbench, perf_report, primus, tidy, tritonbench
from .entries import Imported
from .table import ImportedTable
from .text import tables_in


class ImportFormat(Protocol):
    """A module that reads one source; its `KEYS`, if any, are those of a column map that it understands."""

    SOURCE: str

    def matches(self, table: ImportedTable) -> bool:
        """Recognise a table of this source."""

    def read(self, table: ImportedTable, columns: Mapping[str, str]) -> Imported:
        """Read it by a map of its columns."""


FORMATS: list[ImportFormat] = [nvbench, aiconfigurator, primus, aiter_moe, aiter_tuned, tritonbench, perf_report, tidy]
"""In the order in which they are tried: the more particular headers first."""

NAMED = 40
"""Columns of a header that an error repeats."""


def read(path: Path, columns: Mapping[str, str] | None = None, at: str = "") -> Imported:
    """Read the one table of a file: CSV, markdown, parquet, or the JSON of a benchmark.

    `columns` maps what rooflens calls a thing to the column that has it (`tidy.KEYS`); with one, the file is read by it
    alone, unless its own format leaves exactly that choice open. `at` names the file in errors instead of its path.
    Raises UsageError with file, line and column of what is wrong.
    """
    table = read_table(path, at)
    return detect(table, columns or {}).read(table, columns or {})


def read_table(path: Path, at: str = "") -> ImportedTable:
    """Read the texts of the one table of a file. Raises UsageError like `read`."""
    where = at or str(path)
    try:
        content = read_content(path, "give a CSV, a parquet file, or the JSON of a benchmark")
    except FileNotFoundError as error:
        raise UsageError(f"cannot read {where}: {error.strerror}") from None
    first, *others = tables_in(content, where, path.suffix)
    if others:
        raise UsageError(f"{where} has {len(others) + 1} tables; give a file with the one to compare")
    if not len(first):
        raise UsageError(f"{where} has a header and no rows; give the table of a benchmark that ran")
    return first


def detect(table: ImportedTable, columns: Mapping[str, str]) -> ImportFormat:
    """Find the format of a table. Raises UsageError that lists what is known and how to map columns."""
    for format_ in FORMATS:
        if format_.matches(table) and set(columns) <= {*getattr(format_, "KEYS", ())}:
            return format_
    if columns:
        return FORMATS[-1]
    more = f", ... ({len(table.header)} columns)" if len(table.header) > NAMED else ""
    raise UsageError(
        f"{table.where} line 1: the header {', '.join(map(shorten, table.header[:NAMED]))}{more} is none of "
        f"{', '.join(one.SOURCE for one in FORMATS)}; "
        "say what its columns are: --column time_ms=COLUMN --column M=COLUMN --column N=COLUMN --column K=COLUMN"
    )

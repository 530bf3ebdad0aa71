"""Read a table of times of any tool: its format is recognised by its header."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from ...shapes.errors import UsageError, shorten
from ...shapes.files.file_text import read_content
from . import aiconfigurator, aiter_moe, aiter_tuned, nvbench, perf_report, primus, tidy, tritonbench
from .entries import Imported
from .table import ImportedTable
from .text import tables_in


class ImportFormat(NamedTuple):
    """A source: its name, how it is recognised, how it is read, and the keys of a column map that it understands."""

    name: str
    matches: Callable[[ImportedTable], bool]
    read: Callable[[ImportedTable, Mapping[str, str]], Imported]
    keys: frozenset[str] = frozenset()


FORMATS = (
    ImportFormat(nvbench.SOURCE, nvbench.matches, nvbench.read),
    ImportFormat(aiconfigurator.SOURCE, aiconfigurator.matches, aiconfigurator.read),
    ImportFormat(primus.SOURCE, primus.matches, primus.read),
    ImportFormat(aiter_moe.SOURCE, aiter_moe.matches, aiter_moe.read, frozenset({"time_us"})),
    ImportFormat(aiter_tuned.SOURCE, aiter_tuned.matches, aiter_tuned.read),
    ImportFormat(tritonbench.SOURCE, tritonbench.matches, tritonbench.read),
    ImportFormat(perf_report.SOURCE, perf_report.matches, perf_report.read),
    ImportFormat(tidy.SOURCE, tidy.matches, tidy.read, frozenset(tidy.KEYS)),
)
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
        if format_.matches(table) and set(columns) <= format_.keys:
            return format_
    if columns:
        return FORMATS[-1]
    more = f", ... ({len(table.header)} columns)" if len(table.header) > NAMED else ""
    raise UsageError(
        f"{table.where} line 1: the header {', '.join(map(shorten, table.header[:NAMED]))}{more} is none of "
        f"{', '.join(one.name for one in FORMATS)}; "
        "say what its columns are: --column time_ms=COLUMN --column M=COLUMN --column N=COLUMN --column K=COLUMN"
    )

"""AIConfigurator's tables for the audit: one table per serving stack, storage and GPU, whose title names the three.

Two things of them mislead when they are read as they are. Their latencies are doubles, though device events tell half a
microsecond over six calls: with all digits, many rows would look copied. And their rows lie in the order in which
processes have finished: sorted by sizes, neighbours have similar times.
"""

from ....analysis.imports import aiconfigurator
from ....analysis.imports.table import ImportedTable, read_number

DECIMALS = 4
"""Decimals of a latency in milliseconds that are kept."""

HEADER = ("M", "N", "K", "latency (ms)")


def split(table: ImportedTable) -> list[tuple[str, ImportedTable]]:
    """Return (title, table) per stack, storage and GPU. Raises UsageError for a table of another operation."""
    aiconfigurator.require_gemms(table)
    groups: dict[tuple[str, ...], list[int]] = {}
    for row in range(len(table)):
        key = tuple(table.text(row, name) for name in ("framework", "version", "gemm_dtype", "device"))
        groups.setdefault(key, []).append(row)
    found = []
    for (framework, version, stored, device), rows in groups.items():
        rows.sort(key=lambda row: [table.size(row, name) for name in "nkm"])
        dtype = aiconfigurator.MATH_DTYPES.get(stored, "")
        title = " ".join(filter(None, (framework, version, stored, f"in {dtype}" if dtype else "", "on", device)))
        cells = tuple(
            (*(table.text(row, name) for name in "mnk"), _shortened(table.text(row, "latency"))) for row in rows
        )
        found.append((title, ImportedTable(table.where, HEADER, cells, tuple(table.lines[row] for row in rows))))
    return found


def _shortened(text: str) -> str:
    number = read_number(text)
    return text if number is None else f"{number:.{DECIMALS}f}"

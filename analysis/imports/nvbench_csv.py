"""nvbench's CSV (`--csv`).

Source: NVIDIA/nvbench @66212f1, nvbench/csv_printer.cu and detail/measure_cold.cu: `Benchmark,Device,Device Name`, the
axes (an integer axis of powers of two has a second column `NAME (pow2)`), `Skipped`, then the summaries: `Samples,CPU
Time (sec),Noise,GPU Time (sec),Noise,...`. Times are seconds in full precision; noise is relative; axes of different
benchmarks share the columns, empty where they do not apply.
"""

from collections.abc import Mapping

from ...shapes.errors import UsageError
from ...shapes.verdict import Verdict
from .entries import Imported
from .nvbench_axes import BATCH, COLD, entry, noise_note
from .table import ImportedTable, TimeCell

SOURCE = "nvbench CSV"

_FIRST = ("Benchmark", "Device", "Device Name")


def matches(table: ImportedTable) -> bool:
    """Tell by the header."""
    return table.header[: len(_FIRST)] == _FIRST and "Skipped" in table


def read(table: ImportedTable, columns: Mapping[str, str]) -> Imported:
    """One case per state: its GPU time over isolated launches, or over batched ones where there are no others."""
    timing = next((name for name in (COLD, BATCH) if f"{name} (sec)" in table), None)
    if timing is None:
        raise UsageError(f"{table.where} line 1: neither {COLD} (sec) nor {BATCH} (sec) is there; nothing was timed")
    column = f"{timing} (sec)"
    end = table.header.index("Skipped")
    names = [name for name in table.header[len(_FIRST) : end] if not name.endswith(" (pow2)")]
    numbers = set(table.texts("Device"))
    noise = _noise_of(table, table.header.index(column))
    entries = []
    for row, reading in enumerate(table.readings(column, "1")):
        skipped = table.text(row, "Skipped") == "Yes"
        axes = {name: value for name in names if (value := table.text(row, name))}
        if len(numbers) > 1:
            axes["Device"] = table.text(row, "Device")
        entries.append(
            entry(
                table.text(row, "Benchmark"),
                axes,
                TimeCell(Verdict.UNSUPPORTED, "skipped by the benchmark") if skipped else reading,
                timing,
                table.where,
                table.place(row),
                "" if skipped or noise is None else noise_note(table.rows[row][noise]),
            )
        )
    return Imported.of(SOURCE, table, entries, [column], table.texts("Device Name"))


def _noise_of(table: ImportedTable, position: int) -> int | None:
    """Column of the noise of the times in column `position`: the next one, as another is that of the CPU."""
    following = position + 1
    return following if following < len(table.header) and table.header[following] == "Noise" else None

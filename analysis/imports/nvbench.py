"""nvbench's CSV (`--csv`), and its JSON (`--json`) as such a table.

Source: NVIDIA/nvbench @66212f1, nvbench/csv_printer.cu, json_printer.cu and detail/measure_cold.cu. CSV:
`Benchmark,Device,Device Name`, the axes (an integer axis of powers of two has a second column `NAME (pow2)`),
`Skipped`, then the summaries: `Samples,CPU Time (sec),Noise,GPU Time (sec),Noise,...`. Times are seconds in full
precision; noise is relative; axes of different benchmarks share the columns, empty where they do not apply.
"""

from collections.abc import Mapping
from functools import partial

from ...shapes.errors import UsageError
from ...shapes.verdict import Verdict
from .entries import Imported, ImportedCase, case_of, imported
from .table import ImportedTable, Reader, TimeCell
from .words import listed

SOURCE = "nvbench"

COLD, BATCH = "GPU Time", "Batch GPU"
"""Names of the mean over isolated launches, and of that over launches without a gap."""

CACHES = {COLD: "cold", BATCH: "warm"}
"""Isolated launches are preceded by a flush of the L2, batched ones are not."""

_TEXTS = ("dtype", "scheme", "model", "layer")

_PROVIDERS = ("provider", "implementation", "backend")

_FIRST = ("Benchmark", "Device", "Device Name")


def matches(table: ImportedTable) -> bool:
    """Tell by the header."""
    return table.header[: len(_FIRST)] == _FIRST and "Skipped" in table


def read(table: ImportedTable, columns: Mapping[str, str]) -> Imported:
    """One case per state: its GPU time over isolated launches, or over batched ones where there are no others."""
    timing = next((name for name in (COLD, BATCH) if any(table.texts(f"{name} (sec)"))), None)
    if timing is None:
        raise UsageError(f"{table.where} line 1: neither {COLD} (sec) nor {BATCH} (sec) is there; nothing was timed")
    column = f"{timing} (sec)"
    end = table.header.index("Skipped")
    names = [name for name in table.header[len(_FIRST) : end] if not name.endswith(" (pow2)")]
    several = len(set(table.texts("Device"))) > 1
    following = table.header.index(column) + 1  # another noise is that of the CPU
    noise = following if table.header[following : following + 1] == ("Noise",) else None

    def case(row: int, column: str, reading: Reader) -> ImportedCase:
        """Axes name sizes, or are `_TEXTS`; `_PROVIDERS` add to the name of the benchmark, the others to the layer."""
        skipped = table.text(row, "Skipped", "No")
        sizes, axes = table.sized(row, filter(partial(table.text, row), [*names, *["Device"] * several]))
        provider = " ".join([table.text(row, "Benchmark"), *_taken(axes, _PROVIDERS).values()])
        texts = _taken(axes, _TEXTS)
        texts["layer"] = " ".join(filter(None, [texts.get("layer"), listed(axes)]))
        reason = "skipped by the benchmark" if skipped == "Yes" else skipped
        cell = reading(row) if skipped == "No" else TimeCell(Verdict.UNSUPPORTED, reason)
        texts |= {"device": table.text(row, "Device Name"), "cache": CACHES[timing], "provider": provider}
        note = "" if skipped != "No" or noise is None else _noise_note(table.rows[row][noise])
        return case_of(table, row, "Benchmark", cell, sizes, note=note, **texts)

    return imported(SOURCE, table, {column: "1"}, case)


def _taken(axes: dict[str, str], keys: tuple[str, ...]) -> dict[str, str]:
    """Remove the axes that are called like one of `keys` in any case, and return their values by it."""
    return {name.lower(): axes.pop(name) for name in [*axes] if name.lower() in keys}


def _noise_note(share: str) -> str:
    """Put nvbench's relative standard deviation into words; "" where it is none."""
    try:
        return f"noise {float(share):.2%} over single launches"
    except ValueError:
        return ""

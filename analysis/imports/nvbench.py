"""nvbench's CSV (`--csv`), and its JSON (`--json`) as such a table.

Source: NVIDIA/nvbench @66212f1, nvbench/csv_printer.cu, json_printer.cu and detail/measure_cold.cu. CSV:
`Benchmark,Device,Device Name`, the axes (an integer axis of powers of two has a second column `NAME (pow2)`),
`Skipped`, then the summaries: `Samples,CPU Time (sec),Noise,GPU Time (sec),Noise,...`. Times are seconds in full
precision; noise is relative; axes of different benchmarks share the columns, empty where they do not apply.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from ...shapes.errors import UsageError
from ...shapes.verdict import Verdict
from .entries import UNKNOWN, Imported, ImportedCase, imported
from .table import ImportedTable, TimeCell

SOURCE = "nvbench"

COLD, BATCH = "GPU Time", "Batch GPU"
"""Names of the mean over isolated launches, and of that over launches without a gap."""

CACHES = {COLD: "cold", BATCH: "warm"}
"""Isolated launches are preceded by a flush of the L2, batched ones are not."""

_SIZES = {"m": "M", "n": "N", "k": "K", "b": "B", "batch": "B"}

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
    numbers = set(table.texts("Device"))
    following = table.header.index(column) + 1  # another noise is that of the CPU
    noise = following if table.header[following : following + 1] == ("Noise",) else None
    reading = table.reader(column, "1")

    def case(row: int) -> Iterator[ImportedCase]:
        skipped = table.text(row, "Skipped", "No")
        axes = {name: value for name in names if (value := table.text(row, name))}
        if len(numbers) > 1:
            axes["Device"] = table.text(row, "Device")
        reason = "skipped by the benchmark" if skipped == "Yes" else skipped
        yield _case(
            table,
            row,
            axes,
            reading=reading(row) if skipped == "No" else TimeCell(Verdict.UNSUPPORTED, reason),
            cache=CACHES[timing],
            note="" if skipped != "No" or noise is None else _noise_note(table.rows[row][noise]),
        )

    return imported(SOURCE, table, case, [column])


def _case(table: ImportedTable, row: int, axes: Mapping[str, str], **known: Any) -> ImportedCase:
    """Build the entry of one state.

    Axes M, N, K, B and batch are sizes; dtype, scheme, model and layer themselves; provider is added to the name of
    the benchmark; the others make up the layer. Case and word order do not matter. `known` are other fields of it.
    """
    sizes: dict[str, int] = {}
    texts: dict[str, str] = {}
    providers, rest = [table.text(row, "Benchmark")], []
    for name, value in axes.items():
        key = name.lower()
        if key in _SIZES:
            sizes[_SIZES[key]] = table.size(row, name)
        elif key in _TEXTS:
            texts[key] = value
        elif key in _PROVIDERS:
            providers.append(value)
        else:
            rest.append(f"{name}={value}")
    return ImportedCase(
        problem=table.problem(row, "Benchmark", **({"M": 1} | sizes)),
        provider=" ".join(providers),
        model=texts.get("model", "any"),
        dtype=texts.get("dtype", UNKNOWN),
        scheme=texts.get("scheme", UNKNOWN),
        layer=" ".join(filter(None, [texts.get("layer"), *rest])) or "gemm",
        device=table.text(row, "Device Name"),
        flops=None if {"M", "N", "K"} <= set(sizes) else float("nan"),
        **known,
    )


def _noise_note(share: str) -> str:
    """Put nvbench's relative standard deviation into words; "" where it is none."""
    try:
        return f"noise {float(share):.2%} over single launches"
    except ValueError:
        return ""

"""What triton.testing.perf_report saves, as aiter's benchmarks of Triton GEMMs do.

Source: triton.testing (Triton 3.9, class Mark: the x names, then `LINE (YLABEL)` per line, six decimals) and ROCm/aiter
@e404860, op_tests/op_benchmarks/triton/utils/benchmark_utils.py: `M,N,K,Time_(ms) (Time (ms))`, with `batch` in front
where batched, and for models `M,hidden_dim,intermediate_dim,[batch,]model_name,fc1 (Time (ms)),fc2 (Time (ms))`. Times
are do_bench's in ms; a file holds one metric, which by default is the throughput.
"""

import re
from collections.abc import Mapping

from ...shapes.errors import UsageError, shorten
from .entries import Imported, ImportedCase, case_of, imported
from .printed import SECONDS
from .table import ImportedTable, Reader
from .words import is_secondary, is_time, listed, unit_of

SOURCE = "Triton perf_report"

_LINE = re.compile(r"(?P<line>.+?) \((?P<label>.+)\)")

_METRICS = ("Time_(ms)", "ms")
"""Lines that are named after the metric, not after an implementation."""


def matches(table: ImportedTable) -> bool:
    """Tell by the header: x names of GEMMs, then only columns that are named `LINE (YLABEL)`.

    `Latency (ms)` is the name of a column of anybody's table; `triton (ms)` and `Time_(ms) (Time (ms))` are not.
    """
    lines = [match for name in table.header if (match := _LINE.fullmatch(name))]
    plain = table.header[: len(table.header) - len(lines)]
    ours = any(
        match["label"] not in SECONDS or not (is_time(match["line"]) or is_secondary(match["line"])) for match in lines
    )
    return "M" in plain and ours and not any(_LINE.fullmatch(name) for name in plain)


def read(table: ImportedTable, columns: Mapping[str, str]) -> Imported:
    """One case per row and line."""
    lines = {name: match for name in table.header if (match := _LINE.fullmatch(name))}
    timed = {
        name: SECONDS[unit] for name, match in lines.items() if is_time(name) and (unit := unit_of(match["label"]))
    }
    if not timed:
        raise UsageError(
            f"{table.where} line 1: {', '.join(map(shorten, lines))}: no times in ms, us or s; run the benchmark with "
            "--metric time"
        )

    def case(row: int, column: str, reading: Reader) -> ImportedCase:
        line = lines[column]["line"]
        sizes, stated = table.sized(row, [name for name in table.header if name not in lines])
        model, layer = stated.pop("model_name", ""), [listed(stated)]
        provider = "triton"
        if "hidden_dim" in table:
            layer.insert(0, line)
        elif line not in _METRICS:
            provider = line
        layers = " ".join(filter(None, layer))
        return case_of(table, row, "M", reading(row), sizes, provider=provider, model=model, layer=layers)

    notes = [f"{SOURCE}: do_bench clears 256 MB between calls, which some last level caches outlive"]
    if "hidden_dim" in table:
        notes.append(f"{SOURCE}: N and K depend on tp and GLU, which the file does not say; they stand as 1")
    return imported(SOURCE, table, timed, case, notes)

"""tritonbench's CSV: semicolons, the x value, then `PROVIDER-METRIC` columns.

Source: pytorch-labs/tritonbench @0efdc53, tritonbench/utils/triton_op.py (BenchmarkOperatorResult: the label of the x
value is `(M, N, K)` for GEMMs and `x_val` by default; latency is a median in ms; the last row is an average; a provider
that failed has its message in place of its first metric, and nothing in the others).
"""

import math
import re
from collections.abc import Iterator, Mapping

from ...shapes.errors import UsageError
from ...shapes.problem import Op, Problem
from ...shapes.verdict import Verdict
from .entries import Imported, ImportedCase, imported
from .table import ImportedTable, TimeCell

SOURCE = "tritonbench"

SUFFIX = "-latency"

_SIZES = {"m": "M", "n": "N", "k": "K", "b": "B", "batch": "B", "g": "E", "group_size": "E"}


def matches(table: ImportedTable) -> bool:
    """Tell by the header: metrics that tritonbench has, after a hyphen."""
    metrics = ("-latency", "-tflops", "-gbps", "-speedup", "-accuracy")
    return any(name.endswith(metrics) for name in table.header[1:])


def read(table: ImportedTable, columns: Mapping[str, str]) -> Imported:
    """One case per x value and provider."""
    timed = [name for name in table.header[1:] if name.endswith(SUFFIX)]
    if not timed:
        raise UsageError(f"{table.where} line 1: no column ends in {SUFFIX}; run tritonbench with --metrics latency")
    label = table.header[0]
    wanted = [row for row in range(len(table)) if table.text(row, label) not in ("average", "hashes")]
    readers = {name: table.reader(name, "0.001", free_text=True) for name in timed}

    def cases(row: int) -> Iterator[ImportedCase]:
        for name, reading in readers.items():
            provider = name.removesuffix(SUFFIX)
            first = next(other for other in table.header[1:] if other.startswith(f"{provider}-"))
            yield _entry(table, row, label, provider, _with_message(table, row, reading(row), first))

    return imported(SOURCE, table, cases, timed, rows=wanted)


def _with_message(table: ImportedTable, row: int, reading: TimeCell, first: str) -> TimeCell:
    """A provider that failed says why in its first metric, which need not be the latency."""
    if reading.verdict is Verdict.PASSED or first.endswith(SUFFIX):
        return reading
    message = table.text(row, first)
    return TimeCell(Verdict.RUNTIME_ERROR, message) if message else reading


def _entry(table: ImportedTable, row: int, label: str, provider: str, reading: TimeCell) -> ImportedCase:
    value = table.text(row, label)
    names = re.findall(r"\w+", label)
    values = re.findall(r"[^\s,()]+", value)
    known = [_SIZES.get(name.lower(), "") for name in names]
    if not {"M", "N", "K"} <= set(known) or len(values) != len(names) or not all(map(str.isdigit, values)):
        layer = f"{label}={value}"
        return ImportedCase(problem=Problem(1, 1, 1), reading=reading, provider=provider, layer=layer, flops=math.nan)
    sizes = {size: int(text) for size, text in zip(known, values, strict=True) if size}
    rest = " ".join(f"{name}={text}" for name, text, size in zip(names, values, known, strict=True) if not size)
    op = Op.GROUPED_GEMM if sizes.get("E", 1) > 1 else Op.GEMM
    problem = table.problem(row, label, **sizes, op=op)
    return ImportedCase(problem=problem, reading=reading, provider=provider, layer=rest or str(op))

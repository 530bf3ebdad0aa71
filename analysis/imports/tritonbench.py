"""tritonbench's CSV: semicolons, the x value, then `PROVIDER-METRIC` columns.

Source: pytorch-labs/tritonbench @0efdc53, tritonbench/utils/triton_op.py (BenchmarkOperatorResult: the label of the x
value is `(M, N, K)` for GEMMs and `x_val` by default; latency is a median in ms; the last row is an average; a provider
that failed has its message in place of its first metric, and nothing in the others).
"""

import re
from collections.abc import Mapping

from ...shapes.errors import UsageError
from ...shapes.verdict import Verdict
from .entries import Imported, ImportedCase, case_of, imported
from .table import ImportedTable, Reader, TimeCell
from .words import split_parameters

SOURCE = "tritonbench"

SUFFIX = "-latency"

_EXPERTS = ("g", "group_size")
"""What the number of groups is called in a label."""


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

    def case(row: int, column: str, reading: Reader) -> ImportedCase:
        provider, value = column.removesuffix(SUFFIX), table.text(row, label)
        first = next(other for other in table.header[1:] if other.startswith(f"{provider}-"))
        cell = _with_message(table, row, reading(row), first)
        names = ["E" if name.lower() in _EXPERTS else name for name in re.findall(r"\w+", label)]
        values = re.findall(r"[^\s,()]+", value)
        sizes, layer = split_parameters(dict(zip(names, values, strict=False)))
        if not {"M", "N", "K"} <= sizes.keys() or len(values) != len(names):
            sizes, layer = {}, f"{label}={value}"
        return case_of(table, row, label, cell, sizes, provider=provider, layer=layer)

    return imported(SOURCE, table, dict.fromkeys(timed, "0.001"), case, rows=wanted, free_text=True)


def _with_message(table: ImportedTable, row: int, reading: TimeCell, first: str) -> TimeCell:
    """A provider that failed says why in its first metric, which need not be the latency."""
    if reading.verdict is Verdict.PASSED or first.endswith(SUFFIX):
        return reading
    message = table.text(row, first)
    return TimeCell(Verdict.RUNTIME_ERROR, message) if message else reading

"""tritonbench's CSV: semicolons, the x value, then `PROVIDER-METRIC` columns.

Source: pytorch-labs/tritonbench @0efdc53, tritonbench/utils/triton_op.py (BenchmarkOperatorResult: the label of the x
value is `(M, N, K)` for GEMMs and `x_val` by default; latency is a median in ms; the last row is an average; a provider
that failed has its message in place of its first metric, and nothing in the others).
"""

import re
from collections.abc import Iterator, Mapping

from ...shapes.errors import UsageError
from ...shapes.verdict import Verdict
from .entries import Imported, ImportedCase, case_of, imported
from .table import ImportedTable, TimeCell
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
    names = ["E" if name.lower() in _EXPERTS else name for name in re.findall(r"\w+", label)]
    values = re.findall(r"[^\s,()]+", value)
    sizes, layer = split_parameters(dict(zip(names, values, strict=False)))
    if not {"M", "N", "K"} <= sizes.keys() or len(values) != len(names):
        sizes, layer = {}, f"{label}={value}"
    return case_of(table, row, label, reading, sizes, provider=provider, layer=layer)

"""aiter's benchmarks of MoE GEMMs, which write one row per batch, or per batch and layer.

Source: ROCm/aiter @e404860, op_tests/op_benchmarks/triton/bench_moe_gemm_*.py. Profiled ones write
`batch,total_latency_us,kernel_latency_us,tflops,tbps,...,flops,bytes,reps`, where the total has everything that ran
and the kernel latency the GEMMs alone; ones with a graph `batch,layer,latency_us,tflops,tbps,flops,bytes,...`. The
files say neither N nor K nor the number of experts.
"""

from collections.abc import Mapping
from dataclasses import replace

from ...shapes.errors import UsageError, quote
from ...shapes.problem import Op
from .entries import Imported, ImportedCase, case_of, imported
from .table import ImportedTable, Reader

SOURCE = "aiter MoE benchmark"

KEYS = ("time_us",)

CHOICES = ("kernel_latency_us", "total_latency_us")


def matches(table: ImportedTable) -> bool:
    """Tell by the header."""
    profiled = all(name in table for name in CHOICES)
    return "tbps" in table and (profiled or ("layer" in table and "latency_us" in table))


def read(table: ImportedTable, columns: Mapping[str, str]) -> Imported:
    """One case per row; `columns` may choose between total and kernel latency as time_us."""
    name = columns.get("time_us", "" if CHOICES[0] in table else "latency_us")
    if not name:
        raise UsageError(
            f"{table.where} line 1: {' and '.join(CHOICES)} are different times; choose one: "
            f"--column time_us={CHOICES[0]}"
        )
    if name not in table:
        raise UsageError(f"{table.where} line 1: there is no column {quote(name)}; choose one of {', '.join(CHOICES)}")
    tokens = table.header[0]  # named after what the sweep varies, batch as shipped

    def case(row: int, column: str, reading: Reader) -> ImportedCase:
        found = case_of(
            table,
            row,
            tokens,
            reading(row),
            {"M": table.size(row, tokens)},
            Op.MOE_GEMM,
            provider=f"aiter {name.removesuffix('_us')}",
            layer=table.text(row, "layer", "moe_gemm"),
            kernels=table.text(row, "kernel"),
        )
        return replace(found, flops=_flops(table, row))

    notes = (f"{SOURCE}: N, K and experts are not in the file and stand as 1; compare files of one configuration",)
    return imported(SOURCE, table, {name: "0.000001"}, case, notes)


def _flops(table: ImportedTable, row: int) -> float:
    """FLOPs of one repetition; the profiler's count is over all of them."""
    text = table.text(row, "flops", "nan")
    try:
        return float(text) / (table.size(row, "reps") if table.text(row, "reps") else 1)
    except ValueError:
        table.fail(row, "flops", f"{quote(text)} is not a number")

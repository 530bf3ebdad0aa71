"""Measured tables of NVIDIA AIConfigurator: GEMMs of the linear layers of vLLM, SGLang and TensorRT-LLM, per GPU.

Source: ai-dynamo/aiconfigurator @095f58a (Apache-2.0), aic-core/src/aiconfigurator_core/systems/data/GPU/gemm/STACK/
VERSION/gemm_perf.parquet, in older versions gemm_perf.txt (CSV), with the columns `framework, version, device, op_name,
kernel_source, gemm_dtype, m, n, k, latency[, power, power_limit]`; latency in ms. How it was measured: collector/vllm/
collect_gemm.py, its siblings, and `benchmark_with_power` of collector/helper.py. The call is the layer's forward on
bf16 activations: one that multiplies in 8 or 4 bits quantizes them in it, weights are stored quantized. Six layers in
turn (one of fp8_block and nvfp4), so that small weights stay in the cache, in a CUDA graph (not fp8_block in vLLM),
the mean of six calls after three. Tried with the tables of the package
aiconfigurator-core 0.12.0.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

from ...shapes.errors import UsageError
from ...shapes.verdict import Verdict
from .entries import Imported, ImportedCase, case_of, imported
from .printed import read_printed
from .table import ImportedTable, Reader

SOURCE = "AIConfigurator table"

COLUMNS = ("framework", "version", "device", "op_name", "kernel_source", "gemm_dtype", "m", "n", "k", "latency")

CASE = ("framework", "version", "device", "gemm_dtype", "m", "n", "k")
"""Columns that tell cases apart: a collector may have tried several kernels, or one operation under several names."""

MATH_DTYPES = {
    "bfloat16": "bf16",
    "fp8": "fp8",
    "fp8_static": "fp8",
    "fp8_block": "fp8",
    "sq": "int8",
    "int8_wo": "bf16",
    "int4_wo": "bf16",
    "nvfp4": "nvfp4",
}
"""`gemm_dtype` -> type that the matrix units multiply in: `wo` are weights only, `sq` is SmoothQuant."""


def matches(table: ImportedTable) -> bool:
    """Tell by the header; also true for their tables of other operations, which `read` refuses."""
    return all(name in table for name in ("framework", "version", "device", "op_name", "kernel_source", "latency"))


def require_gemms(table: ImportedTable) -> None:
    """Raise UsageError for a table of another operation: attention, MoE, communication."""
    if missing := [name for name in COLUMNS if name not in table]:
        raise UsageError(
            f"{table.where} line 1: column {missing[0]} is missing: it is AIConfigurator's table of another operation "
            f"({table.text(0, 'op_name')}); give its gemm_perf.parquet"
        )


def of_sizes(table: ImportedTable, sizes: Collection[tuple[int, ...]]) -> ImportedTable | None:
    """Return the rows of some (M, N, K), None where there are none: a table has some hundred thousand others."""
    require_gemms(table)
    wanted = {tuple(map(str, size)) for size in sizes}
    places = [table.header.index(name) for name in "mnk"]
    kept = [at for at, row in enumerate(table.rows) if tuple(row[place] for place in places) in wanted]
    if not kept:
        return None
    return table.of_rows(kept)


def read(table: ImportedTable, columns: Mapping[str, str]) -> Imported:
    """One case per row: of its rows, which some tables repeat, the last; of its kernels the fastest."""
    require_gemms(table)
    reader = table.reader("latency", "0.001")
    kept = {tuple(table.text(row, name) for name in COLUMNS[:-1]): row for row in range(len(table))}
    readings = {row: reader(row) for row in kept.values()}
    fastest: dict[tuple[str, ...], int] = {}
    for row in sorted(readings, key=lambda row: (readings[row].verdict != Verdict.PASSED, readings[row].time_s)):
        fastest.setdefault(tuple(table.text(row, name) for name in CASE), row)

    def case(row: int, column: str, reading: Reader) -> ImportedCase:
        return case_of(
            table,
            row,
            "m",
            reading(row),
            table.sized(row, "mnk")[0],
            provider=f"{table.text(row, 'framework')} {table.text(row, 'version')}",
            device=table.text(row, "device"),
            dtype="bf16",
            scheme=table.text(row, "gemm_dtype"),
            kernels=table.text(row, "kernel_source"),
        )

    counts = {"rows for one case the last": len(table) - len(kept)}
    counts["kernels for one case the fastest"] = len(kept) - len(fastest)
    notes = [f"{table.where}: of several {what} counts ({count} others)" for what, count in counts.items() if count]
    return imported(SOURCE, table, {"latency": "0.001"}, case, notes, sorted(fastest.values()))


DECIMALS = 4
"""Decimals of a latency in ms that `by_stack` keeps: it is a double, though device events tell 0.5 us over six calls,
so that with all digits many rows would look copied."""


def by_stack(table: ImportedTable) -> list[ImportedTable]:
    """Return one table per stack, storage and GPU, whose title names the three, sorted by sizes; of another, itself.

    Rows lie in the order in which processes have finished. Raises UsageError for a table of another operation.
    """
    if not matches(table):
        return [table]
    require_gemms(table)
    groups: dict[tuple[str, ...], list[int]] = {}
    for row in range(len(table)):
        key = tuple(table.text(row, name) for name in ("framework", "version", "gemm_dtype", "device"))
        groups.setdefault(key, []).append(row)
    found = []
    for (framework, version, stored, device), rows in groups.items():
        rows.sort(key=lambda row: [table.size(row, name) for name in "nkm"])
        dtype = MATH_DTYPES.get(stored, "")
        title = " ".join(filter(None, (framework, version, stored, f"in {dtype}" if dtype else "", "on", device)))
        cells = tuple(
            (*(table.text(row, name) for name in "mnk"), _shortened(table.text(row, "latency"))) for row in rows
        )
        found.append(replace(table.of_rows(rows), header=("M", "N", "K", "latency (ms)"), rows=cells, title=title))
    return found


def _shortened(text: str) -> str:
    cell = read_printed(text)
    return f"{cell.value:.{DECIMALS}f}" if cell and not cell.unit else text

"""Primus-Turbo's training benchmarks of GEMM and grouped GEMM.

Source: AMD-AGI/Primus-Turbo @a6a16cd, benchmark/ops/training/bench_gemm_{turbo,torch,te}.py and
bench_grouped_gemm_*.py. Header `TestID, Platform, GPU, Case, [MBS | B], M, N, K, Dtype, [Granularity,] Check, Forward
Time (ms), Forward TFLOPS, Backward Time (ms), Backward TFLOPS`, older files without Check, Dtype or Backward. Means of
100 calls on the same tensors, two decimals. B is the number of groups of M rows each.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ...shapes.errors import quote
from ...shapes.problem import Op, Pass
from ...shapes.verdict import Verdict
from .consistency import rate_of, span
from .entries import Imported, ImportedCase, case_of, failed, imported
from .printed import read_printed
from .table import ImportedTable, Reader, TimeCell

SOURCE = "Primus-Turbo benchmark"

PASSES = {Pass.FWD: "Forward", Pass.BWD: "Backward"}

PROVIDER = "primus_turbo"


def matches(table: ImportedTable) -> bool:
    """Tell by the header."""
    return all(name in table for name in ("TestID", "Case", "M", "N", "K")) and any(
        f"{word} Time (ms)" in table for word in PASSES.values()
    )


def read(table: ImportedTable, columns: Mapping[str, str]) -> Imported:
    """Forward and backward of a row become the passes `fwd` and `bwd` of one case."""
    passes = {f"{word} Time (ms)": pass_ for pass_, word in PASSES.items() if f"{word} Time (ms)" in table}
    wrong: list[str] = []

    def case(row: int, column: str, reading: Reader) -> ImportedCase:
        groups = table.size(row, "B", 1)
        op = Op.GROUPED_GEMM if groups > 1 else Op.GEMM
        sizes, _ = table.sized(row, "MNK")
        cell = _checked(table, row, reading(row))
        found = case_of(
            table,
            row,
            "M",
            cell,
            sizes | {"M": sizes["M"] * groups, "E": groups},
            op,
            passes[column],
            provider=PROVIDER,
            model=table.text(row, "Case"),
            layer=str(op),
            dtype=table.text(row, "Dtype"),
            scheme=table.text(row, "Granularity", table.text(row, "granularity")),
            device=table.text(row, "GPU"),
        )
        if cell.verdict is Verdict.PASSED:
            wrong.extend(_wrong_rate(table, row, PASSES[passes[column]], found.flops))
        return found

    found = imported(SOURCE, table, dict.fromkeys(passes, "0.001"), case)
    notes = (
        *found.notes,
        *_notes(table, Pass.BWD in passes.values()),
        *(f"{table.where} {line}" for line in wrong[:3]),
    )
    if len(wrong) > 3:
        notes = (*notes, f"{table.where}: {len(wrong)} TFLOPS in all do not follow from the printed times")
    return replace(found, notes=notes)


def _checked(table: ImportedTable, row: int, reading: TimeCell) -> TimeCell:
    check = table.text(row, "Check", "PASS").upper()
    if check == "FAIL":
        return failed(reading, Verdict.INCORRECT, "Check FAIL in the file")
    if check == "ERROR":
        return failed(reading, Verdict.RUNTIME_ERROR, "Check ERROR in the file")
    if check not in ("PASS", "SKIP"):  # SKIP: not checked, as opposed to wrong
        table.fail(row, "Check", f"{quote(check)} is none of PASS, FAIL, ERROR, SKIP")
    return reading


def _wrong_rate(table: ImportedTable, row: int, word: str, flops: float) -> Iterator[str]:
    """Say which TFLOPS the printed time does not allow, rounding included."""
    time, rate = table.text(row, f"{word} Time (ms)"), read_printed(table.text(row, f"{word} TFLOPS"))
    allowed = rate_of(flops, span(time), 1e-3)
    if rate and rate.value and not rate.span.meets(allowed):
        yield (
            f"{table.place(row)}: {word} TFLOPS {rate.text} cannot follow from {time} ms: that allows "
            f"{allowed.low:.6g} to {allowed.high:.6g}"
        )


def _notes(table: ImportedTable, has_backward: bool) -> list[str]:
    """First what is so in this file, then what the script always does."""
    checks = [text.upper() for text in table.texts("Check")]
    notes = []
    if failures := checks.count("FAIL"):
        notes.append(f"{table.where}: Check FAIL in {failures} rows; their times are of wrong results, and excluded")
    if errors := checks.count("ERROR"):
        notes.append(f"{table.where}: Check ERROR in {errors} rows, which the script averages as 0 TFLOPS")
    if "Check" not in table:
        notes.append(f"{table.where}: no column Check, so whether results were right is unknown; all count as passed")
    if has_backward:
        notes.append(
            f"{SOURCE}: the backward pass adds into gradients that are never cleared, so its time has the "
            "traffic of two sums more; work may have moved between the passes: compare the step"
        )
    return [*notes, f"{SOURCE}: warm, the same tensors in every call and nothing flushes the cache"]

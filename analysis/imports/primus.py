"""Primus-Turbo's training benchmarks of GEMM and grouped GEMM.

Source: AMD-AGI/Primus-Turbo @a6a16cd, benchmark/ops/training/bench_gemm_{turbo,torch,te}.py and
bench_grouped_gemm_*.py. Header `TestID, Platform, GPU, Case, [MBS | B], M, N, K, Dtype, [Granularity,] Check, Forward
Time (ms), Forward TFLOPS, Backward Time (ms), Backward TFLOPS`, older files without Check, Dtype or Backward. Means of
100 calls on the same tensors, two decimals. B is the number of groups of M rows each.
"""

from collections.abc import Mapping

from ...shapes.errors import quote
from ...shapes.problem import Op, Pass, Problem
from ...shapes.verdict import Verdict
from .consistency import Claim, contradictions, rate_of, span
from .entries import UNKNOWN, Imported, ImportedCase, failed
from .table import ImportedTable, TimeCell, read_number

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
    passes = {pass_: word for pass_, word in PASSES.items() if f"{word} Time (ms)" in table}
    times = {pass_: table.readings(f"{word} Time (ms)", "0.001") for pass_, word in passes.items()}
    entries, claims = [], []
    for row in range(len(table)):
        groups = table.size(row, "B", 1)
        for pass_, word in passes.items():
            M, N, K = (table.size(row, name) for name in ("M", "N", "K"))
            op = Op.GROUPED_GEMM if groups > 1 else Op.GEMM
            problem = table.problem(row, "M", M * groups, N, K, op=op, pass_=pass_, E=groups)
            reading = _checked(table, row, times[pass_][row])
            entries.append(
                ImportedCase(
                    problem=problem,
                    place=table.place(row),
                    reading=reading,
                    provider=PROVIDER,
                    model=table.text(row, "Case"),
                    layer="grouped_gemm" if groups > 1 else "gemm",
                    dtype=table.text(row, "Dtype", UNKNOWN),
                    scheme=table.text(row, "Granularity", table.text(row, "granularity", UNKNOWN)),
                )
            )
            if reading.verdict is Verdict.PASSED and read_number(table.text(row, f"{word} TFLOPS")):
                claims.append(_rate_claim(table, row, word, problem))
    timed = [f"{word} Time (ms)" for word in passes.values()]
    wrong = contradictions(claims)
    notes = (*_notes(table, times), *(f"{table.where} {line}" for line in wrong[:3]))
    if len(wrong) > 3:
        notes = (*notes, f"{table.where}: {len(wrong)} TFLOPS in all do not follow from the printed times")
    return Imported.of(SOURCE, table, entries, timed, table.texts("GPU"), notes)


def _checked(table: ImportedTable, row: int, reading: TimeCell) -> TimeCell:
    check = table.text(row, "Check", "PASS").upper()
    if check == "FAIL":
        return failed(reading, Verdict.INCORRECT, "Check FAIL in the file")
    if check == "ERROR":
        return failed(reading, Verdict.RUNTIME_ERROR, "Check ERROR in the file")
    if check not in ("PASS", "SKIP"):  # SKIP: not checked, as opposed to wrong
        table.fail(row, "Check", f"{quote(check)} is none of PASS, FAIL, ERROR, SKIP")
    return reading


def _rate_claim(table: ImportedTable, row: int, word: str, problem: Problem) -> Claim:
    time = table.text(row, f"{word} Time (ms)")
    return Claim(
        where=table.place(row),
        what=f"{word} TFLOPS",
        printed=table.text(row, f"{word} TFLOPS"),
        allowed=rate_of(problem.flops, span(time), 1e-3),
        because=f"{time} ms",
    )


def _notes(table: ImportedTable, times: Mapping[Pass, list[TimeCell]]) -> list[str]:
    """First what is so in this file, then what the script always does."""
    checks = [text.upper() for text in table.texts("Check")]
    notes = []
    if failures := checks.count("FAIL"):
        notes.append(f"{table.where}: Check FAIL in {failures} rows; their times are of wrong results, and excluded")
    if errors := checks.count("ERROR"):
        notes.append(f"{table.where}: Check ERROR in {errors} rows, which the script averages as 0 TFLOPS")
    if "Check" not in table:
        notes.append(f"{table.where}: no column Check, so whether results were right is unknown; all count as passed")
    if Pass.BWD in times:
        notes.append(
            f"{SOURCE}: the backward pass adds into gradients that are never cleared, so its time has the "
            "traffic of two sums more; work may have moved between the passes: compare the step"
        )
    return [*notes, f"{SOURCE}: warm, the same tensors in every call and nothing flushes the cache"]

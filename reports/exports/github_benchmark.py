"""Input of the tools customSmallerIsBetter and customBiggerIsBetter of github-action-benchmark.

Source: benchmark-action/github-action-benchmark @c38cce9, `BenchmarkResult` of src/extract.ts: a JSON array of
`{name, unit, value}`, with `range` and `extra` (lines of a tooltip) as texts if wanted. In one file, all entries are
better in the same direction: times and rates are two files.
"""

from collections.abc import Callable
from functools import partial

from ...analysis.run.pipeline import Analysis
from ...shapes.errors import UsageError
from .. import formatting as fmt
from ..cells import rate_text, time_text, traffic_text
from ..view import Row
from .measured import as_json, measured, rounded


def times(analysis: Analysis) -> bytes:
    """Write the median time of each cell in microseconds; its 95 % interval, unless that says nothing, as the range."""
    return as_json([_entry(name, row, "us", lambda time: time * 1e6) for name, row in measured(analysis)])


def rates(analysis: Analysis) -> bytes:
    """Write the TFLOPS of each cell. Raises UsageError for a run of quantizations, which have no FLOPs."""
    entries = []
    for name, row in measured(analysis):
        if flops := float(row["flops"]):
            entries.append(_entry(name, row, "TFLOPS", partial(_tflops, flops)))
    if not entries:
        raise UsageError(f"{analysis.run.id} has no FLOPs to give a rate of: export its times with --github-benchmark")
    return as_json(entries)


def _tflops(flops: float, time_s: float) -> float:
    return flops / time_s / 1e12


def _entry(name: str, row: Row, unit: str, of_time: Callable[[float], float]) -> dict[str, object]:
    found: dict[str, object] = {"name": name, "unit": unit, "value": rounded(of_time(row["time_s"]))}
    if fmt.is_telling(row["time_low_s"], row["time_high_s"]):
        ends = sorted(of_time(row[end]) for end in ("time_low_s", "time_high_s"))
        found["range"] = f"95%: {ends[0]:.6g} to {ends[1]:.6g}"
    rounds = fmt.plural(int(row["rounds"]), "round")
    config = row["config"] if row["config"] != "{}" else ""
    lines = (time_text(row), rate_text(row), traffic_text(row), f"bound: {row['bound_class']}", rounds, config)
    return found | {"extra": "\n".join(filter(None, lines))}

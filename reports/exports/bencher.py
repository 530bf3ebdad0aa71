"""Bencher Metric Format: `{benchmark: {measure: {value, lower_value, upper_value}}}`.

Source: the JSON Schema of bencherdev/bencher @97800d1, services/console/public/bmf.json (https://bencher.dev/bmf.json),
and its page "Bencher Metric Format": `latency` (ns) and `throughput` (operations/s) are the measures that every project
has, and a name of a benchmark has at most 1024 characters.
"""

from ...analysis.run.pipeline import Analysis
from .. import formatting as fmt
from ..view import Row
from .measured import as_json, measured, rounded


def content(analysis: Analysis) -> bytes:
    """Write the time of each cell in ns, and its FLOP/s where it has FLOPs, with their 95 % intervals."""
    return as_json({name: _measures(row) for name, row in measured(analysis)})


def _measures(row: Row) -> dict[str, dict[str, float]]:
    time, low, high = (float(row[name]) for name in ("time_s", "time_low_s", "time_high_s"))
    ends = (low, high) if fmt.is_telling(low, high) else ()
    found = {"latency": _metric(time * 1e9, *(end * 1e9 for end in ends))}
    if flops := row["flops"]:
        found["throughput"] = _metric(flops / time, *(flops / end for end in reversed(ends)))
    return found


def _metric(value: float, *ends: float) -> dict[str, float]:
    names = ("value", "lower_value", "upper_value")
    return {name: rounded(number) for name, number in zip(names, (value, *ends), strict=False)}

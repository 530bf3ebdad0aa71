"""How times were taken, from what the cells say of it: timer, way to a cold cache, tuning, number of samples."""

import pandas as pd

from ....shapes.verdict import Verdict
from ... import formatting as fmt
from ...view import View
from .conditions import NOT_RECORDED

TIMERS = {
    "host": "host: wall clock around launch and synchronize",
    "event": "event: device events around each launch; launching it is in the time",
    "graph": "graph: device graph of launches",
    "profiler": "profiler: the device's own records, from a launch's first kernel's start to its last one's end",
}

COLD_BY = {
    "flush": "flush: before each sample, or each turn over copies of the operands, a clean buffer of three last-level "
    "caches is read",
    "rotation": "rotation among copies of the operands, twice the last-level cache between two uses of one",
}

TUNINGS = {
    "default": "default: no search",
    "pinned": "pinned: from a stored table",
    "cold": "cold: searched anew in this run",
}


def how_timed(view: View) -> list[tuple[str, str]]:
    """Return the rows (what, how) of the protocol table; what does not apply has an empty text."""
    timed = view.cells[view.cells["verdict"] == Verdict.PASSED]
    cold = timed[timed["cache"] == "cold"]
    stated = view.manifest.timer or view.manifest.protocol.timer
    return [
        ("timer", _ways(timed["timer"], TIMERS) or TIMERS.get(stated, stated)),
        ("launching", _launching(timed)),
        ("launches per sample", _range(timed.loc[timed["timer"] == "graph", "launches_per_sample"])),
        ("cold by", (_ways(cold["cold_by"], COLD_BY) or NOT_RECORDED) if len(cold) else ""),
        ("copies of the operands", _range(cold.loc[cold["copies"] > 1, "copies"])),
        ("configurations", (_ways(timed["tuning"], TUNINGS) or NOT_RECORDED) if len(timed) else ""),
        ("candidates per search", _range(timed["candidates"])),
        ("time spent on searches", fmt.time(float(timed["tuning_s"].sum())) if timed["tuning_s"].sum() > 0 else ""),
    ]


def _launching(timed: pd.DataFrame) -> str:
    """Say what events around the same launches have beyond the records of the profiler, in microseconds."""
    beyond = (timed["event_time_s"] - timed["time_s"]).dropna() * 1e6
    if beyond.empty:
        return ""
    low, middle, high = (f"{beyond.quantile(share):.1f}" for share in (0.05, 0.5, 0.95))
    return (
        f"not in the times: between events the same launches take {middle} µs more in the median ({low} to {high} in "
        "90 % of the cells; --timer event times that, --timer host an eager call)"
    )


def sample_counts(view: View) -> str:
    """Say how many samples of a cell count: 10 to 200, median 40."""
    return _range(view.cells["samples"])


def _ways(names: "pd.Series[str]", meanings: dict[str, str]) -> str:
    """Say which way the cells went, with their numbers where they went several; "" where none says."""
    counts = names.where(names != "", "unknown").value_counts()
    if set(counts.index) <= {"unknown"}:
        return ""
    if len(counts) == 1:
        return meanings.get(str(counts.index[0]), str(counts.index[0]))
    return "; ".join(
        f"{meanings.get(str(name), str(name))} ({fmt.plural(int(count), 'cell')})" for name, count in counts.items()
    )


def _range(values: "pd.Series[float]") -> str:
    known = values.dropna()
    if known.empty:
        return ""
    least, most = int(known.min()), int(known.max())
    return str(least) if least == most else f"{least} to {most}, median {known.median():g}"

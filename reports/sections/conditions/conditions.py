"""How times were taken, and how the device was meanwhile: telemetry, canary, and which cells suffered from it."""

import re
from collections.abc import Iterable, Iterator

import pandas as pd

from ....analysis.frames.telemetry import Conditions
from ....analysis.stability.canary import SLOWDOWN, SLOWDOWN_ON_CPU, Drift
from ....shapes.verdict import Verdict
from ... import formatting as fmt
from ...model import Block, Cells, Column, Table, TableCell, table
from ...terms import CANARY_PARTS
from ...view import Row, View, shape_of

NOT_RECORDED = "not recorded"

MOST_DISTURBED = 20
"""Disturbed cells that are named; cells.csv has them all."""

SOURCES = {
    "nvml": "nvml: NVIDIA's driver",
    "amdsmi": "amdsmi: AMD's driver",
    "host": "host: /proc and /sys of Linux",
}


def conditions(view: View) -> tuple[Block, ...]:
    """Build the tables of the environment chapter that speak of the time of the measurement."""
    seen, drifts = view.analysis.conditions, view.analysis.canary
    blocks = [_overview(view, seen, drifts)]
    if seen is not None and (quantities := tuple(_quantities(seen))):
        reading = f"One reading per batch of samples, {fmt.plural(seen.batches, 'batch', 'batches')}."
        blocks.append(table("telemetry-table", "What the device said of itself", quantities, reading))
    if drifts:
        blocks.append(_canary(drifts))
    if disturbed := _disturbed(view):
        blocks.append(disturbed)
    return tuple(blocks)


def has_telemetry(view: View) -> bool:
    """True when clock, temperature or power of the device were stored."""
    seen = view.analysis.conditions
    return seen is not None and any((seen.clock_hz, seen.temperature_c, seen.power_w))


def _overview(view: View, seen: Conditions | None, drifts: tuple[Drift, ...]) -> Table:
    rows = [("telemetry", _source(view, seen))]
    if seen is not None:
        rows.append(("clock held down by", _slowdowns(seen)))
        if seen.other_processes is not None:
            most = seen.other_processes
            rows.append(("other processes on the device", f"up to {most} at once" if most else "none seen"))
    rows.append(("canary", fmt.plural(drifts[0].readings, "reading") if drifts else NOT_RECORDED))
    timed = view.cells[view.cells["verdict"] == Verdict.PASSED]
    disturbed = int((timed["disturbed"] != "").sum())
    if seen is not None or drifts or disturbed:
        rows.append(("disturbed cells", fmt.count(disturbed, len(timed))))
    if timed["discarded"].notna().any():
        rows.append(("discarded samples", _discarded(view)))
    return facts_table("conditions-table", "While it was measured", rows)


def facts_table(table_id: str, title: str, rows: Iterable[tuple[str, str]]) -> Table:
    """One row per item; a value that is "" is unknown."""
    items: list[Cells] = [{"item": name, "value": TableCell(value or "unknown", value or None)} for name, value in rows]
    return table(table_id, title, items)


def _source(view: View, seen: Conditions | None) -> str:
    name = view.manifest.telemetry
    if seen is not None:
        return SOURCES.get(name, name or "of a source that run.json does not name")
    return f"{NOT_RECORDED} ({name})" if name else NOT_RECORDED


def _slowdowns(seen: Conditions) -> str:
    if not seen.slowdowns:
        return "nothing seen"
    return ", ".join(f"{word} in {fmt.share(share)} of the batches" for word, share in seen.slowdowns)


def _discarded(view: View) -> str:
    reasons = view.run.samples["discarded"].value_counts()
    lost = [(str(reason), int(count)) for reason, count in reasons.items() if reason]
    named = f" ({', '.join(f'{reason} {count}' for reason, count in sorted(lost))})" if lost else ""
    return fmt.count(sum(count for _, count in lost), len(view.run.samples)) + named


def _quantities(seen: Conditions) -> Iterator[Cells]:
    shown = (
        ("clock", seen.clock_hz, fmt.clock),
        ("memory clock", seen.memory_clock_hz, fmt.clock),
        ("temperature", seen.temperature_c, fmt.temperature),
        ("power", seen.power_w, fmt.power),
        ("cores busy with other work", seen.busy_elsewhere, fmt.share),
    )
    for name, values, write in shown:
        if values is not None:
            numbers = dict(zip(("least", "median", "largest"), values, strict=True))
            yield {"quantity": name, **{Column(of): TableCell(write(one), one) for of, one in numbers.items()}}


def _canary(drifts: tuple[Drift, ...]) -> Table:
    rows: list[Cells] = [
        {
            "part": CANARY_PARTS[drift.kind],
            Column("readings"): drift.readings,
            Column("range", unit="%"): TableCell(fmt.signed_percent(drift.range).removeprefix("+"), drift.range),
            Column("trend", unit="%"): TableCell(fmt.signed_percent(drift.trend), drift.trend),
        }
        for drift in drifts
    ]
    reading = (
        "A frozen GEMM and a frozen copy, timed at the start, about every minute and at the end. Range: slowest "
        "reading over fastest, minus 1. Trend: change from the first reading to the last along a robust line; above 0 "
        f"the device became slower. Cells count as disturbed where the reading after them takes over {SLOWDOWN:.0%} "
        f"longer than the one before ({SLOWDOWN_ON_CPU:.0%} on a CPU), and more than readings at the start scatter by."
    )
    return table("canary-table", "Drift of the device itself", rows, how_to_read=reading)


def _disturbed(view: View) -> Table | None:
    timed = view.cells[(view.cells["verdict"] == Verdict.PASSED) & (view.cells["disturbed"] != "")]
    if timed.empty:
        return None
    causes = timed["disturbed"].str.count("; ").sort_values(ascending=False, kind="stable")
    worst = timed.loc[causes.index].head(MOST_DISTURBED)
    rows = [_disturbed_row(row) for row in worst.to_dict("records")]
    reading = "Their times are nevertheless in every table: stop other work on the device and measure them again."
    if len(timed) > len(rows):
        reading += (
            f" {len(rows)} of {len(timed)}, those with most causes first; cells.csv and canary.csv have all of them."
        )
    return table("disturbed", "Disturbed cells", rows, reading, stub=2, detail=len(rows) > 8)


def _disturbed_row(row: Row) -> Cells:
    shape = shape_of(row)
    return {
        "provider": row["provider"],
        "shape": shape.label,
        Column("N×K"): shape.size,
        Column("M"): int(row["M"]),
        "operands": f"{row['dtype']} · {row['scheme']} · {row['cache']}",
        "disturbed by": re.sub(r"(?<!\w)-(?=\d)", fmt.MINUS, str(row["disturbed"])),
    }


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
        "90 % of the cells; timer=event times that, timer=host an eager call)"
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

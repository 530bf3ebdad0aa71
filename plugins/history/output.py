"""What `rooflens history` prints: a line per series with its trend, then the changes, each with what decides it."""

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import pandas as pd

from ...analysis.frames.coordinates import SETTING, shape_label
from ...reports import formatting as fmt
from ...reports.figures.axes import FULL_HEIGHT
from ...reports.listing import listing
from ...reports.model import Remarks, Section, Table, Text
from ...shapes.run_folder.manifest import ComparisonState
from .deciding import deciding_command
from .history import Gap, History, Proposal, gaps
from .terms import key_lines, letter, run_name

BARS = "▁▂▃▄▅▆▇█"

ONLY_LARGE = (
    "of two stored runs, only large changes can be verified: rooflens compare --git BASE..HEAD with the commits that "
    "they were made from measures both in turn"
)

UNCOMMITTED = "{run} was measured with uncommitted changes: its commit alone is not what was measured"

WIDEST = 40
"""Characters of a trend; of more runs, neighbours share one."""


def section(found: History, states: Mapping[str, ComparisonState], raw: bool) -> Section:
    """Show what was found; `states` are what compare.json says above the folder of a run."""
    first, last = found.runs[0], found.runs[-1]
    how = "as measured" if raw else "over the canary of their run, relative to the first run of the series"
    title = f"times {how}; a trend is as high as {FULL_HEIGHT:.0%} or its range, oldest run first"
    lines = (
        f"{fmt.plural(len(found.runs), 'run')} from {first.created_at[:10]} to {last.created_at[:10]}",
        *key_lines(found),
    )
    parts = []
    commands = []
    for gap in gaps(found):
        commands.append(deciding_command(found, gap.earliest, gap.latest, gap.proposals, states))
        texts = (*([gap.remark] if gap.remark else []), f"decide: {commands[-1]}")
        parts.append(Section("gap", "", (_gap(found, gap), *map(Text, texts))))
    count = len(found.proposals)
    counted = f"{fmt.plural(count, 'change')} proposed" + ("; a comparison decides each of them" if count else "")
    remarks = [ONLY_LARGE] * any("--git" not in command for command in commands)
    edges = dict.fromkeys(number for gap in gaps(found) for number in (gap.earliest, gap.latest))
    remarks += [UNCOMMITTED.format(run=found.runs[number].id) for number in edges if found.runs[number].code.dirty]
    end = Section("end", "", (Text(counted), Remarks((*remarks, *found.notes))))
    return Section("history", "History", (*map(Text, lines), _series(found, title)), (*parts, end))


def _series(found: History, title: str) -> Table:
    proposed = [one.series for one in found.proposals]
    of_key = {key: sorted(set(rows)) for key, rows in found.points.groupby("key")["run"]}
    values = dict(iter(found.points.groupby("series")[["run", "value_s"]]))
    rows = [
        (
            shape_label(row),
            *(row[name] for name in SETTING),
            row["M"],
            row["provider"],
            letter(row["key"]),
            fmt.count(row["runs"], row["of"]),
            fmt.time(row["first_s"]),
            fmt.time(row["last_s"]),
            fmt.signed_percent(row["change"]),
            str(proposed.count(number) or ""),
            _trend(values[number], of_key[row["key"]]),
            "; ".join(_remarks(row)),
        )
        for number, row in enumerate(found.series.to_dict("records"))
    ]
    common = ("shape", *SETTING)
    names = ("M", "provider", "series", "runs", "first", "last", "change %", "proposed", "trend", "remark")
    return listing((*common, *names), rows, title, once=(*common, "series"), long=("remark",), heading=common)


def _remarks(row: Mapping[Hashable, Any]) -> list[str]:
    remarks = [row["failed"]] if row["failed"] else []
    if row["without_canary"]:
        remarks.append(f"{row['without_canary']} without canary")
    return remarks


def _trend(points: pd.DataFrame, runs: Sequence[int]) -> str:
    """Draw the values of one series over the runs of its key; a dot where a run has none."""
    known = dict(zip(points["run"], points["value_s"], strict=True))
    return sparkline([known.get(run) for run in runs])


def sparkline(values: Sequence[float | None]) -> str:
    """Draw positive values as bars on a logarithmic scale, unknown ones as dots; neighbours share one of `WIDEST`."""
    count = min(len(values), WIDEST)
    cuts = [round(index * len(values) / count) for index in range(count + 1)]
    binned = [
        [math.log(value) for value in values[cuts[index] : cuts[index + 1]] if value is not None]
        for index in range(count)
    ]
    levels = [sum(part) / len(part) if part else None for part in binned]
    known = [level for level in levels if level is not None]
    low, high = min(known), max(known)
    height = max(high - low, math.log1p(FULL_HEIGHT))
    floor = (low + high - height) / 2
    return "".join(
        "·" if level is None else BARS[min(len(BARS) - 1, int((level - floor) / height * len(BARS)))]
        for level in levels
    )


def _gap(found: History, gap: Gap) -> Table:
    rows = []
    for one in gap.proposals:
        row = found.series.loc[one.series].to_dict()
        sources = sources_of(found, one)
        rows.append(
            (
                shape_label(row),
                *(row[name] for name in SETTING),
                row["M"],
                row["provider"],
                letter(row["key"]),
                fmt.signed_percent(one.change),
                f"[{fmt.signed_percent(one.low)}, {fmt.signed_percent(one.high)}]",
                fmt.signed_percent(one.raw_change),
                " -> ".join(dict.fromkeys(sources)),
                _between(found, one),
                "; ".join(one.remarks),
            )
        )
    common = ("shape", *SETTING)
    names = (
        "M",
        "provider",
        "series",
        "change %",
        "95 % interval",
        "measured %",
        "source",
        "may lie between",
        "remark",
    )
    return listing(
        (*common, *names),
        rows,
        f"between {run_name(found.runs[gap.before])} and {run_name(found.runs[gap.after])}",
        once=(*common, "series", "source", "may lie between"),
        long=("remark",),
        heading=common,
    )


def _between(found: History, one: Proposal) -> str:
    if (one.earliest, one.latest) == (one.before, one.after):
        return ""
    return f"{found.runs[one.earliest].id} and {found.runs[one.latest].id}"


def sources_of(found: History, one: Proposal) -> tuple[str, str]:
    """Return the source hashes of the provider in the runs before and after."""
    rows = found.points[found.points["series"] == one.series].set_index("run")["source"]
    return str(rows[one.before]), str(rows[one.after])

"""What `rooflens history` shows: a line per series with its trend, and the changes, each with what decides it."""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from ...analysis.frames.coordinates import SETTING, shape_label
from ...reports import formatting as fmt
from ...reports.figures.axes import FULL_HEIGHT
from ...reports.listing import listing
from ...reports.model import CodeBlock, Remarks, Section, Table, Text
from ...shapes.run_folder.manifest import ComparisonState
from .deciding import deciding_command
from .history import Gap, History, Proposal, gaps
from .run_story import RunMark, key_differences

BARS = "▁▂▃▄▅▆▇█"

ONLY_LARGE = (
    "of two stored runs, only large changes can be verified: rooflens compare --git BASE..HEAD with the commits that "
    "they were made from measures both in turn"
)

UNCOMMITTED = "{run} was measured with uncommitted changes: its commit alone is not what was measured"

SHORTEST = 7
"""Digits of a commit's hash in a title, as git shortens them."""

WIDEST = 40
"""Characters of a trend; of more runs, neighbours share one."""


def series(found: History, raw: bool) -> Section:
    """List the series with their trends, and what distinguishes those of one cell."""
    first, last = found.runs[0], found.runs[-1]
    lines = (
        f"{fmt.plural(len(found.runs), 'run')} from {first.created_at[:10]} to {last.created_at[:10]}",
        *_key_lines(found),
    )
    return Section("series", "Series", (*map(Text, lines), _series(found, raw)))


def changes(found: History, states: Mapping[str, ComparisonState]) -> Section:
    """Describe every place at which levels change; `states` are what compare.json says above the folder of a run."""
    parts = []
    commands = []
    for gap in gaps(found):
        before, after = (found.runs[number] for number in (gap.before, gap.after))
        name = f"change-{gap.before}-{gap.after}"
        commands.append(deciding_command(found, gap.earliest, gap.latest, gap.proposals, states))
        remark = (Text(gap.remark),) if gap.remark else ()
        blocks = (replace(_gap(found, gap), id=f"{name}-cells"), *remark, CodeBlock(commands[-1]))
        parts.append(Section(name, between(before, after), blocks))
    count = len(found.proposals)
    counted = f"{fmt.plural(count, 'change')} proposed" + ("; the command below each place decides" if count else "")
    remarks = [ONLY_LARGE] * any("--git" not in command for command in commands)
    edges = dict.fromkeys(number for gap in gaps(found) for number in (gap.earliest, gap.latest))
    remarks += [UNCOMMITTED.format(run=found.runs[number].id) for number in edges if found.runs[number].code.dirty]
    return Section("changes", "Changes", (Text(counted), Remarks((*remarks, *found.notes))), tuple(parts))


def _series(found: History, raw: bool) -> Table:
    how = "as measured" if raw else "over the canary of their run, relative to the first run of the series"
    title = f"times {how}; a trend is as high as {FULL_HEIGHT:.0%} or its range, oldest run first"
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
        f"between {_run_name(found.runs[gap.before])} and {_run_name(found.runs[gap.after])}",
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


def letter(key: int) -> str:
    """Name a key: A, B, ..., Z, AA."""
    return (letter(key // 26 - 1) if key >= 26 else "") + chr(ord("A") + key % 26)


def _key_lines(found: History) -> list[str]:
    """Describe the first key of its series, and how each other differs from the one before it."""
    lines: list[str] = []
    before = None
    for number in sorted(found.series["key"].unique().tolist()):
        key, runs = found.keys[number], found.points.loc[found.points["key"] == number, "run"]
        if before is None:
            what = ", ".join(f"{name} {value}" for name, value in key.items() if value)
        else:
            what = f"{', '.join(key_differences(found.keys[before], key))} since {letter(before)}"
        lines.append(
            f"series {letter(number)}: {what}: {fmt.plural(runs.nunique(), 'run')} from {found.runs[runs.min()].id} on"
        )
        before = number
    return lines


def _run_name(run: RunMark) -> str:
    """Name a run with its date and, where that is known, the state of its repository."""
    return f"{run.id} ({', '.join(filter(None, (run.created_at[:10], run.code.label if run.code.commit else '')))})"


def between(before: RunMark, after: RunMark) -> str:
    """Name what lies between two runs: "abc1234..def5678", or the runs where their commits are not known.

    As in `git describe`, "-dirty" follows a commit that is not exactly what was measured.
    """
    if before.code.commit and after.code.commit:
        return "..".join(f"{run.code.commit[:SHORTEST]}{'-dirty' * run.code.dirty}" for run in (before, after))
    return f"{before.id}..{after.id}"

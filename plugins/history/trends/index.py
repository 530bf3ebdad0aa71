"""What a reader sees first: a row per family and device, and the headline of each; and the runs behind a trend."""

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from ....reports import formatting as fmt
from ....reports.model import (
    Bullets,
    Column,
    HowToRead,
    KeyNumber,
    KeyNumbers,
    Remarks,
    Section,
    Table,
    TableCell,
    Text,
    integer,
    number_columns,
    text_columns,
    texts,
)
from ..terms import SHORTEST, between, key_lines
from .changes import NONE, what_changed
from .subject import Trend

FOUND = (
    "{slower} changes to slower and {faster} to faster are proposed. The page of each family has the commits between "
    "and the commands that decide."
)
LEVEL = (
    "trend, change: geometric mean over the cells of time in a run ÷ time in the first one, less 1, up to the latest "
    "run; above 0: slower. The interval is over the cells: how much they disagree. It takes the cells that were "
    "measured in the same runs as most of those in the latest one, under one set of conditions."
)
CHANGES = (
    "slower, faster: changes of the level of a cell beyond chance and of at least 1 % (3 % below 10 µs). They are "
    "proposals, which a comparison decides."
)


def index(trends: Sequence[Trend]) -> Section:
    """Count what changed, and list the families on their devices; the name of each leads to its page."""
    columns = (
        *text_columns("family", "device", "trend"),
        Column("change", "%"),
        *text_columns("95 % interval"),
        *number_columns("slower", "faster"),
        *text_columns("latest change", "between", "latest run", "trend since"),
        *number_columns("cells", "runs"),
    )
    table = Table("families", "Families of kernels", columns, tuple(map(_row, trends)), stub=2)
    proposals = [one for trend in trends for one in trend.history.proposals]
    slower = sum(one.change > 0 for one in proposals)
    lead = FOUND.format(slower=slower, faster=len(proposals) - slower) if proposals else NONE
    return Section("overview", "Overview", (Text(lead), table, HowToRead((LEVEL, CHANGES))))


def _row(trend: Trend) -> tuple[TableCell, ...]:
    runs, levels = trend.history.runs, trend.level
    first, last = levels[0], levels[-1]
    gap = trend.gaps[0] if trend.gaps else None
    return (
        TableCell(trend.family, link=trend.page),
        TableCell(trend.device),
        TableCell("", curve=tuple(row["change"] for row in levels) if len(levels) > 1 else ()),
        TableCell(fmt.signed_percent(last["change"]), last["change"]),
        TableCell(_interval(last)),
        *map(integer, trend.changes),
        *texts(
            runs[gap.after].created_at[:10] if gap else "none",
            between(runs[gap.before], runs[gap.after]) if gap else "",
        ),
        trend.run_cell(trend.runs[-1]),
        TableCell(runs[first["run"]].created_at[:10]),
        *map(integer, (trend.cells, len(trend.runs))),
    )


def _interval(row: Mapping[Hashable, Any]) -> str:
    return fmt.change_interval(1 + row["low"], 1 + row["high"]) if math.isfinite(row["low"]) else ""


def headline(trend: Trend, title: str) -> Section:
    """Say how far the times are from where they began, and what changed."""
    newest = trend.history.runs[trend.level[-1]["run"]]
    numbers = (
        _since(trend),
        _proposed(trend),
        KeyNumber(
            "Latest run",
            newest.created_at[:10],
            ", ".join((newest.id, newest.code.label)) if newest.code.commit else newest.id,
        ),
    )
    return Section(trend.anchor, title, (KeyNumbers(numbers), HowToRead((LEVEL, CHANGES))))


def _since(trend: Trend) -> KeyNumber:
    runs, levels = trend.history.runs, trend.level
    first, last = runs[levels[0]["run"]], levels[-1]
    newest, interval = runs[last["run"]], _interval(last)
    if len(levels) < 2:
        return KeyNumber("Time", "one run", f"no earlier run can be compared with {newest.id} in most of its cells")
    return KeyNumber(
        f"Time since {first.created_at[:10]}",
        fmt.change(1 + last["change"]),
        f"{newest.id} over {first.id}, geometric mean of {fmt.plural(last['count'], 'cell')}; above 0: slower"
        + (f"; interval over the cells {interval}" if interval else ""),
        last["change"],
    )


def _proposed(trend: Trend) -> KeyNumber:
    slower, faster = trend.changes
    text, detail = "none", NONE
    if trend.gaps:
        gap, runs = trend.gaps[0], trend.history.runs
        text = f"{slower} slower, {faster} faster"
        place = f"{runs[gap.after].created_at[:10]}, {between(runs[gap.before], runs[gap.after])}"
        detail = f"the latest at {place}: {what_changed(gap.proposals)}"
    return KeyNumber("Proposed changes of cells", text, detail, slower + faster)


def remarks(notes: Sequence[str]) -> tuple[Section, ...]:
    """Return the chapter of what else the history says, if there is anything."""
    said = tuple(f"{note[0].upper()}{note[1:]}." for note in notes)
    return (Section("remarks", "Remarks", (Remarks(said),)),) if said else ()


JOINED = (
    "Times are joined to a series on one device model with one driver, one set of versions and one way of timing; "
    "where one of these changes, another series begins."
)


def runs(trend: Trend, title: str) -> Section:
    """List the runs, the newest first, and what distinguishes the series that they belong to."""
    history = trend.history
    counts = history.points.groupby("run").size()
    columns = (*text_columns("run", "measured", "commit", "branch", "working tree", "subject"), Column("cells"))
    rows = []
    for number in reversed(trend.runs):
        run = history.runs[number]
        tree = ("uncommitted changes" if run.code.dirty else "clean") if run.code.commit else ""
        rows.append(
            (
                trend.run_cell(number),
                *texts(run.created_at, run.code.commit[:SHORTEST], run.code.branch, tree, run.code.subject),
                integer(int(counts[number])),
            )
        )
    name = f"{trend.anchor}-runs"
    has_links = any(row[0].link for row in rows)
    reading = "The name of a run leads to its report." if has_links else ""
    table = Table(f"{name}-table", "Runs, newest first", columns, tuple(rows), reading=reading)
    conditions = Bullets(tuple(f"{line[0].upper()}{line[1:]}" for line in key_lines(history)))
    return Section(name, title, (table,), (Section(f"{name}-series", "Series", (Text(JOINED), conditions)),))

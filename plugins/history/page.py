"""The page of a history: what changed, every cell over the runs, those with the largest change first, and the runs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise, starmap
from typing import Any

import pandas as pd

from ... import __version__
from ...analysis.frames.coordinates import SETTING, shape_label
from ...reports import formatting as fmt
from ...reports.figures.axes import FULL_HEIGHT, linear_axis
from ...reports.figures.chart import Axis, Chart, CrossoverSpan, Draw, Figure, LegendEntry, Point, Series, Spacing, Tick
from ...reports.model import Cells, Column, Report, Section, TableCell, explained, table
from ...shapes.run_folder.manifest import ComparisonState
from .chapters import SHORTEST, changes, letter, series
from .history import History, Proposal
from .run_story import CELL

OPEN = 12
"""Panels that stand open; others are folded."""

TOGETHER = 24
"""Panels of a folded figure."""

MARKED = 24
"""Runs up to which each has a marker."""

CHANGE_STYLE = 2
STYLES = (1, 3, 4, 5, 6, 7)
"""Styles of the series of a cell."""

HOW = (
    "One panel per cell: the time of each run as a change against the first run of its series, oldest run on the left; "
    "above 0 is slower. Bands are 95 % intervals over the rounds of a run. A dashed line is a proposed change of "
    "level, its shade the runs between which it lies with 95 % confidence. Scales differ, and show 5 % at least. "
    "Another series begins where the conditions change, listed under “Series”."
)


def build_page(found: History, states: Mapping[str, ComparisonState], links: Mapping[str, str], raw: bool) -> Report:
    """Lay out the page of a history.

    states  what compare.json says above the folder of a run
    links   folder of a run -> path of its own report, relative to where the page will be
    raw     times are as measured, not over the canary of their run
    """
    facts = {
        "runs": str(len(found.runs)),
        "from": found.runs[0].created_at,
        "to": found.runs[-1].created_at,
        "devices": ", ".join(dict.fromkeys(key["device"] for key in found.keys)),
        "suites": ", ".join(dict.fromkeys(filter(None, (run.suite for run in found.runs)))),
    }
    changed = changes(found, states)
    newest_first = replace(changed, sections=changed.sections[::-1])
    return Report(
        title="History",
        facts=tuple((name, value) for name, value in facts.items() if value),
        sections=(newest_first, explained(_cells(found)), series(found, raw), _runs(found, links)),
        generator=f"rooflens {__version__}",
        source=fmt.plural(len(found.runs), "run"),
        elsewhere="rooflens history --json prints everything.",
    )


def _runs(found: History, links: Mapping[str, str]) -> Section:
    """List the runs, the newest first; the name of one leads to its report if there is one."""
    counts = found.points.groupby("run").size()
    rows: list[Cells] = []
    for number, run in reversed([*enumerate(found.runs)]):
        name = TableCell(run.id, run.id, link=links.get(run.folder, ""))
        tree = ("uncommitted changes" if run.code.dirty else "clean") if run.code.commit else ""
        row: Cells = {"run": name, "measured": run.created_at, "commit": run.code.commit[:SHORTEST]}
        row |= {"branch": run.code.branch, "working tree": tree, "subject": run.code.subject}
        rows.append(row | {Column("cells"): int(counts.get(number, 0))})
    return Section("runs", "Runs", (table("runs-table", "Runs, newest first", rows),))


def _cells(found: History) -> Section:
    """Draw the cells with the largest changes; fold the others."""
    known = found.series.assign(device=[found.keys[key]["device"] for key in found.series["key"]])
    cells = [cell for _, cell in known.groupby([*CELL, "device"], sort=False, dropna=False)]
    varied = [name for name in (*SETTING, "device") if known[name].nunique() > 1]
    points = dict(iter(found.points.groupby("series")))
    runs = {str(device): sorted(set(numbers)) for device, numbers in found.points.groupby("device")["run"]}
    panels = tuple(
        _panel(found, cell, points, runs[str(cell["device"].iat[0])], varied)
        for cell in sorted(cells, key=partial(_rank, found))
    )
    counts = [sum(one.change > 0 for one in found.proposals), sum(one.change < 0 for one in found.proposals)]
    legend = [LegendEntry("change of level", fill=f"s{CHANGE_STYLE}")] * bool(found.proposals)
    if len(cells) < len(known):
        legend += [LegendEntry(f"series {letter(key)}", _style(key), Draw.STROKE) for key in range(len(found.keys))]

    def figure(begin: int, end: int) -> Figure:
        return Figure(
            f"cells-{begin + 1}",
            f"Cells {begin + 1} to {end} of {len(panels)}",
            panels[begin:end],
            how_to_read=HOW,
            alt=f"{fmt.plural(end - begin, 'cell')} over {fmt.plural(len(found.runs), 'run')}; of all cells, "
            "{} changes to slower and {} to faster are proposed".format(*counts),
            legend=tuple(legend),
            multiples=True,
            caption="Largest change first. Change of time against the first run of the series; above 0: slower.",
            detail=begin > 0,
        )

    first, *others = starmap(figure, pairwise([0, *range(OPEN, len(panels), TOGETHER), len(panels)]))
    folded = tuple(Section(f"{one.id}-folded", one.title, (one,), folded=True) for one in others)
    return Section("cells", "Cells", (first,), folded)


def _rank(found: History, cell: pd.DataFrame) -> tuple[float, float]:
    """Order cells: those with proposals first, then by the size of their change."""
    drift = cell["change"].abs().max()
    proposed = (abs(one.change) for one in found.proposals if one.series in cell.index)
    return -max(proposed, default=0.0), -(0.0 if math.isnan(drift) else drift)


def _style(key: int) -> int:
    return STYLES[key % len(STYLES)]


def _panel(
    found: History, cell: pd.DataFrame, points: Mapping[Any, pd.DataFrame], runs: Sequence[int], varied: Sequence[str]
) -> Chart:
    """Draw the series of a cell, rows of `History.series` with their points, over the runs of its device."""
    rows = cell.to_dict("index")
    last = rows[cell.index[-1]]
    at = {run: position for position, run in enumerate(runs)}
    lines, bounds = [], [0.0]
    for number, row in rows.items():
        drawn, band = _points(points[number], row["first_s"], at)
        bounds += [point.y for point in drawn] + [edge for _, low, high in band for edge in (low, high)]
        draw = Draw.LINE if len(at) <= MARKED else Draw.STROKE
        lines.append(Series(f"series {letter(row['key'])}", _style(row["key"]), drawn, draw, band))
    proposals = [one for one in found.proposals if one.series in rows]
    label = ", ".join((last["provider"], f"M = {last['M']}", shape_label(last), *(last[name] for name in varied)))
    corner = "; ".join(filter(None, (_latest(last), last["failed"], *map(_said, proposals))))
    dates = tuple(found.runs[number].created_at[:10] for number in (runs[0], runs[-1]))
    return Chart(
        title=label,
        x=_runs_axis(len(runs) - 1, *dates),
        y=_change_axis(min(bounds), max(bounds)),
        series=tuple(lines),
        spans=tuple(_span(one, at) for one in proposals),
        corner=corner,
        level=0.0,
        alt=f"{label}: {corner}",
    )


def _points(
    rows: pd.DataFrame, first_s: float, at: Mapping[int, int]
) -> tuple[tuple[Point, ...], tuple[tuple[float, float, float], ...]]:
    """Return changes against the first run of the series, and their intervals where they are known."""
    names = ("run", "time_s", "time_low_s", "time_high_s", "value_s")
    drawn, band = [], []
    for run, time_s, low_s, high_s, value_s in zip(*(rows[name].tolist() for name in names), strict=True):
        x, over = float(at[run]), value_s / time_s / first_s  # the canary is in the value alone
        drawn.append(Point(x, time_s * over - 1))
        if math.isfinite(low_s) and math.isfinite(high_s):
            band.append((x, low_s * over - 1, high_s * over - 1))
    return tuple(drawn), tuple(band)


def _latest(row: Mapping[Any, Any]) -> str:
    change = f", {fmt.change(1 + row['change'])} since its first run" if row["runs"] > 1 else ""
    return f"{fmt.time(row['last_s'])}{change}"


def _said(one: Proposal) -> str:
    return f"step {fmt.change(1 + one.change, 1 + one.low, 1 + one.high)}"


def _span(one: Proposal, at: Mapping[int, int]) -> CrossoverSpan:
    """Mark a change halfway between two runs, and the runs between which it may lie."""
    middle = (at[one.before] + at[one.after]) / 2
    return CrossoverSpan("change of level", CHANGE_STYLE, middle, float(at[one.earliest]), float(at[one.latest]))


def _runs_axis(last: int, first_date: str, last_date: str) -> Axis:
    """Axis of the runs in their order, with the dates of the first and the last one."""
    room = max(0.5, 0.22 * last)  # for half a date on each side
    return Axis("run", -room, last + room, (Tick(0, first_date), Tick(last, last_date)), Spacing.LINEAR)


def _change_axis(low: float, high: float) -> Axis:
    edge = max(high - low, FULL_HEIGHT) / 2 * 1.1
    middle = (low + high) / 2
    return linear_axis(middle - edge, middle + edge, fmt.tick_change, "change", 4)

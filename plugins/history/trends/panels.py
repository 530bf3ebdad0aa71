"""Every cell over the runs: a panel each, those with the largest change first."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeAlias

import pandas as pd

from ....reports import formatting as fmt
from ....reports.figures.axes import FULL_HEIGHT, linear_axis
from ....reports.figures.chart import (
    Axis,
    Chart,
    CrossoverSpan,
    Draw,
    Figure,
    LegendEntry,
    Point,
    Series,
    Spacing,
    Tick,
)
from ....reports.model import Column, Section, Table, TableCell, integer, number_columns, text_columns, texts
from ..history import Proposal
from ..run_story import CELL
from ..terms import letter
from .subject import Trend

OPEN = 12
"""Panels that stand open; others are folded."""

TOGETHER = 24
"""Panels of a folded figure."""

MARKED = 24
"""Runs up to which each has a marker."""

CHANGE_STYLE = 2
STYLES = (1, 3, 4, 5, 6, 7)
"""Styles of the series of a cell."""

DRAWN = ("run", "time_s", "time_low_s", "time_high_s", "value_s")

Points: TypeAlias = Mapping[Any, pd.DataFrame]
"""Rows of `History.points` by the position of their series, with the columns DRAWN."""

HOW = (
    "One panel per cell: the time of each run as a change against the first run of its series, oldest run on the left; "
    "above 0 is slower. Bands are 95 % intervals over the rounds of a run. A dashed line is a proposed change of "
    "level, its shade the runs between which it lies with 95 % confidence. Scales differ, and show 5 % at least. "
    "Another series begins where the conditions change, listed under “Runs”."
)


def panels(trend: Trend, title: str) -> Section:
    """Draw the cells with the largest changes; fold the others, and the table of all."""
    cells = _ordered(trend)
    points = dict(iter(trend.history.points.groupby("series")[[*DRAWN]]))
    name = f"{trend.anchor}-cells"
    begins = [0, *range(OPEN, len(cells), TOGETHER), len(cells)]
    first, *others = (
        _figure(trend, points, cells[begin:end], f"{name}-{begin + 1}", f"Cells {begin + 1} to {end} of {len(cells)}")
        for begin, end in pairwise(begins)
    )
    folded = tuple(Section(f"{one.id}-folded", one.title, (replace(one, detail=True),), folded=True) for one in others)
    return Section(name, title, (first, _table(trend, points, cells)), folded)


def _ordered(trend: Trend) -> list[list[int]]:
    """Positions of the series of each cell: cells with proposals first, then by the size of their change."""
    series = trend.history.series
    proposed: dict[int, float] = {}
    for one in trend.history.proposals:
        proposed[one.series] = max(proposed.get(one.series, 0.0), abs(one.change))

    def rank(numbers: list[int]) -> tuple[float, float]:
        drift = series.loc[numbers, "change"].abs().max()
        return -max(proposed.get(number, 0.0) for number in numbers), -(0.0 if math.isnan(drift) else drift)

    groups = [found.index.tolist() for _, found in series.groupby([*CELL], sort=False, dropna=False)]
    return sorted(groups, key=rank)


def _figure(trend: Trend, points: Points, cells: Sequence[list[int]], name: str, title: str) -> Figure:
    series = trend.history.series
    keys = sorted({int(key) for numbers in cells for key in series["key"].loc[numbers]})
    legend = [LegendEntry("change of level", fill=f"s{CHANGE_STYLE}")] * any(trend.changes)
    several = any(len(numbers) > 1 for numbers in cells)
    legend += [LegendEntry(f"series {letter(key)}", _style(key), Draw.STROKE) for key in keys] if several else []
    slower, faster = trend.changes
    return Figure(
        name,
        title,
        tuple(_panel(trend, points, numbers) for numbers in cells),
        how_to_read=HOW,
        alt=f"{fmt.plural(len(cells), 'cell')} over {fmt.plural(len(trend.runs), 'run')}; of all cells, {slower} "
        f"changes to slower and {faster} to faster are proposed",
        legend=tuple(legend),
        multiples=True,
        caption="Largest change first. Change of time against the first run of the series; above 0: slower.",
    )


def _style(key: int) -> int:
    return STYLES[key % len(STYLES)]


def _panel(trend: Trend, points: Points, numbers: Sequence[int]) -> Chart:
    history = trend.history
    at = {run: position for position, run in enumerate(trend.runs)}
    lines, bounds = [], [0.0]
    for number in numbers:
        row = history.series.loc[number].to_dict()
        drawn, band = _points(points[number], row["first_s"], at)
        bounds += [point.y for point in drawn] + [edge for _, low, high in band for edge in (low, high)]
        draw = Draw.LINE if len(at) <= MARKED else Draw.STROKE
        lines.append(Series(f"series {letter(row['key'])}", _style(row["key"]), drawn, draw, band))
    proposals = [one for one in history.proposals if one.series in numbers]
    last = history.series.loc[numbers[-1]].to_dict()
    label = trend.cell_label(last)
    corner = "; ".join((_latest(last), *map(_said, proposals)))
    return Chart(
        title=label,
        x=_runs_axis(trend),
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
    drawn, band = [], []
    for run, time_s, low_s, high_s, value_s in zip(*(rows[name].tolist() for name in DRAWN), strict=True):
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


def _runs_axis(trend: Trend) -> Axis:
    """Axis of the runs in their order, with the dates of the first and the last one."""
    runs = trend.runs
    last = len(runs) - 1
    dates = [trend.history.runs[number].created_at[:10] for number in (runs[0], runs[-1])]
    room = max(0.5, 0.22 * last)  # for half a date on each side
    return Axis("run", -room, last + room, (Tick(0, dates[0]), Tick(last, dates[1])), Spacing.LINEAR)


def _change_axis(low: float, high: float) -> Axis:
    edge = max(high - low, FULL_HEIGHT) / 2 * 1.1
    middle = (low + high) / 2
    return linear_axis(middle - edge, middle + edge, fmt.tick_change, "change", 4)


def _table(trend: Trend, points: Points, cells: Sequence[list[int]]) -> Table:
    columns = (
        *text_columns("cell", "trend"),
        Column("runs"),
        *number_columns("first", "latest"),
        Column("change", "%"),
        Column("proposed changes"),
        *text_columns("series", "remark"),
    )
    rows = tuple(_row(trend, number, points[number]["value_s"]) for numbers in cells for number in numbers)
    return Table(f"{trend.anchor}-all", f"All {len(rows)} series as a table", columns, rows, detail=True)


def _row(trend: Trend, number: int, values: "pd.Series[float]") -> tuple[TableCell, ...]:
    row = trend.history.series.loc[number].to_dict()
    return (
        TableCell(trend.cell_label(row)),
        TableCell("", curve=tuple((values / row["first_s"] - 1).tolist())),
        integer(row["runs"]),
        TableCell(fmt.time(row["first_s"]), row["first_s"]),
        TableCell(fmt.time(row["last_s"]), row["last_s"]),
        TableCell(fmt.signed_percent(row["change"]), row["change"]),
        integer(sum(one.series == number for one in trend.history.proposals)),
        *texts(letter(row["key"]), row["failed"]),
    )

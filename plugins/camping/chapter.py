"""A scan of N or K: time against size, with what stands out of its neighbours and the periods that are slow."""

import math
from collections.abc import Iterator, Sequence
from functools import partial

import pandas as pd

from ...analysis.frames.coordinates import SETTING
from ...analysis.frames.deciding import deciding
from ...reports import formatting as fmt
from ...reports.figures.axes import decade_axis, linear_axis, size_axis
from ...reports.figures.chart import Axis, Chart, CrossoverSpan, Data, Draw, Figure, LegendEntry, Point, Series
from ...reports.figures.marks import GREY
from ...reports.model import Section, Text
from ...reports.view import Row, Slice, View, anchors, sliced
from .find import Camping, find
from .points import GRID, SHAPES
from .resonance import LEVEL, MIN_POINTS

HOW = (
    "Time of one launch against {axis}, at {fixed}. Without camping a dot lies near its neighbours. A ring is a size "
    "that takes over 1.10 times as long as the sizes on both sides of it, and that waves, tiles and configurations do "
    "not explain. {period}"
)
PERIOD_HOW = f"A dotted line is a multiple of a period that is slow as a whole (false discovery rate {LEVEL:.0%}). "

LINEAR_UP_TO = 6.0
"""Ratio of the longest time to the shortest up to which an axis of time is linear: on it an excess is a height."""

HEIGHT = 0.5
STEEPEST_NAMES = 200
"""Sizes of a chart up to which each can be pointed at."""

PERIOD_STYLE, OUT_STYLE = GREY, 0
"""Grey, which is no provider's own, and ink for the rings."""

_FIGURE = ("op", "B", "E", "top_k", "axis", "fixed", "M")
"""What the charts of one figure have in common, within a slice; they differ in provider."""


def resonance(view: View) -> Section | None:
    """Draw every series that was searched for periods; None for a run without a scan."""
    if not _has_a_scan(view):
        return None
    found = find(view.cells, view.analysis.rounds, view.run.cells)
    if found.scans.empty:
        return None
    left, every = (int(found.coverage[name].sum()) for name in ("impossible", "cells"))
    told = (Text(f"{fmt.count(left, every)} cells are excluded, faster than the device allows."),) if left else ()
    title = "Scan for sizes at which memory stalls"
    return sliced("resonance", title, view.slices, partial(_slice, view, found), told)


def _has_a_scan(view: View) -> bool:
    """True where a shape has enough sizes of N or of K: looking costs time that most runs need not spend."""
    passed = deciding(view.cells)
    pairs = (("N", "K"), ("K", "N"))
    return any((passed.groupby(["B", "E", fixed])[axis].nunique() >= MIN_POINTS).any() for axis, fixed in pairs)


def _slice(view: View, found: Camping, part: Slice) -> Iterator[Figure]:
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in view.rows(found.scans, part):
        groups.setdefault(tuple(row[name] for name in _FIGURE), []).append(row)
    names = tuple(f"{row[4]}-{row[5]}-M{row[6]}" for row in groups)
    placed = zip(groups.values(), anchors(f"resonance-{part.id}", names), strict=True)
    for at, (rows, (_, anchor)) in enumerate(placed):
        yield _figure(view, found, part, rows, anchor, part.is_later or at > 0)


def _figure(view: View, found: Camping, part: Slice, scans: list[Row], anchor: str, detail: bool) -> Figure:
    order = {name: at for at, name in enumerate((*view.others, view.baseline))}
    ordered = sorted(scans, key=lambda row: order[str(row["provider"])])
    axis, other = str(ordered[0]["axis"]), "K" if ordered[0]["axis"] == "N" else "N"
    sizes = found.sizes.loc[
        (found.sizes["axis"] != SHAPES) & found.sizes["series"].isin([r["series"] for r in ordered])
    ]
    x = size_axis([int(size) for size in sizes["size"]], axis)
    charts = tuple(
        _chart(view, row, sizes[sizes["series"] == row["series"]], found.periods, x, last=row is ordered[-1])
        for row in ordered
    )
    fixed = f"{other}={ordered[0]['fixed']}, M={ordered[0]['M']}"
    has_period = any(chart.spans for chart in charts)
    legend = [LegendEntry(str(row["provider"]), view.styles[str(row["provider"])], Draw.DOTS) for row in ordered]
    if any(series.draw is Draw.RINGS for chart in charts for series in chart.series):
        legend.append(LegendEntry("stands out of its neighbours", OUT_STYLE, Draw.RINGS))
    return Figure(
        anchor,
        f"Time against {axis} at {fixed} ({part.title})",
        charts,
        how_to_read=HOW.format(axis=axis, fixed=fixed, period=PERIOD_HOW if has_period else "").strip(),
        alt=f"Scan of {axis} at {fixed}. " + "; ".join(chart.alt for chart in charts),
        legend=tuple(legend),
        detail=detail,
        data=_data(sizes),
    )


def _chart(view: View, scan: Row, sizes: pd.DataFrame, periods: pd.DataFrame, x: Axis, last: bool) -> Chart:
    provider = str(scan["provider"])
    style = view.styles[provider]
    rows = sizes.to_dict("records")
    times = [float(row["time_s"]) for row in rows]
    y = _time_axis(min(times), max(times))
    named = len(rows) <= STEEPEST_NAMES
    out = [row for row in rows if row["stands_out"]]
    series = [
        Series(
            "stands out",
            OUT_STYLE,
            tuple(
                Point(row["size"], row["time_s"], label=f"{row['size']}: {fmt.ratio(math.exp(row['over']))}")
                for row in out
            ),
            Draw.RINGS,
        )
    ]
    points = tuple(Point(row["size"], row["time_s"], name=_name(row) if named else "") for row in rows)
    series.append(Series(provider, style, points, Draw.DOTS))
    series.append(Series(provider, style, tuple(Point(point.x, point.y) for point in points), Draw.STROKE))
    own = periods.loc[periods["series"] == scan["series"]].to_dict("records")
    said = _said(scan, own, len(out))
    axis = x if last else Axis("", x.low, x.high, x.ticks, x.spacing)
    return Chart(
        title=provider,
        x=axis,
        y=y,
        series=tuple(one for one in series if one.points),
        spans=tuple(CrossoverSpan("period", PERIOD_STYLE, float(size)) for row in own for size in row["sizes"]),
        corner=said,
        alt=f"{provider}: {said}",
        height=HEIGHT,
    )


def _time_axis(least: float, most: float) -> Axis:
    if most > LINEAR_UP_TO * least:
        return decade_axis(least / 1.2, most * 1.2, fmt.tick_time, "time", labels=6)
    edge = max(0.12 * (most - least), 0.05 * least)
    return linear_axis(max(0.0, least - edge), most + edge, fmt.tick_time, "time", labels=6)


def _name(row: Row) -> str:
    known = not math.isnan(row["workgroups"])
    groups = f", {fmt.plural(int(row['workgroups']), 'workgroup')}" if known else ""
    over = "" if math.isnan(row["over"]) else f", {fmt.ratio(math.exp(row['over']))} of the slower side"
    explained = ", explained by waves or tiles" if row["explained"] else ""
    return f"{row['axis']}={row['size']}: {fmt.time(row['time_s'])}{groups}{over}{explained}"


def _said(scan: Row, periods: Sequence[Row], out: int) -> str:
    alone = f"{fmt.plural(out, 'size')} of {scan['points']} {'stands' if out == 1 else 'stand'} out" if out else ""
    if periods:
        slow = ", ".join(f"{_period(row)} take {fmt.ratio(row['ratio'])} (p = {row['p']:.2g})" for row in periods)
        return "; ".join(filter(None, (alone, f"multiples of {slow}")))
    least, most = (fmt.change(math.exp(scan[name])) for name in ("detectable", "hardest"))
    none = f"no slow period (p = {scan['p']:.2g}; {least}, of some {most}, would have been found)"
    return f"{alone or 'no size stands out'}; {none}"


def _period(row: Row) -> str:
    return str(row["period"]) if row["period"] else f"{GRID} workgroups"


def _data(sizes: pd.DataFrame) -> Data:
    """Give every size with its excess over the slower side as a ratio; what is unknown is empty."""
    names = ("provider", *SETTING, "axis", "size", "fixed", "M", "time_s", "expected_s", "workgroups")
    rows = [
        (
            *(row[name] for name in names),
            math.exp(row["over"]),
            *(str(bool(row[name])).lower() for name in ("on_grid", "stands_out", "explained")),
            row["period"],
        )
        for row in sizes.to_dict("records")
    ]
    return Data((*names, "ratio_to_slower_side", "on_grid", "stands_out", "explained", "period"), tuple(rows))

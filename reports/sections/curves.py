"""Figures of time and speedup against M: one panel per shape, and the median over shapes."""

import math

import pandas as pd

from ...analysis.crossover import Status
from .. import formatting as fmt
from ..axes import m_axis, octave_axis, time_axis, with_room
from ..chart import Chart, Figure, LegendEntry, Point, Series, Span
from ..model import Section, Text
from ..view import Row, ShapeKey, Slice, View, chapter, shape_of
from .crossover import position_cell

PANELS_HOW = (
    "Time of one launch against M, both logarithmic; lower is faster. A decade has the same height in every panel, but each "
    "panel has its own range. {crossover}A missing marker is a cell without a time."
)
CROSSOVER_HOW = (
    "The dotted line is the crossover of {challenger} with {baseline}, the shaded band its interval; a band that reaches the "
    "edge is open on that side. "
)
MEDIAN_HOW = (
    "Each line is the median over shapes of the time of {baseline} divided by the time of that provider; the band holds the "
    "middle half of the shapes (between the quartiles). Above the line at 1× a provider is faster than {baseline} on most "
    "shapes. A point counts the shapes for which both have a time."
)


def curves(view: View) -> Section:
    """Build both figures for every slice."""
    parts = tuple(_slice(view, part, number) for number, part in enumerate(view.slices))
    if not any(part.blocks for part in parts):
        return Section("curves", "Time against M", (Text("No cell has a time, so there is nothing to draw."),))
    return chapter("curves", "Time against M", (), parts)


def _slice(view: View, part: Slice, number: int) -> Section:
    detail = number > 0
    figures = [figure for figure in (_medians(view, part, detail), _panels(view, part, detail)) if figure is not None]
    return Section(f"curves-{part.id}", part.title, tuple(figures), folded=detail)


def _legend(view: View, providers: list[str]) -> tuple[LegendEntry, ...]:
    return tuple(LegendEntry(name, view.styles[name]) for name in providers)


def _panels(view: View, part: Slice, detail: bool) -> Figure | None:
    timed = [row for row in view.rows(view.cells, part) if not math.isnan(row["time_s"])]
    if not timed:
        return None
    by_shape: dict[ShapeKey, list[Row]] = {}
    for row in timed:
        by_shape.setdefault(shape_of(row), []).append(row)
    ranges = {
        shape: (min(r["time_s"] for r in rows), max(r["time_s"] for r in rows)) for shape, rows in by_shape.items()
    }
    decades = max(math.log10(high / low) for low, high in ranges.values())
    sizes = sorted({int(row["M"]) for row in timed})
    providers = [name for name in (view.baseline, *view.others) if name in {row["provider"] for row in timed}]
    crossed = {
        (shape_of(row), row["challenger"]): row
        for challenger in view.challengers
        for row in view.rows(view.crossovers, part, challenger=challenger)
    }
    charts = []
    for shape in (shape for shape in view.shapes if shape in by_shape):
        series = tuple(
            Series(name, view.styles[name], points) for name in providers if (points := _points(by_shape[shape], name))
        )
        rows = [crossed[shape, name] for name in view.challengers if (shape, name) in crossed]
        found = position_cell(rows[0]).text if rows else ""
        charts.append(
            Chart(
                title=shape.label,
                x=m_axis(sizes, "M"),
                y=time_axis(*ranges[shape], decades),
                series=series,
                spans=tuple(_span(view, row) for row in rows if Status(row["status"]) is not Status.UNMEASURED),
                corner=f"{shape.size} · crossover {found}" if found else shape.size,
                alt=_panel_alt(shape, rows, by_shape[shape]),
            )
        )
    how = PANELS_HOW.format(
        crossover=CROSSOVER_HOW.format(challenger=" and ".join(view.challengers), baseline=view.baseline)
        if crossed
        else ""
    )
    alt = f"Time against M of {fmt.plural(len(providers), 'provider')} for {fmt.plural(len(charts), 'shape')}, {part.title}"
    return Figure(
        f"panels-{part.id}",
        f"Time against M, one panel per shape ({part.title})",
        tuple(charts),
        how_to_read=how,
        alt=f"{alt}. {charts[0].alt}" if len(charts) == 1 else alt,
        legend=_legend(view, providers),
        multiples=True,
        detail=detail,
    )


def _points(rows: list[Row], provider: str) -> tuple[Point, ...]:
    mine = sorted((row for row in rows if row["provider"] == provider), key=lambda row: int(row["M"]))
    return tuple(Point(int(row["M"]), float(row["time_s"])) for row in mine)


def _span(view: View, row: Row) -> Span:
    low, high = float(row["low_M"]), float(row["high_M"])
    at = float(row["crossover_M"])
    open_ended = (low <= 0 and math.isinf(high)) or Status(row["status"]) in (Status.NEVER, Status.ALWAYS)
    return Span(
        str(row["challenger"]),
        view.styles.get(str(row["challenger"]), 1),
        None if math.isnan(at) else at,
        None if open_ended or low <= 0 else low,
        None if open_ended or math.isinf(high) else high,
    )


def _panel_alt(shape: ShapeKey, crossings: list[Row], rows: list[Row]) -> str:
    """State the finding of one panel: the crossover, or who is fastest at the smallest and the largest M."""
    if crossings and (text := position_cell(crossings[0]).text) not in ("", "none"):
        found = f"crossover of {crossings[0]['challenger']} with {crossings[0]['incumbent']}: {text}"
    else:
        first, last = (
            min((r for r in rows if r["M"] == m), key=lambda r: float(r["time_s"]))
            for m in (min(r["M"] for r in rows), max(r["M"] for r in rows))
        )
        found = f"fastest at M={first['M']}: {first['provider']}"
        found += f"; at M={last['M']}: {last['provider']}" if last["M"] != first["M"] else ""
    return f"{shape.label} ({shape.size}): {found}"


def _medians(view: View, part: Slice, detail: bool) -> Figure | None:
    ratios = pd.DataFrame(view.rows(view.ratios, part))
    known = ratios.dropna(subset=["ratio"]) if len(ratios) else ratios
    if known.empty or known["model"].add(known["layer"]).nunique() < 3:
        return None
    series, findings = [], []
    for name in (name for name in view.others if name in set(known["provider"])):
        groups = known[known["provider"] == name].groupby("M")["ratio"]
        stats = groups.quantile([0.25, 0.5, 0.75]).unstack()
        counts = groups.size()
        points = tuple(
            Point(
                float(m),
                float(row[0.5]),
                name=f"{name}, M={m}: median {fmt.ratio(row[0.5])}, quartiles {fmt.ratio(row[0.25])} and "
                f"{fmt.ratio(row[0.75])}, {fmt.plural(int(counts[m]), 'shape')}",
                label=name if number == len(stats) - 1 else "",
            )
            for number, (m, row) in enumerate(stats.iterrows())
        )
        band = tuple((float(m), float(row[0.25]), float(row[0.75])) for m, row in stats.iterrows())
        series.append(Series(name, view.styles[name], points, band=band if name in view.challengers else ()))
        if name in view.challengers:
            findings.append(
                f"{name} {fmt.ratio(points[0].y)} at M={points[0].x:g} and {fmt.ratio(points[-1].y)} at M={points[-1].x:g}"
            )
    values = [
        y for line in series for y in (*(p.y for p in line.points), *(v for _, a, b in line.band for v in (a, b)))
    ]
    sizes = sorted({int(m) for m in known["M"]})
    chart = Chart(
        title=f"Median speedup over {view.baseline}",
        x=with_room(m_axis(sizes, labels=12), right=max(len(line.label) for line in series)),
        y=octave_axis(min(*values, 1) / 1.15, max(*values, 1) * 1.15, fmt.tick_ratio, f"speedup over {view.baseline}"),
        series=tuple(series),
        level=1.0,
        alt=f"Median speedup over {view.baseline} against M: " + "; ".join(findings or [line.label for line in series]),
    )
    return Figure(
        f"median-{part.id}",
        f"Median speedup over {view.baseline} against M ({part.title})",
        (chart,),
        how_to_read=MEDIAN_HOW.format(baseline=view.baseline),
        alt=chart.alt,
        legend=_legend(view, [line.label for line in series]),
        detail=detail,
    )

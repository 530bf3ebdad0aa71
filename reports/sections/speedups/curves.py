"""Figures of time and speedup against M: one panel per shape, and the median over shapes."""

import math
from collections.abc import Sequence, Set

import numpy as np

from ... import formatting as fmt
from ...cells import is_impossible, position_cell
from ...figures.axes import m_axis, octave_axis, time_axis, with_room
from ...figures.chart import Axis, Bar, Chart, CrossoverSpan, Data, Draw, Figure, Point, Series
from ...figures.marks import provider_legend
from ...model import Section, Text
from ...view import Row, ShapeKey, Slice, View, shape_of, sliced

SAME_SHAPES = 0.5
"""Share of the shapes of two M that both must have for a line to join their medians."""

PANELS_HOW = (
    "Time of one launch against M, both logarithmic; lower is faster. A decade has the same height in every panel, "
    "but each panel has its own range. {crossover}{refined}A missing marker is a cell without a time."
)
CROSSOVER_HOW = (
    "In the shaded band the faster one of {challenger} and {baseline} changes; the dotted line estimates where. "
)
REFINED_HOW = "Markers between two grid lines are M that the refinement added. "
MEDIAN_HOW = (
    "Each line is the median over shapes of the time of {baseline} divided by the time of that provider. {band}Above "
    "the line at 1× a provider is faster than {baseline} on most shapes. A point counts the shapes for which both "
    "have a time; a line breaks between M that have fewer than half of their shapes in common.{added}"
)
ADDED_HOW = (
    " A dot without a line is one shape, at an M that the refinement added for it alone: near its crossover, and in no "
    "median."
)


def curves(view: View) -> Section:
    """Build both figures for every slice."""
    title = "Time against M"
    drawn = sliced("curves", title, view.slices, lambda part: (_medians(view, part), _panels(view, part)))
    return drawn or Section("curves", title, (Text("No cell has a time, so there is nothing to draw."),))


def _panels(view: View, part: Slice) -> Figure | None:
    by_shape: dict[ShapeKey, list[Row]] = {}
    for row in view.rows(view.measured, part):
        if not math.isnan(row["time_s"]):
            by_shape.setdefault(shape_of(row), []).append(row)
    if not by_shape:
        return None
    timed = [row for rows in by_shape.values() for row in rows]
    present = {row["provider"] for row in timed}
    providers = [name for name in (view.baseline, *view.others) if name in present]
    crossed: dict[ShapeKey, list[Row]] = {}
    for challenger in view.challengers:
        for row in view.rows(view.analysis.crossovers, part, challenger=challenger):
            if not math.isnan(row["crossover_M"]):
                crossed.setdefault(shape_of(row), []).append(row)
    decades = max(math.log10(high / low) for low, high in map(_range, by_shape.values()))
    # Ticks are those of the sweep: what a refinement added lies close together, between two of them.
    x = m_axis([int(row["M"]) for row in timed if not row["refined"]], "M")
    models = {shape.model for shape in by_shape}  # one that all share is named once, to leave room for the layers
    charts = tuple(
        _panel(view, shape, by_shape[shape], crossed.get(shape, []), x, decades, named=len(models) > 1)
        for shape in view.shapes
        if shape in by_shape
    )
    crossover_how = CROSSOVER_HOW.format(challenger=" and ".join(view.challengers), baseline=view.baseline)
    return Figure(
        f"panels-{part.id}",
        f"Time against M, one panel per shape{f' of {models.pop()}' if len(models) == 1 else ''} ({part.title})",
        charts,
        how_to_read=PANELS_HOW.format(
            crossover=crossover_how if crossed else "",
            refined=REFINED_HOW if any(row["refined"] for row in timed) else "",
        ),
        alt=_panels_alt(part, charts, providers, [rows[0] for rows in crossed.values()]),
        legend=provider_legend(providers, view.styles),
        multiples=True,
        detail=part.is_later,
        data=_panels_data(view, timed, crossed),
    )


def _panels_data(view: View, rows: list[Row], crossed: dict[ShapeKey, list[Row]]) -> Data:
    """Every time that is drawn with its interval, beside the crossover of the provider at that shape."""
    at = {
        (shape, str(row["challenger"])): tuple(_finite(row[name]) for name in ("crossover_M", "low_M", "high_M"))
        for shape, found in crossed.items()
        for row in found
    }
    names = ("provider", "model", "layer", "B", "E", "N", "K", "M")
    times = ("time_s", "time_low_s", "time_high_s")
    order = {name: number for number, name in enumerate((view.baseline, *view.others))}
    return Data(
        (*names, *times, "crossover_M", "crossover_low_M", "crossover_high_M"),
        tuple(
            (
                *(row[name] for name in names),
                *(_finite(row[name]) for name in times),
                *at.get((shape_of(row), str(row["provider"])), (None, None, None)),
            )
            for row in sorted(rows, key=lambda row: order[str(row["provider"])])
        ),
    )


def _finite(value: float) -> float | None:
    """A number that can be written down; None for an end that is open."""
    return float(value) if math.isfinite(value) else None


def _panel(
    view: View, shape: ShapeKey, rows: list[Row], crossed: list[Row], x: Axis, decades: float, named: bool
) -> Chart:
    lines = ((name, _points(rows, name)) for name in (view.baseline, *view.others))
    found = position_cell(crossed[0]).text if crossed else ""
    return Chart(
        title=shape.label if named else shape.layer,
        x=x,
        y=time_axis(*_range(rows), decades),
        series=tuple(Series(name, view.styles[name], points) for name, points in lines if points),
        spans=tuple(_span(view, row) for row in crossed),
        corner=f"{shape.size} · crossover {found}" if found else shape.size,
        alt=_panel_alt(shape, crossed, rows),
    )


def _range(rows: list[Row]) -> tuple[float, float]:
    times = [float(row["time_s"]) for row in rows]
    return min(times), max(times)


def _panels_alt(part: Slice, charts: Sequence[Chart], providers: list[str], crossings: list[Row]) -> str:
    """State the finding of all panels: between which M the first challenger crosses."""
    if len(charts) == 1:
        return charts[0].alt
    what = f"Time against M of {fmt.plural(len(providers), 'provider')}, {part.title}"
    at = sorted(float(row["crossover_M"]) for row in crossings)
    if not at:
        return f"{what}, {fmt.plural(len(charts), 'shape')}; no crossover inside the measured range"
    pair = f"{crossings[0]['challenger']} with {crossings[0]['incumbent']}"
    span = f"from {fmt.crossover(at[0])} to {fmt.crossover(at[-1])}" if len(at) > 1 else f"at {fmt.crossover(at[0])}"
    return f"{what}. Crossovers of {pair} lie {span} in {fmt.count(len(at), len(charts))} shapes"


def _points(rows: list[Row], provider: str) -> tuple[Point, ...]:
    mine = sorted((row for row in rows if row["provider"] == provider), key=lambda row: int(row["M"]))
    return tuple(Point(int(row["M"]), float(row["time_s"])) for row in mine)


def _span(view: View, row: Row) -> CrossoverSpan:
    name = str(row["challenger"])
    ends = (float(row[column]) for column in ("crossover_M", "low_M", "high_M"))
    return CrossoverSpan(name, view.styles.get(name, 1), *ends)


def _panel_alt(shape: ShapeKey, crossings: list[Row], rows: list[Row]) -> str:
    """State the finding of one panel: the crossover, or who is fastest at the smallest and the largest M."""
    if crossings:
        pair = f"{crossings[0]['challenger']} with {crossings[0]['incumbent']}"
        found = f"crossover of {pair}: {position_cell(crossings[0]).text}"
    elif not (possible := [row for row in rows if not is_impossible(row)]):
        found = "every time is faster than the device allows"
    else:
        first, last = (
            min((r for r in possible if r["M"] == m), key=lambda r: float(r["time_s"]))
            for m in (min(r["M"] for r in possible), max(r["M"] for r in possible))
        )
        found = f"fastest at M={first['M']}: {first['provider']}"
        found += f"; at M={last['M']}: {last['provider']}" if last["M"] != first["M"] else ""
    return f"{shape.label} ({shape.size}): {found}"


def _medians(view: View, part: Slice) -> Figure | None:
    """Draw the median over shapes for each provider; with fewer than three shapes there is nothing to take one of."""
    known, added = (
        [row for row in view.rows(frame, part) if not math.isnan(row["ratio"])]
        for frame in (view.ratios, view.added_ratios)
    )
    if len({shape_of(row) for row in known}) < 3:
        return None
    series = [
        piece
        for name in view.others
        for piece in _median_lines(view, name, [row for row in known if row["provider"] == name])
    ]
    names = list(dict.fromkeys(line.label for line in series))
    dots = [_added(view, name, [row for row in added if row["provider"] == name]) for name in names]
    findings, bars = [], []
    for name in names:
        points = [point for line in series if line.label == name for point in line.points]
        if name in view.challengers or not view.challengers:
            ends = dict.fromkeys((points[0], points[-1]))
            mine = [row for row in known if row["provider"] == name]
            bars += [Bar(f"{name} M={point.x:g}", _written(point, mine), point.y) for point in points]
            findings.append(f"{name} " + ", ".join(f"{_written(point, mine)} at M={point.x:g}" for point in ends))
    banded = [line.label for line in series if line.band]
    band = f"The band holds the middle half of the shapes for {banded[0]} (between the quartiles). " if banded else ""
    title = f"Median speedup over {view.baseline} against M"
    dots = [line for line in dots if line.points]
    chart = speedup_chart(
        title, series, f"speedup over {view.baseline}", f"{title}: {'; '.join(findings or names)}", dots
    )
    return Figure(
        f"median-{part.id}",
        f"{title} ({part.title})",
        (chart,),
        how_to_read=MEDIAN_HOW.format(baseline=view.baseline, band=band, added=ADDED_HOW if added else ""),
        alt=chart.alt,
        legend=provider_legend(names, view.styles),
        detail=part.is_later,
        data=_medians_data(known, added, names),
        bars=tuple(bars),
    )


def speedup_chart(title: str, lines: Sequence[Series], label: str, alt: str, dots: Sequence[Series] = ()) -> Chart:
    """Draw speedups against M, with a level line at 1; the ticks are those M at which a line has a point."""
    drawn = [1.0, *(point.y for line in (*lines, *dots) for point in line.points)]
    drawn += [value for line in lines for _, low, high in line.band for value in (low, high)]
    sizes = sorted({point.x for line in lines for point in line.points})
    return Chart(
        title=title,
        x=with_room(m_axis(sizes, labels=12), right=max(len(line.label) for line in lines)),
        y=octave_axis(min(drawn) / 1.15, max(drawn) * 1.15, fmt.tick_ratio, label),
        series=(*lines, *dots),
        level=1.0,
        alt=alt,
    )


def _added(view: View, provider: str, rows: list[Row]) -> Series:
    """The ratios of single shapes at the M that a refinement added for them."""
    points = tuple(
        Point(
            int(row["M"]),
            float(row["ratio"]),
            name=f"{provider}, {shape_of(row).label} {shape_of(row).size}, M={row['M']}: "
            f"{fmt.ratio(row['ratio'], row['ratio_low'], row['ratio_high'])}, added by the refinement",
        )
        for row in rows
    )
    return Series(provider, view.styles[provider], points, draw=Draw.DOTS)


def _written(point: Point, rows: list[Row]) -> str:
    """Write a median with the digits of the shape that is nearest to it."""
    near = min((row for row in rows if row["M"] == point.x), key=lambda row: abs(float(row["ratio"]) - point.y))
    scale = point.y / float(near["ratio"])
    return fmt.ratio(point.y, float(near["ratio_low"]) * scale, float(near["ratio_high"]) * scale)


def _medians_data(rows: list[Row], added: list[Row], providers: list[str]) -> Data:
    """Quartiles of the speedups at each M, with the number of shapes; then what was added, one shape per row."""
    found: dict[tuple[str, int], list[float]] = {}
    for row in rows:
        found.setdefault((str(row["provider"]), int(row["M"])), []).append(float(row["ratio"]))
    ordered = sorted(found.items(), key=lambda item: (providers.index(item[0][0]), item[0][1]))
    single = [((str(row["provider"]), int(row["M"])), [float(row["ratio"])]) for row in added]
    return Data(
        ("provider", "M", "shapes", "ratio_p25", "ratio_median", "ratio_p75"),
        tuple((*key, len(ratios), *_quartiles(ratios)) for key, ratios in (*ordered, *single)),
    )


def _median_lines(view: View, provider: str, rows: list[Row]) -> list[Series]:
    """Median and quartiles of one provider's ratios at each M; the band only for the first challenger.

    A line joins only M that are measured for much the same shapes: what changes along it is then the M.
    """
    ratios: dict[int, dict[ShapeKey, float]] = {}
    for row in rows:
        ratios.setdefault(int(row["M"]), {})[shape_of(row)] = float(row["ratio"])
    sizes = sorted(ratios)
    pieces: list[list[int]] = []
    for m in sizes:
        if pieces and _in_common(ratios[pieces[-1][-1]].keys(), ratios[m].keys()) >= SAME_SHAPES:
            pieces[-1].append(m)
        else:
            pieces.append([m])
    banded = provider in view.challengers[:1]
    quartiles = {m: _quartiles(list(ratios[m].values())) for m in sizes}
    lines = []
    for piece in pieces:
        points = tuple(
            Point(
                m,
                quartiles[m][1],
                name=f"{provider}, M={m}: median {fmt.ratio(quartiles[m][1])}, quartiles {fmt.ratio(quartiles[m][0])} "
                f"and {fmt.ratio(quartiles[m][2])}, {fmt.plural(len(ratios[m]), 'shape')}",
                label=provider if m == sizes[-1] else "",
            )
            for m in piece
        )
        band = tuple((float(m), quartiles[m][0], quartiles[m][2]) for m in piece) if banded else ()
        lines.append(Series(provider, view.styles[provider], points, band=band))
    return lines


def _quartiles(values: list[float]) -> tuple[float, float, float]:
    low, middle, high = np.quantile(values, (0.25, 0.5, 0.75))
    return float(low), float(middle), float(high)


def _in_common(first: Set[ShapeKey], second: Set[ShapeKey]) -> float:
    """Share of the shapes of either that both have."""
    return len(first & second) / len(first | second)

"""Roofline: what bounds the cells, the figure with the measured roofs, and how near to its bound every cell comes."""

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from ....analysis.frames.coordinates import SETTING
from ....analysis.roofline import bound_shares
from ....analysis.roofline.bounds import Bound
from ....analysis.roofline.ceilings import Ceiling, Ceilings
from ... import formatting as fmt
from ...cells import share_cell, time_text
from ...figures.axes import decade_axis, room
from ...figures.chart import Axis, Chart, Data, Draw, Figure, Point, Raw, Roof, Series
from ...figures.frames import SINGLE
from ...figures.labels import LINE
from ...figures.marks import provider_legend
from ...model import Block, Cells, Column, Scale, Section, Table, TableCell, Text, Tone, table
from ...terms import BOUND_CODES, BOUNDS, CEILING_KINDS
from ...view import Row, ShapeKey, Slice, View, anchors, shape_of, sliced
from ..speedups.sizes import label_and_size

FIGURE_HOW = (
    "Up is faster; left of a ridge memory limits, right of it compute. A slanted roof is the bandwidth of a level of "
    "memory, a level one a peak rate: solid ones were measured here, dashed ones are published, a dotted one is the "
    "published peak at the observed clock; the chapter Ceilings has their sources. The lines join the M of one "
    "shape{added}, faint dots are all others. Intensity counts useful FLOPs and compulsory bytes, alike for all "
    "providers of a problem. Small problems stay "
    "below all roofs because of the launch floor ({launch})."
)

_AT_CLOCK = " at the observed clock"

LEVELS = ("dram", "llc", "l2")
"""Levels of memory, from far to near."""

_BESIDE_RIDGE = 1.5
"""Factor of intensity that is drawn on either side of a ridge point."""

GRID_HOW = "Time at the bound over measured time: 100% is the limit of the device. Then what takes the time: {classes}."


def roofline(view: View) -> Section | None:
    """Build the share table, then figure and grids of every slice."""
    placed = view.cells
    if not (placed["bound_class"] != "").any():
        timed = placed["time_s"].notna().any()
        why = "no ceiling was measured for these cells: see rooflens calibrate" if timed else "no cell has a time"
        return Section("roofline", "Roofline", (Text(f"No cell could be placed: {why}."),))
    return sliced("roofline", "Roofline", view.slices, partial(_slice, view), (_shares(view),))


def _shares(view: View) -> Table:
    keys = (*SETTING, "provider")
    shares = bound_shares(view.cells, keys)
    present = [bound for bound in Bound if (shares["bound_class"] == bound).any()]
    columns = [Column(str(bound), scale=Scale.BAR, note=f"{bound}: {BOUNDS[bound]}") for bound in present]
    rows: list[Cells] = []
    for (*setting, provider), found in shares.groupby([*keys], sort=False):
        fractions = found.set_index("bound_class")["share"].reindex(present, fill_value=0.0)
        named: Cells = {"provider": provider, "operands": view.slice_of([*map(str, setting)]).title}
        named |= {Column("cells"): int(found["cells"].sum())}
        rows.append(named | dict(zip(columns, map(share_cell, fractions), strict=True)))
    reading = "Share of the cells with a time, by the limit that takes longest for what the provider really moves."
    return table("bound-shares", "What bounds the cells", rows, reading)


def _slice(view: View, part: Slice) -> Iterator[Block | None]:
    yield _figure(view, part)
    for provider, table_id in anchors(f"bound-{part.id}", view.providers):
        rows = view.by_cell(view.cells, part, provider)
        if any(row["bound_class"] for row in rows.values()):
            yield _grid(view, provider, table_id, rows)


def _grid(view: View, provider: str, table_id: str, rows: Mapping[tuple[ShapeKey, int], Row]) -> Table:
    columns = {m: Column(f"M={m}", scale=Scale.SEQUENTIAL) for m in view.Ms_in(rows)}
    lines: list[Cells] = [
        {**label_and_size(shape), **{column: bound_cell(rows.get((shape, m))) for m, column in columns.items()}}
        for shape in view.shapes_in(rows)
    ]
    present = [bound for bound in Bound if (view.cells["bound_class"] == bound).any()]
    reading = GRID_HOW.format(classes=", ".join(f"{BOUND_CODES[bound]} {bound}" for bound in present))
    return table(table_id, f"{provider}: share of the bound reached", lines, how_to_read=reading, detail=True)


def bound_cell(row: Row | None) -> TableCell:
    """Show which share of its bound a cell reaches, and the code of what takes its time; or why it has none."""
    if row is None:
        return TableCell("", tone=Tone.MISSING)
    bound = str(row["bound_class"])
    fraction = float(row["fraction_of_bound"])
    if not bound:
        return TableCell(str(row["verdict"]) if math.isnan(row["time_s"]) else "no limit", tone=Tone.FAILED)
    if bound == Bound.IMPOSSIBLE:
        return TableCell(bound, note=str(row["bound_note"]), tone=Tone.FAILED)
    return TableCell(
        f"{fmt.share(fraction)} {BOUND_CODES[Bound(bound)]}", fraction, fraction, note=str(row["bound_note"])
    )


def _figure(view: View, part: Slice) -> Figure | None:
    rows = [
        row
        for row in view.rows(view.cells, part)
        if row["bound_class"] not in ("", Bound.IMPOSSIBLE) and not math.isnan(row["intensity"])
    ]
    added = _added(view, part)
    limits = Ceilings.of(view.analysis.ceilings)
    # Every level: cells that begin in memory re-read from the caches.
    measured = [limits.bandwidth(level) for level in LEVELS]
    published = [limits.published_bandwidth(level) for level in LEVELS]
    slopes, dashed = _distinct(measured), _distinct(published)
    dashed = [ceiling for ceiling in dashed if ceiling not in slopes]
    peaks = _peaks(limits, part, rows)
    if not rows or not slopes or not peaks:
        return None
    shape = _representative(view, rows)
    providers = [name for name in (view.baseline, *view.others) if any(row["provider"] == name for row in rows)]
    drawn = [*rows, *added]
    series = [_line(view, name, shape, drawn) for name in providers]
    dots = [_dots(view, name, shape, drawn) for name in providers]
    low, high = (pick(float(row["intensity"]) for row in drawn) for pick in (min, max))
    top = max(peak.value for peak in peaks if peak.kind == "measured" or peak is peaks[0])
    ridges = [top / slope.value for slope in slopes]
    names = max(len(point.label) for line in series for point in line.points)
    low, high = room(min(low, *ridges), max(high, *ridges), 1, names)
    # Both roofs are worth seeing: also where all cells lie far to one side of their ridge.
    x = decade_axis(
        min(low, min(ridges) / _BESIDE_RIDGE),
        max(high, max(ridges) * _BESIDE_RIDGE),
        lambda value: f"{value:g}",
        "arithmetic intensity (FLOP per compulsory byte)",
        labels=9,
    )
    slowest = min(float(row["flops_per_s"]) for row in drawn)
    lowest = slowest / 1.6
    roofs = _roofs([*slopes, *dashed], peaks, top, x, lowest)
    highest = max(peak.value for peak in peaks)
    # Every level roof has its name above it.
    names_high = LINE * len(peaks) / SINGLE.plot_height * math.log10(highest / lowest)
    chart = Chart(
        title=part.title,
        x=x,
        y=decade_axis(lowest, highest * max(1.9, 10**names_high), fmt.tick_flops, "useful FLOP/s", labels=9),
        series=tuple(line for line in (*dots, *series) if line.points),
        roofs=roofs,
        alt=_alt(view, part, rows),
    )
    launch = limits.launch()
    sizes = [int(row["M"]) for row in drawn if shape_of(row) == shape]
    return Figure(
        f"roofline-figure-{part.id}",
        f"Roofline ({part.title})",
        (chart,),
        how_to_read=FIGURE_HOW.format(
            added="" if view.analysis.added.empty else ", those that the refinement added among them",
            launch=fmt.time(launch.value) if launch else "not measured",
        ),
        alt=chart.alt,
        caption=f"Lines: {shape.label} ({shape.size}), from M = {min(sizes)} to M = {max(sizes)}.",
        legend=provider_legend(providers, view.styles),
        detail=part.is_later,
        data=_data(drawn, (*slopes, *dashed, *peaks)),
    )


def _added(view: View, part: Slice) -> list[Row]:
    """The cells that a refinement added at single shapes: where they lie, without a class."""
    return [
        {
            **row,
            "intensity": row["flops"] / row["compulsory_bytes"],
            "fraction_of_bound": math.nan,
            "bound_class": "",
        }
        for row in view.rows(view.analysis.added, part)
        if row["flops_per_s"] > 0 and not row["impossible"]
    ]


def _data(rows: list[Row], ceilings: Iterable[Ceiling]) -> Data:
    """Every cell that is drawn, then the roofs."""
    names = ("provider", "model", "layer", "B", "E", "N", "K", "M", "bound_class")
    numbers = ("time_s", "intensity", "flops_per_s", "bandwidth_bytes_per_s", "fraction_of_bound")
    lines: list[tuple[Raw, ...]] = [
        (*(row[name] for name in names), *(float(row[name]) for name in numbers), None, None) for row in rows
    ]
    empty = (None,) * (len(names) - 1 + len(numbers))
    lines += [(f"{ceiling.name} ({ceiling.kind})", *empty, ceiling.value, ceiling.source) for ceiling in ceilings]
    return Data((*names, *numbers, "roof_value", "roof_source"), tuple(lines))


def _representative(view: View, rows: list[Row]) -> ShapeKey:
    """The shape with most cells; among equals the one with the largest weight, furthest from the launch floor."""
    counts = Counter(map(shape_of, rows))
    return max(counts, key=lambda shape: (counts[shape], shape.N * shape.K * shape.B, -view.shapes.index(shape)))


def _line(view: View, provider: str, shape: ShapeKey, rows: list[Row]) -> Series:
    mine = sorted(
        (row for row in rows if row["provider"] == provider and shape_of(row) == shape), key=lambda row: int(row["M"])
    )
    points = tuple(
        Point(
            float(row["intensity"]),
            float(row["flops_per_s"]),
            name=f"{provider}, {shape.label} {shape.size}, M={row['M']}: {time_text(row)}, "
            f"{fmt.flops(row['flops_per_s'])}, {fmt.bandwidth(row['bandwidth_bytes_per_s'])}, "
            f"{_place(row)}",
            label=provider if row is mine[-1] else "",
        )
        for row in mine
    )
    return Series(provider, view.styles[provider], points)


def _place(row: Row) -> str:
    if not row["bound_class"]:
        return "added by the refinement"
    return f"{fmt.share(row['fraction_of_bound'])} of the bound, {row['bound_class']}"


def _dots(view: View, provider: str, shape: ShapeKey, rows: list[Row]) -> Series:
    points = tuple(
        Point(float(row["intensity"]), float(row["flops_per_s"]))
        for row in rows
        if row["provider"] == provider and shape_of(row) != shape
    )
    return Series(provider, view.styles[provider], points, draw=Draw.DOTS, faint=True)


def _peaks(limits: Ceilings, part: Slice, rows: list[Row]) -> list[Ceiling]:
    """Peaks of every type that is multiplied, that of the activations first: measured, published, at the clock."""
    clock = _median(row["clock_ratio"] for row in rows)
    types = dict.fromkeys([part.dtype, *(str(row["math_dtype"]) for row in rows if row["math_dtype"])])
    return _distinct(
        [
            peak
            for dtype in types
            for peak in (limits.peak(dtype), limits.published_peak(dtype), limits.peak_at_clock(dtype, clock))
        ]
    )


def _roofs(slopes: list[Ceiling], peaks: list[Ceiling], top: float, x: Axis, lowest: float) -> tuple[Roof, ...]:
    """Slanted roofs from where they enter the plot to the best measured peak; level ones from their first ridge on."""
    roofs = []
    for slope in slopes:
        start = max(x.low, lowest / slope.value)
        if slope.value * start < top:
            ridge = top / slope.value
            roofs.append(Roof(_roof_label(slope), start, slope.value * start, ridge, top, slope.kind == "measured"))
    steepest = max(slope.value for slope in slopes)
    for peak in peaks:
        start = max(x.low, min(peak.value, top) / steepest)
        solid, dotted = peak.kind == "measured", peak.kind == "derived"
        roofs.append(Roof(_roof_label(peak), start, peak.value, x.high, peak.value, solid, dotted))
    return tuple(roofs)


def _roof_label(ceiling: Ceiling) -> str:
    text = fmt.bandwidth(ceiling.value) if ceiling.name.endswith("bandwidth") else fmt.flops(ceiling.value)
    kind = _AT_CLOCK.lstrip() if ceiling.name.endswith(_AT_CLOCK) else CEILING_KINDS[ceiling.kind]
    name = ceiling.name.removesuffix(_AT_CLOCK).removesuffix(" bandwidth")
    name = name.replace(" gemm peak", " peak").replace(" peak", " GEMM")
    return f"{name} {text}, {kind}"


def _median(values: Iterable[float]) -> float:
    return statistics.median([value for value in values if not math.isnan(value)] or [math.nan])


def _distinct(ceilings: list[Ceiling | None]) -> list[Ceiling]:
    return list(dict.fromkeys(ceiling for ceiling in ceilings if ceiling is not None))


def _alt(view: View, part: Slice, rows: list[Row]) -> str:
    """State the finding: the best fraction of the bound that each challenger reaches, and where."""
    found = []
    for name in view.challengers or view.others[:1]:
        mine = [row for row in rows if row["provider"] == name]
        if mine:
            best = max(mine, key=lambda row: float(row["fraction_of_bound"]))
            found.append(
                f"{name} comes nearest to its bound at {shape_of(best).label}, M={best['M']}: "
                f"{fmt.share(best['fraction_of_bound'])}, {best['bound_class']}"
            )
    return f"Roofline, {part.title}. " + "; ".join(found or [fmt.plural(len(rows), "cell")])

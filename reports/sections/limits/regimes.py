"""Which limit bounds each shape at each M: a map per provider, a colour and a letter per cell."""

from collections import Counter
from collections.abc import Mapping

from ....analysis.roofline.bounds import Bound
from ...figures.chart import Chart, Data, Figure, LegendEntry
from ...figures.frames import map_chart, shortened
from ...formatting import plural, share
from ...model import Section
from ...terms import BOUND_CODES, BOUNDS
from ...view import Row, ShapeKey, Slice, View, sliced

HOW = (
    "One row per shape, one column per M: the limit that takes longest for what the provider really moves and "
    "computes. {classes}. An empty place has no time. Along a row, a change of colour is the M at which another limit "
    "takes over."
)

MOST = 4
"""Maps of the first slice, the baseline's among them; of others the CSV and the tables of the roofline tell."""

SEVERAL = 12
"""Cells from which on a map says more than the table of shares."""


def regimes(view: View) -> Section | None:
    """Build a map per provider for every slice; None where too few cells have a limit."""
    return sliced("regimes", "What bounds which M", view.slices, lambda part: (_figure(view, part),))


def _figure(view: View, part: Slice) -> Figure | None:
    every = {
        name: {at: row for at, row in view.by_cell(view.cells, part, name).items() if row["bound_class"]}
        for name in (*view.others, view.baseline)
    }
    every = {name: rows for name, rows in every.items() if rows}
    if sum(map(len, every.values())) < SEVERAL:
        return None
    # Challengers come first; beyond the first slice the maps are details.
    shown = [name for name in view.others if name in every][: 1 if part.is_later else MOST - 1]
    cells = {name: every[name] for name in every if name in (*shown, view.baseline)}
    left = [name for name in every if name not in cells]
    everywhere = {at: row for rows in cells.values() for at, row in rows.items()}
    shapes, sizes = view.shapes_in(everywhere), view.Ms_in(everywhere)
    if len(sizes) < 2:
        return None
    defined = [bound for bound in Bound if (view.cells["bound_class"] == bound).any()]
    drawn = {str(row["bound_class"]) for rows in cells.values() for row in rows.values()}
    charts = tuple(_chart(name, rows, shapes, sizes) for name, rows in cells.items())
    return Figure(
        f"regimes-map-{part.id}",
        f"What bounds which M ({part.title})",
        charts,
        how_to_read=HOW.format(classes="; ".join(f"{BOUND_CODES[b]} {b}: {BOUNDS[b]}" for b in defined)),
        caption=f"Without {', '.join(left)}: their cells are in the CSV and under “Roofline”." if left else "",
        alt="; ".join(chart.alt for chart in charts),
        legend=tuple(
            LegendEntry(f"{BOUND_CODES[bound]} {bound}", fill=f"k-{bound}") for bound in defined if bound in drawn
        ),
        detail=part.is_later,
        data=Data.of(
            ("provider", "model", "layer", "B", "E", "N", "K", "M", "bound_class", "time_s", "fraction_of_bound"),
            (row for rows in every.values() for row in rows.values()),
        ),
    )


def _chart(provider: str, rows: Mapping[tuple[ShapeKey, int], Row], shapes: list[ShapeKey], sizes: list[int]) -> Chart:
    bounds = {at: Bound(row["bound_class"]) for at, row in rows.items()}
    models = {shape.model for shape in shapes}
    names = {shape: shortened(shape.label if len(models) > 1 else shape.layer) for shape in shapes}
    boxes = {at: (f"k-{bound}", BOUND_CODES[bound]) for at, bound in bounds.items()}
    return map_chart(provider, names, sizes, boxes, _alt(provider, rows))


def _alt(provider: str, rows: Mapping[tuple[ShapeKey, int], Row]) -> str:
    """State the finding: what bounds most cells at the smallest M and at the largest."""
    ends = dict.fromkeys((min(m for _, m in rows), max(m for _, m in rows)))
    said = []
    for m in ends:
        counts = Counter(str(row["bound_class"]) for (_, size), row in rows.items() if size == m)
        name, count = max(counts.items(), key=lambda item: (item[1], item[0]))
        said.append(f"at M={m} {name} at {share(count / counts.total())} of {plural(counts.total(), 'shape')}")
    return f"{provider}: {', '.join(said)}"

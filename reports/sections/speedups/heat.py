"""A picture of a speedup grid, for texts whose tables have no colour."""

import math
from collections.abc import Mapping

from ... import formatting as fmt
from ...cells import ratio_cell
from ...figures import colours
from ...figures.axes import band, bands
from ...figures.chart import Box, Chart, Data, Figure, LegendEntry
from ...figures.frames import shortened
from ...model import Table
from ...view import Row, ShapeKey, Slice, View

HOW = (
    "The same numbers as in the table, one row per shape and one column per M: the time of {baseline} divided by that "
    "of the provider, blue above 1 (faster) and red below (slower), on a logarithmic scale. ~ is undecided, an empty "
    "place has no ratio."
)

SEVERAL = 24
"""Cells from which on colours tell more than digits."""

KEY = (-12, -8, -4, 0, 4, 8, 12)


def heat(
    view: View, part: Slice, provider: str, table: Table, rows: Mapping[tuple[ShapeKey, int], Row]
) -> Figure | None:
    """Draw the ratios of one provider in a slice, of which `table` shows the numbers; None for a small grid."""
    known = {at: row for at, row in rows.items() if not math.isnan(row["ratio"])}
    if len(known) < SEVERAL:
        return None
    shapes, sizes = view.shapes_in(known), view.Ms_in(known)
    boxes = []
    for number, shape in enumerate(shapes):
        y = band(len(shapes), number, down=True)
        for x, m in enumerate(sizes):
            if row := known.get((shape, m)):
                fill = heat_fill(colours.step(math.log2(row["ratio"])))
                boxes.append(Box(x, x + 1, y, y + 1, fill, ratio_cell(row).text.rstrip("×")))
    chart = Chart(
        title=provider,
        x=bands([f"{m}" for m in sizes], "M"),
        y=bands([shortened(f"{shape.label} {shape.size}", 36) for shape in shapes], down=True),
        series=(),
        boxes=tuple(boxes),
        alt=_alt(view, provider, known),
    )
    return Figure(
        f"heat-{table.id}",
        f"{provider} over {view.baseline} in colours ({part.title})",
        (chart,),
        how_to_read=HOW.format(baseline=view.baseline),
        alt=chart.alt,
        legend=tuple(LegendEntry(_key(step), fill=heat_fill(step)) for step in KEY),
        detail=table.detail,
        picture_of=table.id,
        data=Data(
            ("provider", "model", "layer", "B", "E", "N", "K", "M", "ratio", "ratio_low", "ratio_high", "verdict"),
            tuple(
                (
                    *(provider, shape.model, shape.layer, shape.B, shape.E, shape.N, shape.K, m),
                    *(float(row[name]) for name in ("ratio", "ratio_low", "ratio_high")),
                    str(row["verdict"]),
                )
                for (shape, m), row in known.items()
            ),
        ),
    )


def heat_fill(step: int) -> str:
    """Name of the colour of a step of the diverging scale."""
    return f"r{-step}" if step < 0 else f"g{step}"


def _key(step: int) -> str:
    text = fmt.tick_ratio(2.0 ** (step / colours.STEPS * colours.OCTAVES))
    return f"≤ {text}" if step == -colours.STEPS else f"≥ {text}" if step == colours.STEPS else text


def _alt(view: View, provider: str, known: Mapping[tuple[ShapeKey, int], Row]) -> str:
    """State the finding: where the provider is faster, and the best and the worst cell."""
    decided = [row for row in known.values() if row["verdict"] != "undecided"]
    faster = sum(row["ratio"] > 1 for row in decided)
    (best, _), (worst, _) = (pick(known.items(), key=lambda item: float(item[1]["ratio"])) for pick in (max, min))
    ends = (f"{ratio_cell(known[at]).text} at {at[0].label}, M={at[1]}" for at in dict.fromkeys((best, worst)))
    return (
        f"{provider} is faster than {view.baseline} in {faster} and slower in {len(decided) - faster} of "
        f"{fmt.plural(len(known), 'cell')}: from best to worst {', '.join(ends)}"
    )

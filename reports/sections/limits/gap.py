"""Where the time goes: from the ideal to the measured time in steps, as shares of the time of all cells."""

import math
from collections.abc import Mapping, Sequence

from ....analysis.frames.coordinates import SETTING
from ....analysis.roofline.gaps import PARTS, gap_totals
from ... import formatting as fmt
from ...figures.axes import band, bands, linear_axis
from ...figures.chart import Box, Chart, Data, Figure, LegendEntry, Remark
from ...model import Section
from ...terms import GAP_PARTS
from ...view import Row, Slice, View, sliced

DRAWN = {
    "ideal": ("s3", "ideal"),
    "clock": ("k-compute", "clock"),
    "tile": ("k-compute", "padding to tiles"),
    "wave": ("k-compute", "idle units"),
    "dequant": ("k-alu", "decoding"),
    "memory": ("k-dram", "more bytes"),
    "schedule": ("k-latency", "schedule"),
    "startup": ("k-launch", "startup"),
    "residual": ("k-unexplained", "unexplained"),
}
"""Part of a time: how its bar is filled, and what a sentence calls it."""


LEGEND = (
    LegendEntry("what the problem needs", fill="s3"),
    LegendEntry("matrix units", fill="k-compute"),
    LegendEntry("vector units", fill="k-alu"),
    LegendEntry("memory", fill="k-dram"),
    LegendEntry("schedule", fill="k-latency"),
    LegendEntry("startup", fill="k-launch"),
    LegendEntry("unexplained", fill="k-unexplained"),
)

WIDE, RIGHT, GAP = 0.34, 0.66, 0.015
"""Of the whole: a bar that is wider holds its number, one that ends beyond has it on its left; the space between."""

MEANINGS = (
    "Ideal: compulsory bytes or useful FLOPs at the limits of the device, whichever takes longer. Clock: another "
    "clock than the published one; below 0 where it was higher. Tiles, waves: padded work, and units that wait for "
    "the busiest. Decode: quantized weights on the vector units. Memory: bytes beyond the compulsory ones, read "
    "again, dense or in between. Schedule: workgroups that a unit runs one after another, each waiting for its own "
    "instructions and loads. Startup: empty launches, filling and draining, gaps between kernels. Rest: what none of "
    "them explains, what is unknown, and what the best measured GEMM lacks of the published peak, so that a cell of "
    "class compute may have much of it. A step that hides behind a longer one adds nothing."
)

TOTAL_HOW = (
    "From the top down, each bar begins where the one above ends; together they are the measured time of all cells of "
    "a provider, 100%."
)


def gap(view: View) -> Section | None:
    """Build the figure of every slice; None where no cell has a known ideal."""
    if view.analysis.gaps.empty:
        return None
    totals = gap_totals(view.analysis.gaps).to_dict("records")
    return sliced("gap", "Where the time goes", view.slices, lambda part: (_totals(view, part, totals),))


def _totals(view: View, part: Slice, totals: Sequence[Row]) -> Figure | None:
    own = (row for row in totals if tuple(row[name] for name in SETTING) == part.setting)
    rows = {str(row["provider"]): row for row in own if row["time_s"] > 0}
    names = [name for name in (*view.others, view.baseline) if name in rows]
    if not names:
        return None
    charts = tuple(_waterfall(name, rows[name]) for name in names)
    return Figure(
        f"gap-totals-{part.id}",
        f"What the time of all cells is made of ({part.title})",
        charts,
        how_to_read=f"{TOTAL_HOW} {MEANINGS}",
        alt="; ".join(chart.alt for chart in charts),
        legend=LEGEND,
        multiples=True,
        detail=part.is_later,
        data=Data.of(
            ("provider", "cells", "impossible", "time_s", *(f"{name}_share" for name in PARTS)),
            (rows[name] for name in names),
        ),
    )


def _corner(row: Row) -> str:
    left = int(row["impossible"])
    out = f", {fmt.plural(left, 'impossible one')} excluded" if left else ""
    return f"{fmt.plural(int(row['cells']), 'cell')}{out}: {fmt.time(row['time_s'])}"


def _waterfall(provider: str, row: Row) -> Chart:
    """Draw the shares of the time of a provider; each bar begins where the one above it ends."""
    shares = {name: float(row[f"{name}_share"]) for name in PARTS}
    boxes, remarks, reached, least, furthest = [], [], 0.0, 0.0, 0.0
    for index, (name, share) in enumerate(shares.items()):
        y = band(len(PARTS), index, down=True)
        start = reached
        reached += 0.0 if math.isnan(share) else share
        low, high = min(start, reached), max(start, reached)
        least, furthest = min(least, low), max(furthest, high)
        text = _signed(share)
        inside = high - low > WIDE
        if high > low:
            boxes.append(Box(low, high, y + 0.12, y + 0.88, DRAWN[name][0], text if inside else ""))
        if not inside:
            before = high > RIGHT
            remarks.append(Remark(low - GAP if before else high + GAP, y + 0.5, text, end=before))
    return Chart(
        title=provider,
        x=linear_axis(least, furthest * 1.01, fmt.tick_share, "", labels=3),
        y=bands([GAP_PARTS[name] for name in PARTS], down=True),
        series=(),
        corner=_corner(row),
        alt=f"{provider}: {_said(shares)}",
        boxes=tuple(boxes),
        remarks=tuple(remarks),
    )


def _signed(share: float) -> str:
    if math.isnan(share):
        return "unknown"
    return "0" if share == 0 else f"{fmt.MINUS}{fmt.share(-share)}" if share < 0 else fmt.share(share)


def _said(shares: Mapping[str, float]) -> str:
    beside = {name: share for name, share in shares.items() if name != "ideal" and not math.isnan(share)}
    most = max(beside, key=lambda name: beside[name])
    if beside[most] <= 0:
        return f"{fmt.share(shares['ideal'])} ideal, and nothing else"
    return f"{fmt.share(shares['ideal'])} ideal, most else is {DRAWN[most][1]} ({_signed(beside[most])})"

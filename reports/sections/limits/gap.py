"""Where the time goes: from the ideal to the measured time in steps, as shares of all cells, and of one GEMM."""

import math
from collections.abc import Callable, Mapping, Sequence

from ....analysis.frames.coordinates import SETTING
from ....analysis.roofline.bounds import Bound
from ....analysis.roofline.gaps import PARTS, gap_totals
from ... import formatting as fmt
from ...figures.axes import band, bands, linear_axis
from ...figures.chart import Box, Chart, Data, Figure, LegendEntry, Remark
from ...model import Section
from ...terms import GAP_PARTS
from ...view import Row, Slice, View, shape_of, sliced

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
CELL_HOW = (
    "The same steps for the one GEMM at which {provider} loses the most time to what nothing explains, as every "
    "provider computes it. Each panel has its own scale."
)


def gap(view: View) -> Section | None:
    """Build both figures for every slice; None where no cell has a known ideal."""
    if view.analysis.gaps.empty:
        return None
    totals = gap_totals(view.analysis.gaps).to_dict("records")
    return sliced(
        "gap", "Where the time goes", view.slices, lambda part: (_totals(view, part, totals), _one_gemm(view, part))
    )


def _totals(view: View, part: Slice, totals: Sequence[Row]) -> Figure | None:
    own = (row for row in totals if tuple(row[name] for name in SETTING) == part.setting)
    rows = {str(row["provider"]): row for row in own if row["time_s"] > 0}
    names = [name for name in (*view.others, view.baseline) if name in rows]
    if not names:
        return None
    charts = tuple(
        _waterfall(name, _corner(rows[name]), _shares(rows[name]), fmt.share, fmt.tick_share) for name in names
    )
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


def _shares(row: Row) -> tuple[float, ...]:
    return tuple(float(row[f"{name}_share"]) for name in PARTS)


def _corner(row: Row) -> str:
    left = int(row["impossible"])
    out = f", {fmt.plural(left, 'impossible one')} excluded" if left else ""
    return f"{fmt.plural(int(row['cells']), 'cell')}{out}: {fmt.time(row['time_s'])}"


def _one_gemm(view: View, part: Slice) -> Figure | None:
    """Draw the GEMM at which the first challenger (or the first provider) loses the most time to the rest."""
    rows = [row for row in view.rows(view.analysis.gaps, part) if row["bound_class"] != Bound.IMPOSSIBLE]
    present = {str(row["provider"]) for row in rows}
    about = next((name for name in (*view.challengers, *view.others, view.baseline) if name in present), "")
    if not about:
        return None
    worst = max(
        (row for row in rows if row["provider"] == about), key=lambda row: (row["residual_s"], row["time_s"], -row["M"])
    )
    shape, m = shape_of(worst), int(worst["M"])
    same = {str(row["provider"]): row for row in rows if shape_of(row) == shape and row["M"] == m}
    names = [name for name in (*view.others, view.baseline) if name in same]
    charts = tuple(
        _waterfall(
            name,
            f"{fmt.time(same[name]['time_s'])}, {same[name]['bound_class']}",
            tuple(float(same[name][f"{step}_s"]) for step in PARTS),
            fmt.time,
            fmt.tick_time,
        )
        for name in names
    )
    where = f"{shape.label} {shape.size}, M={m}"
    return Figure(
        f"gap-one-{part.id}",
        f"The same for one GEMM: {where} ({part.title})",
        charts,
        how_to_read=CELL_HOW.format(provider=about),
        alt=f"{where}: " + "; ".join(chart.alt for chart in charts),
        legend=LEGEND,
        multiples=True,
        detail=part.is_later,
        data=Data.of(
            ("provider", "model", "layer", "N", "K", "M", "bound_class", "time_s", *(f"{name}_s" for name in PARTS)),
            (same[name] for name in names),
        ),
    )


def _waterfall(
    title: str,
    corner: str,
    parts: tuple[float, ...],
    write: Callable[[float], str],
    tick: Callable[[float], str],
) -> Chart:
    """Draw the bars of one total; each begins where the one above it ends."""
    whole = sum(value for value in parts if not math.isnan(value))
    boxes, remarks, reached, least, furthest = [], [], 0.0, 0.0, 0.0
    for index, (name, value) in enumerate(zip(PARTS, parts, strict=True)):
        y = band(len(PARTS), index, down=True)
        start = reached
        reached += 0.0 if math.isnan(value) else value
        low, high = min(start, reached), max(start, reached)
        least, furthest = min(least, low), max(furthest, high)
        text = "unknown" if math.isnan(value) else _signed(value, write)
        inside = high - low > WIDE * whole
        if high > low:
            boxes.append(Box(low, high, y + 0.12, y + 0.88, DRAWN[name][0], text if inside else ""))
        if not inside:
            before = high > RIGHT * whole
            at = low - GAP * whole if before else high + GAP * whole
            remarks.append(Remark(at, y + 0.5, text, end=before))
    shares = {name: value / whole for name, value in zip(PARTS, parts, strict=True)}
    return Chart(
        title=title,
        x=linear_axis(least, furthest * 1.01, tick, "", labels=3),
        y=bands([GAP_PARTS[name] for name in PARTS], down=True),
        series=(),
        corner=corner,
        alt=f"{title}: {_said(shares)}",
        boxes=tuple(boxes),
        remarks=tuple(remarks),
    )


def _signed(value: float, write: Callable[[float], str]) -> str:
    return "0" if value == 0 else f"{fmt.MINUS}{write(-value)}" if value < 0 else write(value)


def _said(shares: Mapping[str, float]) -> str:
    beside = {name: share for name, share in shares.items() if name != "ideal" and not math.isnan(share)}
    most = max(beside, key=lambda name: beside[name])
    if beside[most] <= 0:
        return f"{fmt.share(shares['ideal'])} ideal, and nothing else"
    return f"{fmt.share(shares['ideal'])} ideal, most else is {DRAWN[most][1]} ({_signed(beside[most], fmt.share)})"

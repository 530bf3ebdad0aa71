"""Before and after, per model: base and head on one line, with what lies between."""

import math
from collections.abc import Mapping

from ....analysis.comparison.parts import Part, leading, parts
from ....analysis.comparison.result import Result
from ....analysis.comparison.suite import SuiteChange
from ... import formatting as fmt
from ...figures.axes import band, bands, decade_axis, linear_axis
from ...figures.chart import Axis, Bar, Box, Chart, Data, Draw, Figure, LegendEntry, Point, Remark, Series, Spacing
from ...figures.frames import shortened
from ...model import Section
from .words import FEW, told

HOW = (
    "Rings are base, discs head: the geometric mean of throughput over the cases of a model, as a multiple of base; to "
    "the right is faster. {interval}The number is the change of time, above 0 slower. Each chart has its own range, "
    "which does not begin at 0."
)
INTERVAL = "The pale bar is the 95% interval of head over the rounds. "

MOST = 6
"""Charts; beyond that only the parts that rank their cases."""

ALL = "all of them"
LINEAR_UP_TO = 8.0
"""Largest throughput over the least that an axis without logarithms shows."""

MOST_BEYOND = 4.0
"""Factor by which a drawn interval extends beyond all of the points."""

BASE, HEAD, SLOWER = 0, 1, 2
"""Styles of the ends, and of the line to a head that is slower."""


def dumbbell(result: Result) -> Section | None:
    """Draw one chart per pass and group; None where all cases are of one model."""
    every = parts(result)
    shown = every if len(every) <= MOST else leading(result)
    changes = {part: found for part in shown if len(found := _changes(part)) > 2}
    if not changes:
        return None
    charts = tuple(_chart(told(result, part), found) for part, found in changes.items())
    few = sum(map(len, changes.values())) <= FEW
    figure = Figure(
        "compared-dumbbell",
        "Before and after, by model",
        charts,
        how_to_read=HOW.format(
            interval=INTERVAL if any(one.rounds for found in changes.values() for one in found.values()) else ""
        ),
        alt="; ".join(chart.alt for chart in charts),
        legend=(LegendEntry("base", BASE, Draw.RINGS), LegendEntry("head", HEAD, Draw.MARKS)),
        data=_data(changes),
        bars=tuple(
            Bar(", ".join((model, told(result, part))[: len(changes)]), _text(one), abs(math.log(one.ratio)))
            for part, found in changes.items()
            for model, one in found.items()
            if few or model == ALL
        ),
    )
    return Section("compared-before-after", "Before and after", (figure,))


def _changes(part: Part) -> dict[str, SuiteChange]:
    """Changes by model in order of appearance, then of all of them."""
    of = {str(model): part.of_model(str(model)) for model in part.cases["model"].unique()} | {ALL: part}
    return {name: change for name, mine in of.items() if (change := mine.change) is not None}


def _chart(title: str, changes: Mapping[str, SuiteChange]) -> Chart:
    middle = [band(len(changes), index, down=True) + 0.5 for index in range(len(changes))]
    placed = list(zip(changes.items(), middle, strict=True))
    base = [Point(1.0, y, f"{model}, base") for (model, _), y in placed]
    head = [Point(1 / one.ratio, y, f"{model}, head: {fmt.ratio(1 / one.ratio)}") for (model, one), y in placed]
    lines = [
        Series("change", HEAD if after.x >= before.x else SLOWER, (before, after), Draw.STROKE)
        for before, after in zip(base, head, strict=True)
    ]
    at = [1.0, *(after.x for after in head)]
    least, most = min(at) / MOST_BEYOND, max(at) * MOST_BEYOND
    boxes = [
        Box(max(least, 1 / one.rounds[1]), min(most, 1 / one.rounds[0]), y - 0.2, y + 0.2, "g3") if one.rounds else None
        for (_, one), y in placed
    ]
    ends = [max(1.0, after.x, box.x1 if box else 0.0) for after, box in zip(head, boxes, strict=True)]
    drawn = tuple(filter(None, boxes))
    x = _axis(min(*at, *(box.x0 for box in drawn)), max(ends))
    named = [f"{shortened(model, 28)}{f' ({one.cases})' * (one.cases > 1)}" for model, one in changes.items()]
    return Chart(
        title=title,
        x=x,
        y=bands(named, down=True),
        series=(Series("head", HEAD, tuple(head), Draw.MARKS), Series("base", BASE, tuple(base), Draw.RINGS), *lines),
        corner=f"{fmt.plural(changes[ALL].cases, 'case')}: {_text(changes[ALL])}",
        boxes=drawn,
        remarks=tuple(
            Remark(_right_of(x, end), y, _text(one)) for end, ((_, one), y) in zip(ends, placed, strict=True)
        ),
        alt=_alt(title, changes),
    )


def _axis(low: float, high: float) -> Axis:
    label = "throughput, base = 1×"
    if high > LINEAR_UP_TO * low:
        return decade_axis(low / 1.2, high * (high / low) ** 0.2 * 1.2, _tick, label, labels=6)
    span = max(high - low, 0.02)
    return linear_axis(low - 0.06 * span, high + 0.18 * span, _tick, label, labels=6)


def _right_of(x: Axis, value: float) -> float:
    """A little to the right of a value."""
    if x.spacing is Spacing.LOG:
        return float(value * (x.high / x.low) ** 0.015)
    return value + 0.015 * (x.high - x.low)


def _tick(throughput: float) -> str:
    return f"{throughput:g}{fmt.TIMES}"  # as many digits as the ticks take: 1.005×


def _text(change: SuiteChange) -> str:
    """Change of time with the digits that its interval leaves."""
    return fmt.effect(math.log(change.ratio), *change.log_rounds)


def _alt(title: str, changes: Mapping[str, SuiteChange]) -> str:
    """State the finding: the change of all, and the models that gained most and least."""
    best, *_, worst = sorted([model for model in changes if model != ALL], key=lambda model: changes[model].ratio)
    return (
        f"{title}: {_text(changes[ALL])} over all of them, from {_text(changes[worst])} ({worst}) "
        f"to {_text(changes[best])} ({best})"
    )


def _data(changes: Mapping[Part, Mapping[str, SuiteChange]]) -> Data:
    columns = (
        *("provider", "dtype", "scheme", "cache", "pass", "model", "cases", "time_ratio_head_over_base"),
        *("ratio_low", "ratio_high", "base_flops_per_s", "head_flops_per_s"),
    )
    lines = tuple(
        (
            *(*part.group, part.pass_, model, one.cases, one.ratio),
            *(one.rounds or (None, None)),
            *(one.base_flops_per_s, one.head_flops_per_s),
        )
        for part, found in changes.items()
        for model, one in found.items()
    )
    return Data(columns, lines)

"""Before and after, per model or case: the rates of base and head on one line, with what lies between."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ....analysis.comparison.parts import Part, leading, parts
from ....analysis.comparison.result import Result
from ....analysis.comparison.suite import SuiteChange, suite_change
from ... import formatting as fmt
from ...figures.axes import band, bands, decade_axis, linear_axis
from ...figures.chart import Axis, Bar, Box, Chart, Data, Draw, Figure, LegendEntry, Point, Remark, Series, Spacing
from ...figures.frames import shortened
from ...model import Section
from .words import FEW, has_few, told

HOW = (
    "Rings are base, discs head: {of}, {what}; to the right is faster. "
    "{interval}The number is the change of time, above 0 slower. Each chart has its own range, which does not begin "
    "at 0."
)
INTERVAL = "The pale bar is the 95% interval of head over the rounds. "
RATES = "of useful FLOP/s"
RELATIVE = "of throughput as a multiple of base"

MOST = 6
"""Charts; beyond that only the parts that rank their cases."""

ALL = "all of them"
LINEAR_UP_TO = 8.0
BASE, HEAD = 0, 1


@dataclass(frozen=True, slots=True)
class _Row:
    """One line: a model or a case, its change, and where base and head lie (FLOP/s, or multiples of base)."""

    name: str
    change: SuiteChange
    base: float
    head: float

    def at(self, ratio: float) -> float:
        """Where head would lie if its time over base's were `ratio`."""
        return self.base / ratio


def dumbbell(result: Result) -> Section | None:
    """Draw one chart per pass and group, of its cases where they are few; None where it would have one line."""
    every = parts(result)
    shown = every if len(every) <= MOST else leading(result)
    of_cases = has_few(result)
    rows = {part: found for part in shown if len(found := _rows(part, of_cases)) > 2}
    if not rows:
        return None
    known = all(not math.isnan(row.change.base_flops_per_s) for found in rows.values() for row in found)
    has_rates = known and not of_cases  # rates of single cases are too far apart for a change to be seen
    if not has_rates:
        rows = {part: [_Row(row.name, row.change, 1.0, 1 / row.change.ratio) for row in rows[part]] for part in rows}
    charts = tuple(_chart(result, part, found, has_rates) for part, found in rows.items())
    some = any(row.change.rounds for found in rows.values() for row in found)
    figure = Figure(
        "compared-dumbbell",
        f"Before and after, by {'case' if of_cases else 'model'}",
        charts,
        how_to_read=HOW.format(
            of="a case" if of_cases else "the geometric mean over the cases of a model",
            what=RATES if has_rates else RELATIVE,
            interval=INTERVAL if some else "",
        ),
        alt="; ".join(chart.alt for chart in charts),
        legend=(LegendEntry("base", BASE, Draw.RINGS), LegendEntry("head", HEAD, Draw.MARKS)),
        data=_data(rows, "case" if of_cases else "model"),
        bars=tuple(
            Bar(
                ", ".join((row.name, told(result, part))[: len(rows)]),
                _changed(row.change),
                abs(math.log(row.change.ratio)),
            )
            for part, found in rows.items()
            for row in (found if sum(map(len, rows.values())) <= FEW else found[-1:])
        ),
    )
    return Section("compared-before-after", "Before and after", (figure,))


def _rows(part: Part, of_cases: bool) -> list[_Row]:
    """One row per case or model in order of appearance, then all of them."""
    cases = part.effects.cases
    names = cases["layer"] + ", M=" + cases["M"].astype(str) if of_cases else cases["model"]
    if of_cases and cases["model"].nunique() > 1:
        names = cases["model"] + " " + names
    if of_cases and names[part.rows].nunique() < int(part.rows.sum()):
        names = names + ", " + cases["N"].astype(str) + fmt.TIMES + cases["K"].astype(str)
    mine = [(str(name), part.rows & (names == name)) for name in dict.fromkeys(names[part.rows])] + [(ALL, part.rows)]
    return [
        _Row(name, change, change.base_flops_per_s, change.base_flops_per_s / change.ratio)
        for name, rows in mine
        if (change := suite_change(part.effects, rows=rows)) is not None
    ]


def _chart(result: Result, part: Part, rows: Sequence[_Row], has_rates: bool) -> Chart:
    count = len(rows)
    middle = [band(count, index, down=True) + 0.5 for index in range(count)]
    lines = [
        Series("change", HEAD if row.head >= row.base else 2, (Point(row.base, y), Point(row.head, y)), Draw.STROKE)
        for row, y in zip(rows, middle, strict=True)
    ]
    ends = [
        Series(
            name,
            style,
            tuple(
                Point(getattr(row, name), y, name=f"{row.name}, {name}: {_written(getattr(row, name), has_rates)}")
                for row, y in zip(rows, middle, strict=True)
            ),
            draw,
        )
        for name, style, draw in (("base", BASE, Draw.RINGS), ("head", HEAD, Draw.MARKS))
    ]
    boxes = [
        Box(row.at(row.change.rounds[1]), row.at(row.change.rounds[0]), y - 0.2, y + 0.2, "g3")
        if row.change.rounds
        else None
        for row, y in zip(rows, middle, strict=True)
    ]
    x = _axis(rows, has_rates)
    remarks = tuple(
        Remark(_right_of(x, max(row.base, row.head, *((box.x1,) if box else ()))), y, _changed(row.change))
        for row, y, box in zip(rows, middle, boxes, strict=True)
    )
    total = rows[-1].change
    title = told(result, part)
    return Chart(
        title=title,
        x=x,
        y=bands(
            [shortened(row.name, 28) + f" ({row.change.cases})" * (row.change.cases > 1) for row in rows], down=True
        ),
        series=(*reversed(ends), *lines),
        corner=f"{fmt.plural(total.cases, 'case')}: {_changed(total)}",
        boxes=tuple(filter(None, boxes)),
        remarks=remarks,
        alt=_alt(title, rows),
    )


def _right_of(x: Axis, value: float) -> float:
    """A little to the right of a value."""
    if x.spacing is Spacing.LOG:
        return float(value * (x.high / x.low) ** 0.015)
    return value + 0.015 * (x.high - x.low)


def _axis(rows: Sequence[_Row], has_rates: bool) -> Axis:
    values = [value for row in rows for value in (row.base, row.head, *(row.at(r) for r in row.change.rounds or ()))]
    low, high = min(values), max(values)
    label, text = ("useful FLOP/s", fmt.tick_flops) if has_rates else ("throughput, base = 1×", fmt.ratio)
    if high > LINEAR_UP_TO * low:
        return decade_axis(low / 1.2, high * (high / low) ** 0.2 * 1.2, text, label, labels=6)
    span = max(high - low, 0.02 * high)
    return linear_axis(max(0.0, low - 0.06 * span), high + 0.18 * span, text, label, labels=6)


def _written(value: float, has_rates: bool) -> str:
    return fmt.flops(value) if has_rates else fmt.ratio(value)


def _changed(change: SuiteChange) -> str:
    """Change of time with the digits that its interval leaves."""
    return fmt.effect(math.log(change.ratio), *change.log_rounds)


def _alt(title: str, rows: Sequence[_Row]) -> str:
    """State the finding: the change of all, and the models that gained most and least."""
    best, worst = (pick(rows[:-1], key=lambda row: row.change.ratio) for pick in (min, max))
    return (
        f"{title}: {_changed(rows[-1].change)} over all of them, from {_changed(worst.change)} ({worst.name}) "
        f"to {_changed(best.change)} ({best.name})"
    )


def _data(rows: dict[Part, list[_Row]], of: str) -> Data:
    columns = (
        *("provider", "dtype", "scheme", "cache", "pass", of, "cases", "time_ratio_head_over_base"),
        *("ratio_low", "ratio_high", "base_flops_per_s", "head_flops_per_s"),
    )
    lines = tuple(
        (
            *(*part.group, part.pass_, row.name, row.change.cases, row.change.ratio),
            *(row.change.rounds or (None, None)),
            *(row.change.base_flops_per_s, row.change.head_flops_per_s),
        )
        for part, found in rows.items()
        for row in found
    )
    return Data(columns, lines)

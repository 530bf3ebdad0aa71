"""The device over the time of the run: canary, clock, temperature and power, with the slowdowns that it reported.

Of several devices each has a line, as far as colours can tell them apart.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from ....analysis.frames.load import RunData
from ....analysis.stability.canary import KINDS, device_numbers
from ....analysis.stability.devices import device_name
from ....analysis.stability.timeline import (
    QUANTITIES,
    canary_over_time,
    pauses,
    slowdown_spans,
    telemetry_over_time,
    thinned,
    without_pauses,
)
from ... import formatting as fmt
from ...figures.axes import elapsed_axis, linear_axis
from ...figures.chart import Axis, Box, Chart, CrossoverSpan, Data, Draw, Figure, LegendEntry, Point, Series, Tick
from ...figures.marks import GREY
from ...model import Section
from ...terms import CANARY_PARTS
from ...view import View

MOST_LINES = 7
"""Devices with a line, as many as there are colours; the table of devices has the others."""


@dataclass(frozen=True, slots=True)
class DeviceLine:
    """A line of one device (its number), or of all rows (None), whose name is "".

    `style` indexes the palette; 0 is ink.
    """

    device: int | None
    style: int
    name: str

    def rows(self, every: pd.DataFrame) -> pd.DataFrame:
        """Rows of a frame of `of_devices` that belong to it."""
        return every if self.device is None else every[every["device"] == self.device]


def of_devices(run: RunData, rows: pd.DataFrame) -> pd.DataFrame:
    """Add `device` to rows that have a process, and to readings of the canary `<kind>_change`.

    That is the time over the median of the same device, minus 1.
    """
    known = rows.assign(device=device_numbers(rows["process"], run.device_of))
    times = [kind for kind in KINDS if f"{kind}_s" in known]
    middle = known.groupby("device")[[f"{kind}_s" for kind in times]].transform("median")
    return known.assign(**{f"{kind}_change": known[f"{kind}_s"] / middle[f"{kind}_s"] - 1 for kind in times})


def lines_of(run: RunData, *frames: pd.DataFrame) -> tuple[DeviceLine, ...]:
    """Lines for the devices that have a row in a frame of `of_devices`, in the order of run.json."""
    present = set(itertools.chain.from_iterable(frame["device"] for frame in frames))
    if not run.several_devices or not present:
        return (DeviceLine(None, 0, ""),)
    numbers = sorted(present, key=lambda number: (number < 0, abs(number)))[:MOST_LINES]
    return tuple(DeviceLine(number, style, device_name(run, number)) for style, number in enumerate(numbers, start=1))


HOW = (
    "Time runs from left to right, from the start of the run. {parts}Where a strip is shaded, with a bar along its "
    "upper edge, a device said that its clock was held down. A device in one state gives flat lines."
)
LINE_HOW = (
    "A line is the median of the readings at that time, the band around it reaches from the least to the largest. "
)
CANARY_HOW = (
    "The canary is a frozen GEMM and a frozen copy, as change of time from their median on the same device: above 0 is "
    "slower than usual. "
)
PAUSE_HOW = "Where nothing was measured for over {longest}, the rest of the pause is cut out (dotted). "

BINS = 240
"""Stretches of time that a line has at most."""

LONGEST_PAUSE_S = 600.0
"""Of a run that went on later, a pause is drawn no longer."""

FEW = 2
"""Readings of the canary that need no figure by themselves: a table says as much."""

HEIGHT = 0.24
LEAST_RANGE = 0.02
"""A strip shows at least this range, as a share of the value: noise of the last digit is no drift."""


class _Strip(NamedTuple):
    """What a strip shows of one quantity: its name, how it is written, and the style of its first line."""

    title: str
    write: Callable[[float], str]
    column: str


STRIPS = (
    _Strip("clock", fmt.clock, "clock_hz"),
    _Strip("temperature", fmt.temperature, "temperature_c"),
    _Strip("power", fmt.power, "power_w"),
    _Strip("cores busy with other work", fmt.share, "busy_elsewhere"),
)

SLOW_STYLES = (6, 4, 7, 3, 5)
"""Styles of the slowdowns, in the order of their words."""


def drift(view: View) -> Section | None:
    """Draw one strip per quantity that was recorded; None where none was over time."""
    figure = _figure(view)
    title = "The devices over time" if view.run.several_devices else "The device over time"
    return None if figure is None else Section("drift", title, (figure,))


def _figure(view: View) -> Figure | None:
    run = view.run
    telemetry, canary = (of_devices(run, frame) for frame in (telemetry_over_time(run), canary_over_time(run)))
    every = np.concatenate([frame["at_s"].to_numpy(dtype=np.float64) for frame in (telemetry, canary)])
    known = [strip for strip in STRIPS if telemetry[strip.column].notna().sum() > 1]
    has_canary = len(canary) > 1
    if not (known or len(canary) > FEW):
        return None
    cut = pauses(every, LONGEST_PAUSE_S)
    telemetry, canary = (_cut(frame, cut) for frame in (telemetry, canary))
    end = max(float(frame["at_s"].max()) for frame in (telemetry, canary) if len(frame))
    if not end > 0:  # all at one time; or the times are damaged, and a cut of 1e308 s leaves nothing
        return None
    slow = slowdown_spans(telemetry, end / 100)
    words = list(dict.fromkeys(word for word, _, _ in slow))
    lines = lines_of(run, telemetry, canary)
    unused = [style for style in SLOW_STYLES if style not in {line.style for line in lines}]
    styles = dict(itertools.zip_longest(words, unused[: len(words)], fillvalue=GREY))
    spans = tuple(
        CrossoverSpan(word, styles[word], None, first, max(last, first + end / 400)) for word, first, last in slow
    )
    spans += tuple(
        CrossoverSpan("pause", 0, at) for at in without_pauses(np.array([stop for stop, _ in cut]), cut).tolist()
    )
    slowdowns = (LegendEntry(f"slowed down: {word}", fill=f"s{styles[word]}") for word in words)
    charts = [_canary(kind, canary, lines) for kind in KINDS if has_canary]
    charts += [_strip(strip, telemetry, lines) for strip in known]
    last = len(charts) - 1
    count = len({*telemetry["device"], *canary["device"]}) if run.several_devices else 0
    title = "Canary and telemetry over the run" if has_canary and known else "Canary" if has_canary else "Telemetry"
    some = f", {len(lines)} of {count} devices" if count > len(lines) else ""
    placed = tuple(
        _over(chart, elapsed_axis(end, "time since the start" if number == last else ""), spans)
        for number, chart in enumerate(charts)
    )
    return Figure(
        "drift-strips",
        f"{title}{some}",
        placed,
        how_to_read=_how(has_canary, bool(known), bool(cut)),
        alt=_alt(charts, telemetry, words),
        legend=(*(LegendEntry(line.name, line.style, Draw.STROKE) for line in lines if line.name), *slowdowns),
        data=_data(telemetry, canary, lines),
    )


def _how(has_canary: bool, has_telemetry: bool, has_pauses: bool) -> str:
    parts = CANARY_HOW if has_canary else ""
    parts += LINE_HOW if has_telemetry else ""
    parts += PAUSE_HOW.format(longest=fmt.tick_elapsed(LONGEST_PAUSE_S)) if has_pauses else ""
    return HOW.format(parts=parts)


def _cut(rows: pd.DataFrame, cut: list[tuple[float, float]]) -> pd.DataFrame:
    return rows.assign(at_s=without_pauses(rows["at_s"].to_numpy(dtype=np.float64), cut))


def _over(chart: Chart, x: Axis, spans: tuple[CrossoverSpan, ...]) -> Chart:
    """Put a strip over the common time, with the slowdowns as shades and as bars along its upper edge."""
    ticks = x.ticks if x.label else tuple(Tick(tick.value) for tick in x.ticks)
    top = chart.y.high
    bars = tuple(
        Box(span.low, span.high, top - 0.06 * (top - chart.y.low), top, f"s{span.style}", name=span.label)
        for span in spans
        if span.low is not None and span.high is not None
    )
    return replace(chart, x=replace(x, ticks=ticks), spans=spans, boxes=bars, height=HEIGHT)


def _strip(strip: _Strip, telemetry: pd.DataFrame, lines: Sequence[DeviceLine]) -> Chart:
    known = telemetry[telemetry[strip.column].notna()]
    values = known[strip.column]
    least, most = float(values.min()), float(values.max())
    span = f"{strip.write(least)} to {strip.write(most)}" if strip.write(least) != strip.write(most) else "constant"
    middle = strip.write(float(values.median()))
    groups = [(line, line.rows(known)) for line in lines]
    return Chart(
        strip.title,
        _LATER,
        _axis(least, most, strip.write),
        tuple(_stroke(strip.title, line, rows, strip.column) for line, rows in groups if len(rows)),
        corner=f"median {middle}, {span}",
        alt=f"{strip.title}: median {middle}, {span}",
    )


def _stroke(title: str, line: DeviceLine, rows: pd.DataFrame, column: str) -> Series:
    thin = thinned(rows, [column], BINS)
    band = zip(*(thin[name].tolist() for name in ("at_s", f"{column}_low", f"{column}_high")), strict=True)
    return Series(title, line.style, _points(thin["at_s"], thin[column]), Draw.STROKE, tuple(band))


def _points(at: "pd.Series[float]", values: "pd.Series[float]") -> tuple[Point, ...]:
    return tuple(map(Point, at.tolist(), values.tolist()))


def _canary(kind: str, canary: pd.DataFrame, lines: Sequence[DeviceLine]) -> Chart:
    """Draw one part of the canary, so that colour can tell devices apart."""
    column, title = f"{kind}_change", f"canary {CANARY_PARTS[kind]}"
    groups = [(line, line.rows(canary)) for line in lines]
    most = float(canary[column].abs().max())
    said = f"at most {fmt.significant(100 * most, 2)}% from the median" if most else "no change"
    told = f"{fmt.plural(len(canary), 'reading')}, {said}"
    span = max(most, LEAST_RANGE / 2) * 1.15
    return Chart(
        title,
        _LATER,
        linear_axis(-span, span, _signed_tick, "", labels=4),
        tuple(Series(title, line.style, _points(rows["at_s"], rows[column])) for line, rows in groups if len(rows)),
        level=0.0,
        corner=told,
        alt=f"{title}: {told}",
    )


_LATER = elapsed_axis(1.0, "")
"""Stands in for the axis of time, which all strips share, until the whole figure is known."""


def _signed_tick(value: float) -> str:
    return f"+{fmt.tick_share(value)}" if value > 1e-9 else fmt.tick_share(0.0 if abs(value) < 1e-9 else value)


def _axis(least: float, most: float, write: Callable[[float], str]) -> Axis:
    middle, half = (least + most) / 2, (most - least) / 2
    half = max(half * 1.15, abs(middle) * LEAST_RANGE / 2, 1e-3)
    low = middle - half if least < 0 else max(0.0, middle - half)
    return linear_axis(low, middle + half, write, "", labels=3)


def _alt(charts: Iterable[Chart], telemetry: pd.DataFrame, words: Sequence[str]) -> str:
    """State the finding: how far every quantity moved, and how often the clock was held down."""
    said = [chart.alt for chart in charts]
    for word in words:
        share = telemetry["slowdown"].map(lambda text, word=word: word in str(text).split()).mean()
        said.append(f"{word} in {fmt.share(float(share))} of the readings")
    return "; ".join(said)


def _data(telemetry: pd.DataFrame, canary: pd.DataFrame, lines: Sequence[DeviceLine]) -> Data:
    """Give the lines as they are drawn, and every reading of the canary."""
    named = ("device",) if lines[0].name else ()
    of_canary = tuple(f"{kind}_s" for kind in KINDS)
    of_telemetry = tuple(f"{name}{end}" for name in QUANTITIES for end in ("", "_low", "_high"))
    rows: list[tuple[float | str | None, ...]] = []
    for line in lines:
        readings = line.rows(canary)
        head = ("canary", *((line.name,) if named else ()))
        rows += [(*head, *values, *(None,) * len(of_telemetry)) for values in _values(readings, ("at_s", *of_canary))]
    for line in lines:
        own = line.rows(telemetry)
        thin = thinned(own, QUANTITIES, BINS)
        head = ("telemetry", *((line.name,) if named else ()))
        empty = (None,) * len(of_canary)
        rows += [(*head, at, *empty, *values) for at, *values in _values(thin, ("at_s", *of_telemetry))]
    return Data(("source", *named, "at_s", *of_canary, *of_telemetry), tuple(rows))


def _values(frame: pd.DataFrame, columns: Sequence[str]) -> Iterator[tuple[float, ...]]:
    yield from frame[[*columns]].astype("float64").itertuples(index=False, name=None)

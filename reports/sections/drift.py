"""The device over the time of the run: canary, clock, temperature and power, with the slowdowns that it reported."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from ...analysis.canary import KINDS
from ...analysis.timeline import (
    QUANTITIES,
    canary_over_time,
    pauses,
    slowdown_spans,
    telemetry_over_time,
    thinned,
    without_pauses,
)
from .. import formatting as fmt
from ..axes import elapsed_axis, linear_axis
from ..chart import Axis, Box, Chart, Data, Draw, Figure, LegendEntry, Point, Series, Span, Tick
from ..model import Section
from ..view import View

HOW = (
    "Time runs from left to right, from the start of the run. {parts}Where a strip is shaded, with a bar along its "
    "upper edge, the device said that its clock was held down. A device in one state gives flat lines."
)
LINE_HOW = (
    "A line is the median of the readings at that time, the band around it reaches from the least to the largest. "
)
CANARY_HOW = "The canary is a frozen GEMM and a frozen copy, as change of time from their median: above 0 is slower. "
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

CANARY_STYLES = dict(zip(KINDS, (1, 2), strict=True))
SLOW_STYLES = (6, 4, 7, 3, 5)
"""Styles of the slowdowns, in the order of their words."""


def drift(view: View) -> Section | None:
    """Draw one strip per quantity that was recorded; None where none was over time."""
    figure = _figure(view)
    return None if figure is None else Section("drift", "The device over time", (figure,))


def _figure(view: View) -> Figure | None:
    run = view.run
    telemetry, canary = telemetry_over_time(run), canary_over_time(run)
    every = np.concatenate([frame["at_s"].to_numpy(dtype=np.float64) for frame in (telemetry, canary)])
    known = [strip for strip in STRIPS if telemetry[strip.column].notna().sum() > 1]
    has_canary = len(canary) > 1
    if not (known or len(canary) > FEW) or np.ptp(every) <= 0:
        return None
    cut = pauses(every, LONGEST_PAUSE_S)
    telemetry, canary = (_cut(frame, cut) for frame in (telemetry, canary))
    end = max(float(frame["at_s"].max()) for frame in (telemetry, canary) if len(frame))
    slow = slowdown_spans(telemetry, end / 100)
    words = list(dict.fromkeys(word for word, _, _ in slow))
    styles = {word: SLOW_STYLES[number % len(SLOW_STYLES)] for number, word in enumerate(words)}
    spans = tuple(Span(word, styles[word], None, first, max(last, first + end / 400)) for word, first, last in slow)
    spans += tuple(Span("pause", 0, at) for at in without_pauses(np.array([stop for stop, _ in cut]), cut).tolist())
    processes = sorted(set(telemetry["process"])) if run.several_devices else []
    charts = [_canary(canary, run.several_devices)] if has_canary else []
    charts += [_strip(strip, telemetry, processes) for strip in known]
    last = len(charts) - 1
    placed = tuple(
        _over(chart, elapsed_axis(end, "time since the start" if number == last else ""), spans)
        for number, chart in enumerate(charts)
    )
    legend = [LegendEntry(f"canary: {_NAMES[kind]}", CANARY_STYLES[kind]) for kind in KINDS if has_canary]
    legend += [LegendEntry(f"worker {number}", 1 + at, Draw.STROKE) for at, number in enumerate(processes)]
    legend += [LegendEntry(f"slowed down: {word}", fill=f"s{styles[word]}") for word in words]
    parts = (CANARY_HOW if has_canary else "") + (LINE_HOW if known else "")
    parts += PAUSE_HOW.format(longest=fmt.tick_elapsed(LONGEST_PAUSE_S)) if cut else ""
    return Figure(
        "drift-strips",
        "Canary and telemetry over the run" if has_canary and known else "Canary" if has_canary else "Telemetry",
        placed,
        how_to_read=HOW.format(parts=parts),
        alt=_alt(charts, telemetry, words),
        legend=tuple(legend),
        data=_data(telemetry, canary),
    )


_NAMES = {"gemm": "GEMM", "copy": "copy"}


def _cut(rows: pd.DataFrame, cut: list[tuple[float, float]]) -> pd.DataFrame:
    return rows.assign(at_s=without_pauses(rows["at_s"].to_numpy(dtype=np.float64), cut))


def _over(chart: Chart, x: Axis, spans: tuple[Span, ...]) -> Chart:
    """Put a strip over the common time, with the slowdowns as shades and as bars along its upper edge."""
    ticks = x.ticks if x.label else tuple(Tick(tick.value) for tick in x.ticks)
    top = chart.y.high
    bars = tuple(
        Box(span.low, span.high, top - 0.06 * (top - chart.y.low), top, f"s{span.style}", name=span.label)
        for span in spans
        if span.low is not None and span.high is not None
    )
    return replace(chart, x=replace(x, ticks=ticks), spans=spans, boxes=bars, height=HEIGHT)


def _strip(strip: _Strip, telemetry: pd.DataFrame, processes: Sequence[int]) -> Chart:
    """One quantity: one line, or one per worker where each has its own device."""
    known = telemetry.loc[telemetry[strip.column].notna(), ["at_s", "process", strip.column]]
    values = known[strip.column]
    least, most = float(values.min()), float(values.max())
    groups = [(1 + at, known[known["process"] == number]) for at, number in enumerate(processes)] or [(0, known)]
    span = f"{strip.write(least)} to {strip.write(most)}" if strip.write(least) != strip.write(most) else "constant"
    middle = strip.write(float(values.median()))
    return Chart(
        strip.title,
        _LATER,
        _axis(least, most, strip.write),
        tuple(_line(strip, style, rows) for style, rows in groups if len(rows)),
        corner=f"median {middle}, {span}",
        alt=f"{strip.title}: median {middle}, {span}",
    )


def _line(strip: _Strip, style: int, rows: pd.DataFrame) -> Series:
    thin = thinned(rows, [strip.column], BINS)
    at, middle = thin["at_s"].tolist(), thin[strip.column].tolist()
    low, high = thin[f"{strip.column}_low"].tolist(), thin[f"{strip.column}_high"].tolist()
    points = tuple(Point(x, y) for x, y in zip(at, middle, strict=True))
    return Series(strip.title, style, points, Draw.STROKE, tuple(zip(at, low, high, strict=True)))


def _canary(canary: pd.DataFrame, several: bool) -> Chart:
    series, changes = [], []
    for kind in KINDS:
        for _, rows in canary.groupby("process", sort=True) if several else [(0, canary)]:
            change = rows[f"{kind}_s"] / rows[f"{kind}_s"].median() - 1
            points = tuple(Point(x, y) for x, y in zip(rows["at_s"].tolist(), change.tolist(), strict=True))
            series.append(Series(_NAMES[kind], CANARY_STYLES[kind], points))
            changes += change.tolist()
    most = max(map(abs, changes))
    said = f"at most {fmt.significant(100 * most, 2)}% from the median" if most else "no change"
    span = max(most, LEAST_RANGE / 2) * 1.15
    return Chart(
        "canary",
        _LATER,
        linear_axis(-span, span, _signed_tick, "", labels=3),
        tuple(series),
        level=0.0,
        corner=f"{fmt.plural(len(canary), 'reading')}, {said}",
        alt=f"canary: {fmt.plural(len(canary), 'reading')}, {said}",
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


def _data(telemetry: pd.DataFrame, canary: pd.DataFrame) -> Data:
    """Give the lines as they are drawn, and every reading of the canary."""
    thin = thinned(telemetry, QUANTITIES, BINS)
    columns = ("source", "at_s", *(f"{kind}_s" for kind in KINDS))
    ranges = tuple(f"{name}{end}" for name in QUANTITIES for end in ("", "_low", "_high"))
    rows = [("canary", *values, *(None,) * len(ranges)) for values in _values(canary, columns[1:])]
    rows += [("telemetry", at, None, None, *values) for at, *values in _values(thin, ("at_s", *ranges))]
    return Data((*columns, *ranges), tuple(rows))


def _values(frame: pd.DataFrame, columns: Sequence[str]) -> list[tuple[float | None, ...]]:
    lines = frame[[*columns]].astype("float64").itertuples(index=False, name=None)
    return [tuple(None if math.isnan(value) else value for value in line) for line in lines]

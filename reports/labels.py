"""Where the texts inside a single chart go, so that none covers another: the same places in SVG and PNG."""

from dataclasses import dataclass, replace
from math import atan2, degrees

from .axes import position
from .chart import Chart, Roof

CHARACTER = 7.2
"""Width of a character of a label, in pixels, in the widest of the usual fonts."""

LINE = 13.0
"""Height of a line of labels, in pixels."""


@dataclass(frozen=True, slots=True)
class Label:
    """A text at (x, y) pixels from the upper left corner of the plot area; `y` is the middle of its height.

    `end`: the text ends at x instead of beginning there. `style` is that of its series, None for a roof; `turn` in
    degrees, clockwise.
    """

    text: str
    x: float
    y: float
    end: bool
    style: int | None
    turn: float = 0.0


def point_labels(chart: Chart, width: float, height: float) -> list[Label]:
    """Place the labels of points in a plot area of `width` x `height` pixels.

    The first point of a line is labelled below to its right, where a rising line leaves room; others beside, to the
    left where the right edge is near. A label that would cover another moves down.
    """
    wanted = [
        (
            position(chart.x, point.x) * width,
            (1 - position(chart.y, point.y)) * height,
            point.label,
            series.style,
            number == 0 and len(series.points) > 1,
        )
        for series in chart.series
        for number, point in enumerate(series.points)
        if point.label
    ]
    boxes: list[_Box] = []
    for x, y, text, style, first in sorted(wanted, key=lambda label: (label[1], label[0])):
        extent = CHARACTER * len(text)
        end = x + 8 + extent > width
        start = x - 8 - extent if end else x + 8
        top = y + 11 if first else y
        for other in sorted(boxes, key=lambda box: box.y):
            if start < other.end and other.start < start + extent and abs(top - other.y) < LINE:
                top = other.y + LINE
        boxes.append(_Box(start, start + extent, top, Label(text, x - 8 if end else x + 8, top, end, style)))
    return _lifted(boxes, height - 6)


@dataclass(frozen=True, slots=True)
class _Box:
    """Extent of a placed label: start and end in x, middle in y."""

    start: float
    end: float
    y: float
    label: Label


def _lifted(boxes: list[_Box], lowest: float) -> list[Label]:
    """Move labels up from below `lowest`, and those above them out of their way."""
    settled: list[_Box] = []
    for box in sorted(boxes, key=lambda box: -box.y):
        y = min(box.y, lowest)
        for other in sorted(settled, key=lambda other: -other.y):
            if box.start < other.end and other.start < box.end and abs(y - other.y) < LINE:
                y = other.y - LINE
        settled.append(replace(box, y=y, label=replace(box.label, y=y)))
    return [box.label for box in settled]


def roof_labels(chart: Chart, width: float, height: float) -> list[Label]:
    """Place the labels of roofs: slanted ones along the line, level ones to the left of their ridge if that has room.

    Nothing is ever drawn up there, left of the ridge and above the slanted roof. Otherwise they stand above the right
    end.
    """
    slanted = sorted((roof for roof in chart.roofs if roof.y0 != roof.y1), key=lambda roof: roof.y0 / roof.x0)
    level = sorted((roof for roof in chart.roofs if roof.y0 == roof.y1), key=lambda roof: roof.y0)
    labels = []
    for number, roof in enumerate(slanted):
        x0, y0, x1, y1 = ends(chart, roof, width, height)
        along = 0.02 + 0.36 * (number % 3)  # parallel roofs may be close together
        turn = degrees(atan2(y1 - y0, x1 - x0))
        labels.append(Label(roof.label, x0 + (x1 - x0) * along, y0 + (y1 - y0) * along, False, None, turn))
    room = min((ends(chart, roof, width, height)[0] for roof in level), default=0.0)
    fits = all(CHARACTER * len(roof.label) + 10 < room for roof in level)
    above = float("inf")
    for roof in level:
        x0, _, x1, y = ends(chart, roof, width, height)
        above = min(y - (4 if fits else 9), above - LINE)
        labels.append(Label(roof.label, x0 - 10 if fits else x1, above, True, None))
    return labels


def ends(chart: Chart, roof: Roof, width: float, height: float) -> tuple[float, float, float, float]:
    """Pixels of both ends of a roof: x0, y0, x1, y1."""
    return (
        position(chart.x, roof.x0) * width,
        (1 - position(chart.y, roof.y0)) * height,
        position(chart.x, roof.x1) * width,
        (1 - position(chart.y, roof.y1)) * height,
    )

"""Where the texts inside a single chart go, so that none covers another: the same places in SVG and PNG."""

from dataclasses import dataclass, replace
from itertools import pairwise
from math import atan2, cos, degrees, hypot, radians
from typing import TypeAlias

from .axes import CHARACTER, position
from .chart import Chart, Draw, Roof

LINE = 15.0
"""Height of a line of labels, in pixels."""

_DOWN = (0.0, 11.0, -11.0, 20.0, -20.0)
"""How far below its point a label may stand, in order of preference."""

SLANTED_CHARACTER = 7.0
"""Width of a character of the label of a roof, which is not bold, in pixels."""

_BETWEEN = 21.0
"""Pixels between two slanted roofs from which on a text fits there."""

_ALIKE = 9.0
"""Pixels between two slanted roofs up to which they look like one."""

_JOINED = " · "

LETTER = 6.0
"""Half the height of a letter, in pixels."""

_Segment: TypeAlias = tuple[float, float, float, float]
"""Piece of a line in pixels: x0, y0, x1, y1 with x0 <= x1."""


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

    Each label takes the first of its places where no line and no other label is: beside its point on the outer side of
    a line's end, else above or below it. Where all are taken, it moves down from the first.
    """
    lines = _segments(chart, width, height)
    taken = [
        _box(label.x + (8 if label.end else -8), label.y, label.text, label.end, 0)
        for label in roof_labels(chart, width, height)
        if not label.turn
    ]
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
        places = [_box(x, y + down, text, end, style) for end in (first, not first) for down in _DOWN]
        inside = [place for place in places if place.start >= 0 and place.end <= width] or places
        free = (
            box
            for box in inside
            if not any(box.touches(other) or box.is_above(other) for other in boxes)
            and not any(map(box.touches, taken))
            and not any(map(box.is_crossed, lines))
        )
        boxes.append(next(free, None) or _below(inside[0], [*boxes, *taken]))
    return _lifted(boxes, height - 6)


def _box(x: float, y: float, text: str, end: bool, style: int) -> "_Box":
    """A label that ends left of `x`, or begins right of it."""
    extent, at = CHARACTER * len(text), x - 8 if end else x + 8
    start = at - extent if end else at
    return _Box(start, start + extent, y, Label(text, at, y, end, style))


@dataclass(frozen=True, slots=True)
class _Box:
    """Extent of a placed label: start and end in x, middle in y."""

    start: float
    end: float
    y: float
    label: Label

    def touches(self, other: "_Box") -> bool:
        """True where the two would cover each other."""
        return self.start < other.end and other.start < self.end and abs(self.y - other.y) < LINE

    def is_above(self, other: "_Box") -> bool:
        """True where it would stand above a label that it shares the width with: of points from the top down, the
        later ones keep below.
        """
        return self.start < other.end and other.start < self.end and self.y < other.y and self.y > other.y - 3 * LINE

    def is_crossed(self, line: _Segment) -> bool:
        """True where a line runs through the text: its part above the box is at the height of the letters."""
        x0, y0, x1, y1 = line
        left, right = max(x0, self.start), min(x1, self.end)
        if left >= right:
            return False
        at_left, at_right = (y0 + (y1 - y0) * (x - x0) / (x1 - x0) for x in (left, right))
        return min(at_left, at_right) < self.y + LETTER and max(at_left, at_right) > self.y - LETTER


def _segments(chart: Chart, width: float, height: float) -> list[_Segment]:
    """Pieces of all lines and roofs, each from left to right, in pixels."""
    pieces = [ends(chart, roof, width, height) for roof in chart.roofs]
    for series in chart.series:
        if series.draw in (Draw.LINE, Draw.STROKE):
            at = [
                (position(chart.x, point.x) * width, (1 - position(chart.y, point.y)) * height)
                for point in series.points
            ]
            pieces += [(*start, *stop) for start, stop in pairwise(at)]
    return [piece if piece[0] <= piece[2] else (*piece[2:], *piece[:2]) for piece in pieces]


def _below(box: _Box, boxes: list[_Box]) -> _Box:
    """Move a label down, past those that are in its way."""
    for other in sorted(boxes, key=lambda box: box.y):
        if box.touches(other):
            y = other.y + LINE
            box = replace(box, y=y, label=replace(box.label, y=y))
    return box


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
    # Left of the first point stand the labels of points.
    first = min((position(chart.x, point.x) * width for series in chart.series for point in series.points), default=0)
    labels += _slanted_labels(chart, slanted, width, height, first)
    room = min((ends(chart, roof, width, height)[0] for roof in level), default=0.0)
    fits = all(CHARACTER * len(roof.label) + 10 < room for roof in level)
    above = float("inf")
    for roof in level:
        x0, _, x1, y = ends(chart, roof, width, height)
        above = min(y - (4 if fits else 9), above - LINE)
        labels.append(Label(roof.label, x0 - 10 if fits else x1, above, True, None))
    return labels


def _slanted_labels(chart: Chart, roofs: list[Roof], width: float, height: float, first: float) -> list[Label]:
    """Place the labels of slanted roofs, the lowest first, to the right of `first` if that has room.

    Roofs that are too near to have a text between them share one above the upper (the rate of one level as measured and
    as published); where it would be too long, the upper one's text follows further along, or is left to the caption.
    """
    labels: list[Label] = []
    taken = 0.0  # right end of the last text, as far as it is in the way
    below: Roof | None = None
    for texts, roof in _bundles(chart, roofs, width, height):
        x0, y0, x1, y1 = ends(chart, roof, width, height)
        turn = degrees(atan2(y1 - y0, x1 - x0))
        extent = SLANTED_CHARACTER * len(texts) * cos(radians(turn))
        near = below is not None and _apart(chart, below, roof, height) < _BETWEEN
        starts = [x0 + 0.02 * (x1 - x0)]
        starts = [first + 0.02 * (x1 - first), *starts] if first > x0 else starts
        starts = [max(start, taken + 10) for start in starts] if near else starts
        start = next((start for start in starts if start + extent <= min(x1, width)), None)
        below = roof
        if start is not None:
            labels.append(Label(texts, start, y0 + (y1 - y0) * (start - x0) / (x1 - x0), False, None, turn))
            taken = start + extent
    return labels


def _bundles(chart: Chart, slanted: list[Roof], width: float, height: float) -> list[tuple[str, Roof]]:
    """Texts of slanted roofs, from the lowest up, with the roof above which each stands.

    Roofs that look like one line share a text in any case, of which the first part stays where it would be too long.
    """
    bundles: list[tuple[list[str], Roof, Roof]] = []
    for roof in slanted:
        x0, y0, x1, y1 = ends(chart, roof, width, height)
        texts = [*(bundles[-1][0] if bundles else []), roof.label]
        fits = SLANTED_CHARACTER * len(_JOINED.join(texts)) < 0.9 * hypot(x1 - x0, y1 - y0)
        gap = _apart(chart, bundles[-1][1], roof, height) if bundles else height
        if gap < (_BETWEEN if fits else _ALIKE):
            bundles[-1] = (texts if fits else texts[:-1], bundles[-1][1], roof)
        else:
            bundles.append(([roof.label], roof, roof))
    return [(_JOINED.join(texts), last) for texts, _, last in bundles]


def _apart(chart: Chart, lower: Roof, upper: Roof, height: float) -> float:
    """Vertical distance of two parallel roofs in pixels."""
    at = [roof.y0 / roof.x0 for roof in (lower, upper)]
    return abs(position(chart.y, at[1]) - position(chart.y, at[0])) * height


def ends(chart: Chart, roof: Roof, width: float, height: float) -> tuple[float, float, float, float]:
    """Pixels of both ends of a roof: x0, y0, x1, y1."""
    return (
        position(chart.x, roof.x0) * width,
        (1 - position(chart.y, roof.y0)) * height,
        position(chart.x, roof.x1) * width,
        (1 - position(chart.y, roof.y1)) * height,
    )

"""Where the texts inside a single chart go, so that none covers another."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, product
from math import atan2, cos, degrees, hypot, radians, sin
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from .axes import CHARACTER, position
from .chart import Chart, Draw, Point, Roof
from .marks import GREY

LINE = 15.0
"""Height of a line of labels, in pixels."""

_NEAR = (0.0, 11.0, -11.0, 20.0, -20.0)
"""How far below its point a label may stand on either side."""

_FAR = tuple(LINE * line for line in range(2, 10))
"""How far below it may stand on the outer side, beside those right under another label."""

SLANTED_CHARACTER = 7.0
"""Width of a character of the label of a roof, which is not bold, in pixels."""

_BETWEEN = 15.0
"""Pixels between two slanted roofs from which on a text fits there."""

_JOINED = " · "

LETTER = 6.0
"""Half the height of a letter, in pixels."""

_MARKER = 3.0
"""Half the width of a marker, in pixels."""

_Segment: TypeAlias = tuple[float, float, float, float]
"""Piece of a line in pixels: x0, y0, x1, y1 with x0 <= x1."""

Points: TypeAlias = NDArray[np.float64]
"""x and y of points [n, 2], in pixels."""


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
    """Place the labels of points in a plot area of `width` x `height` pixels, from the top down.

    Each takes the nearest free place, on the outer side of a line's end if there is one: clear of lines, markers and
    other labels, below those of higher points, and clear of background dots; of the latter two it gives up the second,
    then the first. A label without a place is left to the legend, and so are those of grey series.
    """
    obstacles = _Obstacles.of(chart, width, height)
    wanted = [
        (*_pixel(chart, point, width, height), point.label, series.style, number == 0 and len(series.points) > 1)
        for series in chart.series
        if series.style < GREY
        for number, point in enumerate(series.points)
        if point.label
    ]
    placed: list[_Box] = []
    for x, y, text, style, first in sorted(wanted, key=lambda label: (label[1], label[0])):
        under = (other.y + LINE - y for other in placed)
        outer = sorted((*_NEAR, *_FAR, *(down for down in under if 0 < down < _FAR[-1])), key=abs)
        boxes = [_box(x, y + down, text, first, style) for down in outer]
        boxes += [_box(x, y + down, text, not first, style) for down in _NEAR]
        free = [
            box
            for box in boxes
            if box.start >= 0
            and box.end <= width
            and LETTER <= box.y <= height - LETTER
            and not any(map(box.touches, (*placed, *obstacles.labels)))
            and not any(map(box.is_crossed, obstacles.lines))
            and not box.covers(obstacles.markers)
        ]
        ordered = [box for box in free if not any(map(box.is_above, placed))]
        clear = [box for box in ordered if not box.covers(obstacles.dots)]
        placed += (clear or ordered or free)[:1]
    return [box.label for box in placed]


def _pixel(chart: Chart, point: Point, width: float, height: float) -> tuple[float, float]:
    return position(chart.x, point.x) * width, (1 - position(chart.y, point.y)) * height


def _box(x: float, y: float, text: str, end: bool, style: int) -> "_Box":
    """A label that ends left of `x`, or begins right of it."""
    extent, at = CHARACTER * len(text), x - 8 if end else x + 8
    start = at - extent if end else at
    return _Box(start, start + extent, y, Label(text, at, y, end, style))


@dataclass(frozen=True, slots=True)
class _Box:
    """Extent of a label: start and end in x, middle in y."""

    start: float
    end: float
    y: float
    label: Label

    def touches(self, other: "_Box") -> bool:
        """True where the two would cover each other."""
        return self.start < other.end and other.start < self.end and abs(self.y - other.y) < LINE

    def is_above(self, other: "_Box") -> bool:
        """True where it would stand above the label of a higher point that it shares the width with."""
        return self.start < other.end and other.start < self.end and self.y < other.y and self.y > other.y - 3 * LINE

    def is_crossed(self, line: _Segment) -> bool:
        """True where a line runs through the text: its part above the box is at the height of the letters."""
        x0, y0, x1, y1 = line
        left, right = max(x0, self.start), min(x1, self.end)
        if left >= right:
            return False
        at_left, at_right = (y0 + (y1 - y0) * (x - x0) / (x1 - x0) for x in (left, right))
        return min(at_left, at_right) < self.y + LETTER and max(at_left, at_right) > self.y - LETTER

    def covers(self, points: Points) -> bool:
        """True where one of `points` [n, 2], in pixels, lies under the text."""
        x, y = points.T
        return bool(
            ((x > self.start - _MARKER) & (x < self.end + _MARKER) & (abs(y - self.y) < LETTER + _MARKER)).any()
        )


@dataclass(frozen=True, slots=True)
class _Obstacles:
    """What a label must keep clear of; `dots` are those of the background."""

    lines: list[_Segment]
    labels: list[_Box]
    markers: Points
    dots: Points

    @classmethod
    def of(cls, chart: Chart, width: float, height: float) -> "_Obstacles":
        """Collect the lines, roofs with their labels, and points of a chart."""
        lines = [ends(chart, roof, width, height) for roof in chart.roofs]
        if chart.level is not None:
            y = (1 - position(chart.y, chart.level)) * height
            lines.append((0.0, y, width, y))
        at: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
        for series in chart.series:
            pixels = [_pixel(chart, point, width, height) for point in series.points]
            at[series.faint] += pixels
            if series.draw in (Draw.LINE, Draw.STROKE):
                lines += [(*start, *stop) for start, stop in pairwise(pixels)]
        names = roof_labels(chart, width, height)
        lines += [line for name in names if name.turn for line in _slanted_text(name)]
        labels = [_box(n.x + (8 if n.end else -8), n.y, n.text, n.end, 0) for n in names if not n.turn]
        lines = [line if line[0] <= line[2] else (*line[2:], *line[:2]) for line in lines]
        return cls(lines, labels, *(np.array(at[faint], dtype=np.float64).reshape(-1, 2) for faint in (False, True)))


def _slanted_text(name: Label) -> list[_Segment]:
    """Lower and upper edge of the text of a slanted roof, which stands above its line."""
    extent, turn = SLANTED_CHARACTER * len(name.text), radians(name.turn)
    edges = []
    for above in (5.0, 14.0):
        x, y = name.x + above * sin(turn), name.y - above * cos(turn)
        edges.append((x, y, x + extent * cos(turn), y + extent * sin(turn)))
    return edges


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

    A text that would cross a level roof goes without its last part, the kind, which the line shows too.
    """
    labels: list[Label] = []
    for texts, roof in _bundles(chart, roofs, width, height):
        x0, y0, x1, y1 = ends(chart, roof, width, height)
        turn = degrees(atan2(y1 - y0, x1 - x0))
        starts = [start + 0.02 * (x1 - start) for start in (max(first, x0), x0)]
        end = min(
            x1, width, *(x0 + (x1 - x0) * (y + LINE - y0) / (y1 - y0) for y in _crossed(chart, roof, width, height))
        )
        for text, start in product((texts, texts.rpartition(", ")[0]), starts):
            if text and start + SLANTED_CHARACTER * len(text) * cos(radians(turn)) <= end:
                labels.append(Label(text, start, y0 + (y1 - y0) * (start - x0) / (x1 - x0), False, None, turn))
                break
    return labels


def _crossed(chart: Chart, slanted: Roof, width: float, height: float) -> Iterator[float]:
    """Vertical pixels of the level roofs that a slanted one crosses."""
    for roof in chart.roofs:
        if roof.y0 == roof.y1 < slanted.y1 and roof.x0 <= slanted.x0 * roof.y0 / slanted.y0:
            yield ends(chart, roof, width, height)[1]


def _bundles(chart: Chart, slanted: list[Roof], width: float, height: float) -> list[tuple[str, Roof]]:
    """Texts of slanted roofs, from the lowest up, with the roof above which each stands.

    Roofs that are too near to have a text between them share one above the upper (the rate of one level as measured and
    as published), of which the first part stays where it would be too long: the caption has the others.
    """
    bundles: list[tuple[str, Roof]] = []
    for roof in slanted:
        x0, y0, x1, y1 = ends(chart, roof, width, height)
        length, text = hypot(x1 - x0, y1 - y0), roof.label
        if bundles and _apart(chart, bundles[-1][1], roof, height) * abs(x1 - x0) / length < _BETWEEN:
            lower, _ = bundles.pop()
            joined = f"{lower}{_JOINED}{text}"
            text = joined if SLANTED_CHARACTER * len(joined) < 0.9 * length else lower
        bundles.append((text, roof))
    return bundles


def _apart(chart: Chart, lower: Roof, upper: Roof, height: float) -> float:
    """Vertical distance of two parallel roofs in pixels."""
    at = [roof.y0 / roof.x0 for roof in (lower, upper)]
    return abs(position(chart.y, at[1]) - position(chart.y, at[0])) * height


def ends(chart: Chart, roof: Roof, width: float, height: float) -> tuple[float, float, float, float]:
    """Pixels of both ends of a roof: x0, y0, x1, y1."""
    start, stop = (_pixel(chart, end, width, height) for end in (Point(roof.x0, roof.y0), Point(roof.x1, roof.y1)))
    return (*start, *stop)

"""How large a drawing is, and where in it the plot area lies."""

import math
from dataclasses import dataclass, replace

from .axes import position
from .chart import Axis, Chart, Figure, Spacing, Tick


@dataclass(frozen=True, slots=True)
class Frame:
    """Size of a drawing and the margins around its plot area, in CSS pixels at natural size."""

    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float
    labelled: bool
    """Whether it has the names of axes, and of the points of lines."""

    @property
    def plot_width(self) -> float:
        """Width of the plot area."""
        return self.width - self.left - self.right

    @property
    def plot_height(self) -> float:
        """Height of the plot area."""
        return self.height - self.top - self.bottom

    @property
    def letter(self) -> float:
        """Usual width of a character of a tick label."""
        return _LETTER if self.labelled else _PANEL_LETTER

    def x(self, chart: Chart, value: float) -> float:
        """Horizontal pixel of a data value."""
        return self.left + position(chart.x, value) * self.plot_width

    def y(self, chart: Chart, value: float) -> float:
        """Vertical pixel of a data value."""
        return self.height - self.bottom - position(chart.y, value) * self.plot_height

    def ticks(self, chart: Chart) -> list[Tick]:
        """Ticks of the x axis from right to left, without the labels that would touch the one on their right."""
        ticks, free = [], math.inf
        for tick in sorted(chart.x.ticks, key=lambda tick: -tick.value):
            extent = self.letter * len(tick.label)
            right = min(self.x(chart, tick.value) + extent / 2, self.width)
            if right + _BETWEEN > free:
                tick = replace(tick, label="")
            elif tick.label:
                free = right - extent
            ticks.append(tick)
        return ticks


PANEL = Frame(236, 156, left=45, right=5, top=6, bottom=19, labelled=False)
SINGLE = Frame(920, 480, left=100, right=16, top=14, bottom=48, labelled=True)

ROW, PANEL_ROW = 19.0, 15.0
"""Height of a band, in a chart by itself and in a panel."""

COLUMN = 31.0
"""Least width of a band; long labels widen it."""

LONGEST = 36
"""Characters of the label of a row; longer ones are cut (`shortened`)."""

_LETTER, _PANEL_LETTER = 7.2, 5.9
"""Usual width of a character of a tick label, in pixels."""

_BETWEEN = 4.0
"""Least space between two tick labels."""

_BARE_BOTTOM = 8.0
"""Margin below an axis without labels."""


def frame(chart: Chart, panel: bool = False) -> Frame:
    """Size of one chart: the usual one, with room for its bands and their labels."""
    usual = PANEL if panel else SINGLE
    labelled = usual.labelled and bool(chart.x.label)
    left, bottom, width, height = usual.left, usual.bottom, usual.width, usual.height
    if chart.height != 1 and not panel:
        bottom = usual.bottom if labelled else (22.0 if _has_labels(chart.x) else _BARE_BOTTOM)
        height = usual.top + chart.height * usual.plot_height + bottom
    if chart.y.spacing is Spacing.BANDS:
        longest = max((len(tick.label) for tick in chart.y.ticks), default=0)
        left = 12 + min(longest, LONGEST) * (_PANEL_LETTER if panel else _LETTER)
        bottom = usual.bottom if panel or labelled else 26.0
        height = usual.top + chart.y.bands * (PANEL_ROW if panel else ROW) + bottom
    if chart.x.spacing is Spacing.BANDS:
        widest = max((len(tick.label) for tick in chart.x.ticks), default=0)
        width = left + chart.x.bands * max(COLUMN, widest * _LETTER + 9) + usual.right
    return Frame(width, height, left, usual.right, usual.top, bottom, usual.labelled)


def _has_labels(axis: Axis) -> bool:
    return any(tick.label for tick in axis.ticks)


def titled(figure: Figure) -> bool:
    """True where each chart of a figure needs its title above it, because there are several."""
    return figure.multiples or len(figure.charts) > 1


def shortened(text: str, most: int = LONGEST) -> str:
    """Cut a text to `most` characters, in its middle, where names differ least."""
    flat = " ".join(text.split())
    if len(flat) <= most:
        return flat
    end = most // 2
    return f"{flat[: most - end - 1]}\N{HORIZONTAL ELLIPSIS}{flat[-end:]}"

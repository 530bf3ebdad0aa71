"""Figures as data: axes with their ticks, series, roofs, spans. `svg` and `png` draw the same value."""

from dataclasses import dataclass
from enum import StrEnum


class Draw(StrEnum):
    """How a series is drawn."""

    LINE = "line"
    DOTS = "dots"


@dataclass(frozen=True, slots=True)
class Tick:
    """A position on an axis, in data units; an empty label draws the grid line only."""

    value: float
    label: str = ""


@dataclass(frozen=True, slots=True)
class Axis:
    """A logarithmic axis from `low` to `high` (both > 0, data units)."""

    label: str
    low: float
    high: float
    ticks: tuple[Tick, ...]

    def __post_init__(self) -> None:
        if not 0 < self.low < self.high:
            raise ValueError(
                f"axis {self.label!r}: a logarithmic axis needs 0 < low < high, not {self.low}, {self.high}"
            )


@dataclass(frozen=True, slots=True)
class Point:
    """One point in data units; `name` says what it is, for a reader who points at it; `label` is drawn beside it."""

    x: float
    y: float
    name: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class Series:
    """Points of one provider. `style` indexes the palette, so that a provider looks alike in every figure.

    `band` holds (x, low, high) of an interval around the line; `faint` dots are background.
    """

    label: str
    style: int
    points: tuple[Point, ...]
    draw: Draw = Draw.LINE
    band: tuple[tuple[float, float, float], ...] = ()
    faint: bool = False


@dataclass(frozen=True, slots=True)
class Roof:
    """A limit: a straight line on the logarithmic axes from (x0, y0) to (x1, y1), labelled with value and source."""

    label: str
    x0: float
    y0: float
    x1: float
    y1: float
    measured: bool = True


@dataclass(frozen=True, slots=True)
class Span:
    """A position on the x axis with its interval: a crossover. Any of the three may be None (unknown or open)."""

    label: str
    style: int
    at: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Chart:
    """One pair of axes. `corner` is a short remark in the corner; `level` draws a horizontal reference line at y."""

    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    roofs: tuple[Roof, ...] = ()
    spans: tuple[Span, ...] = ()
    corner: str = ""
    level: float | None = None
    alt: str = ""

    @property
    def back_to_front(self) -> list[Series]:
        """Series in drawing order: faint ones first, and among the rest the first one last, so that it lies on top."""
        series = list(self.series)
        series.reverse()
        return sorted(series, key=lambda one: not one.faint)


@dataclass(frozen=True, slots=True)
class LegendEntry:
    """A provider and the palette style that stands for it."""

    label: str
    style: int


@dataclass(frozen=True, slots=True)
class Figure:
    """One chart, or small multiples when there are several. `alt` states the finding; `how_to_read` explains."""

    id: str
    title: str
    charts: tuple[Chart, ...]
    how_to_read: str
    alt: str
    caption: str = ""
    legend: tuple[LegendEntry, ...] = ()
    multiples: bool = False
    detail: bool = False

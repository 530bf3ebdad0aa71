"""Figures as data: axes with their ticks, series, roofs, spans, boxes."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from ...shapes.files.csv_file import csv_text

Raw: TypeAlias = float | int | str | None
"""A value in base units; None where it is unknown."""


class Draw(StrEnum):
    """How a series is drawn: a line with markers, one without, markers alone, dots, rings around what stands out."""

    LINE = "line"
    STROKE = "stroke"
    MARKS = "marks"
    DOTS = "dots"
    RINGS = "rings"


class Spacing(StrEnum):
    """How values lie on an axis. BANDS are rows or columns of equal size; the first one is from 0 to 1."""

    LOG = "log"
    LINEAR = "linear"
    BANDS = "bands"


@dataclass(frozen=True, slots=True)
class Tick:
    """A position on an axis, in data units; an empty label draws the grid line only."""

    value: float
    label: str = ""


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis from `low` to `high` (data units; both > 0 where it is logarithmic)."""

    label: str
    low: float
    high: float
    ticks: tuple[Tick, ...]
    spacing: Spacing = Spacing.LOG

    def __post_init__(self) -> None:
        if self.spacing is Spacing.LOG and not 0 < self.low < self.high:
            raise ValueError(
                f"axis {self.label!r}: a logarithmic axis needs 0 < low < high, not {self.low}, {self.high}"
            )
        if not self.low < self.high:
            raise ValueError(f"axis {self.label!r} needs low < high, not {self.low}, {self.high}")

    @property
    def bands(self) -> int:
        """Number of bands; 0 for an axis of another kind."""
        return round(self.high - self.low) if self.spacing is Spacing.BANDS else 0


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
    """A limit: a straight line on the logarithmic axes from (x0, y0) to (x1, y1), labelled with value and source.

    Measured ones are solid, published ones dashed, those at the `observed` clock dotted.
    """

    label: str
    x0: float
    y0: float
    x1: float
    y1: float
    measured: bool = True
    observed: bool = False


@dataclass(frozen=True, slots=True)
class CrossoverSpan:
    """A position on the x axis with its interval: a crossover. Any of the three may be None (unknown or open)."""

    label: str
    style: int
    at: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Box:
    """A filled rectangle in data units, with a short text in its middle; `name` is told to a reader who points at it.

    `fill` names a colour: s and a style, k- and a bound class, g, r or q and a step of the scales of `colours`.
    """

    x0: float
    x1: float
    y0: float
    y1: float
    fill: str
    text: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Remark:
    """A text that begins, or at `end` ends, at a place in data units, its height centred there."""

    x: float
    y: float
    text: str
    end: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """One pair of axes. `corner` is a short remark in the corner; `level` draws a horizontal reference line at y.

    `height` is that of the plot area over the usual one: less for strips that stand one above the other.
    """

    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    roofs: tuple[Roof, ...] = ()
    spans: tuple[CrossoverSpan, ...] = ()
    corner: str = ""
    level: float | None = None
    alt: str = ""
    boxes: tuple[Box, ...] = ()
    remarks: tuple[Remark, ...] = ()
    height: float = 1.0

    @property
    def back_to_front(self) -> list[Series]:
        """Series in drawing order: faint ones first, and among the rest the first one last, so that it lies on top."""
        backwards = self.series[::-1]
        return sorted(backwards, key=lambda one: not one.faint)


@dataclass(frozen=True, slots=True)
class LegendEntry:
    """A sample of what is drawn and what it stands for: a style of the palette, or the `fill` of boxes."""

    label: str
    style: int = 0
    draw: Draw = Draw.LINE
    fill: str = ""


@dataclass(frozen=True, slots=True)
class Data:
    """The numbers behind a figure, in base units: a table that a reader can take away. NaN is an unknown, like None."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Raw, ...], ...]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"a row of {len(row)} values under the columns {', '.join(self.columns)}")

    @classmethod
    def of(cls, columns: tuple[str, ...], rows: Iterable[Mapping[Any, Any]]) -> "Data":
        """Take `columns` out of rows of a frame."""
        return cls(columns, tuple(tuple(row[name] for name in columns) for row in rows))

    def csv(self) -> str:
        """Return the table as CSV; an unknown value is empty."""
        return csv_text(self.columns, ([_plain(value) for value in row] for row in self.rows))


def _plain(value: Raw) -> Raw:
    """Write a number as short as it is exact to 9 digits; nothing for what is unknown."""
    if not isinstance(value, float):
        return value
    return None if math.isnan(value) else f"{value:.9g}"


@dataclass(frozen=True, slots=True)
class Bar:
    """One line of a figure where there are no images: what it is about, its value as text, and the length of a bar."""

    label: str
    text: str
    value: float


@dataclass(frozen=True, slots=True)
class Figure:
    """One chart, or several. `alt` states the finding, `how_to_read` explains; `data` are the numbers that are drawn.

    `multiples`: small panels of one kind. `detail`: a reader can do without it. `bars` are what is left of the figure
    where there are no images.
    """

    id: str
    title: str
    charts: tuple[Chart, ...]
    how_to_read: str
    alt: str
    caption: str = ""
    legend: tuple[LegendEntry, ...] = ()
    multiples: bool = False
    detail: bool = False
    data: Data | None = None
    bars: tuple[Bar, ...] = ()

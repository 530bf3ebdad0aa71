"""How regular the numbers of a table are: its columns in log space, and what is left when one explains another.

A column is described by itself, by its quotient or product with another column, or with the quotient of two others
(a speedup and its two times), each of them around one level, around a level per group of rows, or along a smooth line
from row to row. Of all these descriptions only the best counts: numbers that belong together have a tight one. A wide
table is looked at on its side, too: its rows are then the columns.
"""

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..reading.annotated_table import AnnotatedColumn, ColumnRole, Sheet
from ..reading.words import ERRORS, SPREADS

Floats = NDArray[np.float64]

Places = NDArray[np.int64]

Cell = tuple[int, AnnotatedColumn]
"""A row and a column of a sheet."""

FEWEST = 4
"""Numbers that show a pattern."""

WINDOW = 24
"""Rows that are looked at together."""

MOST_COLUMNS = 14
"""Columns that are looked at together."""

FILLED = 0.6
"""Share of the rows in which a column has a number, at least."""

FEWEST_OF_GROUP = 3
"""Rows of each group, where rows are grouped by what a column says of them."""

MOST_WINDOWS = 40
"""Windows of a table that are looked at."""

SUSPECTED = 3
"""Descriptions of each kind whose worst numbers are suspected of a slip."""

PROMISING = 24
"""Descriptions in which slips are undone."""

SMOOTH = 6
"""Rows from which on a column may follow a smooth line."""

MEASURED = (
    ColumnRole.TIME,
    ColumnRole.RATE,
    ColumnRole.THROUGHPUT,
    ColumnRole.BANDWIDTH,
    ColumnRole.RATIO,
    ColumnRole.PEAK_SHARE,
)

FIGURES = (*MEASURED, ColumnRole.STATISTIC, ColumnRole.OTHER, ColumnRole.BYTES, ColumnRole.CHANGE)
"""Roles of columns that may hold results."""


_UNSTEADY = (ERRORS | SPREADS) - {"memory", "mem"}
"""Words of columns that follow no pattern."""

_KINDS = {
    **dict.fromkeys(("s", "ms", "us", "ns"), "time"),
    **dict.fromkeys(("gflops", "tflops", "pflops"), "rate"),
    **dict.fromkeys(("gb/s", "tb/s"), "bandwidth"),
}
"""Unit of a cell: of what it is. Numbers of another kind than most of their column are none of it."""


@dataclass(frozen=True, slots=True)
class Figures:
    """A row or column of numbers in log space: `logs` (nan: no number), and half the width that rounding leaves each.

    A change of x % is the factor 1 + x/100, or, as other `Figures` of the same `key`, 1 / (1 - x/100). `is_result` is
    False for sizes, and for whole numbers of unknown columns, which may be sizes. `unit` is the logarithm of theirs.
    """

    key: int
    role: ColumnRole
    unit: float
    cells: Sequence[Cell]
    logs: Floats
    widths: Floats
    is_result: bool

    @property
    def is_column(self) -> bool:
        """False for a row of a table that is looked at on its side."""
        return self.cells[0][1] is self.cells[-1][1]

    @property
    def is_timed(self) -> bool:
        """True for what was measured; False for sizes, bytes, and what is unknown, which may be an amount of work."""
        return self.role in MEASURED or self.role is ColumnRole.CHANGE


@dataclass(frozen=True, slots=True)
class Descriptions:
    """All descriptions of one row of figures: `series[i]` is the i-th, at the `places` that have a number.

    `widths` are as in `Figures`; `groups` hold indices of `places` that belong together.
    """

    figures: Figures
    places: Places
    series: Floats
    widths: Floats
    groups: Sequence[Sequence[Places]]

    @property
    def cells(self) -> list[Cell]:
        """Where the numbers are."""
        return [self.figures.cells[place] for place in self.places]

    def residuals(self, series: Floats) -> Iterator[Floats]:
        """Yield what each kind of level leaves of each number, beyond rounding."""
        yield around(series, self.widths)
        for groups in self.groups:
            yield self._within(series, groups, around)
        if len(self.places) >= SMOOTH:
            yield bends(series, self.widths)
            for groups in self.groups:
                if all(len(at) > FEWEST_OF_GROUP for at in groups):
                    yield self._within(series, groups, bends)

    def _within(self, series: Floats, groups: Sequence[Places], kind: Callable[[Floats, Floats], Floats]) -> Floats:
        found = np.zeros_like(series)
        for at in groups:
            found[..., at] = kind(series[..., at], self.widths[:, at])
        return found

    def worst(self, series: Floats) -> Floats:
        """Largest residual of each description; one axis more at the end, for the kinds of level."""
        return np.stack([one.max(-1) for one in self.residuals(series)], -1)

    def least_of_others(self) -> float:
        """Largest residual that the best description has if any two numbers are corrected, at least."""
        found: list[float] = []
        for residuals in self.residuals(self.series):
            is_smooth = len(found) > len(self.groups)
            touched = min(6 if is_smooth else 2, len(self.places) - 1)  # a number bends the line at its neighbours, too
            found.append(float(np.partition(residuals, -1 - touched, axis=1)[:, -1 - touched].min()))
        return min(found)

    def promising(self) -> tuple["Descriptions", list[int]]:
        """Return the descriptions that few numbers spoil, and those numbers."""
        places: set[int] = set()
        thirds = np.full(len(self.series), np.inf)
        for residuals in self.residuals(self.series):
            order = np.argsort(residuals, axis=1)
            third = np.take_along_axis(residuals, order[:, -3:-2], 1)[:, 0]
            thirds = np.minimum(thirds, third)
            for best in np.argsort(third, kind="stable")[:SUSPECTED]:
                places |= {*order[best, -3:].tolist()}
        kept = np.sort(np.argsort(thirds, kind="stable")[:PROMISING])
        return replace(self, series=self.series[kept], widths=self.widths[kept]), sorted(places)


def around(series: Floats, widths: Floats) -> Floats:
    """Distances of numbers from their median."""
    ordered, middle = np.sort(series, axis=-1), series.shape[-1] // 2  # np.median takes four times as long on so few
    level = ordered[..., [middle, -1 - middle]].mean(-1, keepdims=True)
    found: Floats = np.maximum(np.abs(series - level) - widths, 0.0)
    return found


def bends(series: Floats, widths: Floats) -> Floats:
    """Distances of numbers from the middle of their neighbours; the first and last one have that beside them."""
    bends = np.abs(series[..., 2:] - 2 * series[..., 1:-1] + series[..., :-2]) / 2 - widths[..., 1:-1]
    found: Floats = np.maximum(np.concatenate([bends[..., :1], bends, bends[..., -1:]], -1), 0.0)
    return found


def blocks_of(sheet: Sheet) -> Iterator[tuple[list[Figures], Sequence[Sequence[Places]]]]:
    """Yield what belongs together, with its groups: columns, some rows at a time; rows, as far as they are alike."""
    for start in range(0, min(len(sheet), MOST_WINDOWS * WINDOW), WINDOW):
        rows = range(max(0, min(start, len(sheet) - WINDOW)), min(start + WINDOW, len(sheet)))
        columns = [one for one in sheet.of(*FIGURES, ColumnRole.SIZE) if not one.core & _UNSTEADY][:MOST_COLUMNS]
        figures = [figures for column in columns for figures in _column(column, rows)]
        yield [one for one in figures if _is_filled(one)], _groups(sheet, rows)
        alike: dict[tuple[ColumnRole, float], list[AnnotatedColumn]] = defaultdict(list)
        for column in sheet.columns:
            if (
                column.role in MEASURED or (column.role is ColumnRole.OTHER and not column.is_whole)
            ) and not column.beside:
                alike[column.role, column.unit].append(column)
        for (role, _), columns in alike.items():
            if len(columns) > FEWEST and len(rows) <= MOST_COLUMNS:
                turned = [_figures(row, role, [(row, one) for one in columns[:WINDOW]]) for row in rows]
                yield [one for one in turned if _is_filled(one)], ()


def _is_filled(figures: Figures) -> bool:
    return bool(np.isfinite(figures.logs).sum() >= max(FEWEST, FILLED * len(figures.logs)))


def _column(column: AnnotatedColumn, rows: Sequence[int]) -> Iterator[Figures]:
    cells = [(row, column) for row in rows]
    if column.role is ColumnRole.CHANGE:
        yield _changes(cells, 1)
        yield _changes(cells, -1)
    else:
        yield _figures(column.index, column.role, cells)


def _figures(key: int, role: ColumnRole, cells: Sequence[Cell]) -> Figures:
    logs, widths = np.full(len(cells), np.nan), np.zeros(len(cells))
    kinds = Counter(
        _KINDS.get(cell.unit, cell.unit) for row, column in cells if (cell := column.cells[row]) is not None
    )
    for place, (row, column) in enumerate(cells):
        cell, span = column.cells[row], column.span(row)
        if cell is None or span is None or _KINDS.get(cell.unit, cell.unit) != kinds.most_common(1)[0][0]:
            continue
        if cell.value > 0:
            logs[place] = math.log(cell.value * column.unit)
            if role is not ColumnRole.SIZE:
                widths[place] = math.log(span.high / max(span.low, cell.value / 2)) / 2
    is_result = role is not ColumnRole.SIZE and not (role is ColumnRole.OTHER and cells[0][1].is_whole)
    return Figures(key, role, math.log(cells[0][1].unit), cells, logs, widths, is_result)


def _changes(cells: Sequence[Cell], sign: int) -> Figures:
    logs, widths = np.full(len(cells), np.nan), np.zeros(len(cells))
    for place, (row, column) in enumerate(cells):
        if (span := column.span(row)) is not None and min(sign * span.low, sign * span.high) > -100:
            ends = [sign * math.log(1 + sign * end / 100) for end in span]
            logs[place], widths[place] = sum(ends) / 2, abs(ends[1] - ends[0]) / 2
    return Figures(cells[0][1].index, ColumnRole.CHANGE, 0.0, cells, logs, widths, True)


def _groups(sheet: Sheet, rows: Sequence[int]) -> list[list[Places]]:
    """Rows by what each column that is no result says of them, where it says few things."""
    found = []
    for column in sheet.columns:
        if column.role in FIGURES and not (column.role is ColumnRole.OTHER and column.is_whole):
            continue
        places = defaultdict(list)
        for place, row in enumerate(rows):
            places[sheet.text(row, column)].append(place)
        if len(places) > 1 and min(map(len, places.values())) >= FEWEST_OF_GROUP:
            found.append([np.array(one) for one in places.values()])
    return found


def describe(figures: Figures, others: Sequence[Figures], groups: Sequence[Sequence[Places]]) -> Descriptions | None:
    """Describe figures by themselves and by others; None where they have too few numbers."""
    at = np.flatnonzero(np.isfinite(figures.logs))
    if len(at) < FEWEST:
        return None
    known = [one for one in others if one.key != figures.key and np.isfinite(one.logs[at]).all()]
    series, widths = [figures.logs[at]], [figures.widths[at]]
    for one in known:
        for sign in (1, -1):
            series.append(figures.logs[at] - sign * one.logs[at])
            widths.append(figures.widths[at] + one.widths[at])
    for one, other in itertools.combinations(known, 2):
        is_work = (one.role is ColumnRole.TIME and not other.is_timed) or (
            other.role is ColumnRole.TIME and not one.is_timed
        )
        if one.key != other.key and (one.role is other.role or is_work):
            for sign in (1, -1):
                series.append(figures.logs[at] - sign * (one.logs[at] - other.logs[at]))
                widths.append(figures.widths[at] + one.widths[at] + other.widths[at])
    inside = [[np.flatnonzero(np.isin(at, group)) for group in one] for one in groups]
    kept = [one for one in inside if min(map(len, one)) >= FEWEST_OF_GROUP]
    return Descriptions(figures, at, np.array(series), np.array(widths), kept)

"""What the tables under one heading allow a sentence to say: largest numbers, means, counts and ratios."""

import itertools
import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from statistics import fmean, geometric_mean, median

from ...imports.consistency import SLACK, ValueRange
from ..reading.annotated_table import AnnotatedColumn, ColumnRole, Sheet
from .changes import is_aggregate
from .pairs import ratio


class Spans:
    """Intervals that are asked many times whether one of them meets another, in logarithmic time."""

    def __init__(self, spans: Iterable[ValueRange]) -> None:
        ordered = sorted(spans)
        self._lows = [one.low for one in ordered]
        self._highs = list(itertools.accumulate((one.high for one in ordered), max))

    def meet(self, other: ValueRange) -> bool:
        """True where some interval and `other` have a number in common, as `ValueRange.meets`."""
        slack = SLACK * max(1.0, *map(abs, other))
        count = bisect_right(self._lows, other.high + slack)
        return count > 0 and self._highs[count - 1] >= other.low - slack

    def __bool__(self) -> bool:
        return bool(self._lows)


FEW_ROWS = 4
"""Rows of a table up to which a factor in a sentence is that of two of its numbers."""


def quotients_of(
    sheets: Sequence[Sheet], section: Callable[[str, int], tuple[str, int]]
) -> Iterator[tuple[tuple[str, int], tuple[str, Spans]]]:
    """Yield what the numbers of the only table under a heading, a short one, allow as the ratio of any two of them."""
    by_place: dict[tuple[str, int], list[Sheet]] = defaultdict(list)
    for sheet in sheets:
        by_place[section(sheet.titled.table.where, sheet.titled.line)].append(sheet)
    for place, found in by_place.items():
        (sheet, *others), spans, names = found, [], []
        if others or not 2 <= len(sheet) <= FEW_ROWS:
            continue
        for role in (
            ColumnRole.TIME,
            ColumnRole.RATE,
            ColumnRole.THROUGHPUT,
            ColumnRole.BANDWIDTH,
            ColumnRole.OTHER,
            ColumnRole.BYTES,
        ):
            columns = sheet.of(role)
            cells = [span for one in columns for row in range(len(sheet)) if (span := one.span(row)) and span.low > 0]
            names += [one.name for one in columns]
            if len(cells) <= FEW_ROWS**2:
                spans += [ratio(one, other) for one, other in itertools.permutations(cells, 2)]
        if len(spans) > 1 and sheet.of(ColumnRole.TIME, ColumnRole.RATE, ColumnRole.THROUGHPUT):
            yield place, (joined(names, ", "), Spans(spans))


class Near:
    """The columns of one role under one heading, in base units, with what sentences are held against.

    All of it is computed once, not for each sentence.
    """

    def __init__(self, columns: Sequence[tuple[Sheet, AnnotatedColumn]]) -> None:
        self.columns = columns
        self.role = columns[0][1].role
        self.names = joined([column.name for _, column in columns], ", ")

    @cached_property
    def rows(self) -> list[list[ValueRange]]:
        """Spans of the rows of each column, without those that sum others up."""
        return [
            [
                _scaled(span, column)
                for row in range(len(sheet))
                if (span := column.span(row)) is not None and not is_aggregate(sheet, row)
            ]
            for sheet, column in self.columns
        ]

    @cached_property
    def top(self) -> float | None:
        """Largest number that a sentence may call one; None where no column has two rows."""
        ends = []
        for (_, column), spans in zip(self.columns, self.rows, strict=True):
            if len(spans) < 2:
                continue
            ends += [span.high for span in spans]
            if column.role is ColumnRole.RATIO:
                ends += [1 / span.low for span in spans if span.low > 0]
            elif column.role in (ColumnRole.CHANGE, ColumnRole.PEAK_SHARE):
                ends += [-span.low for span in spans]
        return max(ends, default=None)

    @cached_property
    def means(self) -> list[ValueRange]:
        """Means of all kinds, printed or computed; of ratios their reciprocals too."""
        means = []
        for (sheet, column), spans in zip(self.columns, self.rows, strict=True):
            found = [*_summed(sheet, column), *(_middles(spans) if len(spans) > 1 else ())]
            means += found
            if column.role is ColumnRole.RATIO:
                means += [ValueRange(1 / span.high, 1 / span.low) for span in found if span.low > 0]
        return means

    @cached_property
    def sizes_of_means(self) -> Spans:
        """The same without their signs: a reduction of 3 % is also a change of -3 %."""
        return Spans(ValueRange(-mean.high, -mean.low) if mean.high < 0 else mean for mean in self.means)

    @cached_property
    def geometric_means(self) -> list[ValueRange]:
        """Geometric mean of each column with two rows or more that are all positive."""
        return [
            ValueRange(*(math.exp(fmean(math.log(end) for end in ends)) for ends in zip(*spans, strict=True)))
            for spans in self.rows
            if len(spans) >= 2 and all(span.low > 0 for span in spans)
        ]

    @cached_property
    def spans_of_geometric_means(self) -> Spans:
        """The same, to be asked."""
        return Spans(self.geometric_means)

    @cached_property
    def there(self) -> Spans:
        """Numbers of rows and summaries, reciprocals of ratios, and means."""
        found = []
        for (sheet, column), rows in zip(self.columns, self.rows, strict=True):
            spans = [_scaled(span, column) for _, (span,) in sheet.spans(column)]
            spans += _summed(sheet, column)
            if column.role is ColumnRole.CHANGE:  # a reduction of 3 % is also printed as -3 %
                spans += [ValueRange(-span.high, -span.low) for span in spans]
            if column.role is ColumnRole.RATIO:
                spans += [ValueRange(1 / span.high, 1 / span.low) for span in spans if span.low > 0]
            found += [*spans, *_middles(rows)]
        return Spans(found)

    @cached_property
    def wins(self) -> tuple[set[int], list[tuple[ValueRange, ValueRange]]]:
        """Numbers of rows, and for each distinct column how many may be above 1, and below."""
        told = [spans for spans in self.rows if len(spans) >= 2]
        above_and_below = [
            (
                ValueRange(sum(span.low > 1 for span in spans), sum(span.high >= 1 for span in spans)),
                ValueRange(sum(span.high < 1 for span in spans), sum(span.low <= 1 for span in spans)),
            )
            for spans in told
        ]
        return {len(spans) for spans in told}, list(dict.fromkeys(above_and_below))


def _scaled(span: ValueRange, column: AnnotatedColumn) -> ValueRange:
    """Numbers of a column in base units, where its role has one."""
    unit = column.unit if column.role in (ColumnRole.RATE, ColumnRole.BANDWIDTH) else 1.0
    return ValueRange(span.low * unit, span.high * unit)


def _summed(sheet: Sheet, column: AnnotatedColumn) -> list[ValueRange]:
    """Numbers of the rows that sum a column up."""
    cells = (one.cells.get(column.index) for one in sheet.summaries)
    return [_scaled(cell.span, column) for cell in cells if cell is not None]


def joined(words: Iterable[str], separator: str) -> str:
    """Name different words: three of them, and how many there are beside."""
    named = list(dict.fromkeys(words))
    return separator.join(named[:3]) + (f" and {len(named) - 3} more" if len(named) > 3 else "")


def _middles(spans: Sequence[ValueRange]) -> Iterator[ValueRange]:
    """Mean, geometric mean and median of a column."""
    if not spans:
        return
    for middle in (fmean, median, geometric_mean):
        if all(span.low > 0 for span in spans):
            yield ValueRange(*(middle(list(ends)) for ends in zip(*spans, strict=True)))

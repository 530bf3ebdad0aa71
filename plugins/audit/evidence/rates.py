"""What TFLOPS, times and sizes say about each other: which FLOPs were counted, and how long a cell took."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from ....analysis.imports.columns import AnnotatedColumn, ColumnRole
from ....analysis.imports.consistency import ValueRange, rate_of
from ....analysis.imports.words import DTYPES
from .assumptions import PER_EXPERT, TOTAL
from .pairs import Allowed, scaled
from .sheet import Sheet


@dataclass(frozen=True, slots=True)
class PrintedRate:
    """One printed time or rate, as seconds and FLOP/s with what rounding allows; `flops` as the table counts them."""

    row: int
    column: AnnotatedColumn
    flops: float
    time: ValueRange
    rate: ValueRange

    @property
    def time_s(self) -> float:
        """Middle of the time."""
        return (self.time.low + self.time.high) / 2


SHORTEST_S = 5e-7
"""What a 0 may be rounded from, at most, and still be no time of a kernel: in a coarser unit it is a bound."""


def cells_of(sheet: Sheet, column: AnnotatedColumn, m_is: str = "") -> Iterator[PrintedRate]:
    """Yield the cells of a time or rate column whose sizes are known."""
    for row, (span,) in sheet.spans(column):
        problem = sheet.problem(row, column, m_is)
        finest = SHORTEST_S if column.role is ColumnRole.TIME else math.inf
        if problem is None or (span.low + span.high <= 0 and span.high * column.unit <= finest):  # 0 says nothing
            continue
        flops = float(problem.flops)
        low, high = max(span.low, span.high * 1e-6) * column.unit, span.high * column.unit
        if column.role is ColumnRole.TIME:
            yield PrintedRate(row, column, flops, ValueRange(low, high), ValueRange(flops / high, flops / low))
        else:
            yield PrintedRate(row, column, flops, ValueRange(flops / high, flops / low), ValueRange(low, high))


def time_beside(sheet: Sheet, rate: AnnotatedColumn) -> AnnotatedColumn | None:
    """Return the one column with the times that a column of rates belongs to: same side, pass and grid size."""
    times = [
        one
        for one in sheet.of(ColumnRole.TIME)
        if dict(one.fixed) == dict(rate.fixed) and (one.pass_ == rate.pass_ or not rate.pass_)
    ]
    fits = [one for one in times if one.side == rate.side or not rate.side]
    if not fits:  # the type stands beside the name of one of them only
        fits = [one for one in times if _untyped(one) == _untyped(rate)]
    return fits[0] if len(fits) == 1 else None


def _untyped(column: AnnotatedColumn) -> str:
    return " ".join(word for word in column.side.split() if word not in DTYPES)


def follows(sheet: Sheet, rate: AnnotatedColumn, time: AnnotatedColumn, m_is: str) -> Allowed:
    """Return the rates that the times allow, in rows with both numbers, not 0, and M counted so."""
    ends = {}
    for row, (printed, taken) in sheet.spans(rate, time):
        problem = sheet.problem(row, time, m_is)
        if problem and min(printed.low + printed.high, taken.low + taken.high) > 0:
            ends[row] = scaled(rate_of(problem.flops, taken, time.unit), 1e12 / rate.unit)
    return Allowed.of(rate, ends)


def totals(sheet: Sheet) -> set[tuple[int, int]]:
    """Rows, with the index of the column, whose time is the sum of the two others: of the stages of a kernel."""
    times = sheet.of(ColumnRole.TIME)
    return {
        (row, total.index)
        for total, *parts in (itertools.permutations(times) if len(times) == 3 else ())
        for row, (whole, one, other) in sheet.spans(total, *parts)
        if whole.meets(ValueRange(one.low + other.low, one.high + other.high))
    }


FEWEST = 3
"""Rows from which on rates that follow from times and sizes do so by no chance."""


def follows_mostly(sheet: Sheet) -> bool:
    """Tell whether the rates of a table follow from its times."""
    for rate in sheet.of(ColumnRole.RATE):
        time = time_beside(sheet, rate)
        fits = follows(sheet, rate, time, sheet.m_is) if time else Allowed({}, {})
        if fits.follow > len(fits.outside) and fits.follow >= FEWEST:
            return True
    return False


def follow_rates(sheet: Sheet) -> Sheet:
    """Return the sheet with the convention for M that its own TFLOPS follow, where just one does."""
    if sheet.m_is:
        return sheet
    for rate in sheet.of(ColumnRole.RATE):
        time = time_beside(sheet, rate)
        if time is None or not any(sheet.has_m_choice(row, rate) for row in range(len(sheet))):
            continue
        fits = {m_is: follows(sheet, rate, time, m_is) for m_is in (PER_EXPERT, TOTAL)}
        most = [m_is for m_is, one in fits.items() if one.follow > len(one.outside)]
        if len(most) == 1:
            return sheet.with_m(most[0])
    return sheet

"""Which columns are the two sides of a printed ratio or change, and what the two allow it to be."""

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ....analysis.imports.columns import AnnotatedColumn, ColumnRole
from ....analysis.imports.consistency import ValueRange, gain, reduction
from ....analysis.imports.printed import Printed
from ....analysis.imports.words import (
    BASES,
    HEADS,
    SLOWER,
    SPREADS,
    STATISTICS,
)
from .sheet import Sheet


@dataclass(frozen=True, slots=True)
class Pair:
    """Two columns of one quantity. `named`: the header of the ratio names both, base first; `sure`: which is which."""

    base: AnnotatedColumn
    head: AnnotatedColumn
    sure: bool
    named: bool = False

    @property
    def is_time(self) -> bool:
        """True for times, of which less is better; False for rates."""
        return self.base.role is ColumnRole.TIME

    @property
    def is_known(self) -> bool:
        """False for numbers that no header calls times, or something per second."""
        return self.base.role in MEASURED


def pair_of(sheet: Sheet, column: AnnotatedColumn) -> Pair | None:
    """Find the columns that a ratio, change or difference is computed from; None where they are missing or unclear."""
    prefer = (
        (ColumnRole.RATE, ColumnRole.TIME)
        if column.role is ColumnRole.DIFFERENCE and column.unit > 1
        else (ColumnRole.TIME, ColumnRole.RATE)
    )
    own = _quantity(column)
    same = {one.index for one in sheet.of(*_PAIRED) if own & _quantity(one)}

    def among(columns: Sequence[AnnotatedColumn]) -> Pair | None:
        """Columns that share a word with this one go before all others: VRAM saved is of VRAM."""
        alike = [one for one in columns if one.index in same]
        if len(same) < 2 or not column.side:
            return _among(_candidates(sheet, column, columns), column)
        return _among(_candidates(sheet, column, alike), column) if len(alike) > 1 else None

    if "<" in column.sides:
        return _versus(sheet, column) or _by_rows(sheet, column)
    named = [found for role in (*MEASURED, ColumnRole.BYTES) if (found := among(sheet.of(role))) and found.named]
    if len(named) > 1:  # times and rates both have the sides that a header names: those which it is of
        return max(named, key=lambda pair: sum(_quotient_fits(column, pair, row) for row in range(len(sheet))))
    for role in (*prefer, ColumnRole.THROUGHPUT, ColumnRole.BANDWIDTH, ColumnRole.BYTES):
        if found := among(sheet.of(role)):
            return found
    unnamed = sheet.of(ColumnRole.OTHER, ColumnRole.STATISTIC)
    if column.role is not ColumnRole.RATIO or not column.sides:  # else its header names the two
        unnamed = [one for one in unnamed if _is(one, BASES) or _is(one, HEADS)]
    found = among(unnamed)
    if found and found.sure and (found.named or _quantity(found.base) == _quantity(found.head)):
        return found
    return _by_rows(sheet, column) if column.role in (ColumnRole.RATIO, ColumnRole.CHANGE) else None


@dataclass(frozen=True, slots=True)
class Allowed:
    """What other numbers allow a column to be, by row, and of that the rows in which it is something else."""

    ends: Mapping[int, ValueRange]
    outside: Mapping[int, ValueRange]

    @classmethod
    def of(cls, column: AnnotatedColumn, *readings: Mapping[int, ValueRange]) -> "Allowed":
        """Compare a column with what is allowed in any of some readings, of which the first is the usual one."""
        told = [(row, printed) for row in readings[0] if (printed := column.span(row))]
        wrong = [row for row, printed in told if not any(meets(printed, one[row]) for one in readings)]
        return cls(readings[0], {row: readings[0][row] for row in wrong})

    @property
    def follow(self) -> int:
        """Number of rows that are as they should be."""
        return len(self.ends) - len(self.outside)


FEWEST = 4
"""Rows from which on a ratio that follows from two columns does so by no chance, ..."""

FEWEST_OF_TWO = 3
"""... where there are no other columns that it could be of."""

WIDEST = 8
"""Columns of one quantity up to which their quotients are tried."""

MOST = 0.75
"""Share of the rows that must follow."""


MEASURED = (ColumnRole.TIME, ColumnRole.RATE, ColumnRole.THROUGHPUT, ColumnRole.BANDWIDTH)
"""Roles of what was measured, and of no quotient."""


def _quotient_fits(column: AnnotatedColumn, pair: Pair, row: int) -> bool:
    printed, over, under = column.span(row), pair.base.span(row), pair.head.span(row)
    return bool(printed and over and under) and meets(printed, ratio(over, under))  # type: ignore[arg-type]


def _versus(sheet: Sheet, column: AnnotatedColumn) -> Pair | None:
    """Find the columns of "head vs base", where the header names the base, and maybe the head."""
    base_word, _, head_word = column.sides.partition("<")
    for role in (*MEASURED, ColumnRole.OTHER):
        columns = _candidates(sheet, column, sheet.of(role))
        bases = [one for one in columns if base_word in one.side.split()]
        heads = [one for one in columns if one not in bases and (not head_word or head_word in one.side.split())]
        if len(bases) != 1 or not heads:
            continue
        pairs = [Pair(bases[0], head, sure=False) for head in heads]
        told = sum(cell is not None for cell in column.cells)
        counts = [max(_followed(sheet, column, pair), _followed(sheet, column, pair, turn=True)) for pair in pairs]
        most = max(counts)
        if len(pairs) == 1 or (most > 1 and 2 * most >= told and counts.count(most) == 1):
            return pairs[counts.index(most)]
    return None


def _followed(sheet: Sheet, column: AnnotatedColumn, pair: Pair, turn: bool = False) -> int:
    """Rows whose ratio is that of a pair, or, with `turn`, its reciprocal."""
    turned = Pair(pair.head, pair.base, sure=False) if turn else pair
    return sum(_follows(column, turned, row) for row in range(len(sheet)))


def _by_rows(sheet: Sheet, column: AnnotatedColumn, head: AnnotatedColumn | None = None) -> Pair | None:
    """Find the two columns whose quotient or change most rows print, where the header names none.

    One of them may be the best of all; `head` must be one of them, if it is given.
    """
    best, most = None, 0
    for role in (head.role,) if head else (*MEASURED, ColumnRole.OTHER):
        columns = [one for one in _candidates(sheet, column, sheet.of(role)) if one.unit == sheet.of(role)[0].unit]
        if role is ColumnRole.OTHER and not all(
            one.is_whole for one in columns
        ):  # whole numbers beside fractions are sizes
            columns = [one for one in columns if not one.is_whole]
        few = FEWEST_OF_TWO if len(columns) == 2 else FEWEST
        for pair in _pairs(columns) if len(columns) <= WIDEST else ():
            if head and head not in (pair.base, pair.head):
                continue
            told = [row for row, _ in sheet.spans(column, pair.base, pair.head)]
            follow = sum(_follows(column, pair, row) for row in told)
            if follow >= max(few, MOST * len(told)) and follow > most:
                best, most = pair, follow
        if best:
            values = {cell.value for cell in column.cells if cell is not None}
            return best if len(values) >= few else None
    return None


def _pairs(columns: Sequence[AnnotatedColumn]) -> Iterator[Pair]:
    """Yield all pairs of columns, and each column beside the least and the largest of the others."""
    for base, head in itertools.permutations(columns, 2):
        yield Pair(base, head, sure=False)
    for base in columns if len(columns) > 2 else ():
        others = [one for one in columns if one is not base]
        yield Pair(base, _picked(others, "the least of the others", min), sure=False)
        yield Pair(base, _picked(others, "the largest of the others", max), sure=False)
    if len(columns) == 2:
        yield Pair(_picked(columns, "the larger", max), _picked(columns, "the smaller", min), sure=False)


def _picked(columns: Sequence[AnnotatedColumn], name: str, choose: Callable[..., Printed]) -> AnnotatedColumn:
    """Return a column of the least or the largest cell of each row."""
    rows = zip(*(one.cells for one in columns), strict=True)
    cells = [[cell for cell in row if cell is not None] for row in rows]
    picked = tuple(choose(row, key=lambda cell: cell.value) if row else None for row in cells)
    return replace(columns[0], name=name, cells=picked, mixed=True)


def _follows(column: AnnotatedColumn, pair: Pair, row: int) -> bool:
    printed, base, head = column.span(row), pair.base.span(row), pair.head.span(row)
    if printed is None or base is None or head is None or base.high <= 0 or head.high <= 0:
        return False
    if column.role is ColumnRole.CHANGE:
        if base.low <= 0 or head.low <= 0:
            return False
        return any(printed.meets(kind) for kind in (gain(base, head), gain(head, base), reduction(base, head)))
    return meets(printed, ratio(base, head) if pair.is_time else ratio(head, base))


_EXTREMES = SPREADS | {"min", "max", "p5", "p10", "p90", "p95", "p99"}
"""Words of a column that says how numbers vary; a ratio without them is of the numbers themselves."""

_SUMMED = frozenset(("peak", "best", "worst", *STATISTICS))
"""Words of a column of extremes and means: a ratio without them may be of other numbers."""

_PAIRED = (*MEASURED, ColumnRole.BYTES, ColumnRole.OTHER, ColumnRole.STATISTIC)


def _quantity(column: AnnotatedColumn) -> frozenset[str]:
    """Words of a header that say of what it is, not of which side."""
    return frozenset(column.side.split()) - BASES - HEADS


def ratio(over: ValueRange, under: ValueRange) -> ValueRange:
    """Quotients of two positive numbers; an `under` that may be 0 has no upper bound, a negative one none at all."""
    if under.high <= 0:
        return ValueRange(0.0, float("inf"))
    high = over.high / under.low if under.low > 0 else float("inf")
    return ValueRange(max(0.0, over.low) / under.high, high)


def scaled(span: ValueRange, factor: float) -> ValueRange:
    """Return a range multiplied by a number."""
    return ValueRange(*sorted((span.low * factor, span.high * factor)))


def meets(printed: ValueRange, allowed: ValueRange) -> bool:
    """As `ValueRange.meets`, where `allowed` may be open at an end."""
    low, high = (printed.low if math.isinf(allowed.low) else allowed.low, allowed.high)
    return printed.meets(ValueRange(low, max(low, printed.high) if math.isinf(high) else high))


def _candidates(sheet: Sheet, column: AnnotatedColumn, columns: Sequence[AnnotatedColumn]) -> list[AnnotatedColumn]:
    """Columns of the same pass, and under the same size of a grid."""
    fits = [one for one in columns if dict(one.fixed) == dict(column.fixed)]
    typical = [one for one in fits if not one.core & _EXTREMES - column.core]
    fits = typical if len(typical) > 1 else fits
    if column.pass_:
        return [one for one in fits if one.pass_ == column.pass_] or [one for one in fits if not one.pass_]
    return fits if len({one.pass_ for one in fits}) == 1 else []


def _among(columns: Sequence[AnnotatedColumn], column: AnnotatedColumn) -> Pair | None:
    if column.role is ColumnRole.RATIO and column.sides:
        sides = re.split("[/>]", column.sides)
        found = [[one for one in columns if side in one.side.split()] for side in sides]
        if all(len(one) == 1 for one in found) and found[0][0] is not found[1][0]:
            ((base,), (head,)) = found
            is_of_both = not (base.core | head.core) & _SUMMED - column.core
            return Pair(base, head, sure=is_of_both, named="/" in column.sides)
        return None
    bases = [one for one in columns if _is(one, BASES)]
    heads = [one for one in columns if _is(one, HEADS)]
    if len(bases) == len(heads) == 1:
        first, second, is_sure = bases[0], heads[0], True
    elif len(columns) == 2:
        first, second = columns
        if _is(second, BASES) or _is(first, HEADS):
            first, second = second, first
        is_sure = _is(first, BASES) or _is(second, HEADS)
    else:
        return None
    if column.role is ColumnRole.RATIO and column.core & SLOWER:
        first, second = second, first
    return Pair(first, second, is_sure)


def _is(column: AnnotatedColumn, words: frozenset[str]) -> bool:
    return bool(set(column.side.split()) & words)

"""Which columns are the two sides of a printed ratio or change, and what the two allow it to be."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..imports.consistency import Span
from .sheet import Column, Role, Sheet
from .words import BASES, HEADS


@dataclass(frozen=True, slots=True)
class Pair:
    """Two columns of one quantity. `named`: the header of the ratio names both, base first; `sure`: which is which."""

    base: Column
    head: Column
    sure: bool
    named: bool = False

    @property
    def is_time(self) -> bool:
        """True for times, of which less is better; False for rates."""
        return self.base.role is Role.TIME

    @property
    def is_known(self) -> bool:
        """False for numbers that no header calls times or rates."""
        return self.base.role in (Role.TIME, Role.RATE)


def pair_of(sheet: Sheet, column: Column) -> Pair | None:
    """Find the columns that a ratio, change or difference is computed from; None where they are missing or unclear."""
    prefer = (Role.RATE, Role.TIME) if column.role is Role.DIFFERENCE and column.unit > 1 else (Role.TIME, Role.RATE)
    for role in prefer:
        if found := _among(_candidates(sheet, column, sheet.of(role)), column):
            return found
    unnamed = sheet.of(Role.OTHER, Role.STATISTIC)
    if column.role is not Role.RATIO or not column.detail:  # else its header names the two
        unnamed = [one for one in unnamed if _is(one, BASES) or _is(one, HEADS)]
    found = _among(_candidates(sheet, column, unnamed), column)
    return found if found and found.sure else None


def ratio(over: Span, under: Span) -> Span:
    """Quotients of two positive numbers; an `under` that may be 0 has no upper bound, a negative one none at all."""
    if under.high <= 0:
        return Span(0.0, float("inf"))
    high = over.high / under.low if under.low > 0 else float("inf")
    return Span(max(0.0, over.low) / under.high, high)


def meets(printed: Span, allowed: Span) -> bool:
    """As `Span.meets`, where `allowed` may be open at an end."""
    low, high = (printed.low if math.isinf(allowed.low) else allowed.low, allowed.high)
    return printed.meets(Span(low, max(low, printed.high) if math.isinf(high) else high))


def _candidates(sheet: Sheet, column: Column, columns: Sequence[Column]) -> list[Column]:
    """Columns of the same pass, and under the same size of a grid."""
    fits = [one for one in columns if dict(one.fixed) == dict(column.fixed)]
    if column.pass_:
        return [one for one in fits if one.pass_ == column.pass_] or [one for one in fits if not one.pass_]
    return fits if len({one.pass_ for one in fits}) == 1 else []


def _among(columns: Sequence[Column], column: Column) -> Pair | None:
    if column.role is Role.RATIO and column.detail:
        sides = column.detail.split("/")
        found = [[one for one in columns if side in one.side.split()] for side in sides]
        if all(len(one) == 1 for one in found) and found[0][0] is not found[1][0]:
            return Pair(found[0][0], found[1][0], sure=True, named=True)
        return None
    bases = [one for one in columns if _is(one, BASES)]
    heads = [one for one in columns if _is(one, HEADS)]
    if len(bases) == len(heads) == 1:
        return Pair(bases[0], heads[0], sure=True)
    if len(columns) == 2:
        first, second = columns
        if _is(second, BASES) or _is(first, HEADS):
            first, second = second, first
        return Pair(first, second, sure=_is(first, BASES) or _is(second, HEADS))
    return None


def _is(column: Column, words: frozenset[str]) -> bool:
    return bool(set(column.side.split()) & words)

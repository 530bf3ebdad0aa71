"""Ratios and changes against a row of the same table: its own is 1, 100 %, or the word "baseline"."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ....analysis.imports.columns import AnnotatedColumn, ColumnRole
from ....analysis.imports.consistency import ValueRange, gain
from ....analysis.imports.words import words_of
from .pairs import MEASURED, Allowed, pair_of, ratio, scaled
from .sheet import Sheet

_NAMED = frozenset(("baseline", "base", "reference", "ref"))
"""Words of a row that the others are compared with."""

APART = 0.02
"""Relative: what a median of ratios may differ from the ratio of medians, where both are of the same rounds."""


@dataclass(frozen=True, slots=True)
class Against:
    """A column of ratios or changes of `column` to the rows in `base`, by row; and what that allows."""

    column: AnnotatedColumn
    base: Mapping[int, int]
    allowed: Allowed


def against_rows(sheet: Sheet, ratios: AnnotatedColumn) -> list[Against]:
    """Find out of which columns and rows `ratios` are; none where no row is a baseline, or too few rows follow."""
    ones, is_said = _ones(sheet, ratios)
    pair = pair_of(sheet, ratios)
    if pair is not None and (pair.sure or not is_said):
        return []
    base = dict(_bases(sheet, ones))
    if not base:
        return []
    is_named = len(ones) == 1 and (is_said or any(_NAMED & {*words_of(text)} for text in _texts(sheet, ones[0])))
    is_alone = len(ones) == 1 and ones[0] in (0, len(sheet) - 1)
    readings = [one for column in _candidates(sheet, ratios) if (one := _reading(ratios, column, base)) is not None]
    found = [
        one
        for one in readings
        if one.allowed.follow >= max(2, 2 * len(one.allowed.outside))
        or (one.allowed.follow and len(one.allowed.outside) <= one.allowed.follow and (is_named or is_alone))
    ]
    if not found and is_named and ratios.role is ColumnRole.RATIO:  # header and row say of what, and no row follows
        return readings[:1]
    return found


def _ones(sheet: Sheet, ratios: AnnotatedColumn) -> tuple[list[int], bool]:
    """Rows that are a baseline by their number, else by the word that stands there instead; True for a word."""
    unit = {ColumnRole.RATIO: 1.0, ColumnRole.PEAK_SHARE: 100.0}.get(ratios.role)
    said = [row for row in range(len(sheet)) if {*words_of(sheet.text(row, ratios))} & _NAMED]
    if ratios.role is ColumnRole.CHANGE and not said:
        unit = 100.0  # a share of another row, called a percentage
    ones = [row for row, cell in enumerate(ratios.cells) if cell is not None and cell.value == unit]
    return (said, True) if said and not ones else (ones, False)


def _texts(sheet: Sheet, row: int) -> tuple[str, ...]:
    return sheet.table.rows[row]


def _bases(sheet: Sheet, ones: list[int]) -> Iterator[tuple[int, int]]:
    """Yield for each row that with which it is compared: the only one, else the nearest above it."""
    if len(ones) == 1:
        yield from ((row, ones[0]) for row in range(len(sheet)) if row != ones[0])
    elif ones and ones[0] == 0:
        own = set(ones)
        nearest = ones[0]
        for row in range(len(sheet)):
            if row in own:
                nearest = row
            else:
                yield row, nearest


def _candidates(sheet: Sheet, ratios: AnnotatedColumn) -> Iterator[AnnotatedColumn]:
    """Yield the column of each quantity that the ratios may be of: the only one, or the only one of their side."""
    for role in MEASURED:
        columns = [one for one in sheet.of(role) if dict(one.fixed) == dict(ratios.fixed)]
        alike = [one for one in columns if one.side == ratios.side] if len(columns) > 1 else columns
        named = [one for one in columns if one.core <= ratios.core] if len(columns) > 1 else columns
        for found in (alike, named):
            if len(found) == 1:
                yield found[0]
                break


def _reading(ratios: AnnotatedColumn, column: AnnotatedColumn, base: Mapping[int, int]) -> Against | None:
    """Read the ratios as more for what is faster, else as more for what is slower; None where no row tells."""
    readings = []
    for turned in (False, True):
        ends = {row: span for row, one in base.items() if (span := _allowed(ratios, column, row, one, turned))}
        readings.append(Against(column, base, Allowed.of(ratios, ends)))
    best = max(readings, key=lambda one: one.allowed.follow)
    return best if best.allowed.ends else None


def _allowed(ratios: AnnotatedColumn, column: AnnotatedColumn, row: int, base: int, turned: bool) -> ValueRange | None:
    own, other = column.span(row), column.span(base)
    if ratios.span(row) is None or own is None or other is None or own.low <= 0 or other.low <= 0:
        return None
    first, second = (other, own) if (column.role is ColumnRole.TIME) != turned else (own, other)
    if ratios.role is ColumnRole.CHANGE and _is_change(ratios, base):
        return gain(second, first)
    ends = ratio(first, second)
    ends = ValueRange(ends.low * (1 - APART), ends.high * (1 + APART))
    unit = 1.0 if ratios.role is ColumnRole.RATIO else 100.0
    return scaled(ends, unit)


def _is_change(ratios: AnnotatedColumn, base: int) -> bool:
    """True for changes, of which the baseline has none; False for percentages of it."""
    cell = ratios.cells[base]
    return cell is None or cell.value == 0

"""Numbers that break the pattern of their column, where one simple slip explains it.

A column is described in log space by itself, by its quotient or product with another column, or with the quotient of
two others (a speedup and its two times), each of them around one level. Of all these descriptions only the best counts:
numbers that belong together have a tight one. Every slip that people make is undone in turn: a decimal point or unit
(10 or 1000 times), two numbers of the column swapped. A slip is reported if the column becomes so much more regular
without it that this is no coincidence: the gain counts once for every number that the pattern binds, and must outweigh
the number of descriptions and slips that were tried. If a pattern is exact, as of a speedup and its two times, any one
number that breaks it is reported.
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ....analysis.imports.columns import AnnotatedColumn, ColumnRole
from ....analysis.imports.words import ERRORS, SPREADS, UNTIMED
from ..evidence.finding import Finding, Need, Severity
from ..evidence.pairs import MEASURED
from ..evidence.rates import follows_mostly, totals
from ..evidence.rule import Rule
from ..evidence.sheet import Sheet

Floats = NDArray[np.float64]

FACTORS = (10.0, 0.1, 1000.0, 0.001)
"""What a decimal point, or a unit, changes a number by."""

FEWEST, FILLED = 4, 0.6
"""Numbers that show a pattern, and their share of the rows, at least."""

WINDOW, MOST_WINDOWS, MOST_COLUMNS = 24, 40, 14
"""Rows that are looked at together, how often, and columns."""

LEAST = math.log(1.25)
"""Residual of a number that breaks a pattern, and difference of two numbers that are worth a swap, at least."""

FLOOR = 0.02
"""Residual that no pattern of measured numbers is better than."""

GAIN = 3.0
"""Factor by which the column becomes more regular, at least."""

PROOF = 3.0
"""Natural logarithm of what the gain must exceed the number of things tried by."""

EXACT, BROKEN = 0.002, 0.04
"""Residual, beyond rounding, of a pattern that is computed, and not measured; and of a number that breaks it."""

_TIMED = (*MEASURED, ColumnRole.RATIO, ColumnRole.PEAK_SHARE, ColumnRole.CHANGE)
"""Roles of what was measured: no sizes, no bytes, nothing unknown, which may be an amount of work."""

_FIGURES = (*_TIMED, ColumnRole.STATISTIC, ColumnRole.OTHER, ColumnRole.BYTES, ColumnRole.WORK, ColumnRole.SIZE)

_UNSTEADY = (ERRORS | SPREADS | UNTIMED) - {"memory", "mem"}
"""Words of columns that follow no pattern."""

_KINDS = {
    **dict.fromkeys(("s", "ms", "us", "ns"), "time"),
    **dict.fromkeys(("gflops", "tflops", "pflops"), "rate"),
    **dict.fromkeys(("gb/s", "tb/s"), "bandwidth"),
}
"""Unit of a cell: of what it is. Numbers of another kind than most of their column are none of it."""


@dataclass(frozen=True, slots=True)
class _Figures:
    """A column in some rows: `logs` (nan: no number), and half the width that rounding leaves each.

    A change of x % is the factor 1 + x/100, or, as other figures of the same column, 1 / (1 - x/100). `is_result` is
    False for sizes, and for whole numbers of unknown columns, which may be sizes.
    """

    column: AnnotatedColumn
    rows: Sequence[int]
    logs: Floats
    widths: Floats
    is_result: bool


@dataclass(frozen=True, slots=True)
class _Descriptions:
    """All descriptions of figures: `series[i]` is the i-th, at the `places` with a number; `widths` of rounding."""

    figures: _Figures
    places: NDArray[np.int64]
    series: Floats
    widths: Floats

    def residuals(self, series: Floats) -> Floats:
        """Distances of numbers from their median, beyond rounding."""
        ordered, middle = np.sort(series, axis=-1), series.shape[-1] // 2  # np.median takes four times as long
        level = ordered[..., [middle, -1 - middle]].mean(-1, keepdims=True)
        found: Floats = np.maximum(np.abs(series - level) - self.widths, 0.0)
        return found

    def worst(self, series: Floats) -> Floats:
        """Largest residual of each description."""
        found: Floats = self.residuals(series).max(-1)
        return found


@dataclass(frozen=True, slots=True)
class _Slip:
    """One row, or two whose numbers belong into each other's place, by which a column is irregular."""

    column: AnnotatedColumn
    rows: tuple[int, ...]
    factor: float
    score: float


def check(sheet: Sheet) -> Iterator[Finding]:
    """Look for the most telling slip of each column; of a row only the most telling one is reported."""
    found: set[int] = set()
    timed = sheet.of(ColumnRole.TIME, ColumnRole.RATE) if follows_mostly(sheet) else []
    known = totals(sheet).union((row, one.index) for one in timed for row in range(len(sheet)))
    slips = [slip for figures in windows(sheet) for slip in _slips(figures)]
    for slip in sorted(slips, key=lambda one: -one.score):
        if not found & {*slip.rows} and not known & {(row, slip.column.index) for row in slip.rows}:
            found |= {*slip.rows}
            yield _finding(sheet, slip)


def windows(sheet: Sheet) -> Iterator[list[_Figures]]:
    """Yield what belongs together: the columns, some rows at a time."""
    columns = [one for one in sheet.of(*_FIGURES) if not one.core & _UNSTEADY][:MOST_COLUMNS]
    for start in range(0, min(len(sheet), MOST_WINDOWS * WINDOW), WINDOW):
        rows = range(max(0, min(start, len(sheet) - WINDOW)), min(start + WINDOW, len(sheet)))
        figures = [
            _figures(column, rows, sign)
            for column in columns
            for sign in ((1, -1) if column.role is ColumnRole.CHANGE else (0,))
        ]
        yield [one for one in figures if np.isfinite(one.logs).sum() >= max(FEWEST, FILLED * len(rows))]


def _figures(column: AnnotatedColumn, rows: Sequence[int], sign: int) -> _Figures:
    """Take logarithms; of changes with a sign, of the factor that they are."""
    logs, widths = np.full(len(rows), np.nan), np.zeros(len(rows))
    kinds = [_KINDS.get(cell.unit, cell.unit) if (cell := column.cells[row]) else None for row in rows]
    ((usual, _),) = Counter(kind for kind in kinds if kind is not None).most_common(1) or [("", 0)]
    for place, row in enumerate(rows):
        cell, span = column.cells[row], column.span(row)
        if cell is None or span is None or kinds[place] != usual:
            continue
        if sign and min(sign * span.low, sign * span.high) > -100:
            ends = [sign * math.log(1 + sign * end / 100) for end in span]
            logs[place], widths[place] = sum(ends) / 2, abs(ends[1] - ends[0]) / 2
        elif not sign and cell.value > 0:
            logs[place] = math.log(cell.value * column.unit)
            if column.role is not ColumnRole.SIZE:
                widths[place] = math.log(span.high / max(span.low, cell.value / 2)) / 2
    is_result = column.role is not ColumnRole.SIZE and not (column.role is ColumnRole.OTHER and column.is_whole)
    return _Figures(column, rows, logs, widths, is_result)


def _slips(figures: Sequence[_Figures]) -> Iterator[_Slip]:
    best: dict[int, tuple[Floats, _Descriptions]] = {}  # a change is of one of two kinds: that which fits better
    for one in figures:
        if one.is_result and (described := _describe(one, figures)) is not None:
            before, key = described.worst(described.series), one.column.index
            if key not in best or before.min() < best[key][0].min():
                best[key] = before, described
    for before, described in best.values():
        if slip := _undone(described, before) or _broken(described, before, figures):
            yield slip


def _describe(figures: _Figures, others: Sequence[_Figures]) -> _Descriptions | None:
    """Describe figures by themselves and by others; None where they have too few numbers."""
    at = np.flatnonzero(np.isfinite(figures.logs))
    if len(at) < FEWEST:
        return None
    known = [one for one in others if one.column is not figures.column and np.isfinite(one.logs[at]).all()]
    by = [(one.logs[at], one.widths[at]) for one in known]
    for one, other in itertools.combinations(known, 2):
        roles = one.column.role, other.column.role
        is_work = ColumnRole.TIME in roles and any(role not in _TIMED for role in roles)
        if one.column is not other.column and (roles[0] is roles[1] or is_work):
            by.append((one.logs[at] - other.logs[at], one.widths[at] + other.widths[at]))
    series, widths = [figures.logs[at]], [figures.widths[at]]
    for logs, width in by:
        series += [series[0] - logs, series[0] + logs]
        widths += [widths[0] + width] * 2
    return _Descriptions(figures, at, np.array(series), np.array(widths))


def _undone(described: _Descriptions, before: Floats) -> _Slip | None:
    """Find the slip without which these figures are so regular that it is no coincidence."""
    least, count, figures = float(before.min()), len(described.places), described.figures
    if figures.column.role is ColumnRole.CHANGE or least < LEAST:
        return None
    undone = list(_tried(described))
    tried = math.log(before.size * len(undone))
    best: _Slip | None = None
    for places, shift in undone:
        gain = math.log(least / (float(described.worst(described.series + shift).min()) + FLOOR))
        cost = math.log(count) if len(places) == 1 and _has_own_unit(described, places[0]) else tried
        score = (count - 1 - len(places)) * gain - cost
        if gain > math.log(GAIN) and score > (best.score if best else PROOF):
            rows = tuple(figures.rows[described.places[place]] for place in places)
            best = _Slip(figures.column, rows, math.exp(abs(float(shift[places[0]]))), score)
    return best


def _has_own_unit(described: _Descriptions, place: int) -> bool:
    """True where a number has another unit than all others."""
    figures = described.figures
    units = [cell.unit for at in described.places if (cell := figures.column.cells[figures.rows[at]])]
    return units.count(units[place]) == 1 and len(set(units)) == 2


def _tried(described: _Descriptions) -> Iterator[tuple[tuple[int, ...], Floats]]:
    """Yield places, and how what undoes a slip there changes the descriptions: another factor, a swap."""
    logs = described.figures.logs[described.places]
    for place in range(len(logs)):
        for factor in FACTORS:
            shift = np.zeros(len(logs))
            shift[place] = math.log(factor)
            yield (place,), shift
    for place, other in itertools.combinations(range(len(logs)), 2):
        if abs(change := logs[other] - logs[place]) > LEAST:
            shift = np.zeros(len(logs))
            shift[[place, other]] = change, -change
            yield (place, other), shift


def _broken(described: _Descriptions, before: Floats, figures: Sequence[_Figures]) -> _Slip | None:
    """Find the one number that breaks an exact pattern of all others."""
    least, count = float(before.min()), len(described.places)
    if least < BROKEN:
        return None
    around = described.residuals(described.series)
    order = np.argsort(around, axis=1)
    rest = around[np.arange(len(around)), order[:, -2]] + described.widths.mean(axis=1)
    best = int(rest.argmin())
    score = (count - 2) * math.log(least / (float(rest[best]) + EXACT)) - math.log(around.size)
    octaves = float(around[best, order[best, -1]]) / math.log(2)
    if around[best, order[best, -2]] > EXACT or score < PROOF or best == 0 or abs(octaves - round(octaves)) < BROKEN:
        return None
    place, level = order[best, -1], np.median(described.series[best])
    turned = described.series[best + 1 if best % 2 else best - 1, place]
    if abs(turned - level) <= described.widths[best, place] + EXACT:  # the ratio of the larger to the smaller
        return None
    for one in figures:  # a row of another size may be of other work
        others = np.delete(sizes := one.logs[described.places], place)
        if not one.is_result and np.ptp(others) == 0 and sizes[place] != others[0]:
            return None
    if 2 * len(np.unique(np.delete(described.series[0], place))) < count:  # few numbers are no relation
        return None
    row = described.figures.rows[described.places[place]]
    return _Slip(described.figures.column, (row,), 2.0**octaves, score)


def _finding(sheet: Sheet, slip: _Slip) -> Finding:
    row, *others = slip.rows
    message = f"{slip.column.name}: {sheet.quoted(row, slip.column)}"
    if others:
        message += f" and {sheet.quoted(others[0], slip.column)} (line {sheet.line(others[0])}) break the pattern of "
        message += "their column, and each fits in the other's place"
    else:
        message += f" breaks the pattern of its column, by a factor of {slip.factor:.3g}"
    return RULE.at(sheet, row, message, slip.column, severity=Severity.QUESTION, factor=slip.factor)


RULE = Rule(
    "pattern",
    "a number breaks the pattern of its column, and a slip explains it: another unit, a decimal point, two numbers "
    "swapped; or it breaks a relation of columns that holds in all other rows",
    "check this number against the measurement that it comes from",
    check,
    ((Need.FIGURES,),),
)

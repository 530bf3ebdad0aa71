"""Numbers that break the pattern of their row and column, where one simple slip explains it.

For each column, every slip that people make is undone in turn: a decimal point or unit (10 or 1000 times), two numbers
swapped within the column or the row. A slip is reported if the table becomes so much more regular without it
(`structure`) that this is no coincidence: the gain counts once for every number that the pattern binds, and must
outweigh the number of descriptions and slips that were tried. If a pattern is exact, as of a speedup and its two
times, any one number that breaks it is reported.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..evidence.context import Case, Rule
from ..evidence.finding import Finding, Need, Severity
from ..evidence.structure import (
    FEWEST,
    SMOOTH,
    Cell,
    Descriptions,
    Figures,
    Floats,
    Places,
    around,
    bends,
    blocks_of,
    describe,
)
from ..reading.annotated_table import ColumnRole, Sheet

FACTORS = (10.0, 0.1, 1000.0, 0.001)
"""What a decimal point, or a unit, changes a number by."""

LEAST = math.log(1.25)
"""Residual of a number that breaks a pattern, and difference of two numbers that are worth a swap, at least."""

EXCHANGED = math.log(1.8)
"""Gain of each of two columns if two numbers of a row change places, at least."""

FLOOR = 0.02
"""Residual that no pattern of measured numbers is better than."""

GAIN = 3.0
"""Factor by which the table becomes more regular, at least."""

PROOF = 3.0
"""Natural logarithm of what the gain must exceed the number of things tried by."""

EXACT = 0.002
"""Residual, beyond rounding, of a pattern that is computed, and not measured."""

BROKEN = 0.04
"""Residual of a number that breaks an exact pattern."""


@dataclass(frozen=True, slots=True)
class _Slip:
    """A number, or two that belong into each other's place, by which a table is irregular."""

    cells: tuple[Cell, ...]
    factor: float
    score: float


def check(case: Case) -> Iterator[Finding]:
    """Look for the most telling slip of each column; of a line only the most telling one is reported."""
    for sheet in case.stacked:
        found: dict[int, _Slip] = {}
        slips = [slip for figures, groups in blocks_of(sheet) for slip in _slips(figures, groups)]
        for slip in sorted(slips, key=lambda one: -one.score):
            lines = {sheet.line(*cell) for cell in slip.cells}
            if not lines & found.keys():
                found |= dict.fromkeys(lines, slip)
                yield _finding(sheet, slip)


def _slips(figures: Sequence[Figures], groups: Sequence[Sequence[Places]]) -> Iterator[_Slip]:
    best: dict[int, tuple[Floats, Descriptions]] = {}  # a change is of one of two kinds: that which fits better
    for one in figures:
        if one.is_result and (described := describe(one, figures, groups)) is not None:
            before = described.worst(described.series)
            if one.key not in best or before.min() < best[one.key][0].min():
                best[one.key] = before, described
    for before, described in best.values():
        slip = _undone(described, before) or _broken(described, before, figures)
        if slip is not None:
            yield slip
    yield from _exchanged(figures)


def _exchanged(figures: Sequence[Figures]) -> Iterator[_Slip]:
    """Find two numbers of one row that make their columns irregular, and regular in each other's place."""
    results = [one for one in figures if one.is_result and one.role is not ColumnRole.CHANGE and one.is_column]
    for one, other in itertools.combinations(results, 2):
        at = np.flatnonzero(np.isfinite(one.logs + other.logs))
        if len(at) < FEWEST:
            continue
        columns = np.array([(each.logs - each.unit)[at] for each in (one, other)])
        first, second = np.abs(columns - np.median(columns, axis=1, keepdims=True)).argmax(axis=1)
        if first != second:
            continue
        turned = columns.copy()
        turned[:, first] = turned[::-1, first]
        gains = [
            math.log((_irregular(before) + FLOOR) / (_irregular(after) + FLOOR))
            for before, after in zip(columns, turned, strict=True)
        ]
        score = (len(at) - 2) * sum(gains) - math.log(len(at) * math.comb(len(results), 2))
        cells = one.cells[at[first]], other.cells[at[first]]
        units = {cell.unit for row, column in cells if (cell := column.cells[row]) is not None}
        if min(gains) > EXCHANGED and score > PROOF and len(units) == 1:
            yield _Slip(cells, math.exp(abs(float(columns[0, first] - columns[1, first]))), score)


def _irregular(series: Floats) -> float:
    """Largest distance of a number from the level of all, or from its neighbours, whichever is smaller."""
    none = np.zeros_like(series)
    kinds = [around(series, none), *([bends(series, none)] if len(series) >= SMOOTH else [])]
    return float(min(one.max() for one in kinds))


def _undone(described: Descriptions, before: Floats) -> _Slip | None:
    """Find the slip without which these figures are so regular that it is no coincidence."""
    least, cells = float(before.min()), described.cells
    if described.figures.role is ColumnRole.CHANGE or least < LEAST:
        return None
    if least < GAIN * (described.least_of_others() + FLOOR):
        return None
    described, suspects = described.promising()
    undone = list(_tried(described, suspects))
    tried = math.log(before.size * len(undone) * len(cells) / len(suspects))
    best: _Slip | None = None
    for places, shift in undone:
        gain = math.log(least / (float(described.worst(described.series + shift).min()) + FLOOR))
        cost = math.log(len(cells)) if len(places) == 1 and _has_own_unit(cells, places[0]) else tried
        score = (len(cells) - 1 - len(places)) * gain - cost
        if gain > math.log(GAIN) and score > (best.score if best else PROOF):
            best = _Slip(tuple(cells[place] for place in places), math.exp(abs(float(shift[places[0]]))), score)
    return best


def _has_own_unit(cells: Sequence[Cell], place: int) -> bool:
    """True where a number has another unit than all others."""
    units = [cell.unit for row, column in cells if (cell := column.cells[row]) is not None]
    return units.count(units[place]) == 1 and len(set(units)) == 2


_Undo = tuple[tuple[int, ...], Floats]
"""The places of the numbers, and how what undoes a slip changes the descriptions."""


def _tried(described: Descriptions, suspects: Sequence[int]) -> Iterator[_Undo]:
    """Yield what undoes each slip: another factor, a swap within the column."""
    logs = described.figures.logs[described.places]

    def shifted(*changes: tuple[int, float]) -> Floats:
        shift = np.zeros(len(logs))
        for place, change in changes:
            shift[place] = change
        return shift

    for place in suspects:
        for factor in FACTORS:
            yield (place,), shifted((place, math.log(factor)))
    for place, other in itertools.combinations(suspects, 2):
        change = logs[other] - logs[place]
        if abs(change) > LEAST:
            yield (place, other), shifted((place, change), (other, -change))


def _broken(described: Descriptions, before: Floats, figures: Sequence[Figures]) -> _Slip | None:
    """Find the one number that breaks an exact pattern of all others."""
    least, count = float(before.min()), len(described.places)
    if least < BROKEN:
        return None
    around = next(described.residuals(described.series))
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
    if 2 * len(np.unique(np.delete(described.series[0], order[best, -1]))) < count:  # few numbers are no relation
        return None
    return _Slip((described.cells[place],), 2.0**octaves, score)


def _finding(sheet: Sheet, slip: _Slip) -> Finding:
    (row, column), *others = slip.cells
    printed = f"{column.name}: {sheet.quoted(row, column)}"
    if others:
        ((other, its),) = others
        message = (
            f"{printed} and {sheet.quoted(other, its)} ({its.name}, line {sheet.line(other, its)}) break the "
            "pattern of their row and column, and each fits in the other's place"
        )
    else:
        message = f"{printed} breaks the pattern of its row and column, by a factor of {slip.factor:.3g}"
    return RULE.at(sheet, row, message, column, severity=Severity.QUESTION, factor=slip.factor)


RULE = Rule(
    "pattern",
    "a number breaks the pattern of its row and column, and a slip explains it: another unit, a decimal point, two "
    "numbers swapped; or it breaks a relation of columns that holds in all other rows",
    "check this number against the measurement that it comes from",
    check,
    ((Need.FIGURES,),),
)

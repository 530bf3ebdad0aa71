"""What kind of change a column of percentages holds, and whether it was computed from rounded numbers."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ....analysis.imports.consistency import SLACK, ValueRange, gain, reduction
from ..reading.annotated_table import AnnotatedColumn, ColumnRole, Sheet
from .pairs import Pair, pair_of

Both = Callable[[ValueRange, ValueRange], ValueRange]

TIME_KINDS: Mapping[str, Both] = {
    "reduction": reduction,
    "gain": lambda base, head: gain(head, base),
    "increase": gain,
}
"""Kinds of change of two times, base first: -10 %, +11 % and (times that grew) -10 % are one and the same."""

RATE_KINDS: Mapping[str, Both] = {
    "gain": gain,
    "reduction": lambda base, head: reduction(head, base),
}

PROOF = 1e-3
"""Chance of a coincidence below which it is none."""

SEVERAL = 3
"""Steps of the result within its interval from which on meeting it to the last digit says something."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """A column of changes.

    kind      reduction, gain or increase; "" unknown. labelled: what the header says
    fits      row: whether it follows from the two columns of `pair`
    """

    column: AnnotatedColumn
    kind: str
    pair: Pair | None = None
    fits: Mapping[int, bool] | None = None
    from_rounded: bool = False
    labelled: str = ""


def kinds_for(pair: Pair) -> Mapping[str, Both]:
    """Kinds that a change of these two columns may be."""
    if not pair.is_known:  # numbers of unknown quantity: their change as it stands
        return {"gain": gain, "reduction": reduction, "increase": lambda base, head: gain(head, base)}
    return TIME_KINDS if pair.is_time else RATE_KINDS


def allowed(kind: Both, pair: Pair, row: int) -> ValueRange | None:
    """Changes that the two printed numbers of a row allow, in percent; None where one is missing or may be 0."""
    base, head = pair.base.span(row), pair.head.span(row)
    if base is None or head is None or base.low <= 0 or head.low <= 0:
        return None
    return kind(base, head)


def resolve(sheet: Sheet, column: AnnotatedColumn) -> Resolved:
    """Find out what a column of changes is from the numbers beside it."""
    labelled = column.detail
    pair = pair_of(sheet, column)
    if pair is None:
        return Resolved(column, labelled, labelled=labelled)
    kinds: Mapping[str, Both] = kinds_for(pair)
    fits = {name: _fits(sheet, column, pair, kind) for name, kind in kinds.items()}
    right = {name: sum(found.values()) for name, found in fits.items()}
    best = max(right, key=lambda name: (right[name], name == labelled))
    if right.get(labelled, -1) == right[best]:
        best = labelled
    if labelled and labelled in fits and right[best] < len(fits[best]):
        best = labelled
    if not fits[best]:
        return Resolved(column, labelled, labelled=labelled)
    rounded = _from_rounded(sheet, column, pair, kinds[best])
    return Resolved(column, best, pair, fits[best], rounded, labelled)


def _fits(sheet: Sheet, column: AnnotatedColumn, pair: Pair, kind: Both) -> dict[int, bool]:
    found = {}
    for row, (printed,) in sheet.spans(column):
        if (ends := allowed(kind, pair, row)) is not None:
            found[row] = printed.meets(ends)
    return found


def exact(kind: Both, pair: Pair, row: int) -> float | None:
    """Change of the printed numbers taken as exact, in percent."""
    base, head = pair.base.cells[row], pair.head.cells[row]
    if base is None or head is None or base.value <= 0 or head.value <= 0:
        return None
    return kind(ValueRange(base.value, base.value), ValueRange(head.value, head.value)).low


def _from_rounded(sheet: Sheet, column: AnnotatedColumn, pair: Pair, kind: Both) -> bool:
    rows = range(len(sheet))
    return are_of_rounded(column, ((row, allowed(kind, pair, row), exact(kind, pair, row)) for row in rows))


def are_of_rounded(column: AnnotatedColumn, rows: Iterable[tuple[int, ValueRange | None, float | None]]) -> bool:
    """Tell whether all results are, to the last digit, those of printed numbers, where that is no coincidence.

    Each row has what the printed numbers allow, and what they give if taken as exact.
    """
    chance = 1.0
    for row, ends, computed in rows:
        cell, step = column.cells[row], column.step(row)
        if cell is None or ends is None or computed is None or not step:
            continue
        width = ends.high - ends.low
        if not math.isfinite(width) or width < SEVERAL * step:
            continue
        if abs(computed - cell.value) > step / 2 * (1 + 1e-6) + SLACK:
            return False
        chance *= step / width
    return chance <= PROOF


def is_aggregate(sheet: Sheet, row: int) -> bool:
    """True for a row that stands for several cases."""
    return any((cell := one.cells[row]) is not None and cell.value > 1 for one in sheet.of(ColumnRole.CASES))


def steps_apart(pair: Pair, row: int) -> float:
    """Number of printed steps between the two sides; NaN where that has no meaning."""
    base, head = pair.base.cells[row], pair.head.cells[row]
    step = max(pair.base.step(row), pair.head.step(row)) if base and head else 0.0
    if base is None or head is None or not step:
        return math.nan
    return abs(base.value - head.value) / step

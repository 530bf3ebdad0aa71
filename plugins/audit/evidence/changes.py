"""What kind of change a column of percentages holds."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ....analysis.imports.columns import AnnotatedColumn
from ....analysis.imports.consistency import ValueRange, gain, reduction
from .pairs import Pair, pair_of
from .sheet import Sheet

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
    return Resolved(column, best, pair, fits[best], labelled)


def _fits(sheet: Sheet, column: AnnotatedColumn, pair: Pair, kind: Both) -> dict[int, bool]:
    found = {}
    for row, (printed,) in sheet.spans(column):
        if (ends := allowed(kind, pair, row)) is not None:
            found[row] = printed.meets(ends)
    return found

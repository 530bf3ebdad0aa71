"""What kind of change a column of percentages holds."""

from collections.abc import Callable, Mapping

from ....analysis.imports.columns import AnnotatedColumn
from ....analysis.imports.consistency import ValueRange, gain, reduction
from .pairs import Allowed, Pair, pair_of
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


def kinds_for(pair: Pair) -> Mapping[str, Both]:
    """Kinds that a change of these two columns may be."""
    if not pair.is_known:  # numbers of unknown quantity: their change as it stands
        return {"gain": gain, "reduction": reduction, "increase": lambda base, head: gain(head, base)}
    return TIME_KINDS if pair.is_time else RATE_KINDS


def changes_of(sheet: Sheet, column: AnnotatedColumn) -> tuple[Pair, Allowed] | None:
    """Return the two columns that a column of changes is of, and what they allow; None where they are not there.

    The kind of change is the one that most rows follow, that of the header if there are several.
    """
    pair = pair_of(sheet, column)
    if pair is None:
        return None
    kinds = {name: _allowed(sheet, column, pair, kind) for name, kind in kinds_for(pair).items()}
    best = max(kinds, key=lambda name: (kinds[name].follow, name == column.detail))
    return pair, kinds[best]


def _allowed(sheet: Sheet, column: AnnotatedColumn, pair: Pair, kind: Both) -> Allowed:
    """Changes that the two printed numbers of a row allow, in percent; not where one may be 0."""
    rows = sheet.spans(column, pair.base, pair.head)
    return Allowed.of(column, {row: kind(base, head) for row, (_, base, head) in rows if min(base.low, head.low) > 0})

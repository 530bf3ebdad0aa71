"""Columns that name the best of their row, and are wrong about it."""

from collections.abc import Iterator, Sequence

from ..evidence.context import Case, Rule
from ..evidence.finding import Finding, Need
from ..reading.annotated_table import AnnotatedColumn, ColumnRole, Sheet
from ..reading.words import words_of

CLOSE = 0.02
"""Relative: what is so near to the best may be called so, after another measurement or for another reason."""

FEWEST = 3
"""Rows that name the best, from which on the others should too, ..."""

AGREEING = 2
"""... and how many there are for each that does not."""


def check(case: Case) -> Iterator[Finding]:
    """Compare the column that a cell names with its neighbours, where most rows name the best."""
    for sheet in case.sheets:
        for label in sheet.of(ColumnRole.LABEL):
            for role in (ColumnRole.TIME, ColumnRole.RATE, ColumnRole.THROUGHPUT, ColumnRole.BANDWIDTH):
                columns = [one for one in sheet.of(role) if one.side and one.beside is None]
                if len(columns) > 1 and len({(one.pass_, *one.fixed.items()) for one in columns}) == 1:
                    yield from _winners(sheet, label, columns)


def _winners(sheet: Sheet, label: AnnotatedColumn, columns: Sequence[AnnotatedColumn]) -> Iterator[Finding]:
    told, wrong = 0, []
    by_text: dict[str, AnnotatedColumn | None] = {}
    for row in range(len(sheet)):
        text = sheet.text(row, label)
        if text not in by_text:
            by_text[text] = _named(text, columns)
        named = by_text[text]
        if named is None or named.cells[row] is None:
            continue
        told += 1
        if better := _better(row, named, columns):
            wrong.append((row, named, better))
    if told - len(wrong) < max(FEWEST, AGREEING * len(wrong)):
        return
    for row, named, better in wrong:
        message = (
            f"{label.name}: {named.name} {sheet.quoted(row, named)} is called the best, and {better.name} is "
            f"{sheet.quoted(row, better)}"
        )
        yield RULE.at(sheet, row, message, label)


def _named(text: str, columns: Sequence[AnnotatedColumn]) -> AnnotatedColumn | None:
    """Return the only column whose side has all words of a text, remarks left out."""
    words = {*words_of(text.partition("(")[0])}
    found = [one for one in columns if words and words <= {*one.side.split()}]
    return found[0] if len(found) == 1 else None


def _better(row: int, named: AnnotatedColumn, columns: Sequence[AnnotatedColumn]) -> AnnotatedColumn | None:
    """Return a column that is better in this row beyond doubt; None when none is."""
    own = named.span(row)
    assert own is not None  # it has a cell
    for one in columns:
        other = one.span(row)
        if other is None or other.low <= 0 or one.unit != named.unit:
            continue
        is_time = named.role is ColumnRole.TIME
        if other.high * (1 + CLOSE) < own.low if is_time else other.low > own.high * (1 + CLOSE):
            return one
    return None


RULE = Rule(
    "winner",
    "a cell names the best of its row, and another one is better, where most rows name the best",
    "compute the winner from the numbers that are printed beside it",
    check,
    ((Need.MEASURED,),),
)

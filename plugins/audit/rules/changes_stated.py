"""Changes that contradict each other: a time reduction fixes the gain of the rate, a step lies between its passes."""

from collections.abc import Iterator

from ....analysis.imports.consistency import ValueRange, gain_of_reduction
from ..evidence.changes import Resolved, is_aggregate
from ..evidence.context import Case, Rule
from ..evidence.finding import Finding, Need
from ..evidence.pairs import meets
from ..reading import words as known
from ..reading.annotated_table import ColumnRole, Sheet


def check(case: Case) -> Iterator[Finding]:
    """Compare the changes of each row with each other, and the extremes of summaries."""
    for number, sheet in enumerate(case.sheets):
        changes = case.changes(number)
        for first in changes:
            for second in changes:
                if _is_couple(first, second):
                    yield from _couple(sheet, first, second)
        yield from _between(sheet, changes)
        yield from _extremes(sheet)


def _is_couple(first: Resolved, second: Resolved) -> bool:
    """True for a reduction (or a change that may be one) and a gain of the same pass."""
    if first.column.pass_ != second.column.pass_ or first.column.index == second.column.index:
        return False
    return second.kind == "gain" and first.kind in ("reduction", "")


def _couple(sheet: Sheet, first: Resolved, second: Resolved) -> Iterator[Finding]:
    for row, (reduced, gained) in sheet.spans(first.column, second.column):
        if not first.kind and gained.meets(reduced):
            continue
        said = (
            f"{first.column.name} {sheet.quoted(row, first.column)} and {second.column.name} "
            f"{sheet.quoted(row, second.column)}"
        )
        yield from _apart(sheet, row, said, reduced, gained, is_aggregate(sheet, row), _origin(first, second))


def _apart(
    sheet: Sheet, row: int, said: str, reduced: ValueRange, gained: ValueRange, is_mean: bool, why: str = ""
) -> Iterator[Finding]:
    """Find a reduction and a gain that differ; a mean of gains is at least the gain of the mean: 1/(1-x) bends up."""
    if reduced.high >= 100:
        return
    ends = gain_of_reduction(reduced)
    ends = ValueRange(ends.low, float("inf")) if is_mean else ends
    if not meets(gained, ends):
        limit = f"at least {ends.low:.4g} %" if is_mean else f"{ends.low:.4g} to {ends.high:.4g} %"
        mean = "a mean " if is_mean else ""
        message = f"{said} cannot both be right: {mean}time reduction of that size is {mean}gain of {limit}{why}"
        yield RULE.at(sheet, row, message, ends=ends)


def _origin(first: Resolved, second: Resolved) -> str:
    rounded = [one.column.name for one in (first, second) if one.from_rounded]
    return f"; {rounded[0]} was computed from the rounded times" if len(rounded) == 1 else ""


def _between(sheet: Sheet, changes: list[Resolved]) -> Iterator[Finding]:
    """The change of a step is a mean of those of its passes, whatever their weights."""
    by_core: dict[frozenset[str], dict[str, Resolved]] = {}
    for one in changes:
        by_core.setdefault(one.column.core, {})[one.column.pass_] = one
    for passes in by_core.values():
        if not {"fwd", "bwd", "step"} <= set(passes):
            continue
        first, second, whole = (passes[name].column for name in ("fwd", "bwd", "step"))
        for row, (fwd, bwd, step) in sheet.spans(first, second, whole):
            if not step.meets(ValueRange(min(fwd.low, bwd.low), max(fwd.high, bwd.high))):
                message = (
                    f"{whole.name} {sheet.quoted(row, whole)} does not lie between {sheet.quoted(row, first)} and "
                    f"{sheet.quoted(row, second)} of its passes"
                )
                yield RULE.at(sheet, row, message)


def _extremes(sheet: Sheet) -> Iterator[Finding]:
    """The largest gain is that of the largest reduction; so are the smallest ones."""
    labels = sheet.of(ColumnRole.LABEL)
    rows: dict[tuple[str, str], int] = {}
    for row in range(len(sheet)):
        words = [word for label in labels for word in known.words_of(sheet.text(row, label))]
        passes = known.passes_in(words)
        kind = "reduction" if "reduction" in words else "gain" if "gain" in words else ""
        if kind and len(passes) == 1:
            rows[passes.pop(), kind] = row
    for (pass_, kind), row in rows.items():
        if kind == "gain" and (pass_, "reduction") in rows:
            for column in sheet.of(ColumnRole.STATISTIC):
                reduced, gained = column.span(rows[pass_, "reduction"]), column.span(row)
                if column.detail in ("min", "max", "mean") and reduced is not None and gained is not None:
                    texts = (sheet.quoted(at, column) for at in (row, rows[pass_, "reduction"]))
                    said = f"{column.name}: gain {' and time reduction '.join(texts)}"
                    yield from _apart(sheet, row, said, reduced, gained, column.detail == "mean")


RULE = Rule(
    "contradictory-changes",
    "two changes of one case cannot both be right: time reduction r is rate gain r / (1 - r), and a step lies between "
    "its passes",
    "compute every change from the same unrounded times, and say of which quantity it is",
    check,
    ((Need.CHANGES,),),
)

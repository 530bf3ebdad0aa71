"""Changes that are one or two steps of the last printed digit: they follow from rounding."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

from ....analysis.imports.consistency import ValueRange
from ....analysis.imports.rounding import RoundingKind
from ..evidence.changes import allowed, are_of_rounded, kinds_for, steps_apart
from ..evidence.context import Case, Rule
from ..evidence.finding import Finding, Need, Severity
from ..evidence.pairs import Pair, pair_of
from ..evidence.rates import cells_of
from ..reading.annotated_table import AnnotatedColumn, ColumnRole, Sheet
from .ratios import directions, forward, turned

FEW = 2.0
"""Steps up to which a change is of the order of the rounding."""

LEAST = 0.5
"""Steps below which a change cannot have come from rounded numbers at all."""


def check(case: Case) -> Iterator[Finding]:
    """Judge changes with their two numbers beside them, then those whose times are of the same making elsewhere."""
    for number, sheet in enumerate(case.sheets):
        for change in case.changes(number):
            if change.pair is not None and change.from_rounded:
                kind = kinds_for(change.pair)[change.kind]
                yield from _close(sheet, change.column, change.pair, partial(allowed, kind), " %")
        for column in sheet.of(ColumnRole.RATIO):
            pair = pair_of(sheet, column)
            if pair is not None and _ratio_from_rounded(sheet, column, pair):
                yield from _close(sheet, column, pair, forward, "")
    yield from _elsewhere(case)


def _ratio_from_rounded(sheet: Sheet, column: AnnotatedColumn, pair: Pair) -> bool:
    right, wrong, _ = directions(sheet, column, pair)
    is_turned = len(wrong) > len(right)

    def row_of(row: int) -> tuple[int, ValueRange | None, float | None]:
        ends, base, head = forward(pair, row), pair.base.cells[row], pair.head.cells[row]
        if ends is None or base is None or head is None or not base.value or not head.value:
            return row, None, None
        over = base.value / head.value
        is_over = (pair.named or pair.is_time) != is_turned
        return row, turned(ends) if is_turned else ends, over if is_over else 1 / over

    return are_of_rounded(column, map(row_of, range(len(sheet))))


def _close(
    sheet: Sheet, column: AnnotatedColumn, pair: Pair, ends_of: Callable[[Pair, int], ValueRange | None], unit: str
) -> Iterator[Finding]:
    """Find results of two numbers that are a few printed steps apart; `ends_of` gives what these allow."""
    for row in range(len(sheet)):
        steps, ends = steps_apart(pair, row), ends_of(pair, row)
        if column.cells[row] is None or ends is None or not 0 < round(steps, 6) <= FEW:
            continue
        base, head = sheet.quoted(row, pair.base), sheet.quoted(row, pair.head)
        message = (
            f"{column.name} {sheet.quoted(row, column)}: {base} and {head} are {steps:.0f} printed "
            f"step{'s' * (round(steps) != 1)} apart, so that the change is anything from {ends.low:.3g} to "
            f"{ends.high:.3g}{unit}"
        )
        yield RULE.at(sheet, row, message, column, severity=Severity.MISLEADING, steps=steps, ends=ends)


@dataclass(frozen=True, slots=True)
class _Origin:
    """Changes that were computed from rounded times: words of their header, step of the times, rates of the cells."""

    core: frozenset[str]
    pass_: str
    step_s: float
    rates: tuple[float, ...]
    where: str


def _elsewhere(case: Case) -> Iterator[Finding]:
    """Changes without their times, of a quantity that another table computes from rounded times.

    How long such a case takes is estimated from the rates of the same pass there.
    """
    origins = list(_origins(case))
    for number, sheet in enumerate(case.sheets):
        for change in case.changes(number):
            if change.pair is not None or change.kind == "gain":
                continue
            for row in range(len(sheet)):
                pass_ = sheet.pass_of(row, change.column)
                known = [one for one in origins if one.pass_ == pass_ and one.core == change.column.core]
                cell, problem = change.column.cells[row], sheet.problem(row, change.column)
                if known and cell is not None and cell.value and problem is not None:
                    yield from _estimated(sheet, row, change.column, float(problem.flops), known)


def _origins(case: Case) -> Iterator[_Origin]:
    for number, sheet in enumerate(case.sheets):
        for change in case.changes(number):
            pair = change.pair
            if pair is None or not change.from_rounded or not pair.is_time:
                continue
            if pair.base.rounding.kind is not RoundingKind.DECIMALS or pair.base.mixed or not len(sheet):
                continue
            cells = [*cells_of(sheet, pair.base)]
            passes = {sheet.pass_of(cell.row, pair.base) for cell in cells}
            if len(passes) == 1:
                step = 10.0**-pair.base.rounding.places * pair.base.unit
                rates = tuple(cell.flops / cell.time_s for cell in cells)
                yield _Origin(change.column.core, passes.pop(), step, rates, sheet.titled.name)


def _estimated(
    sheet: Sheet, row: int, column: AnnotatedColumn, flops: float, known: Sequence[_Origin]
) -> Iterator[Finding]:
    step = known[0].step_s
    rate = median([rate for one in known for rate in one.rates])
    cell = column.cells[row]
    assert cell is not None
    time_s = flops / rate
    steps = abs(cell.value) / 100 * time_s / step
    if not LEAST <= steps <= FEW:
        return
    message = (
        f"{column.name} {sheet.quoted(row, column)}: at the {rate / 1e12:.3g} TFLOPS of {known[0].where} this takes "
        f"about {time_s * 1e3:.3g} ms, of which it is {abs(cell.value) / 100 * time_s * 1e3:.2g} ms: about "
        f"{max(1, round(steps))} step{'s' * (round(steps) > 1)} of the {step * 1e3:g} ms that times are printed "
        "with"
    )
    yield RULE.at(sheet, row, message, column, severity=Severity.MISLEADING, steps=steps, step_s=step, time_s=time_s)


RULE = Rule(
    "below-resolution",
    "a change was computed from rounded numbers that are one or two of their last digits apart",
    "compute from unrounded times and print more digits; call a change of less than two steps no change",
    check,
    ((Need.SIDES,),),
)

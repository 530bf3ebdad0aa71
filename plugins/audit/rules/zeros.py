"""Numbers that were not measured and stand as 0, below 0 or infinite: failed runs stored as results."""

from collections.abc import Iterator

from ....analysis.imports.columns import AnnotatedColumn, ColumnRole
from ....shapes.errors import shorten
from ..evidence.assumptions import TOTAL
from ..evidence.finding import Finding, Need, Severity
from ..evidence.rates import SHORTEST_S
from ..evidence.rule import Rule
from ..evidence.sheet import Sheet


def check(sheet: Sheet) -> Iterator[Finding]:
    """Find the rows without any time above 0, and those with one whose rates are 0; one finding each."""
    times, untimed, unknown = sheet.of(ColumnRole.TIME), [], []
    for row in range(len(sheet)):
        taken = [span.high * one.unit for one in times if (span := one.span(row)) and span.low + span.high > 0]
        if taken and any(_is_no_rate(sheet, row, one, max(taken)) for one in sheet.of(ColumnRole.RATE)):
            unknown.append(row)
        if not taken and any(_is_no_time(sheet, row, one) for one in times):
            untimed.append(row)
    for rows, what, how in (
        (untimed, "the time is 0, negative or infinite: not timed, or a failed run", Severity.IMPOSSIBLE),
        (unknown, "the rate is 0 beside a time: not computed", Severity.CONTRADICTION),
    ):
        if rows:
            lines = shorten(", ".join(str(sheet.line(row)) for row in rows))
            message = f"{what}; {len(rows)} of {len(sheet)} rows (line{'s' if rows[1:] else ''} {lines})"
            yield RULE.at(sheet, rows[0], message, severity=how, rows=len(rows))


def _is_no_time(sheet: Sheet, row: int, column: AnnotatedColumn) -> bool:
    span, text = column.span(row), sheet.text(row, column).lower().lstrip("+-")
    return span.high * column.unit <= SHORTEST_S if span else text in ("inf", "infinity")


def _is_no_rate(sheet: Sheet, row: int, column: AnnotatedColumn, time_s: float) -> bool:
    """Tell whether a rate is 0 where the sizes and the longest time of its row give one that does not round to it."""
    span, problem = column.span(row), sheet.problem(row, column, TOTAL)
    return bool(span and problem and span.low + span.high <= 0 and span.high * column.unit < problem.flops / time_s)


RULE = Rule(
    "zeros",
    "a time or rate is 0, negative or infinite: it counts as a number and was not measured",
    "leave such cells empty, or leave out rows that were not timed",
    check,
    ((Need.MEASURED,),),
)

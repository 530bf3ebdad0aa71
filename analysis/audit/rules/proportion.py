"""Two columns whose product, or quotient, is the same in most rows, and another in one: time and rate give the work."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...imports.consistency import Span
from ..evidence.context import Case, Rule, at
from ..evidence.finding import Finding, Need, Severity
from ..reading.annotated_table import Column, Role, Sheet

PRODUCTS = (
    (Role.TIME, (Role.RATE, Role.THROUGHPUT, Role.BANDWIDTH, Role.PEAK_SHARE, Role.RATIO)),
    (Role.RATE, (Role.RATIO,)),
    (Role.THROUGHPUT, (Role.RATIO,)),
    (Role.BANDWIDTH, (Role.RATIO,)),
    (Role.BYTES, (Role.OTHER,)),
)
"""Quantities that belong to each other: a time and what it is inversely proportional to, others and their shares."""

FEWEST = 3
"""Rows that agree, beside the only one that does not: where two do not, other rows may be of something else, too."""

FEWEST_OF_MORE = 6
"""The same where further rows are near to what they agree on, and no more than that."""

CHANCE = 1e-3
"""Chance that so many rows with so wide roundings agree."""

VARIED = 4.0
"""Times their rounding that the numbers must vary, so that their product says something."""

APART = 0.05
"""Relative: what medians of ratios differ from the ratio of medians, and rows of like work from each other."""

WIDEST = 0.25
"""Relative width of a product that says something."""

MOST_COLUMNS = 8
"""Columns of one quantity up to which they are tried."""


@dataclass(frozen=True, slots=True)
class _Constant:
    """What most rows agree on, and the row that does not; `scale` is the column that it is divided by, if any."""

    first: Column
    second: Column
    scale: Column | None
    agree: int
    common: Span
    row: int
    ends: Span


def check(case: Case) -> Iterator[Finding]:
    """Look for one row of a table that differs, each once."""
    for sheet in case.sheets:
        told: set[int] = set()
        for role, others in PRODUCTS:
            for second in [one for one in sheet.of(*others) if one.role is not Role.OTHER or one.beside is not None]:
                found = _constant(sheet, _beside(sheet, role, second), second)
                if found and found.row not in told:
                    told.add(found.row)
                    yield _finding(sheet, found)


def _beside(sheet: Sheet, role: Role, column: Column) -> list[Column]:
    """Columns of a quantity that another column may belong to: of its side, else all."""
    if column.beside is not None:
        own = sheet.columns[column.beside]
        return [own] if own.role is role else []
    columns = [one for one in sheet.of(role) if dict(one.fixed) == dict(column.fixed) and one.pass_ == column.pass_]
    return [one for one in columns if one.side == column.side] or columns


def _constant(sheet: Sheet, firsts: Sequence[Column], second: Column) -> _Constant | None:
    """Find the column whose product with `second` most rows agree on, as it is or for each unit of a size."""
    if len(firsts) > MOST_COLUMNS:
        return None
    scales = [None, *sheet.of(Role.SIZE)]
    if second.role is not Role.RATIO:
        scales += [one for one in sheet.of(Role.BYTES, Role.OTHER) if one is not second and any(one.cells)]
    found = [
        one
        for first in firsts
        for scale in scales[: MOST_COLUMNS + 1]
        if (one := _agreement(sheet, first, second, scale)) is not None
    ]
    return max(found, key=lambda one: one.agree, default=None)


def _agreement(sheet: Sheet, first: Column, second: Column, scale: Column | None) -> _Constant | None:
    combine = _product if first.role is Role.TIME else _quotient
    spans: dict[int, Span] = {}
    problems: set[tuple[tuple[str, int], ...]] = set()
    for row in range(len(sheet)):
        one, other = first.span(row), second.span(row)
        by = scale.span(row) if scale else Span(1.0, 1.0)
        if scale is not None and scale.role is Role.SIZE and (cell := scale.cells[row]):
            by = Span(cell.value, cell.value)
        if one and other and by and min(one.low, other.low, by.low) > 0:
            ends = combine(one, other)
            spans[row] = Span(ends.low / by.high, ends.high / by.low)
            sizes = sheet.sizes(row, first).items()
            problems.add(tuple(sorted(item for item in sizes if scale is None or item[0] != scale.detail)))
    is_of_work = first.role is Role.TIME and (scale is None or scale.role is Role.SIZE)
    if is_of_work and len(problems) > 1:  # the work of other sizes is another
        return None
    spans = {row: ends for row, ends in spans.items() if _width(ends) <= WIDEST}
    if len(spans) <= FEWEST:
        return None
    point = _most_common(list(spans.values()))
    agree = {row: ends for row, ends in spans.items() if ends.low <= point <= ends.high}
    common = Span(max(ends.low for ends in agree.values()), min(ends.high for ends in agree.values()))
    near = Span(common.low * (1 - APART), common.high * (1 + APART))
    outside = {row: ends for row, ends in spans.items() if not ends.meets(near)}
    if len(outside) != 1 or len(agree) < (FEWEST if len(agree) + 1 == len(spans) else FEWEST_OF_MORE):
        return None
    widths = sorted(map(_width, agree.values()))
    if math.prod(widths[:-1]) > CHANCE or not _varies(first, agree, widths) or not _varies(second, agree, widths):
        return None
    ((row, ends),) = outside.items()
    return None if _is_doubled(ends, common) else _Constant(first, second, scale, len(agree), common, row, ends)


def _product(one: Span, other: Span) -> Span:
    return Span(one.low * other.low, one.high * other.high)


def _quotient(one: Span, other: Span) -> Span:
    return Span(one.low / other.high, one.high / other.low)


def _width(ends: Span) -> float:
    return math.log(ends.high / ends.low)


def _most_common(spans: Sequence[Span]) -> float:
    """Return a number that most intervals hold: the lowest end at which most of them are open."""
    events = sorted([(one.low, 0) for one in spans] + [(one.high, 1) for one in spans])
    best, most, count = spans[0].low, 0, 0
    for place, is_end in events:
        count += -1 if is_end else 1
        if count > most:
            best, most = place, count
    return best


def _varies(column: Column, rows: dict[int, Span], widths: Sequence[float]) -> bool:
    values = [cell.value for row in rows if (cell := column.cells[row]) is not None]
    return math.log(max(values) / min(values)) > VARIED * widths[len(widths) // 2]


def _is_doubled(ends: Span, common: Span) -> bool:
    """True for 2, 4, 1/2, ... times what the others have: a row of another batch, type or number of devices."""
    octaves = round(math.log2(math.sqrt(ends.low * ends.high / (common.low * common.high))))
    factor = 2.0**octaves
    return octaves != 0 and ends.meets(Span(common.low * factor * (1 - APART), common.high * factor * (1 + APART)))


def _finding(sheet: Sheet, found: _Constant) -> Finding:
    first, second, row, ends = found.first, found.second, found.row, found.ends
    how = "times" if first.role is Role.TIME else "divided by"
    by = f", for each {found.scale.name}," if found.scale else ""
    message = (
        f"{first.name} {sheet.quoted(row, first)} {how} {second.name} {sheet.quoted(row, second)}{by} is "
        f"{ends.low:.4g} to {ends.high:.4g}, where {found.agree} other rows agree on {found.common.low:.4g}"
    )
    return at(
        RULE, Severity.QUESTION, sheet, row, message, RULE.advice, second, low=found.common.low, high=found.common.high
    )


RULE = Rule(
    "proportion",
    "the product or quotient of two columns is the same in most rows, and another in this one",
    "say what differs in this row, or correct one of its numbers",
    check,
    ((Need.MEASURED,),),
)

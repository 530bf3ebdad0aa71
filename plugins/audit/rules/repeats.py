"""Rows of one case, and rows or columns of different names with the very same numbers."""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence

from ....analysis.imports.columns import AnnotatedColumn, ColumnRole
from ....analysis.imports.printed import Printed
from ....analysis.imports.words import ERRORS, STATISTICS, words_of
from ....shapes.errors import shorten
from ..evidence.finding import Finding, Need, Severity
from ..evidence.pairs import MEASURED
from ..evidence.rates import totals
from ..evidence.rule import Rule
from ..evidence.sheet import Sheet

RESULTS = (
    *MEASURED,
    *(ColumnRole.RATIO, ColumnRole.CHANGE, ColumnRole.DIFFERENCE, ColumnRole.PEAK_SHARE, ColumnRole.STATISTIC),
)
"""Roles of what was measured; all other columns say of what."""

FEWEST = 4
"""Rows of two columns that print the same."""

FEWEST_DIGITS = 8
"""Digits of two columns that are no coincidence."""

DIGITS_OF_ONE_SIZE = 5
"""The same where the rows are of one size, too: one measurement, printed under two names."""

FEW_COPIED = 0.3
"""Share of the rows that are copies by mistake, at most."""

DIGITS_COPIED = 6.0
"""Digits of equal numbers that are no coincidence, with one more for every ten pairs of rows."""

FEWEST_NAMES = 3
"""Names of cases, all different but two, from which on those two are one case."""


def check_rows(sheet: Sheet) -> Iterator[Finding]:
    """Find rows of the same case: with the same numbers, or with others that nothing tells apart."""
    measured = sheet.of(*RESULTS)
    if not measured:
        return
    groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
    group, named = "", 0
    for row in range(len(sheet)):
        texts = [text.strip() for text in sheet.table.rows[row]]
        if sum(map(bool, texts)) == 1:  # a line that heads those below it
            group = "".join(texts)
        elif any(column.cells[row] is not None for column in measured):
            places = {column.index for column in measured}
            key = (group, *(text for at, text in enumerate(texts) if at not in places))
            named += not sheet.sizes(row)
            groups[key].append(row)
    repeated = [rows for rows in groups.values() if len(rows) > 1]
    if named and (len(repeated) > 1 or len(groups) < FEWEST_NAMES or any(len(rows) > 2 for rows in repeated)):
        return  # names that are no names of cases
    same = [rows for rows in repeated if len({_numbers(sheet, row) for row in rows}) < len(rows)]
    other = [rows for rows in repeated if len({_numbers(sheet, row) for row in rows}) > 1]
    if same:
        yield _repeated(sheet, same, Severity.MISLEADING, "with the same numbers, and count twice in every mean")
    if other:
        yield _repeated(sheet, other, Severity.QUESTION, "with other numbers, and no column says what differs")


def check_copies(sheet: Sheet) -> Iterator[Finding]:
    """Find rows, and columns, of different names with the very same measured numbers."""
    columns = _results(sheet)
    telling = sheet.of(*MEASURED) or [one for one in columns if not {*words_of(one.name)} & ERRORS]
    least = DIGITS_COPIED + math.log10(max(1, math.comb(len(sheet), 2)))
    seen: dict[tuple[str, ...], int] = {}
    copies = []
    for row in range(len(sheet)):
        numbers = tuple(cell.digits for one in columns if (cell := one.cells[row]) is not None)
        first = seen.setdefault(numbers, row)
        if first == row or _names(sheet, columns, row) == _names(sheet, columns, first):
            continue
        cells = [one.cells[row] for one in telling]
        enough = DIGITS_OF_ONE_SIZE if sheet.one_size(row, first) else least
        if sum(_digits(cell) for cell in cells if cell is not None) >= enough:
            repeated = f"all {len(numbers)} numbers are" if len(numbers) > 1 else "the number is"
            message = f"{repeated} the same as for {sheet.label(first)} (line {sheet.line(first)})"
            copies.append(COPIES.at(sheet, row, message, severity=Severity.QUESTION))
    if len(sheet) > 2 and len(copies) < max(2, FEW_COPIED * len(sheet)):  # else rows are repeated on purpose
        yield from copies
    yield from _equal_columns(sheet)


def _results(sheet: Sheet) -> list[AnnotatedColumn]:
    """Columns of what was measured; whole numbers of an unknown column name their row."""
    return [one for one in sheet.of(*RESULTS, ColumnRole.OTHER) if not (one.role is ColumnRole.OTHER and one.is_whole)]


def _equal_columns(sheet: Sheet) -> Iterator[Finding]:
    for first, second in itertools.combinations(sheet.of(*MEASURED), 2):
        pairs = [(one, other) for one, other in zip(first.cells, second.cells, strict=True) if one and other]
        equal = [one for one, other in pairs if (one.value, one.unit) == (other.value, other.unit)]
        said = sum(map(_digits, equal))
        if {*STATISTICS} & (first.core ^ second.core):  # of one sample
            continue
        if first.role is second.role and len(equal) == len(pairs) >= FEWEST and said >= FEWEST_DIGITS:
            if totals(sheet) >= {(row, second.index) for row in range(len(sheet))}:
                continue  # the time of the other stage is 0
            message = f"{first.name} and {second.name} print the same in all {len(pairs)} rows"
            yield COPIES.at(sheet, 0, message, second, severity=Severity.QUESTION, rows=float(len(pairs)))


def _digits(cell: Printed) -> int:
    return len(cell.digits.replace(".", "").strip("-+0"))


def _names(sheet: Sheet, results: Sequence[AnnotatedColumn], row: int) -> tuple[str, ...]:
    """Cells of a row that are no results."""
    measured = {one.index for one in results}
    return tuple(text.strip() for at, text in enumerate(sheet.table.rows[row]) if at not in measured)


def _numbers(sheet: Sheet, row: int) -> tuple[str, ...]:
    return tuple(sheet.text(row, column) for column in sheet.of(*RESULTS))


def _repeated(sheet: Sheet, groups: list[list[int]], severity: Severity, how: str) -> Finding:
    first = groups[0]
    lines = shorten(", ".join(str(sheet.line(row)) for row in first))
    times = "twice" if len(first) == 2 else f"{len(first)} times"
    more = f"; so do {len(groups) - 1} other cases" if len(groups) > 1 else ""
    message = f"this case appears {times} (lines {lines}) {how}{more}"
    return ROWS.at(sheet, first[1], message, severity=severity, cases=float(len(groups)))


ROWS = Rule(
    "repeated-rows",
    "a case appears in a table more than once",
    "say what differs between such rows, or keep one of them",
    check_rows,
    ((Need.SIZES,),),
)

COPIES = Rule(
    "copied-numbers",
    "two rows, or two columns, of different names print the very same numbers",
    "check that each was measured, and not copied",
    check_copies,
    ((Need.MEASURED,),),
)

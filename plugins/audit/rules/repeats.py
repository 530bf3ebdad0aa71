"""Rows that appear twice, with the same numbers or with others, and one time for many sizes."""

import itertools
import math
import re
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from scipy.special import gammainc

from ..evidence.context import Case, Rule
from ..evidence.finding import Finding, Need, Severity
from ..evidence.rates import PrintedRate, cells_of
from ..reading.annotated_table import AnnotatedColumn, ColumnRole, Sheet
from ..reading.printed import Printed
from ..reading.words import ERRORS, STATISTICS, words_of
from .floor import ranges
from .roof import least_bytes

MEASURED = (
    *(
        ColumnRole.TIME,
        ColumnRole.RATE,
        ColumnRole.BANDWIDTH,
        ColumnRole.THROUGHPUT,
        ColumnRole.RATIO,
        ColumnRole.CHANGE,
        ColumnRole.DIFFERENCE,
    ),
    *(ColumnRole.PEAK_SHARE, ColumnRole.STATISTIC, ColumnRole.COUNT, ColumnRole.CASES),
)
"""Roles of what was measured; all other columns say of what."""

FEWEST = 4
"""Cells with one and the same time that are no coincidence."""

GROWTH = 4.0
"""Factor by which FLOPs and bytes differ between them at least."""

DIGITS = 3
"""Digits that a time must have to say something."""

NOISY = (ColumnRole.TIME, ColumnRole.RATE, ColumnRole.BANDWIDTH, ColumnRole.THROUGHPUT)
"""Roles of what no two measurements agree on to many digits; errors and sizes may well be equal."""

FEWEST_DIGITS = 8
"""Digits of two columns that are no coincidence."""

DIGITS_OF_ONE_SIZE = 5
"""The same where the rows are of one size, too: one measurement, printed under two names."""

FEW_COPIED = 0.3
"""Share of the rows that are copies by mistake, at most."""

DIGITS_COPIED = 6.0
"""Digits of equal numbers that are no coincidence, with one more for every ten pairs of rows."""

MOST_STACKED = 100
"""Rows of a table up to which they are compared with those of others with the same header."""

FEWEST_NAMES = 3
"""Names of cases, all different but two, from which on those two are one case."""

_INTERVAL = re.compile(r"\\?\[\d+\.\d+[^,\]]*, *\d+\.\d+[^,\]]*\] *\w*")
"""An interval of confidence, such as [1.128, 1.183] ms: a result, although no rule reads it."""

LAUNCH_S = 50e-6
"""Times up to here may be those of a launch, whatever the work."""

NEAR = (0.01, 0.1)
"""How far a time may differ from another to be near it, as shares: a peak of the distribution, steps of a timer."""

MANY_NEAR = 20
"""Other rows near one time from which on some may print the same."""

CHANCE = 1e-6
"""Probability of a coincidence that is one no longer: a long table has thousands of times."""


def check_rows(case: Case) -> Iterator[Finding]:
    """Find rows of the same case: with the same numbers, or with others that nothing tells apart."""
    for sheet in case.sheets:
        measured = sheet.of(*MEASURED)
        if not measured:
            continue
        groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
        group, named = "", 0
        for row in range(len(sheet)):
            texts = [text.strip() for text in sheet.titled.table.rows[row]]
            if sum(map(bool, texts)) == 1:  # a line that heads those below it
                group = "".join(texts)
            elif any(column.cells[row] is not None for column in measured):
                places = {column.index for column in measured}
                key = (group, *(text for at, text in enumerate(texts) if at not in places))
                named += not sheet.sizes(row)
                groups[key].append(row)
        repeated = [rows for rows in groups.values() if len(rows) > 1]
        if named and (len(repeated) > 1 or len(groups) < FEWEST_NAMES or any(len(rows) > 2 for rows in repeated)):
            continue  # names that are no names of cases
        same = [rows for rows in repeated if len({_numbers(sheet, row) for row in rows}) < len(rows)]
        other = [rows for rows in repeated if len({_numbers(sheet, row) for row in rows}) > 1]
        if same:
            yield _repeated(sheet, same, Severity.MISLEADING, "with the same numbers, and count twice in every mean")
        if other:
            yield _repeated(sheet, other, Severity.QUESTION, "with other numbers, and no column says what differs")


def check_copies(case: Case) -> Iterator[Finding]:
    """Find rows, and columns, of different names with the very same measured numbers."""
    for sheet in case.stacked_below(MOST_STACKED):
        columns = _results(sheet)
        telling = sheet.of(*NOISY) or [one for one in columns if not {*words_of(one.name)} & ERRORS]
        least = DIGITS_COPIED + math.log10(max(1, math.comb(len(sheet), 2)))
        seen: dict[tuple[str, ...], int] = {}
        copies = []
        for row in range(len(sheet)):
            numbers = tuple(cell.digits for one in columns if (cell := one.cells[row]) is not None)
            first = seen.setdefault(numbers, row)
            if first == row or _names(sheet, columns, row) == _names(sheet, columns, first):
                continue
            if _intervals(sheet, row) != _intervals(sheet, first):  # measured apart, and equal after rounding
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
    """Columns of what was measured; whole numbers of an unknown column, and counts of cases, name their row."""
    return [
        one
        for one in sheet.of(*MEASURED, ColumnRole.OTHER)
        if one.role not in (ColumnRole.CASES, ColumnRole.COUNT) and not (one.role is ColumnRole.OTHER and one.is_whole)
    ]


def _equal_columns(sheet: Sheet) -> Iterator[Finding]:
    for first, second in itertools.combinations(sheet.of(*NOISY), 2):
        pairs = [(one, other) for one, other in zip(first.cells, second.cells, strict=True) if one and other]
        equal = [one for one, other in pairs if (one.value, one.unit) == (other.value, other.unit)]
        said = sum(map(_digits, equal))
        if {*STATISTICS} & (first.core ^ second.core):  # of one sample
            continue
        if first.role is second.role and len(equal) == len(pairs) >= FEWEST and said >= FEWEST_DIGITS:
            message = f"{first.name} and {second.name} print the same in all {len(pairs)} rows"
            yield COPIES.at(sheet, 0, message, second, severity=Severity.QUESTION, rows=float(len(pairs)))


def _digits(cell: Printed) -> int:
    return len(cell.digits.replace(".", "").strip("-+0"))


def _names(sheet: Sheet, results: Sequence[AnnotatedColumn], row: int) -> tuple[str, ...]:
    """Cells of a row that are no results."""
    measured = {one.index for one in results}
    return tuple(text.strip() for at, text in enumerate(sheet.titled.table.rows[row]) if at not in measured)


def _intervals(sheet: Sheet, row: int) -> list[str]:
    return [text for text in sheet.titled.table.rows[row] if _INTERVAL.fullmatch(text.strip())]


def _numbers(sheet: Sheet, row: int) -> tuple[str, ...]:
    return tuple(sheet.text(row, column) for column in sheet.of(*MEASURED))


def _repeated(sheet: Sheet, groups: list[list[int]], severity: Severity, how: str) -> Finding:
    first = groups[0]
    lines = ranges([sheet.line(row) for row in first])
    times = "twice" if len(first) == 2 else f"{len(first)} times"
    more = f"; so do {len(groups) - 1} other cases" if len(groups) > 1 else ""
    message = f"this case appears {times} (lines {lines}) {how}{more}"
    return ROWS.at(sheet, first[1], message, severity=severity, cases=float(len(groups)))


def check_times(case: Case) -> Iterator[Finding]:
    """Find one and the same printed time for sizes of very different work."""
    for sheet in case.sheets:
        for column in sheet.of(ColumnRole.TIME):
            by_value: dict[float, list[PrintedRate]] = defaultdict(list)
            timed = list(cells_of(sheet, column))
            every = sorted(cell.time_s for cell in timed)
            for cell in timed:
                printed = column.cells[cell.row]
                if printed is not None and len(printed.digits.replace(".", "").lstrip("0")) >= DIGITS:
                    by_value[printed.value].append(cell)
            for cells in by_value.values():
                if len(cells) < FEWEST or cells[0].time_s <= LAUNCH_S or not _is_other_work(sheet, cells):
                    continue
                if not _by_chance(len(cells), cells[0], every):
                    yield _equal(sheet, column, cells)


def _by_chance(count: int, cell: PrintedRate, every: Sequence[float]) -> bool:
    """True where so many other rows of a long table lie near a time that `count` of them may well print one number."""
    return any(_are_drawn(count, cell, every, within) for within in NEAR)


def _are_drawn(count: int, cell: PrintedRate, every: Sequence[float], within: float) -> bool:
    """True where rows near a time fall on numbers as if drawn (Poisson).

    They fall on those that can be printed there, or on fewer, where the steps of the timer are wider. How few they are,
    pairs of the other rows tell that are equal by chance.
    """
    first, last = (bisect(every, cell.time_s * (1 + side * within)) for side in (-1, 1))
    others = Counter(time_s for time_s in every[first:last] if time_s != cell.time_s)
    near = others.total()
    numbers = max(2 * within * cell.time_s / (cell.time.high - cell.time.low), 1.0)
    if pairs := sum(math.comb(equal, 2) for equal in others.values()):
        numbers = min(numbers, math.comb(near, 2) / pairs)
    return near > MANY_NEAR and numbers * float(gammainc(count, near / numbers)) > CHANCE


def _is_other_work(sheet: Sheet, cells: list[PrintedRate]) -> bool:
    problems = [problem for cell in cells if (problem := sheet.problem(cell.row, cell.column)) is not None]
    moved = [least_bytes(problem, sheet.setting_at(cells[0].row)) for problem in problems]
    flops = [cell.flops for cell in cells]
    return min(max(flops) / max(min(flops), 1), max(moved) / max(min(moved), 1)) >= GROWTH


def _equal(sheet: Sheet, column: AnnotatedColumn, cells: list[PrintedRate]) -> Finding:
    lines = ranges([sheet.line(cell.row) for cell in cells])
    growth = max(cell.flops for cell in cells) / min(cell.flops for cell in cells)
    message = (
        f"{column.name}: {len(cells)} rows (lines {lines}) print {sheet.quoted(cells[0].row, column)}, though their "
        f"FLOPs differ by a factor of {growth:.3g}"
    )
    return TIMES.at(sheet, cells[1].row, message, column, severity=Severity.QUESTION, rows=float(len(cells)))


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

TIMES = Rule(
    "equal-times",
    "one and the same time is printed for sizes whose FLOPs and bytes differ 4 times or more",
    "check that each row was measured, at its own size",
    check_times,
    ((Need.TIMES,),),
)

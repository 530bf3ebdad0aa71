"""Ratios and differences that the numbers beside them do not give, or give the other way round."""

from collections.abc import Iterator, Sequence

from ....analysis.imports.columns import AnnotatedColumn, ColumnRole
from ....analysis.imports.consistency import ValueRange
from ....shapes.errors import shorten
from ..evidence.baseline import against_rows
from ..evidence.changes import changes_of
from ..evidence.finding import Finding, Need, Severity
from ..evidence.pairs import Allowed, Pair, meets, pair_of, ratio, scaled
from ..evidence.rates import follows, time_beside
from ..evidence.rule import Rule
from ..evidence.sheet import Sheet


def forward(pair: Pair, row: int) -> ValueRange | None:
    """Return what the header promises: base / head as named; else how much faster the head is."""
    base, head = pair.base.span(row), pair.head.span(row)
    if base is None or head is None or base.high <= 0 or head.high <= 0:
        return None
    return ratio(base, head) if pair.named or pair.is_time else ratio(head, base)


def turned(span: ValueRange) -> ValueRange:
    """Reciprocals."""
    low, high = (1 / end if end > 0 else float("inf") for end in (span.high, span.low))
    return ValueRange(low, high)


def check_label(sheet: Sheet) -> Iterator[Finding]:
    """Find ratios of which every row that tells is the reciprocal of what the header says."""
    for column in sheet.of(ColumnRole.RATIO):
        pair = pair_of(sheet, column)
        if pair is None or not pair.sure or not (pair.named or pair.is_known):  # which way is better is not said
            continue
        right, wrong, _ = directions(sheet, column, pair)
        if wrong and not right:
            yield _reversed(sheet, column, pair, wrong[0], len(wrong))


def directions(sheet: Sheet, column: AnnotatedColumn, pair: Pair) -> tuple[list[int], list[int], list[int]]:
    """Rows that only the header's direction explains, that only the other one does, and that neither does."""
    right: list[int] = []
    wrong: list[int] = []
    neither: list[int] = []
    for row, (printed,) in sheet.spans(column):
        ends = forward(pair, row)
        if ends is None:
            continue
        fits, fits_turned = meets(printed, ends), meets(printed, turned(ends))
        if fits and not fits_turned:
            right.append(row)
        elif fits_turned and not fits:
            wrong.append(row)
        elif not fits:
            neither.append(row)
    return right, wrong, neither


def _reversed(sheet: Sheet, column: AnnotatedColumn, pair: Pair, row: int, count: int) -> Finding:
    base, head = pair.base, pair.head
    ends = forward(pair, row)
    assert ends is not None
    if pair.named:
        says = f"{base.name} / {head.name}"
        does = f"{head.name} / {base.name}"
    else:
        says, does = "a speedup, above 1 where the new side is faster", "its reciprocal"
    text = sheet.quoted(row, column)
    message = (
        f"{column.name}: the header says {says}, which is {ends.low:.3g} to {ends.high:.3g} here, but {text} is {does}"
        f"; all {count} rows that distinguish the two agree"
    )
    return LABEL.at(sheet, row, message, column, severity=Severity.QUESTION, rows=float(count))


def check_values(sheet: Sheet) -> Iterator[Finding]:
    """Find ratios, changes, differences and TFLOPS outside of what the printed numbers of their row allow."""
    for column in sheet.of(ColumnRole.RATIO):
        yield from _ratios(sheet, column)
    for column in sheet.of(ColumnRole.CHANGE):
        yield from _changes(sheet, column)
    for column in sheet.of(ColumnRole.RATIO, ColumnRole.CHANGE, ColumnRole.PEAK_SHARE):
        yield from _against(sheet, column)
    for column in sheet.of(ColumnRole.DIFFERENCE):
        yield from _differences(sheet, column)
    for column in sheet.of(ColumnRole.RATE):
        by_work = list(_quotients(sheet, column, sheet.of(ColumnRole.WORK)))
        yield from by_work or _rates(sheet, column)
    for column in sheet.of(ColumnRole.BANDWIDTH):
        yield from _quotients(sheet, column, sheet.of(ColumnRole.BYTES))


def _ratios(sheet: Sheet, column: AnnotatedColumn) -> Iterator[Finding]:
    pair = pair_of(sheet, column)
    if pair is None:
        return
    right, wrong, neither = directions(sheet, column, pair)
    is_turned = len(wrong) > len(right)
    outside = sorted([*neither, *(right if is_turned else wrong)])
    if not _is_meant(sheet, column, pair, len(outside)):
        return
    for row in outside:
        ends = forward(pair, row)
        assert ends is not None
        yield _outside(sheet, row, column, turned(ends) if is_turned else ends, _of_pair(pair, row))


def _against(sheet: Sheet, ratios: AnnotatedColumn) -> Iterator[Finding]:
    """Ratios to another row that do not follow, each once."""
    told: set[int] = set()
    for found in against_rows(sheet, ratios):
        for row, ends in found.allowed.outside.items():
            if row in told:
                continue
            told.add(row)
            own, base = found.column, found.base[row]
            source = f"{own.name} {sheet.quoted(row, own)} and {sheet.quoted(base, own)} of the baseline (line "
            yield _outside(sheet, row, ratios, ends, f"{source}{sheet.line(base)})")


def _is_meant(sheet: Sheet, column: AnnotatedColumn, pair: Pair, outside: int) -> bool:
    """Tell whether a column is derived from a pair at all: most rows follow, or header and sides leave no doubt."""
    told = sum(column.cells[row] is not None and forward(pair, row) is not None for row in range(len(sheet)))
    return 2 * outside <= told or (pair.sure and (pair.named or not column.side))


def _changes(sheet: Sheet, column: AnnotatedColumn) -> Iterator[Finding]:
    pair, allowed = changes_of(sheet, column) or (None, None)
    if pair is None or allowed is None or allowed.follow < len(allowed.outside):
        return  # what these are nobody said: not the change of these two columns
    for row, ends in allowed.outside.items():
        yield _outside(sheet, row, column, ends, _of_pair(pair, row))


def _differences(sheet: Sheet, column: AnnotatedColumn) -> Iterator[Finding]:
    pair = pair_of(sheet, column)
    if pair is None:
        return
    scale = column.unit / pair.base.unit if column.unit != 1.0 else 1.0  # else the header has no unit
    ends = {
        row: scaled(ValueRange(head.low - base.high, head.high - base.low), 1 / scale)
        for row, (_, base, head) in sheet.spans(column, pair.base, pair.head)
    }
    found = Allowed.of(column, ends, {row: scaled(one, -1) for row, one in ends.items()})
    if found.follow >= len(found.outside) or (pair.sure and column.unit == pair.base.unit):
        for row, one in found.outside.items():
            yield _outside(sheet, row, column, one, _of_pair(pair, row))


def _of_pair(pair: Pair, row: int) -> str:
    base, head = (shorten(cell.text) if (cell := one.cells[row]) else "" for one in (pair.base, pair.head))
    return f"{pair.base.name} {base} and {pair.head.name} {head}"


def _outside(sheet: Sheet, row: int, column: AnnotatedColumn, ends: ValueRange, source: str) -> Finding:
    message = (
        f"{column.name}: {sheet.quoted(row, column)} does not follow from {source}, which allow {ends.low:.5g} to "
        f"{ends.high:.5g}"
    )
    return VALUES.at(sheet, row, message, column, ends=ends)


def _rates(sheet: Sheet, column: AnnotatedColumn) -> Iterator[Finding]:
    """Rows of TFLOPS that do not follow from their time, where most do."""
    time = time_beside(sheet, column)
    if time is None:
        return
    choices = [sheet.m_is] if sheet.m_is else ["per_expert", "total"]
    found = max((follows(sheet, column, time, m_is) for m_is in choices), key=lambda one: one.follow)
    if found.follow < len(found.outside):
        message = f"{column.name}: {len(found.outside)} of {len(found.ends)} rows do not follow from {time.name}"
        yield VALUES.at(sheet, next(iter(found.ends)), message, column, severity=Severity.QUESTION)
        return
    for row, ends in found.outside.items():
        yield _outside(sheet, row, column, ends, f"the sizes and {time.name} {sheet.quoted(row, time)}")


BINARY = {1e3: 2.0**10, 1e6: 2.0**20, 1e9: 2.0**30}
"""Bytes of a unit: those that some mean by its name."""


def _quotients(sheet: Sheet, column: AnnotatedColumn, amounts: Sequence[AnnotatedColumn]) -> Iterator[Finding]:
    """Bandwidths and rates that are not the bytes or FLOPs of their row over its time, where as many are."""
    times = [one for one in sheet.of(ColumnRole.TIME) if one.side == column.side] or sheet.of(ColumnRole.TIME)
    if len(times) != 1 or len(amounts) != 1:
        return
    (time,), (amount,) = times, amounts
    rows = sheet.spans(column, time, amount)
    ends = {row: ratio(done, taken) for row, (_, taken, done) in rows if min(taken.low, done.low) > 0}
    scales = [unit / time.unit / column.unit for unit in (amount.unit, BINARY.get(amount.unit, amount.unit))]
    found = Allowed.of(column, *({row: scaled(one, scale) for row, one in ends.items()} for scale in scales))
    for row, one in found.outside.items() if found.follow >= len(found.outside) else ():
        source = f"{amount.name} {sheet.quoted(row, amount)} and {time.name} {sheet.quoted(row, time)}"
        yield _outside(sheet, row, column, one, source)


LABEL = Rule(
    "ratio-label",
    "all rows of a ratio are the reciprocal of what its header says",
    "write into the header which number is divided by which, of what, and which way is better",
    check_label,
    ((Need.SIDES,),),
)

VALUES = Rule(
    "does-not-follow",
    "a ratio, change, difference or rate lies outside of what the printed numbers of its row allow, rounding included",
    "compute derived columns by program, from the numbers that are printed beside them or from unrounded ones",
    check_values,
    ((Need.SIDES, Need.TIMED_RATES),),
)

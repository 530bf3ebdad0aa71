"""Counts and summaries that the rows, or each other, contradict."""

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import fmean, median

from ....analysis.imports.consistency import SLACK, ValueRange, enlarged
from ....shapes.errors import quote
from ..evidence.context import Case, Rule
from ..evidence.finding import Finding, Need, Severity
from ..evidence.pairs import meets, pair_of, ratio
from ..reading import words as known
from ..reading.annotated_table import AnnotatedColumn, ColumnRole, Sheet, Summary
from ..reading.claims import CountClaim, Statement, count_claims, total_in
from ..reading.printed import Printed

MOST_SUMMARIES = 50
"""Rows of a table that sum up those above them: of more, each held against all others, it would take quadratic time."""


@dataclass(frozen=True)
class PrintedChanges:
    """All printed changes of one quantity: words of its header, pass, kind where known; row name -> printed number."""

    core: frozenset[str]
    pass_: str
    kinds: set[str] = field(default_factory=set)
    values: dict[str, Printed] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """How a reader knows it."""
        return f"{' '.join(sorted(self.core))} {self.pass_}".strip()

    @cached_property
    def spans(self) -> list[ValueRange]:
        """What each number stands for; all numbers must be there when this is first asked."""
        return [cell.span for cell in self.values.values()]

    @cached_property
    def _ends(self) -> tuple[list[float], list[float]]:
        return sorted(span.low for span in self.spans), sorted(span.high for span in self.spans)

    @property
    def highest(self) -> float:
        """What the largest number is at least."""
        return self._ends[0][-1]

    @property
    def lowest(self) -> float:
        """What the smallest number is at most."""
        return self._ends[1][0]

    def tally(self, threshold: float, cases: int) -> ValueRange:
        """How many of `cases` changes can be at `threshold` or beyond (negative: below), if these are among them."""
        lows, highs = self._ends
        size = abs(threshold) - SLACK
        if threshold < 0:
            certain, excluded = bisect_right(highs, -size), len(lows) - bisect_right(lows, -size)
        else:
            certain, excluded = len(lows) - bisect_left(lows, size), bisect_left(highs, size)
        return ValueRange(float(certain), float(cases - excluded))

    @cached_property
    def _statistics(self) -> dict[str, ValueRange | None]:
        return {}

    def statistic(self, name: str) -> ValueRange | None:
        """Return a statistic of all numbers."""
        if name not in self._statistics:
            self._statistics[name] = _statistic(name, self.spans)
        return self._statistics[name]


@dataclass(frozen=True, slots=True)
class PrintedCount:
    """A count from a table: so many of `cases` at or beyond `threshold` percent."""

    sheet: Sheet
    row: int
    column: AnnotatedColumn
    count: int
    cases: int | None
    threshold: float
    pass_: str


def check(case: Case) -> Iterator[Finding]:
    """Hold counts in claims and tables against rows and against each other, and summaries against rows."""
    series = list(_series(case))
    counted = [one for sheet in case.sheets for one in _counted(sheet)]
    beyond: dict[tuple[str, float], dict[tuple[int | None, int], PrintedCount]] = defaultdict(dict)
    for one in counted:
        beyond[one.pass_, one.threshold].setdefault((one.cases, one.count), one)
    said = [*case.claims, *(one for sheet in case.sheets for one in _claims_in(sheet))]
    for claim in count_claims(said):
        yield from _claimed(claim, series, beyond[claim.pass_, claim.threshold].values())
    for one in counted:
        yield from _counted_rows(one, series)
    for sheet in case.sheets:
        yield from _quantiles(sheet)
        yield from _last_rows(sheet)
        yield from _statistics(sheet, series)


def _claims_in(sheet: Sheet) -> Iterator[Statement]:
    """Sentences that stand in cells of a table."""
    for column in sheet.of(ColumnRole.LABEL):
        for row in range(len(sheet)):
            words = sheet.text(row, column).split()
            if len(words) > 3:
                yield Statement(sheet.titled.table.where, sheet.line(row), " ".join(words))


def _series(case: Case) -> Iterator[PrintedChanges]:
    found: dict[tuple[frozenset[str], str], PrintedChanges] = {}
    for number, sheet in enumerate(case.sheets):
        for change in case.changes(number):
            for row in range(len(sheet)):
                cell = change.column.cells[row]
                pass_ = sheet.pass_of(row, change.column)
                if cell is None or any(one.cells[row] is not None for one in sheet.of(ColumnRole.CASES)):
                    continue
                if not (sheet.of(ColumnRole.ID) or sheet.sizes(row)):
                    continue  # a row of an aggregate
                key = (change.column.core, pass_)
                one = found.setdefault(key, PrintedChanges(*key))
                one.values.setdefault(_key(sheet, row), cell)
                one.kinds.add(change.kind)
    yield from found.values()


def _key(sheet: Sheet, row: int) -> str:
    ids = [sheet.text(row, one) for one in sheet.of(ColumnRole.ID)]
    texts = [sheet.text(row, one) for one in sheet.of(ColumnRole.LABEL, ColumnRole.DEVICE)]
    return " ".join(ids) or sheet.label(row) + " ".join(texts)


def _counted(sheet: Sheet) -> Iterator[PrintedCount]:
    cases = total_in(sheet.titled.title)
    for column in sheet.of(ColumnRole.COUNT):
        for row in range(len(sheet)):
            cell = column.cells[row]
            if cell is not None and cell.value == int(cell.value):
                pass_ = sheet.pass_of(row, column)
                yield PrintedCount(sheet, row, column, int(cell.value), cases, float(column.detail), pass_)


def _claimed(claim: CountClaim, series: Sequence[PrintedChanges], counted: Iterable[PrintedCount]) -> Iterator[Finding]:
    """Compare a claim with counts of the same pass and threshold first; else with the rows that are printed."""
    for one in counted:
        if one.cases is None or abs(one.cases - claim.cases) > max(2, claim.cases // 20):
            continue
        fewer, more = sorted((one.cases, claim.cases))
        small = one.count if one.cases == fewer else claim.count
        large = claim.count if one.cases == fewer else one.count
        allowed = enlarged(str(small), fewer, more - fewer)
        if not allowed.low <= large <= allowed.high:
            message = (
                f"{quote(claim.text)} contradicts {one.sheet.titled.name}, row {one.sheet.label(one.row)}, which "
                f"counts {one.count} of {one.cases}"
            )
            yield RULE.said(claim.where, claim.line, message, ends=allowed)
            return
    fits = [one for one in series if one.pass_ == claim.pass_ and one.values]
    for each in fits:
        allowed = each.tally(claim.threshold, claim.cases)
        if not allowed.low <= claim.count <= allowed.high:
            severity = Severity.CONTRADICTION if len(fits) == 1 else Severity.QUESTION
            message = (
                f"{quote(claim.text)}: {len(each.values)} printed rows of {quote(each.name)} allow "
                f"{allowed.low:.0f} to {allowed.high:.0f} of {claim.cases}"
            )
            yield RULE.said(claim.where, claim.line, message, severity=severity, ends=allowed)
            return


def _counted_rows(one: PrintedCount, series: Sequence[PrintedChanges]) -> Iterator[Finding]:
    """Hold a count of a table against the rows of other tables, where just one quantity can be meant."""
    fits = [each for each in series if each.pass_ == one.pass_ and each.values]
    if len(fits) != 1:
        return
    cases = one.cases or max(len(fits[0].values), one.count)
    allowed = fits[0].tally(one.threshold, cases)
    if one.cases is None:
        allowed = ValueRange(allowed.low, math.inf)
    if not allowed.low <= one.count <= allowed.high:
        message = (
            f"{one.column.name} {one.count}: {len(fits[0].values)} printed rows of {fits[0].name!r} allow "
            f"{allowed.low:.0f} to {allowed.high:.0f}"
        )
        yield RULE.at(one.sheet, one.row, message, one.column)


def _quantiles(sheet: Sheet) -> Iterator[Finding]:
    """A count beyond a threshold and the quantiles of the same row: p75 = 1.8 puts a quarter at 1 or more."""
    cases = total_in(sheet.titled.title)
    if cases is None:
        return
    for column in sheet.of(ColumnRole.COUNT):
        threshold = float(column.detail)
        for row in range(len(sheet)):
            cell = column.cells[row]
            if cell is None:
                continue
            allowed = ValueRange(0.0, float(cases))
            for other in sheet.of(ColumnRole.STATISTIC):
                value = other.span(row)
                if value is not None and other.detail in known.QUANTILES:
                    allowed = _narrowed(allowed, value, known.QUANTILES[other.detail], threshold, cases)
            if not allowed.low <= cell.value <= allowed.high:
                message = (
                    f"{column.name} {sheet.quoted(row, column)}: the quantiles beside it allow {allowed.low:.0f} to "
                    f"{allowed.high:.0f} of {cases}"
                )
                yield RULE.at(sheet, row, message, column)


def _narrowed(allowed: ValueRange, value: ValueRange, quantile: float, threshold: float, cases: int) -> ValueRange:
    """Restrict a count by one quantile; ends are loose by one case, for the definitions of quantiles differ."""
    if threshold > 0:
        beyond, certain, excluded = 1 - quantile, value.low >= threshold, value.high < threshold
    else:
        beyond, certain, excluded = quantile, value.high <= threshold, value.low > threshold
    at_end = quantile in (0.0, 1.0)
    part = beyond * cases
    if certain:
        least = max(1.0, part) if at_end else math.floor(part) - 1
        return ValueRange(max(allowed.low, least), allowed.high)
    if excluded:
        most = part - (beyond > 0) if at_end else math.ceil(part) + 1
        return ValueRange(allowed.low, min(allowed.high, most))
    return allowed


def _last_rows(sheet: Sheet) -> Iterator[Finding]:
    """Hold rows such as "mean" and "geomean" against the rows above them."""
    if any(_is_statistic(sheet, row) for row in range(len(sheet))):
        return  # what such a row sums up, or whether it is summed up itself, nobody said
    if len(sheet.summaries) > MOST_SUMMARIES:
        return
    for summary in sheet.summaries:
        for column in sheet.columns:
            printed = summary.cells.get(column.index)
            if printed is None or column.role in _NO_SUMMARY or _is_of_means(sheet, summary, column, printed):
                continue
            if summary.statistic == "sum" and column.role is not ColumnRole.TIME:
                continue
            allowed = [
                (len(rows), ends)
                for rows in _summed_up(sheet, summary)
                if (ends := _statistic_of(column, rows, summary.statistic)) is not None
            ]
            if not allowed or any(printed.span.meets(ends) for _, ends in allowed):
                continue
            count, ends = allowed[0]
            message = (
                f"{column.name}: {summary.statistic} {printed.text} is not that of the {count} rows above, "
                f"{ends.low:.5g} to {ends.high:.5g}"
            )
            found = RULE.said(sheet.titled.table.where, summary.line, message, summary.statistic, ends=ends)
            yield replace(found, title=sheet.titled.title)


def _is_statistic(sheet: Sheet, row: int) -> bool:
    """True for a row that is named by a statistic of something."""
    words = [word for one in sheet.of(ColumnRole.LABEL) for word in known.words_of(sheet.text(row, one))]
    return any(word in known.SUMMARIES for word in words)


def _summed_up(sheet: Sheet, summary: Summary) -> Iterator[list[int]]:
    """Rows that a summary may be of: all above the line up to the same statistic of another group, all above, all."""
    before = [one.line for one in sheet.summaries if one.statistic == summary.statistic and one.line < summary.line]
    for low, high in ((max(before, default=0), summary.line), (0, summary.line), (0, math.inf)):
        yield [row for row in range(len(sheet)) if low < sheet.line(row) < high]


def _statistic_of(column: AnnotatedColumn, rows: Sequence[int], name: str) -> ValueRange | None:
    """Values that a statistic of a column can have; None where rows are missing."""
    spans = [span for row in rows if (span := column.span(row)) is not None]
    return _statistic(name, spans) if len(spans) == len(rows) >= 2 else None


def _is_of_means(sheet: Sheet, summary: Summary, column: AnnotatedColumn, printed: Printed) -> bool:
    """True where a summary may be the ratio or the change of the summaries beside it."""
    pair = pair_of(sheet, column)
    if pair is None or pair.base.index not in summary.cells or pair.head.index not in summary.cells:
        return False
    over, under = summary.cells[pair.base.index].span, summary.cells[pair.head.index].span
    return column.role is ColumnRole.CHANGE or any(
        meets(printed.span, one) for one in (ratio(over, under), ratio(under, over))
    )


_NO_SUMMARY = (
    ColumnRole.SIZE,
    ColumnRole.SHAPE,
    ColumnRole.ID,
    ColumnRole.LABEL,
    ColumnRole.CASES,
    ColumnRole.COUNT,
    ColumnRole.DTYPE,
    ColumnRole.DEVICE,
    ColumnRole.OTHER,
)


def _statistic(name: str, spans: Sequence[ValueRange]) -> ValueRange | None:
    """Values that a statistic of rounded numbers can have."""
    lows, highs = [span.low for span in spans], [span.high for span in spans]
    match name:
        case "sum":
            return ValueRange(sum(lows), sum(highs))
        case "mean":
            return ValueRange(fmean(lows), fmean(highs))
        case "median":
            return ValueRange(median(lows), median(highs))
        case "min":
            return ValueRange(min(lows), min(highs))
        case "max":
            return ValueRange(max(lows), max(highs))
        case "gmean" if min(lows) > 0:
            return ValueRange(math.exp(fmean(map(math.log, lows))), math.exp(fmean(map(math.log, highs))))
    return None


def _statistics(sheet: Sheet, series: Sequence[PrintedChanges]) -> Iterator[Finding]:
    """Hold the extremes of a summary against printed rows; the middle too, where all its cases are printed."""
    cases = total_in(sheet.titled.title)
    for column in sheet.of(ColumnRole.STATISTIC):
        for row, (printed,) in sheet.spans(column):
            one = _meant(sheet, row, column, series)
            if one is None:
                continue
            allowed: ValueRange | None = None
            if cases == len(one.spans):
                allowed = one.statistic(column.detail)
            elif column.detail == "max":
                allowed = ValueRange(one.highest, math.inf)
            elif column.detail == "min":
                allowed = ValueRange(-math.inf, one.lowest)
            if allowed is not None and not meets(printed, allowed):
                message = (
                    f"{column.name} {sheet.quoted(row, column)}: {len(one.spans)} printed rows of {quote(one.name)} "
                    f"allow {allowed.low:.5g} to {allowed.high:.5g}"
                )
                yield RULE.at(sheet, row, message, column)


def _meant(sheet: Sheet, row: int, column: AnnotatedColumn, series: Sequence[PrintedChanges]) -> PrintedChanges | None:
    """Return the one quantity that a row of a summary is about: same pass, and same kind where several are left."""
    words = {word for label in sheet.of(ColumnRole.LABEL) for word in known.words_of(sheet.text(row, label))}
    pass_ = sheet.pass_of(row, column)
    kind = "reduction" if "reduction" in words else "gain" if "gain" in words else ""
    fits = [one for one in series if one.pass_ == pass_ and one.values]
    if kind:
        fits = [one for one in fits if kind in one.kinds]
    elif not words & known.CHANGES and "%" not in words:
        return None
    return fits[0] if len(fits) == 1 else None


RULE = Rule(
    "counts",
    "a count, an extreme or a mean that the printed rows, or another count of the same cases, contradict",
    "compute every number of a text from one table of results, and state over which cases",
    check,
    ((Need.SUMMARIES, Need.CLAIMS),),
)

"""Everything that the rules look at: the understood tables and the claims, and what is found out once."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from ....analysis.imports.consistency import ValueRange
from ....analysis.imports.table import ImportedTable
from ..reading.annotated_table import AnnotatedColumn, ColumnRole, Sheet
from ..reading.assumptions import Assumptions, devices_in
from ..reading.claims import Statement, peak_claims
from ..reading.column import Override
from ..reading.roles import understand
from .baseline import against_rows
from .changes import Resolved, resolve
from .finding import Finding, Need, Severity
from .pairs import pair_of
from .rates import cells_of, completed, follow_rates, time_beside
from .structure import blocks_of

FEW_ROWS = 4
"""Rows of a table that is too short to show a pattern by itself."""


@dataclass(frozen=True)
class Case:
    """The tables of one audit, in order, with what their own numbers say about them."""

    sheets: tuple[Sheet, ...]
    claims: tuple[Statement, ...]
    setting: Assumptions
    resolved: dict[tuple[int, int], Resolved]
    overrides: tuple[Override, ...] = ()
    _stacks: dict[tuple[object, int], Sheet] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def stacked(self) -> tuple[Sheet, ...]:
        """The tables, short ones of one text with the same header as one."""
        return self.stacked_below(FEW_ROWS)

    def stacked_below(self, rows: int) -> tuple[Sheet, ...]:
        """The tables, those with fewer rows and the same header as one."""
        groups: dict[tuple[object, ...], list[Sheet]] = defaultdict(list)
        for sheet in self.sheets:
            titled = sheet.titled
            is_short = len(sheet) < rows and not sheet.summaries and not titled.column_lines
            groups[(titled.table.where, titled.table.header) if is_short else (id(sheet),)].append(sheet)
        for key, one in groups.items():
            if len(one) > 1 and (key, len(one)) not in self._stacks:
                self._stacks[key, len(one)] = _stack(one, self.overrides)
        return tuple(self._stacks[key, len(one)] if len(one) > 1 else one[0] for key, one in groups.items())

    def changes(self, number: int) -> list[Resolved]:
        """Changes in percent of sheet `number`, with what kind they turned out to be."""
        return [self.resolved[number, column.index] for column in self.sheets[number].of(ColumnRole.CHANGE)]


def _stack(sheets: Sequence[Sheet], overrides: Sequence[Override]) -> Sheet:
    """Put tables with the same header below each other, with a last column that says which is which."""
    first = sheets[0].titled.table
    rows = tuple((*row, f"line {one.titled.line}") for one in sheets for row in one.titled.table.rows)
    lines = tuple(line for one in sheets for line in one.titled.table.lines)
    table = ImportedTable(first.where, (*first.header, "table"), rows, lines)
    titles = {one.titled.title for one in sheets}
    titled = replace(sheets[0].titled, table=table, title=titles.pop() if len(titles) == 1 else "")
    return understand(titled, sheets[0].setting, overrides)


@dataclass(frozen=True, slots=True)
class Rule:
    """A check: `summary` says what it looks for, `advice` what to do about a finding.

    `needs` is what it works on: of each group, one at least must be there.
    """

    name: str
    summary: str
    advice: str
    check: Callable[[Case], Iterator[Finding]]
    needs: tuple[tuple[Need, ...], ...] = ()

    def lacks(self, available: Collection[Need]) -> str:
        """Say what is missing for this check to run on anything; "" when it can."""
        missing = [group for group in self.needs if not set(group) & set(available)]
        return "; ".join(" or ".join(group) for group in missing)

    def at(
        self,
        sheet: Sheet,
        row: int | None,
        message: str,
        column: AnnotatedColumn | None = None,
        *,
        severity: Severity = Severity.CONTRADICTION,
        advice: str = "",
        ends: ValueRange | None = None,
        **evidence: float | str,
    ) -> Finding:
        """Build a finding at a row of a table, or at the whole table (row None); `ends` are what is allowed there."""
        line, label = sheet.titled.line, ""
        if row is not None:
            line, label = sheet.line(row, column), sheet.label(row, column)
        where, title = sheet.titled.table.where, sheet.titled.title
        found = self.said(where, line, message, label, severity=severity, ends=ends, **evidence)
        return replace(found, title=title, advice=advice or self.advice)

    def said(
        self,
        where: str,
        line: int,
        message: str,
        label: str = "",
        *,
        severity: Severity = Severity.CONTRADICTION,
        ends: ValueRange | None = None,
        **evidence: float | str,
    ) -> Finding:
        """Build a finding without a table."""
        numbers = {"low": ends.low, "high": ends.high} if ends else {}
        return Finding(self.name, severity, where, "", line, label, message, self.advice, {**numbers, **evidence})


def build_case(
    sheets: Sequence[Sheet], claims: Sequence[Statement], setting: Assumptions, overrides: Sequence[Override] = ()
) -> Case:
    """Find out how each table counts M, and what kind each change is."""
    counted = [follow_rates(completed(sheet)) for sheet in sheets]
    known = {sheet.m_is for sheet in counted if sheet.m_is}
    if len(known) == 1:  # the tables of one text count alike
        (m_is,) = known
        counted = [sheet if sheet.m_is else sheet.with_m(m_is) for sheet in counted]
    resolved = {
        (number, column.index): resolve(sheet, column)
        for number, sheet in enumerate(counted)
        for column in sheet.of(ColumnRole.CHANGE)
    }
    return Case(tuple(counted), tuple(claims), setting, resolved, tuple(overrides))


def available(case: Case) -> set[Need]:
    """Say what there is that checks need."""
    found: set[Need] = {Need.CLAIMS} if case.claims else set()
    if case.setting.device or any(devices_in(one.text) for one in case.claims):
        found.add(Need.DEVICE)
    if any(peak_claims(case.claims)):
        found.add(Need.SHARES)
    for number, sheet in enumerate(case.sheets):
        found |= _available(sheet)
        if len({change.kind for change in case.changes(number)}) > 1 or len(case.changes(number)) > 2:
            found.add(Need.CHANGES)
    return found


def _available(sheet: Sheet) -> set[Need]:
    rates, times = sheet.of(ColumnRole.RATE), sheet.of(ColumnRole.TIME)
    derived = sheet.of(ColumnRole.RATIO, ColumnRole.CHANGE, ColumnRole.DIFFERENCE)
    sizes = [sheet.sizes(row) for row in range(len(sheet))]
    facts = {
        Need.DEVICE: any(sheet.setting_at(row, one).device for one in sheet.columns for row in range(len(sheet))),
        Need.SIZES: any(sizes),
        Need.TIMES: any(next(cells_of(sheet, one), None) for one in times),
        Need.RATES: bool(rates),
        Need.SIZED_RATES: any(next(cells_of(sheet, one), None) for one in rates),
        Need.BANDWIDTHS: bool(sheet.of(ColumnRole.BANDWIDTH)),
        Need.MEASURED: bool(sheet.of(ColumnRole.TIME, ColumnRole.RATE, ColumnRole.BANDWIDTH, ColumnRole.THROUGHPUT)),
        Need.FIGURES: any(any(one.is_result for one in figures) for figures, _ in blocks_of(sheet)),
        Need.SHARES: bool((rates or sheet.of(ColumnRole.BANDWIDTH)) and sheet.of(ColumnRole.PEAK_SHARE)),
        Need.SIDES: any(pair_of(sheet, one) or against_rows(sheet, one) for one in derived),
        Need.TIMED_RATES: any((time := time_beside(sheet, one)) and next(cells_of(sheet, time), None) for one in rates),
        Need.EXPERTS: any("E" in one for one in sizes),
        Need.SUMMARIES: bool(sheet.summaries or sheet.of(ColumnRole.COUNT, ColumnRole.STATISTIC)),
    }
    return {need for need, is_there in facts.items() if is_there}

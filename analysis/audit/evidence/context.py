"""Everything that the rules look at: the understood tables and the prose of all texts, and what is found out once."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from ..reading.annotated_table import Column, Role, Sheet
from ..reading.assumptions import Setting, devices_in
from ..reading.document import Paragraph
from ..reading.prose import peak_claims
from .baseline import against_rows
from .changes import Resolved, resolve
from .finding import Finding, Need, Severity
from .pairs import pair_of
from .rates import cells_of, completed, follow_rates, time_beside
from .structure import blocks_of


@dataclass(frozen=True, slots=True)
class Case:
    """The tables of one audit, in order, with what their own numbers say about them."""

    sheets: tuple[Sheet, ...]
    paragraphs: tuple[Paragraph, ...]
    setting: Setting
    resolved: dict[tuple[int, int], Resolved]

    def changes(self, number: int) -> list[Resolved]:
        """Changes in percent of sheet `number`, with what kind they turned out to be."""
        return [self.resolved[number, column.index] for column in self.sheets[number].of(Role.CHANGE)]


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


def build_case(sheets: Sequence[Sheet], paragraphs: Sequence[Paragraph], setting: Setting) -> Case:
    """Find out how each table counts M, and what kind each change is."""
    counted = [follow_rates(completed(sheet)) for sheet in sheets]
    known = {sheet.m_is for sheet in counted if sheet.m_is}
    if len(known) == 1:  # the tables of one text count alike
        (m_is,) = known
        counted = [sheet if sheet.m_is else sheet.with_m(m_is) for sheet in counted]
    resolved = {
        (number, column.index): resolve(sheet, column)
        for number, sheet in enumerate(counted)
        for column in sheet.of(Role.CHANGE)
    }
    return Case(tuple(counted), tuple(paragraphs), setting, resolved)


def available(case: Case) -> set[Need]:
    """Say what the texts have that checks need."""
    found: set[Need] = {Need.SENTENCES} if case.paragraphs else set()
    if case.setting.device or any(devices_in(one.text) for one in case.paragraphs):
        found.add(Need.DEVICE)
    if any(peak_claims(case.paragraphs)):
        found.add(Need.SHARES)
    for number, sheet in enumerate(case.sheets):
        found |= _available(sheet)
        if len({change.kind for change in case.changes(number)}) > 1 or len(case.changes(number)) > 2:
            found.add(Need.CHANGES)
    return found


def _available(sheet: Sheet) -> set[Need]:
    rates, times = sheet.of(Role.RATE), sheet.of(Role.TIME)
    derived = sheet.of(Role.RATIO, Role.CHANGE, Role.DIFFERENCE)
    sizes = [sheet.sizes(row) for row in range(len(sheet))]
    facts = {
        Need.DEVICE: any(sheet.setting_at(row, one).device for one in sheet.columns for row in range(len(sheet))),
        Need.SIZES: any(sizes),
        Need.TIMES: any(next(cells_of(sheet, one), None) for one in times),
        Need.RATES: bool(rates),
        Need.SIZED_RATES: any(next(cells_of(sheet, one), None) for one in rates),
        Need.BANDWIDTHS: bool(sheet.of(Role.BANDWIDTH)),
        Need.MEASURED: bool(sheet.of(Role.TIME, Role.RATE, Role.BANDWIDTH, Role.THROUGHPUT)),
        Need.FIGURES: any(any(one.is_result for one in figures) for figures, _ in blocks_of(sheet)),
        Need.SHARES: bool((rates or sheet.of(Role.BANDWIDTH)) and sheet.of(Role.PEAK_SHARE)),
        Need.SIDES: any(pair_of(sheet, one) or against_rows(sheet, one) for one in derived),
        Need.TIMED_RATES: any((time := time_beside(sheet, one)) and next(cells_of(sheet, time), None) for one in rates),
        Need.EXPERTS: any("E" in one for one in sizes),
        Need.SUMMARIES: bool(sheet.summaries or sheet.of(Role.COUNT, Role.STATISTIC)),
    }
    return {need for need, is_there in facts.items() if is_there}


def at(
    rule: Rule,
    severity: Severity,
    sheet: Sheet,
    row: int | None,
    message: str,
    advice: str,
    column: Column | None = None,
    **evidence: float | str,
) -> Finding:
    """Build the finding of a rule at a row of a table, or at the whole table (row None)."""
    titled = sheet.titled
    return Finding(
        rule.name,
        severity,
        titled.table.where,
        titled.title,
        titled.line if row is None else sheet.line(row, column),
        "" if row is None else sheet.label(row, column),
        message,
        advice,
        evidence,
    )

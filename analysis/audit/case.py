"""Everything that the rules look at: the understood tables and the prose of all texts, and what is found out once."""

from collections.abc import Sequence
from dataclasses import dataclass

from .changes import Resolved, resolve
from .document import Paragraph
from .finding import Finding, Rule, Severity
from .rates import follow_rates
from .setting import Setting
from .sheet import Column, Role, Sheet


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


def build_case(sheets: Sequence[Sheet], paragraphs: Sequence[Paragraph], setting: Setting) -> Case:
    """Find out how each table counts M, and what kind each change is."""
    counted = [follow_rates(sheet) for sheet in sheets]
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
        titled.line if row is None else sheet.line(row),
        "" if row is None else sheet.label(row, column),
        message,
        advice,
        evidence,
    )

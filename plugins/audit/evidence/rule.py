"""A rule: what it checks, what it needs, and how it builds a finding."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from ....analysis.imports.columns import AnnotatedColumn
from ....analysis.imports.consistency import ValueRange
from .finding import Finding, Need, Severity
from .sheet import Sheet


@dataclass(frozen=True, slots=True)
class Rule:
    """A check: `summary` says what it looks for, `advice` what to do about a finding.

    `needs` is what it works on: of each group, one at least must be there.
    """

    name: str
    summary: str
    advice: str
    check: Callable[[Sheet], Iterator[Finding]]
    needs: tuple[tuple[Need, ...], ...] = ()

    def lacks(self, available: Collection[Need]) -> str:
        """Say what is missing for this check to run on anything; "" when it can."""
        missing = [group for group in self.needs if not {*group} & {*available}]
        return "; ".join(" or ".join(group) for group in missing)

    def at(
        self,
        sheet: Sheet,
        row: int,
        message: str,
        column: AnnotatedColumn | None = None,
        *,
        severity: Severity = Severity.CONTRADICTION,
        ends: ValueRange | None = None,
        **evidence: float | str,
    ) -> Finding:
        """Build a finding at a row of a table; `ends` are what is allowed there."""
        line, label = sheet.line(row), sheet.label(row, column)
        numbers = {"low": ends.low, "high": ends.high} if ends else {}
        where, title = sheet.table.where, sheet.table.title
        return Finding(self.name, severity, where, title, line, label, message, self.advice, {**numbers, **evidence})

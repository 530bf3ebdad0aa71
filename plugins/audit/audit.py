"""Understands the tables of texts, and runs every rule over all of them together.

1. `roles.understand` says what each column is.
2. `rates` finds out how it counts M, where only its rates tell.
3. `registry.RULES` look for what does not hold.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...analysis.imports.columns import Override
from ...analysis.imports.table import ImportedTable
from ...shapes.errors import UsageError, unknown_name
from .evidence.assumptions import Assumptions
from .evidence.finding import Finding, Need
from .evidence.rates import follow_rates
from .evidence.roles import understand
from .evidence.sheet import Sheet
from .rules.registry import RULES, available

WIDEST = 100
"""Columns of the widest table that is audited: rules try pairs of columns."""


@dataclass(frozen=True, slots=True)
class Audit:
    """The tables as they were understood, and everything that was found, rule by rule.

    `skipped` has the names of the rules that had nothing to work on, and what they miss.
    """

    sheets: tuple[Sheet, ...]
    findings: tuple[Finding, ...]
    skipped: Mapping[str, str]

    @property
    def rows(self) -> int:
        """Rows of all tables."""
        return sum(map(len, self.sheets))


def audit(tables: Sequence[ImportedTable], setting: Assumptions, overrides: Sequence[Override] = ()) -> Audit:
    """Audit tables that belong together. Raises UsageError for one too wide, and an override that names no column."""
    for table in tables:
        if len(table.header) > WIDEST:
            raise UsageError(f"{table.name} has {len(table.header)} columns, and at most {WIDEST} are read; omit some")
    names = [name for table in tables for name in table.header]
    for one in overrides:
        if one.name not in names:
            raise unknown_name("column", one.name, list(dict.fromkeys(names)))
    sheets = [follow_rates(understand(table, setting, overrides)) for table in tables]
    known = {sheet.m_is for sheet in sheets if sheet.m_is}
    if len(known) == 1:  # the tables of one text count alike
        (m_is,) = known
        sheets = [sheet if sheet.m_is else sheet.with_m(m_is) for sheet in sheets]
    findings = [finding for rule in RULES for sheet in sheets for finding in rule.check(sheet)]
    there = {Need.DEVICE} if setting.device else set()
    there = there.union(*map(available, sheets))
    skipped = {rule.name: missing for rule in RULES if (missing := rule.lacks(there))}
    return Audit(tuple(sheets), tuple(findings), skipped)

"""Reads texts, understands their tables, and runs every rule over all of them together.

1. `document.read_document` finds the tables of each text.
2. `roles.understand` says what each column is.
3. `context.build_case` finds out how each table counts M, and what its changes are.
4. `registry.RULES` look for what does not hold.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...shapes.errors import unknown_name
from .evidence.context import available, build_case
from .evidence.finding import Finding
from .reading.annotated_table import Sheet
from .reading.assumptions import Assumptions
from .reading.claims import Statement
from .reading.column import Override
from .reading.document import Document
from .reading.roles import understand
from .rules.registry import RULES


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


def audit(
    documents: Sequence[Document],
    setting: Assumptions,
    overrides: Sequence[Override] = (),
    claims: Sequence[str] = (),
) -> Audit:
    """Audit texts that belong together. Raises UsageError when an override names no column."""
    names = [name for document in documents for titled in document.tables for name in titled.table.header]
    for one in overrides:
        if one.name not in names:
            raise unknown_name("column", one.name, list(dict.fromkeys(names)))
    tables = [titled for document in documents for titled in document.tables]
    sheets = [understand(titled, setting, overrides) for titled in tables]
    said = [Statement(f"claim {number}", 1, " ".join(text.split())) for number, text in enumerate(claims, 1)]
    case = build_case(sheets, said, setting, overrides)
    findings = [finding for rule in RULES for finding in rule.check(case)]
    there = available(case)
    skipped = {rule.name: missing for rule in RULES if (missing := rule.lacks(there))}
    return Audit(case.sheets, tuple(findings), skipped)

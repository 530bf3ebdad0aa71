"""What a rule found: where, what, with which numbers, and what to do about it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .case import Case


class Severity(StrEnum):
    """How much is wrong.

    impossible    no device and no reading of the table allows it
    contradiction two printed numbers cannot both hold
    misleading    the number may be right and does not mean what it is taken for
    question      the table does not say enough, and one reading of it is impossible
    """

    IMPOSSIBLE = "impossible"
    CONTRADICTION = "contradiction"
    MISLEADING = "misleading"
    QUESTION = "question"

    @property
    def is_wrong(self) -> bool:
        """True where some printed number cannot be right."""
        return self in (Severity.IMPOSSIBLE, Severity.CONTRADICTION)


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of an audit; `line` is that of the row in the text, `row` what names it there."""

    rule: str
    severity: Severity
    where: str
    title: str
    line: int
    row: str
    message: str
    advice: str
    evidence: Mapping[str, float | str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rule:
    """A check: `summary` says what it looks for, `advice` what to do about a finding."""

    name: str
    summary: str
    advice: str
    check: "Callable[[Case], Iterator[Finding]]"

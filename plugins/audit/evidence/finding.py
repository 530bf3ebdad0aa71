"""What a rule found: where, what, with which numbers, and what to do about it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Severity(StrEnum):
    """How much is wrong.

    impossible    no device and no reading of the table allows it
    contradiction two printed numbers cannot both be right
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


class Need(StrEnum):
    """What a check cannot do without, as a reader calls it."""

    DEVICE = "a device (--device, or a column, header or title that names it)"
    SIZES = "rows with M, N or K"
    TIMES = "times of rows with M, N and K"
    RATES = "rates"
    BANDWIDTHS = "bandwidths"
    MEASURED = "times, rates or bandwidths"
    FIGURES = "a column of four numbers or more"
    SHARES = "a share of a peak beside its rate"
    SIDES = "a ratio, change or difference with the two columns that it is of"
    TIMED_RATES = "rates beside their times, of rows with M, N and K"

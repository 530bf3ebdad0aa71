"""What a measuring loop tells whoever watches: one stream of events. A unit is one round of one cell."""

from collections.abc import Callable
from dataclasses import dataclass

from ...shapes.verdict import Verdict
from ..plan.plan import Cell


@dataclass(frozen=True, slots=True)
class Started:
    """How many units there are, and how many an earlier call has stored."""

    total: int
    finished: int


@dataclass(frozen=True, slots=True)
class Grown:
    """The plan has so many units now."""

    total: int


@dataclass(frozen=True, slots=True)
class Doing:
    """What is done now."""

    what: str


@dataclass(frozen=True, slots=True)
class Finished:
    """Units are stored: a round of `cell`, with the rounds that its failure makes unnecessary, or a whole version's."""

    units: int
    cell: Cell | None = None
    verdict: Verdict = Verdict.PASSED
    reason: str = ""

    @property
    def failure(self) -> str:
        """Why there is no time, in a line; "" where there is one."""
        if self.cell is None or self.verdict is Verdict.PASSED:
            return ""
        cell = self.cell
        return f"{cell.provider} {self.verdict} ({cell.shape.label}, {cell.problem}, {cell.cache}): {self.reason}"


@dataclass(frozen=True, slots=True)
class Remarked:
    """What is worth a line: a restart, a rejected ceiling."""

    text: str


def measured_again(units: int) -> Remarked:
    """Say that units are measured again, as requested."""
    return Remarked(f"measure again what failed: {units} unit{'s' * (units > 1)}; events.log has the reasons")


Event = Started | Grown | Doing | Finished | Remarked

Observer = Callable[[Event], object]

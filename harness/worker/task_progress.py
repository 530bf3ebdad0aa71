"""The worker's view of one task: what is still to be measured, what is in flight, and reporting both to the parent."""

from collections.abc import Callable, Mapping
from typing import Any

from ...shapes.verdict import Verdict
from ..plan.plan import Task
from .messages import Begin, UnitResult, Work

_OF_TIMES = ("verdict", "reason", "samples", "discarded")
"""Columns that only a row with times has, or that a failure replaces."""


class TaskProgress:
    """The (cell, round) units of one task that are still to be measured, and what is in flight.

    `send` sends a message to the parent; `report` does too, and returns when the unit is stored.
    """

    def __init__(self, send: Callable[[Any], object], report: Callable[[Any], object], work: Work) -> None:
        self._send, self._report = send, report
        self.task: Task = work.task
        self.missing = {index: list(rounds) for index, rounds in enumerate(work.rounds) if rounds}

    @property
    def open_cells(self) -> list[int]:
        """Indices of the cells with rounds to do."""
        return list(self.missing)

    @property
    def rounds(self) -> list[int]:
        """Rounds that some cell still misses."""
        return sorted({number for rounds in self.missing.values() for number in rounds})

    def begin(self, phase: str, cells: list[int], number: int | None = None) -> None:
        """Tell the parent which units a fault would cost from now on."""
        units = tuple((index, self.missing[index][0] if number is None else number) for index in cells)
        self._send(Begin(phase, units))

    def finish(self, result: UnitResult) -> None:
        """Report a finished unit."""
        self._report(result)
        self.missing[result.index].remove(result.round)
        if not self.missing[result.index]:
            del self.missing[result.index]

    def fail(
        self,
        index: int,
        verdict: Verdict,
        reason: str,
        number: int | None = None,
        columns: Mapping[str, Any] | None = None,
    ) -> None:
        """Report the failure that ends a cell, with the known columns of its row."""
        known = {name: value for name, value in (columns or {}).items() if name not in _OF_TIMES}
        number = self.missing[index][0] if number is None else number
        self._report(UnitResult(index, number, known | {"verdict": verdict.value, "reason": reason}))
        del self.missing[index]

    def fail_all(self, cells: list[int], verdict: Verdict, reason: str, number: int | None = None) -> None:
        """Report a failure that ends all of `cells` that have not ended yet."""
        for index in cells:
            if index in self.missing:
                self.fail(index, verdict, reason, number)

"""The interface of a progress display."""

from typing import Protocol

from ...shapes.verdict import Verdict
from ..plan.plan import Cell


class SweepObserver(Protocol):
    """Receives the progress of a sweep. A unit is one round of one cell."""

    def started(self, total_units: int, finished_units: int) -> None:
        """Report how many units there are, and how many an earlier run has stored."""

    def doing(self, what: str) -> None:
        """Report what the worker does now."""

    def finished(self, cell: Cell, verdict: Verdict, reason: str, units: int) -> None:
        """Report a stored unit; `units` counts it and the rounds that its failure makes unnecessary."""

    def grown(self, total_units: int) -> None:
        """Report that the plan has so many units now."""

    def remark(self, text: str) -> None:
        """Report an event worth a line: a restart, a rejected ceiling."""


class JobObserver(SweepObserver, Protocol):
    """Receives the progress of jobs as well, whose units may be rounds of a whole version."""

    def received(self, units: int) -> None:
        """Report units that are finished, with nothing to add."""

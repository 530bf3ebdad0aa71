"""Whoever watches a sweep: what it is told of the progress."""

from typing import Protocol

from ...shapes.verdict import Verdict
from ..plan.plan import Cell


class Observer(Protocol):
    """Whoever shows the progress."""

    def started(self, total_units: int, finished_units: int) -> None:
        """Tell how many (cell, round) units there are, and how many were stored by an earlier run."""

    def doing(self, what: str) -> None:
        """Tell what the worker is doing now."""

    def finished(self, cell: Cell, verdict: Verdict, reason: str, units: int) -> None:
        """Tell that a unit was stored; `units` counts it and the rounds that its failure makes needless."""

    def grown(self, total_units: int) -> None:
        """Tell that cells were added to the plan, so that there are so many units now."""

    def remark(self, text: str) -> None:
        """Pass on something worth a line: a restart, a refused ceiling."""

"""When to stop sampling: the interval of the median is narrow enough, or the budget is spent."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..shapes.median import interval, median
from ..shapes.protocol import Protocol

BUDGET_OVERRUN = 4
"""A launch so slow that `min_samples` do not fit into the budget may take up to this many budgets for them."""

FEWEST = 3
"""Samples that even the slowest launch gets."""


@dataclass(frozen=True, slots=True)
class StopRule:
    """Stop when the 95 % interval of the median is within +- `target_ci`, or at the budget.

    The timer's resolution is added to the interval's width, because ties make intervals of zero width.
    """

    min_samples: int
    target_ci: float
    budget_s: float
    resolution_s: float

    @classmethod
    def of(cls, protocol: Protocol, resolution_s: float) -> "StopRule":
        """Build the rule of a protocol for a timer with `resolution_s`."""
        return cls(protocol.min_samples, protocol.target_ci, protocol.budget_s, resolution_s)

    def decide(self, times_s: Sequence[float], elapsed_s: float) -> str:
        """Return "" to go on, else the stop reason: "converged" or "budget"."""
        count = len(times_s)
        if count >= self.min_samples and self.is_narrow(times_s):
            return "converged"
        enough = self.min_samples if elapsed_s < BUDGET_OVERRUN * self.budget_s else FEWEST
        return "budget" if elapsed_s >= self.budget_s and count >= enough else ""

    def is_narrow(self, times_s: Sequence[float]) -> bool:
        """Tell whether the interval of the median, widened by the resolution, is within the target."""
        bounds = interval(times_s)
        if bounds is None:
            return False
        return (bounds[1] - bounds[0] + self.resolution_s) / 2 <= self.target_ci * median(times_s)

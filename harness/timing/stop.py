"""When to stop sampling: the interval of the median is narrow enough, or the budget is spent."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ...shapes.median import interval, median
from ...shapes.protocol import Protocol

LEAST = 10
"""Samples that a slow launch gets beyond its budget, as long as they take no more than `BUDGET_OVERRUN` budgets."""

BUDGET_OVERRUN = 4
"""Budgets that `LEAST` samples may take."""

FEWEST = 3
"""Samples that even the slowest launch gets."""

REFERENCE_SHARE = 0.2
"""Share of the budgets that second references (`watch.FRESH`) may take in the mean: where one is slow, few are made."""


@dataclass(frozen=True, slots=True)
class StopRule:
    """Stop when the 95 % interval of the median is within +- `target_ci`, at `min_samples` at least, or at the budget.

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

    def decide(self, times_s: Sequence[float], elapsed_s: float, taken: int | None = None) -> str:
        """Return "" to continue, else the stop reason: "converged", "resolution" or "budget".

        "resolution": the interval is as narrow as one step of the timer, and no sample will make it narrower.

        `times_s` are the samples that count, `taken` is the number of all (the same, unless some were discarded).
        """
        count = len(times_s)
        if count >= self.min_samples and self.is_narrow(times_s):
            return "converged"
        if count >= self.min_samples and self._is_one_step(times_s):
            return "resolution"
        enough = self.least if elapsed_s < BUDGET_OVERRUN * self.budget_s else FEWEST
        return "budget" if elapsed_s >= self.budget_s and (taken or count) >= enough else ""

    @property
    def least(self) -> int:
        """Samples of a launch that the budget is too short for."""
        return min(self.min_samples, LEAST)

    def is_narrow(self, times_s: Sequence[float]) -> bool:
        """Return whether the interval of the median, widened by the resolution, is within the target."""
        width = self._half_width(times_s)
        return width is not None and width <= self.target_ci * median(times_s)

    def _is_one_step(self, times_s: Sequence[float]) -> bool:
        bounds = interval(times_s)
        # Steps that went through float32 milliseconds are equal to a millionth.
        return bounds is not None and self.resolution_s > 0 and bounds[1] - bounds[0] <= 1.001 * self.resolution_s

    def samples_for_target(self, times_s: Sequence[float]) -> int:
        """Estimate how many samples the target takes: the width of the interval goes with the root of their number."""
        width = self._half_width(times_s)
        target = self.target_ci * median(times_s) if times_s else 0.0
        if width is None or width <= target:
            return self.min_samples
        return math.ceil(len(times_s) * min(1e6, (width / target) ** 2)) if target else len(times_s)

    def _half_width(self, times_s: Sequence[float]) -> float | None:
        bounds = interval(times_s)
        return None if bounds is None else (bounds[1] - bounds[0] + self.resolution_s) / 2

"""When measuring ends: the one place of a time limit and of a request to stop."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass


class OutOfTimeError(Exception):
    """The time limit is over."""


@dataclass(slots=True)
class Deadline:
    """The end at a monotonic time, or when `should_stop` says so.

    One that is not `is_strict` interrupts nothing of ours: it only limits how long a provider is waited for.
    """

    at: float = math.inf
    should_stop: Callable[[], bool] = lambda: False
    is_strict: bool = True

    @property
    def left_s(self) -> float:
        """Seconds that are left, 0 once it is over."""
        return max(0.0, self.at - time.monotonic())

    def is_over(self, early_s: float = 0.0) -> bool:
        """Tell whether less than `early_s` is left."""
        return self.is_strict and time.monotonic() >= self.at - early_s

    def check(self) -> bool:
        """Return whether to stop. Raises OutOfTimeError once the time is over."""
        if self.is_over():
            raise OutOfTimeError
        return self.should_stop()

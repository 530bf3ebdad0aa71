"""One clock for all processes of a call: none of its times is before an earlier one, however the machine's is set.

It reads the machine's clock once, and goes on by one that nobody can set. Times of one run are thereby in the order of
what happened, also where a run goes on: it goes on after what it has stored.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime

_SINCE_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""The same in all processes of a machine; where Linux has it, it counts the time that the machine sleeps."""

_CENTURIES_AHEAD_S = 1e11
"""No clock of a machine is so wrong: a stored time beyond this was damaged."""


def _since_boot() -> float:
    return time.clock_gettime(_SINCE_BOOT)


class Clock:
    """Seconds since 1970 are `origin_s` and what has passed since the machine started; see `CLOCK`."""

    def __init__(self, wall: Callable[[], float] = time.time, passed: Callable[[], float] = _since_boot) -> None:
        self._passed = passed
        self.origin_s = wall() - passed()

    def go_on_after(self, seconds: float) -> None:
        """Tell no time before `seconds` since 1970: the machine's clock has been set back since that was stored."""
        if seconds < _CENTURIES_AHEAD_S:
            self.origin_s = max(self.origin_s, seconds - self._passed())

    def now(self, timespec: str = "milliseconds") -> str:
        """Write the time in ISO 8601, in UTC with its offset, to the `timespec` of `datetime.isoformat`."""
        return datetime.fromtimestamp(self.origin_s + self._passed(), UTC).isoformat(timespec=timespec)


CLOCK = Clock()
"""That of this process; a worker is given the origin of its parent's."""

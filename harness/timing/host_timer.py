"""The host timer: the wall clock around launch and synchronize. The only timer of the CPU."""

import math

from ...shapes.run_folder.disturbance import PREEMPTED
from .accelerator import Action, Host
from .samples import Samples
from .timer import Subject, nothing

LEAST_READINGS = 1000
"""A sample is made to last as long as this many readings of the clock, so that reading it adds a thousandth at most."""

MOST_LAUNCHES = 10_000
"""Launches that one sample is the mean of, at most."""


class HostTimer:
    """Wall clock around launch and synchronize, from an idle device to an idle device.

    On the CPU, where nothing is queued, launches that are too short for the clock are timed many at once, unless
    something has to happen before each of them.
    """

    name = "host"
    remark = ""

    def __init__(self, host: Host, subject: Subject) -> None:
        self._host, self._subject = host, subject
        self.launches_per_sample = 1
        if not (host.is_asynchronous or subject.operations):
            least = LEAST_READINGS * host.reading_s
            # A launch that is long enough at once needs no second look; of a short one, the first may be cold.
            once, _ = self._sample()
            if once < least:
                once = min(once, self._sample()[0], self._sample()[0])
            self.launches_per_sample = min(MOST_LAUNCHES, math.ceil(least / max(once, 1e-9)))
        self.resolution_s = host.resolution_s / self.launches_per_sample

    def batch(self, count: int, meanwhile: Action = nothing) -> Samples:
        """Take each sample on its own."""
        self._host.synchronize()
        self._host.end_persistence()
        times, reasons = [], []
        for _ in range(count):
            before = self._host.preemptions()
            time_s, ended_s = self._sample()
            self._subject.after(ended_s)
            times.append(time_s)
            # A launch whose threads meet at a barrier waits a whole time slice when one of them has lost its core.
            reasons.append(PREEMPTED if self._host.preemptions() > before else "")
        meanwhile()
        return Samples(tuple(times), tuple(reasons) if any(reasons) else ())

    def _sample(self) -> tuple[float, float]:
        """Return the seconds of a launch, and when they had passed."""
        now, synchronize, launch = self._host.now, self._host.synchronize, self._subject.launch
        self._subject.before()
        synchronize()
        start = now()
        for _ in range(self.launches_per_sample):
            launch()
        synchronize()
        ended = now()
        return (ended - start) / self.launches_per_sample, ended

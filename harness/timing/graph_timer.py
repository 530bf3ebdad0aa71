"""The graph timer: many launches in one graph between two events, so that launching costs next to nothing."""

from .accelerator import Accelerator, Action, rehearse
from .event_timer import EventTimer
from .samples import Samples
from .timer import Subject, nothing

LEAST_S = 200e-6
"""A graph is made to run this long: what surrounds it (one graph launch, the events' step) is spread over it."""

MOST_LAUNCHES = 1024
"""Launches in one graph beyond its first period."""


class GraphTimer:
    """Events around the replay of a graph, divided by the launches in it: one sample is a mean over them.

    A subject that rotates has whole periods in the graph, so that its reuse distance holds inside a replay and from one
    to the next. A subject that does not is warm. One that flushes cannot be timed so.
    """

    name = "graph"
    remark = ""

    def __init__(self, device: Accelerator, subject: Subject) -> None:
        assert not subject.operations, "what precedes a launch is not in its graph"
        # Only the host can release persisting cache lines, and not inside a graph.
        persists = device.end_persistence()
        self.launches_per_sample = subject.period
        rehearse(device, subject.launch)
        for _ in range(1, subject.period):
            subject.launch()
        self._whole = replayed(device, subject.launch, self.launches_per_sample)
        once = min(self._whole.batch(3).times_s)
        periods = min(round(LEAST_S / max(once, 1e-7)), MOST_LAUNCHES // subject.period)
        if periods > 1 and not (persists and subject.period > 1):
            self.launches_per_sample = periods * subject.period
            self._whole = replayed(device, subject.launch, self.launches_per_sample)
        self.resolution_s = device.resolution_s / self.launches_per_sample

    def batch(self, count: int, meanwhile: Action = nothing) -> Samples:
        """Time up to `count` replays as the event timer times launches."""
        whole = self._whole.batch(count, meanwhile)
        times = tuple(time / self.launches_per_sample for time in whole.times_s)
        return Samples(times, whole.discarded, blocked=whole.blocked)


def replayed(device: Accelerator, action: Action, count: int) -> EventTimer:
    """Capture a graph of `count` calls of `action`, which was rehearsed; return the timer of its replay."""

    def work() -> None:
        for _ in range(count):
            action()

    return EventTimer(device, Subject(device.capture(work)))

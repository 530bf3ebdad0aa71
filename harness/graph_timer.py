"""The graph timer: many launches in one graph between two events, so that launching costs next to nothing."""

from statistics import median

from .accelerator import Accelerator, Action
from .event_timer import EventTimer
from .timer import Batch, Subject, nothing

LEAST_S = 200e-6
"""A graph is made to run this long: what surrounds it (one graph launch, the events' step) is spread over it."""

MOST_LAUNCHES = 1024
"""Launches in one graph beyond its first period."""

FLUSHED_LAUNCHES = 8
"""Launches in a graph that flushes before each."""

LEAST_SHARE = 0.1
"""Where a launch is a smaller share of its flush than this, the difference of two graphs is no measurement of it."""

LEAST_SIGNIFICANCE = 3.0
"""Standard errors that the difference must be away from zero."""


class GraphTimer:
    """Events around the replay of a graph, divided by the launches in it: one sample is a mean over them.

    A subject that rotates has whole periods in the graph, so that its reuse distance holds inside a replay and from one
    to the next. A subject that flushes is timed as the difference to a graph of flushes alone, and objected to where
    that difference says nothing. A subject that does neither is warm.
    """

    name = "graph"
    remark = ""

    def __init__(self, device: Accelerator, subject: Subject) -> None:
        self._device, self._subject = device, subject
        self._flush: EventTimer | None = None
        self._flushes: list[float] = []
        self._differences: list[float] = []
        # What a launch tells to stay in the cache, only the host can release, and not from inside of a graph.
        persists = device.end_persistence()
        if subject.operations:
            self.launches_per_sample = 1 if persists else FLUSHED_LAUNCHES
            self._flush = self._replayed(subject.before)
            self._whole = self._replayed(self._flushed)
        else:
            self.launches_per_sample = subject.period
            self._whole = self._replayed(subject.launch)
            once = min(self._whole.batch(3).times_s)
            periods = min(round(LEAST_S / max(once, 1e-7)), MOST_LAUNCHES // subject.period)
            if periods > 1 and not (persists and subject.period > 1):
                self.launches_per_sample = periods * subject.period
                self._whole = self._replayed(subject.launch)
        steps = 2 if subject.operations else 1
        self.resolution_s = steps * device.resolution_s / self.launches_per_sample

    def batch(self, count: int, meanwhile: Action = nothing) -> Batch:
        """Time up to `count` replays as the event timer times launches."""
        whole = self._whole.batch(count, meanwhile)
        times, blocked = whole.times_s, whole.blocked
        if self._flush is not None:
            flush = self._flush.batch(len(times))
            pairs = zip(times, flush.times_s, strict=False)
            times, blocked = tuple(both - alone for both, alone in pairs), blocked and flush.blocked
            self._flushes += [alone / self.launches_per_sample for alone in flush.times_s]
            self._differences += [time / self.launches_per_sample for time in times]
        times = tuple(time / self.launches_per_sample for time in times)
        bad = tuple("" if value > 0 else "negative time" for value in times)
        return Batch(times, bad if any(bad) else (), blocked=blocked)

    def objection(self) -> str:
        """Object to a difference that is small beside what was subtracted, or beside its own error."""
        found = self._differences
        if len(found) < 2:
            return ""
        mean = sum(found) / len(found)
        error = (sum((value - mean) ** 2 for value in found) / (len(found) - 1) / len(found)) ** 0.5
        way_out = "use --cold-by rotation, or --timer event"
        if median(found) < LEAST_SHARE * median(self._flushes):
            return f"the launch takes under {LEAST_SHARE:.0%} of the flush that is subtracted: {way_out}"
        if mean < LEAST_SIGNIFICANCE * error:
            return f"the difference to the flush is under {LEAST_SIGNIFICANCE:g} standard errors: {way_out}"
        return ""

    def _replayed(self, action: Action) -> EventTimer:
        """Capture a graph of as many calls as a sample has launches; return the timer of its replay."""
        count = self.launches_per_sample

        def work() -> None:
            for _ in range(count):
                action()

        return EventTimer(self._device, Subject(self._device.capture(work)))

    def _flushed(self) -> None:
        self._subject.before()
        self._subject.launch()

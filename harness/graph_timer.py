"""The graph timer: many launches in one graph between two events, so that launching costs next to nothing."""

from statistics import median

from .accelerator import Accelerator, Action
from .event_timer import SLACK_S
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
        self._flush: Action | None = None
        self._flushes: list[float] = []
        self._differences: list[float] = []
        if subject.operations:
            self.launches_per_sample = FLUSHED_LAUNCHES
            self._flush = device.capture(self._repeated(subject.before))
            self._replay = device.capture(self._repeated(self._flushed))
        else:
            self.launches_per_sample = subject.period
            self._replay = device.capture(self._repeated(subject.launch))
            once = min(self._time(self._replay) for _ in range(3))
            periods = min(round(LEAST_S / max(once, 1e-7)), MOST_LAUNCHES // subject.period)
            if periods > 1:
                self.launches_per_sample = periods * subject.period
                self._replay = device.capture(self._repeated(subject.launch))
        self.resolution_s = device.resolution_s / self.launches_per_sample

    def batch(self, count: int, meanwhile: Action = nothing) -> Batch:
        """Replay the graph `count` times, each on its own behind a short blocker."""
        times = []
        for _ in range(count):
            whole = self._time(self._replay)
            if self._flush is not None:
                flushed = self._time(self._flush)
                self._flushes.append(flushed / self.launches_per_sample)
                whole -= flushed
                self._differences.append(whole / self.launches_per_sample)
            times.append(whole / self.launches_per_sample)
        meanwhile()
        bad = tuple("" if value > 0 else "negative time" for value in times)
        return Batch(tuple(times), bad if any(bad) else ())

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

    def _repeated(self, action: Action) -> Action:
        count = self.launches_per_sample

        def work() -> None:
            for _ in range(count):
                action()

        return work

    def _flushed(self) -> None:
        self._subject.before()
        self._subject.launch()

    def _time(self, replay: Action) -> float:
        device = self._device
        begin, end = device.event(), device.event()
        device.synchronize()
        device.spin(SLACK_S)
        begin.record()
        replay()
        end.record()
        device.synchronize()
        return begin.seconds_until(end)

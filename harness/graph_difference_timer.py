"""The graph timer of a flushed launch where graphs hold no events: a graph with launches less one of flushes alone."""

from statistics import median

from .accelerator import Accelerator, Action, rehearse
from .graph_timer import replayed
from .timer import Batch, Subject, nothing

FLUSHED_LAUNCHES = 8
"""Launches in a graph that flushes before each."""

LEAST_SHARE = 0.1
"""Where a launch is a smaller share of its flush than this, the difference of two graphs is no measurement of it."""

LEAST_SIGNIFICANCE = 3.0
"""Standard errors that the difference must be away from zero."""


class GraphDifferenceTimer:
    """Time of a graph of flushes and launches, less that of a graph of flushes, divided by the number of launches.

    Objects to its own times where that difference says nothing.
    """

    name = "graph"
    remark = ""

    def __init__(self, device: Accelerator, subject: Subject) -> None:
        self._subject = subject
        self._flushes: list[float] = []
        self._differences: list[float] = []
        rehearse(device, subject.before)
        rehearse(device, subject.launch)
        # What a launch tells to stay in the cache, only the host can release, and not from inside of a graph.
        self.launches_per_sample = 1 if device.end_persistence() else FLUSHED_LAUNCHES
        self._flush = replayed(device, subject.before, self.launches_per_sample)
        self._whole = replayed(device, self._flushed, self.launches_per_sample)
        self.resolution_s = 2 * device.resolution_s / self.launches_per_sample

    def batch(self, count: int, meanwhile: Action = nothing) -> Batch:
        """Time up to `count` pairs of replays as the event timer times launches."""
        whole = self._whole.batch(count, meanwhile)
        flush = self._flush.batch(len(whole.times_s))
        pairs = zip(whole.times_s, flush.times_s, strict=False)
        times = tuple((both - alone) / self.launches_per_sample for both, alone in pairs)
        self._flushes += [alone / self.launches_per_sample for alone in flush.times_s]
        self._differences += times
        bad = tuple("" if value > 0 else "negative time" for value in times)
        return Batch(times, bad if any(bad) else (), blocked=whole.blocked and flush.blocked)

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

    def _flushed(self) -> None:
        self._subject.before()
        self._subject.launch()

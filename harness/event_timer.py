"""The event timer: device events around each launch, and a blocker so that the host's latency is not between them."""

from dataclasses import dataclass

from .accelerator import Accelerator, Action, Event
from .timer import Batch, Subject, nothing

MAX_QUEUED = 200
"""Operations queued at once: past some 1,000 the driver blocks the host, which then waits for the blocker."""

MARKS = 2
"""Operations of one sample beside the launch: its two events."""

TRIES = 3
"""Times that a batch is queued before samples are kept that the device reached before they were queued."""

HOST_SAMPLES = 3
"""Launches whose wall time is taken as well, in the first batch."""

SLACK_S = 50e-6
"""What the blocker outlasts the expected time to queue by, on top of a quarter of it."""


@dataclass(slots=True)
class _Pace:
    """Seconds per sample: what the host takes to queue one, and what the device takes to run one."""

    queue_s: float = 100e-6
    run_s: float = 0.0
    stretch: float = 1.25

    def blocker_s(self, count: int) -> float:
        """How long the device must be held so that the host stays ahead of it.

        The host must have queued sample i before the device ends the blocker and the i - 1 samples before. Where the
        device takes longer than the host (a cold sample, with its flush), holding it for the first one is enough.
        """
        lead = max(self.queue_s, count * self.queue_s - (count - 1) * self.run_s)
        return self.stretch * lead + SLACK_S


class EventTimer:
    """Device events around each launch; a sample counts as blocked when the device had not reached it once queued."""

    name = "event"
    launches_per_sample = 1

    def __init__(self, device: Accelerator, subject: Subject) -> None:
        self.resolution_s = device.resolution_s
        self._device, self._subject = device, subject
        self._most = max(1, MAX_QUEUED // (subject.operations + MARKS + 1))
        self._pace = _Pace()
        waits = device.synchronizes(subject.launch)
        self.remark = "the launch waits for the device: its times include the host's latency" if waits else ""
        self._host_samples = HOST_SAMPLES

    def batch(self, count: int, meanwhile: Action = nothing) -> Batch:
        """Queue up to `count` samples behind a blocker, again with a longer one where the device caught up."""
        count = min(count, self._most)
        for _ in range(TRIES):
            marks, blocked = self._queue(count, meanwhile)
            if blocked:
                break
            self._pace.stretch *= 2
        times = tuple(begin.seconds_until(end) for begin, end in marks)
        self._learn(marks)
        host = tuple(self._host_time() for _ in range(self._host_samples))
        self._host_samples = 0
        negative = tuple("" if value > 0 else "negative time" for value in times)
        return Batch(times, negative if any(negative) else (), host, blocked=blocked)

    def objection(self) -> str:
        """Never object: what is not blocked is flagged."""
        return ""

    def _queue(self, count: int, meanwhile: Action) -> tuple[list[tuple[Event, Event]], bool]:
        device, before, launch = self._device, self._subject.before, self._subject.launch
        marks = [(device.event(), device.event()) for _ in range(count)]
        late = 0
        device.synchronize()
        device.spin(self._pace.blocker_s(count))
        started = device.now()
        for begin, end in marks:
            before()
            begin.record()
            launch()
            end.record()
            late += begin.reached()
        queued = device.now() - started
        meanwhile()
        device.synchronize()
        # A longer pace counts at once, a shorter one by and by: too long a blocker costs microseconds, too short a one
        # the whole batch.
        self._pace.queue_s = max(queued / count, (self._pace.queue_s + queued / count) / 2)
        return marks, late == 0

    def _learn(self, marks: list[tuple[Event, Event]]) -> None:
        """Take the device's pace from the first launch's start to the last one's: samples and what lies between."""
        if len(marks) > 1:
            (first, _), (last, _) = marks[0], marks[-1]
            self._pace.run_s = max(0.0, first.seconds_until(last) / (len(marks) - 1))

    def _host_time(self) -> float:
        device = self._device
        self._subject.before()
        device.synchronize()
        start = device.now()
        self._subject.launch()
        device.synchronize()
        return device.now() - start

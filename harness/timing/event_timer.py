"""The event timer: device events around each launch, and a blocker so that the host's latency is not between them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

from .accelerator import Accelerator, Action, Event
from .samples import NOT_BLOCKED, Samples
from .timer import Subject, nothing

MAX_QUEUED = 200
"""Operations queued at once: past some 1,000 the driver blocks the host, which then waits for the blocker."""

MARKS = 2
"""Operations of one sample beside the launch: its two events."""

MOST_LATE = 0.2
"""Share of a batch that the device may have reached before it was queued: after a stall of the host, those samples do
not count. With more of them the whole batch is queued again, behind a longer blocker."""

TRIES = 3
"""Times that a batch is queued before samples are kept that the device reached before they were queued."""

HOST_SAMPLES = 1
"""Launches whose wall time is taken as well, before the first batch."""

PILOT_BLOCKER_S = 80e-6
"""What a single sample takes to queue at most, on most hosts; a slower one is noticed."""

FLUSHES_LOOKED_AT = 5
"""Samples between which the flush is timed; each costs a call of the driver."""

STRETCH = 1.25
"""What a blocker is made longer by, for a host that is slower the next time."""

SLACK_S = 50e-6
"""What a blocker outlasts the expected time to queue by, on top of its stretch: a short stall of the host."""

LONGEST_BLOCKER_S = 50e-3
"""Longer ones are not queued: a host that slow is recognised by its flag, and a launch that waits would wait for it."""


@dataclass(slots=True)
class _Pace:
    """Seconds per sample: what the host takes to queue one, what the device takes to run one, and of that, to flush."""

    queue_s: float = 100e-6
    run_s: float = 0.0
    flush_s: float = 0.0
    stretch: float = STRETCH

    def blocker_s(self, count: int = 1) -> float:
        """How long the device must be held so that the host stays ahead of it.

        The host must have queued sample i before the device ends the blocker, the i - 1 samples before and the flush of
        this one. Where the device takes longer than the host, holding it for the first one is enough, and a long flush
        does that by itself: then the result is 0.
        """
        lead = max(self.queue_s, count * self.queue_s - (count - 1) * self.run_s)
        return min(max(0.0, self.stretch * lead + SLACK_S - self.flush_s), LONGEST_BLOCKER_S)

    def learn(self, queue_s: float, in_time: bool) -> None:
        """Take note of a batch: its host seconds per sample, and whether the device met no sample half queued.

        A longer pace counts at once, a shorter one by and by: too long a blocker costs microseconds, too short a one
        the whole batch.
        """
        self.queue_s = max(queue_s, (self.queue_s + queue_s) / 2)
        self.stretch = max(STRETCH, 0.9 * self.stretch) if in_time else 2 * self.stretch


class EventTimer:
    """Device events around each launch; a sample is blocked when the device had not reached it once it was queued."""

    name = "event"
    launches_per_sample = 1
    most_queued = MAX_QUEUED

    def __init__(self, device: Accelerator, subject: Subject) -> None:
        self.resolution_s = device.resolution_s
        self._device, self._subject = device, subject
        self._most = max(1, self.most_queued // (subject.operations + MARKS + 1))
        waits = device.synchronizes(subject.launch)
        self.remark = "the launch waits for the device: its times include the host's latency" if waits else ""
        self._tries = 1 if waits else TRIES
        self._pace: _Pace | None = None
        self._first_pace = _Pace()
        self._marks: list[tuple[Event, Event]] = []

    def batch(self, count: int, meanwhile: Action = nothing) -> Samples:
        """Queue up to `count` samples behind a blocker, fewer with a longer one where the device caught up."""
        count = min(count, self._most)
        host: tuple[float, ...] = ()
        if self._pace is None:
            self._first_pace = self._pilot()
            self._pace = replace(self._first_pace)
            host = tuple(self._host_time() for _ in range(HOST_SAMPLES))
        for attempt in range(self._tries):
            # Fewer, because a launch of many kernels fills the driver's queue, and no blocker outlasts that.
            count = max(1, count >> min(attempt, 1))
            times, queue_s, late = self._queue(count, self._pace.blocker_s(count), meanwhile)
            in_time = sum(late) <= MOST_LATE * count
            if in_time or self._tries > 1:
                self._pace.learn(queue_s, in_time)
            if in_time:
                self._learn_device(self._marks[:count])
                break
        if not in_time:
            # Nothing helped: what the host seemed to take was perhaps waiting. Later batches get one try each, until
            # one of them goes well.
            self._pace = replace(self._first_pace)
        self._tries = TRIES if in_time else 1
        reasons = tuple(
            "negative time" if value <= 0 else NOT_BLOCKED if in_time and was_late else ""
            for value, was_late in zip(times, late, strict=True)
        )
        return Samples(tuple(times), reasons if any(reasons) else (), host, blocked=in_time)

    def _pair(self, number: int) -> tuple[Event, Event]:
        """Events of one sample. They are used again in every batch, and made when the device has something to do."""
        if number == len(self._marks):
            self._marks.append((self._device.event(), self._device.event()))
        return self._marks[number]

    def _queue(self, count: int, blocker_s: float, meanwhile: Action) -> tuple[list[float], float, list[bool]]:
        """Queue samples; return their times, the host's seconds for one, and which were reached half queued."""
        device, before, launch, after = self._device, self._subject.before, self._subject.launch, self._subject.after
        late = []
        device.synchronize()
        device.end_persistence()
        if blocker_s:
            device.spin(blocker_s)
        started = device.now()
        for number in range(count):
            begin, end = self._pair(number)
            before()
            begin.record()
            launch()
            end.record()
            late.append(begin.reached())
            after()
        queued_s = device.now() - started
        meanwhile()
        device.synchronize()
        return [begin.seconds_until(end) for begin, end in self._marks[:count]], queued_s / count, late

    def _learn_device(self, marks: Sequence[tuple[Event, Event]]) -> None:
        """Take the device's pace from the first launch's start to the last one's: samples and what lies between."""
        if self._pace is not None and len(marks) > 1:
            (first, _), (last, _) = marks[0], marks[-1]
            self._pace.run_s = max(0.0, first.seconds_until(last) / (len(marks) - 1))
            between = (end.seconds_until(begin) for (_, end), (begin, _) in pairwise(marks[:FLUSHES_LOOKED_AT]))
            self._pace.flush_s = max(0.0, median(between))

    def _pilot(self) -> _Pace:
        """Run one sample behind a short blocker, for the paces that it shows."""
        if self._tries == 1:
            return _Pace(0.0)  # a launch that waits would wait for any blocker
        device, before, launch = self._device, self._subject.before, self._subject.launch
        first, begin, end = device.event(), *self._pair(0)
        device.synchronize()
        device.end_persistence()
        device.spin(PILOT_BLOCKER_S)
        started = device.now()
        first.record()
        before()
        begin.record()
        launch()
        end.record()
        queued_s = device.now() - started
        was_ahead = not first.reached()
        device.synchronize()
        if not was_ahead:  # what the device seemed to take was waiting
            return _Pace(queued_s)
        return _Pace(queued_s, first.seconds_until(end), first.seconds_until(begin))

    def _host_time(self) -> float:
        """Wall time of one launch, from an idle device to an idle device."""
        device = self._device
        device.end_persistence()
        self._subject.before()
        device.synchronize()
        started = device.now()
        self._subject.launch()
        device.synchronize()
        return device.now() - started

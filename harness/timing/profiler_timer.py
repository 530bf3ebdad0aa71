"""The profiler timer: what the device recorded of a launch, from its first kernel's start to its last one's end."""

from dataclasses import replace
from functools import partial

from ...shapes.errors import RooflensError
from .accelerator import Accelerator, Action, KernelRecord
from .event_timer import EventTimer
from .samples import Samples
from .timer import Subject, nothing

BOUNDARIES = 2
"""Operations of one sample beside those of the event timer: the kernels before and after the launch."""


class ProfilerTimer(EventTimer):
    """Activity records of torch.profiler (CUPTI, roctracer) of launches that are queued as for the event timer.

    A sample lasts from the start of its first kernel to the end of its last one, whatever streams they ran on.
    Launching is not in it, gaps between the kernels of one launch are, and the blocker keeps the host out of these. A
    spin kernel runs before and after every launch: what was queued between the two belongs to it.

    Raises RooflensError where the device gives no records, or where they do not divide into launches alike.
    """

    name = "profiler"
    most_queued = 400  # a trace costs the host 6 ms, as much as 100 samples

    def __init__(self, device: Accelerator, subject: Subject) -> None:
        if not device.traces:
            raise RooflensError(
                "timer profiler: torch's profiler has no records of kernels here (no CUPTI or roctracer, or another "
                "profiler is attached): use --set timer=event"
            )
        boundary = partial(device.spin, 0.0)
        super().__init__(device, _bounded(subject, boundary))
        (record,) = device.trace(boundary)
        self._boundary_name = record.name
        self._samples: list[list[KernelRecord]] = []
        self._kernels: tuple[str, ...] = ()

    def batch(self, count: int, meanwhile: Action = nothing) -> Samples:
        """Trace up to `count` samples."""
        batch = super().batch(count, meanwhile)
        return replace(
            batch,
            times_s=tuple(_span_s(sample) for sample in self._samples),
            event_s=batch.times_s,
            kernels_s=tuple(sum(record.duration_s for record in sample) for sample in self._samples),
            kernels=self._kernels,
        )

    def _queue(self, count: int, blocker_s: float, meanwhile: Action) -> tuple[list[float], float, list[bool]]:
        """Trace what the event timer queues. Where each launch is a single kernel, no host is in its time."""
        queue, queued = super()._queue, []
        records = self._device.trace(lambda: queued.append(queue(count, blocker_s, meanwhile)))
        ((event_s, queue_s, late),) = queued
        self._samples = self._divided(records, count, blocked=blocker_s > 0)
        return event_s, queue_s, late if len(self._samples[0]) > 1 else [False] * count

    def _divided(self, records: list[KernelRecord], count: int, blocked: bool) -> list[list[KernelRecord]]:
        """Records of each launch, of `records` in the order of their launch; a blocker is a spin kernel as well."""
        boundaries = [number for number, record in enumerate(records) if record.name == self._boundary_name][blocked:]
        samples = [records[begin + 1 : end] for begin, end in zip(boundaries[::2], boundaries[1::2], strict=False)]
        kernels = [tuple(record.name for record in sample) for sample in samples]
        if len(boundaries) == 2 * count and not any(samples):
            raise RooflensError(
                f"timer profiler: no kernel in {count} launches: the call probably computes on the CPU (use --device "
                "cpu), or keeps its result; if it does launch kernels, use --set timer=event"
            )
        self._kernels = self._kernels or next(iter(kernels), ())
        if len(boundaries) != 2 * count or {self._kernels} != set(kernels) or not self._kernels:
            raise RooflensError(
                f"timer profiler: {len(records)} device records do not divide into {count} launches alike; "
                "the profiler lost some, or a launch does not always run the same kernels: use --set timer=event"
            )
        return samples


def _bounded(subject: Subject, boundary: Action) -> Subject:
    """Do `boundary` around each launch. Not by methods of the timer, which would then hold itself, and all operands."""

    def before() -> None:
        subject.before()
        boundary()

    def after() -> None:
        boundary()
        subject.after()

    return replace(subject, before=before, after=after, operations=subject.operations + BOUNDARIES)


def _span_s(sample: list[KernelRecord]) -> float:
    return max(record.start_s + record.duration_s for record in sample) - min(record.start_s for record in sample)

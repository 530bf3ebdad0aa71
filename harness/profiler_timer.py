"""The profiler timer: the durations of the kernels themselves, as the device's activity records tell them."""

from ..shapes.errors import RooflensError
from .accelerator import Accelerator, Action, KernelRecord
from .timer import Batch, Subject, nothing

LARGEST_BATCH = 100
"""Samples traced at once: starting and stopping the profiler costs milliseconds, its records memory."""


class ProfilerTimer:
    """Kernel durations by torch.profiler: `times_s` sums the kernels of a launch, `spans_s` includes gaps between them.

    One stream runs kernels in the order of their launch, so the trace is divided by position: what `before` runs is
    traced alone first, and every sample must begin with just that.
    """

    name = "profiler"
    remark = ""
    launches_per_sample = 1

    def __init__(self, device: Accelerator, subject: Subject) -> None:
        self.resolution_s = device.resolution_s
        self._device, self._subject = device, subject
        self._trace(subject.launch)  # the first trace of a process starts the library, which takes seconds
        self._prefix = [record.name for record in self._trace(subject.before)] if subject.operations else []

    def batch(self, count: int, meanwhile: Action = nothing) -> Batch:
        """Trace up to `count` samples. Raises RooflensError when the records do not divide into that many."""
        count = min(count, LARGEST_BATCH)
        before, launch = self._subject.before, self._subject.launch

        self._device.synchronize()
        self._device.end_persistence()

        def work() -> None:
            for _ in range(count):
                before()
                launch()
            meanwhile()

        samples = self._divided(self._trace(work), count)
        times = tuple(sum(record.duration_s for record in sample) for sample in samples)
        spans = tuple(sample[-1].start_s + sample[-1].duration_s - sample[0].start_s for sample in samples)
        return Batch(times, spans_s=spans, kernels=tuple(record.name for record in samples[0]))

    def objection(self) -> str:
        """Never object."""
        return ""

    def _trace(self, work: Action) -> list[KernelRecord]:
        return self._device.trace(work)

    def _divided(self, records: list[KernelRecord], count: int) -> list[list[KernelRecord]]:
        size, rest = divmod(len(records), count)
        skip = len(self._prefix)
        names = [record.name for record in records]
        samples = [records[start : start + size] for start in range(0, size * count, size or 1)]
        if rest or size <= skip or names[:skip] != self._prefix or names != names[:size] * count:
            raise RooflensError(
                f"timer profiler: {len(records)} device records do not divide into {count} launches alike; "
                "the profiler lost some, or a launch does not always run the same kernels: use --timer event"
            )
        return [part[skip:] for part in samples]

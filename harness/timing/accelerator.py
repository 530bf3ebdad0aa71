"""The device as the timers see it: a clock, events, a blocker, graphs, marks inside of graphs, and traces.

`Host` is what the host timer needs, `Accelerator` what the others need beyond it. Both are interfaces, so that a
scripted device replaces a real one in tests; `TorchHost` and `TorchAccelerator` are the real ones.
"""

import ctypes
import resource
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from statistics import median
from typing import Protocol as Interface

import torch

from ...shapes.device import Device
from ...shapes.errors import RooflensError

Action = Callable[[], object]


@dataclass(frozen=True, slots=True)
class KernelRecord:
    """One kernel, copy or memset that the device ran, in seconds of the device's clock.

    `call` numbers the calls of the driver in their order: the kernels of a graph share theirs.
    """

    name: str
    start_s: float
    duration_s: float
    call: int


class Event(Interface):
    """A mark in the device's queue."""

    def record(self) -> None:
        """Queue the mark."""

    def reached(self) -> bool:
        """Return whether the device has passed the mark."""

    def seconds_until(self, later: "Event") -> float:
        """Device time from this mark to `later`; both must have been reached. HIP may return a negative time."""


class Host(Interface):
    """A device without events: the CPU."""

    resolution_s: float
    """Step of the times that the timers of this device read."""

    reading_s: float
    """Time that reading the clock takes, where that is part of a sample."""

    is_asynchronous: bool
    """True where a launch returns before it has run."""

    def now(self) -> float:
        """Wall clock in seconds."""

    def synchronize(self) -> None:
        """Wait until the device is idle."""

    def preemptions(self) -> int:
        """Count how often this process was made to wait for a core so far; 0 where that is not in a sample."""

    @property
    def traces(self) -> bool:
        """True where the device gives records of the kernels that it ran."""

    def end_persistence(self) -> bool:
        """Turn persisting cache lines into ordinary ones, which a flush evicts.

        Returns True when launches can create such lines, so that this is needed before every sample.
        """


class Accelerator(Host, Interface):
    """A GPU: work is queued, and the device's own clock tells how long it took."""

    def event(self) -> Event:
        """Make a mark."""

    def spin(self, seconds: float) -> None:
        """Queue a kernel that keeps the device busy for about `seconds` (never for less than half of it)."""

    def capture(self, work: Action) -> Action:
        """Record what `work` queues as a graph, without running it; the result replays it.

        What `work` launches must have run before (`rehearse`): a graph cannot hold what loading or compiling does.
        """

    def trace(self, work: Action) -> list[KernelRecord]:
        """Run `work` under the profiler and wait; return what the device ran, in the order of the calls."""

    def synchronizes(self, work: Action) -> bool:
        """Run `work` once; return whether it waited for the device, as far as the framework notices."""


class CaptureError(RooflensError):
    """A launch that waits, say, cannot be part of a graph. torch's random generators do not survive the attempt."""


def rehearse(device: Accelerator, work: Action) -> None:
    """Run `work` once, so that it can be captured; raise RooflensError where it is known already that it cannot."""
    if device.synchronizes(work):
        raise RooflensError("the launch waits for the device, which no graph can hold: use --set timer=event")
    device.synchronize()


class TorchHost:
    """The CPU through Python's clock."""

    is_asynchronous = False
    traces = False

    def __init__(self) -> None:
        self.resolution_s = time.get_clock_info("perf_counter").resolution
        readings = [self.now() for _ in range(64)]
        self.reading_s = min(after - before for before, after in pairwise(readings))

    def now(self) -> float:
        """Read the wall clock."""
        return time.perf_counter()

    def synchronize(self) -> None:
        """Return at once: a call has ended when it returns."""

    def preemptions(self) -> int:
        """Count the involuntary context switches of all threads."""
        return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw

    def end_persistence(self) -> bool:
        """Return False: a CPU has no persisting cache lines."""
        return False


class TorchAccelerator:
    """A CUDA or ROCm device through torch; all work goes to the current stream."""

    is_asynchronous = True
    reading_s = 0.0

    def __init__(self, device: Device) -> None:
        self._index = device.index
        self._is_rocm = device.is_rocm
        # A clock below the published one makes a spin longer, never shorter.
        self._cycles_per_s = (device.spec.clock_hz if device.spec and device.spec.clock_hz else None) or 2e9
        self.resolution_s = self._measured_resolution()
        self._side_stream = torch.cuda.Stream(self._index)
        self._driver = None if device.is_rocm else _cuda_driver()
        if self._driver is not None:
            # Some drivers set a part of the L2 aside for persisting lines from the start. Without it there are none,
            # until a kernel's author asks for it, which `end_persistence` notices. The context exists by now.
            self._driver.cuCtxSetLimit(_PERSISTING_L2_CACHE_SIZE, ctypes.c_size_t(0))

    def now(self) -> float:
        """Read the wall clock."""
        return time.perf_counter()

    def preemptions(self) -> int:
        """Return 0: the device continues without the host."""
        return 0

    def synchronize(self) -> None:
        """Wait for every stream."""
        torch.cuda.synchronize(self._index)

    def event(self) -> "TorchEvent":
        """Make a torch event that keeps time."""
        return TorchEvent()

    def spin(self, seconds: float) -> None:
        """Queue torch's sleep kernel."""
        torch.cuda._sleep(max(1, int(seconds * self._cycles_per_s)))

    def capture(self, work: Action) -> Action:
        """Capture into a CUDA or HIP graph; raises CaptureError for work that cannot be captured.

        On a stream of its own, and not by `torch.cuda.graph`, which waits for the device first: a graph may be captured
        while another one runs.
        """
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.stream(self._side_stream):
                graph.capture_begin(capture_error_mode="thread_local")
                try:
                    work()
                finally:
                    graph.capture_end()
        except RuntimeError as error:
            reason = str(error.__context__ or error).splitlines()[0]
            raise CaptureError(f"cannot be captured into a graph ({reason}): use --set timer=event") from error
        replay: Action = graph.replay
        return replay

    def trace(self, work: Action) -> list[KernelRecord]:
        """Use torch's profiler (CUPTI or roctracer) with device activities only.

        Its results are read as they come: torch's own list of them, with a tree, takes 15 times as long.
        """
        self.synchronize()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with torch.autograd.profiler.profile(use_cpu=False, use_device="cuda", use_kineto=True) as profile:
                work()
                self.synchronize()
        events = profile.kineto_results.events() if profile.kineto_results else ()
        found = [event for event in events if event.device_type() == torch.autograd.DeviceType.CUDA]
        # From the first one on: seconds since 1970 have steps of 240 ns in a double.
        first_ns = min((event.start_ns() for event in found), default=0)
        records = (
            KernelRecord(
                event.name(),
                (event.start_ns() - first_ns) * 1e-9,
                event.duration_ns() * 1e-9,
                event.correlation_id(),
            )
            for event in found
        )
        return sorted(records, key=lambda record: (record.call, record.start_s))

    @cached_property
    def traces(self) -> bool:
        """Trace one kernel: its record is missing without CUPTI or roctracer, or where another profiler is attached."""
        try:
            return len(self.trace(lambda: self.spin(0.0))) == 1
        except RuntimeError:
            return False

    def end_persistence(self) -> bool:
        """Reset persisting lines of the L2 (CUDA); other devices have none."""
        if self._driver is None:
            return False
        limit = ctypes.c_size_t()
        self._driver.cuCtxGetLimit(ctypes.byref(limit), _PERSISTING_L2_CACHE_SIZE)
        if limit.value:
            self._driver.cuCtxResetPersistingL2Cache()
        return limit.value > 0

    def synchronizes(self, work: Action) -> bool:
        """Use torch's own debugging mode: calls of other libraries that wait are not noticed."""
        before = torch.cuda.get_sync_debug_mode()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns, once, that the mode is a prototype
            torch.cuda.set_sync_debug_mode("error")
        try:
            work()
        except RuntimeError as error:
            if "synchronizing" not in str(error):
                raise
            return True
        finally:
            torch.cuda.set_sync_debug_mode(before)
        return False

    def _measured_resolution(self) -> float:
        """Smallest difference between distinct times of events, over kernels of many durations.

        An H200 steps by 32 ns, where CUDA's manual promises 0.5 us; HIP is taken to step by at most 1 us.
        """
        asked = [(5 + 30 * (step * 0.618034 % 1)) * 1e-6 for step in range(_RESOLUTION_SAMPLES)]
        marks = []
        for seconds in asked:
            begin, end = self.event(), self.event()
            begin.record()
            self.spin(seconds)
            end.record()
            marks.append((begin, end))
        self.synchronize()
        times = [begin.seconds_until(end) for begin, end in marks]
        # The same kernels tell how long a spin really is, where the clock is not the published one.
        self._cycles_per_s *= max(
            1.0, median(wanted / got for wanted, got in zip(asked, times, strict=True) if got > 0)
        )
        ordered = sorted(times)
        steps = [after - before for before, after in pairwise(ordered) if after - before > 1e-10]
        nominal = 1e-6 if self._is_rocm else 0.5e-6
        return min([nominal, *steps])


_RESOLUTION_SAMPLES = 96

_PERSISTING_L2_CACHE_SIZE = 6
"""CU_LIMIT_PERSISTING_L2_CACHE_SIZE of the CUDA driver."""


class TorchEvent:
    """One torch.cuda.Event."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = torch.cuda.Event(enable_timing=True)

    def record(self) -> None:
        """Queue the mark in the current stream."""
        self._event.record()

    def reached(self) -> bool:
        """Ask the driver."""
        return bool(self._event.query())

    def seconds_until(self, later: "TorchEvent") -> float:
        """Milliseconds of the driver, in seconds."""
        return float(self._event.elapsed_time(later._event)) * 1e-3


def accelerator(device: Device) -> TorchHost | TorchAccelerator:
    """Return the real thing for `device`."""
    return TorchAccelerator(device) if device.is_gpu else TorchHost()


def _cuda_driver() -> ctypes.CDLL | None:
    """Open the CUDA driver library, None where it is not found or too old for L2 persistence."""
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL("libcuda.so.1")
        assert library.cuCtxResetPersistingL2Cache
        return library
    return None

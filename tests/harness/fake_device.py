"""A scripted host and device behind the harness's `Accelerator`, simulated exactly and in no time.

Two clocks in seconds. The host's advances by what each call costs (`Costs`), by stalls at chosen calls, and by waiting.
The device works off one queue in order: an operation starts when it was queued and when the one before has ended, a
kernel after a gap. It is simulated lazily, as far as the host's clock has come, because some host calls (ending
persistence) meet the device wherever it is by then.

    device = FakeDevice()
    launch = device.launcher(device.kernel(5e-6))
    EventTimer(device, Subject(launch)).batch(10)
"""

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rooflens.harness.telemetry.reading import Reading
from rooflens.harness.timing.accelerator import Action, KernelRecord
from rooflens.shapes.device import Device

from .fake_cache import Buffer, FakeCache
from .fake_latency import Latency, Sampler
from .fake_script import FREE, USUAL, Costs, FakeKernel, Slowdown

H200 = Device("cuda", 0, "fake", "NVIDIA", "sm90", 132, 60 << 20, 60 << 20, 1 << 37)

CPU = Device("cpu", 0, "fake", "", "x86-64", 2, 32 << 20, 2 << 20, 1 << 34)

CLOCK_HZ = 1.98e9


@dataclass(slots=True)
class _Operation:
    queued_s: float
    gap_s: float
    execute: Callable[[float], float]
    """Runs at a device time; returns how long it takes."""


Stamp = Callable[[float, float], None]
"""Takes the device's time, and how wrong the driver has it."""


class FakeEvent:
    """A mark whose time is rounded down to the device's step, and moved by what the script says."""

    def __init__(self, device: "FakeDevice") -> None:
        self._device, self._stamp_s = device, math.nan

    def record(self) -> None:
        self._device.forbid_in_capture("recording a timing event")
        self._stamp_s = math.nan
        self._device.queue_mark(self._stamp)

    def _stamp(self, now_s: float, moved_s: float) -> None:
        step = self._device.resolution_s
        self._stamp_s = (math.floor(now_s / step) * step if step else now_s) + moved_s

    def reached(self) -> bool:
        self._device.host_call(self._device.costs.event_s)
        return not math.isnan(self._stamp_s)

    def seconds_until(self, later: "FakeEvent") -> float:
        if math.isnan(self._stamp_s) or math.isnan(later._stamp_s):
            raise RuntimeError("the device has not reached both events")
        return later._stamp_s - self._stamp_s


class FakeDevice:
    """The simulation; `costs`, `stalls` and all other public attributes are the script.

    stalls         seconds that the host stands still at its n-th call (counted from 1)
    spin_factor    how long a blocker runs, as a share of what was asked for
    queue_limit    operations that the driver takes before it makes the host wait
    moved_stamps   seconds by which the time of the n-th recorded event is wrong (HIP); counted from 1
    slowdowns      of the clock; kernels take as much longer, telemetry shows it
    waits          makes every launch a host call: the device is idle when it returns (a CPU)
    traces         the profiler has records of kernels
    """

    def __init__(
        self,
        costs: Costs = USUAL,
        *,
        resolution_s: float = 32e-9,
        stalls: Mapping[int, float] = {},
        spin_factor: float = 1.0,
        queue_limit: int = 1024,
        moved_stamps: Mapping[int, float] = {},
        slowdowns: Sequence[Slowdown] = (),
        other_processes: int | None = 0,
        cache: FakeCache | None = None,
        persistence: bool = False,
        waits: bool = False,
        traces: bool = True,
    ) -> None:
        self.costs, self.resolution_s, self.reading_s = costs, resolution_s, resolution_s
        self.preempted = 0
        self.stalls, self.spin_factor, self.queue_limit = stalls, spin_factor, queue_limit
        self.moved_stamps, self.slowdowns = moved_stamps, slowdowns
        self.other_processes, self.cache, self.persistence, self.waits = other_processes, cache, persistence, waits
        self.is_asynchronous = not waits
        self.traces = traces
        self.host_s = 0.0
        self.calls = 0
        self.spins_s: list[float] = []
        self.busy_s = 0.0
        """Device time of kernels (blockers and gaps not counted)."""
        self._free_s = 0.0
        self._queue: deque[_Operation] = deque()
        self.recorded = 0
        self._records: list[KernelRecord] | None = None
        self._captured: list[FakeKernel] | None = None
        self._waited = False

    @classmethod
    def cpu(cls, **script: object) -> "FakeDevice":
        """A device whose launches return when they have ended, and where nothing else takes time."""
        return cls(FREE, resolution_s=50e-9, waits=True, **script)  # type: ignore[arg-type]

    # The script's kernels.

    def kernel(
        self,
        latency: Latency | float,
        name: str = "kernel",
        *,
        reads: Sequence[Buffer] = (),
        persists: bool = False,
        host_s: float | None = None,
    ) -> FakeKernel:
        """Make a kernel; `latency` is its model or its constant time."""
        model = latency if isinstance(latency, Latency) else Latency(latency)
        return FakeKernel(name, Sampler(model), tuple(reads), persists, host_s)

    def launcher(self, *kernels: FakeKernel, waits: bool = False) -> Action:
        """Return the call that launches `kernels`, and with `waits` waits for them."""

        def launch() -> None:
            for kernel in kernels:
                self._launch(kernel)
            if waits:
                self.forbid_in_capture("waiting for the device")
                self._waited = True
                self._wait()

        return launch

    def flusher(self, seconds: float = 0.0, *, fills: bool = False, host_s: float | None = None) -> Action:
        """Return a flush: it reads three times the cache in `seconds` more than that takes, and may write before."""
        size = self.cache.size if self.cache else 0
        kernels = [self.kernel(0.0, "fill", host_s=host_s)] if fills else []
        return self.launcher(*kernels, self.kernel(seconds, "sum", reads=[Buffer(3 * size)], host_s=host_s))

    # What the harness asks for.

    def now(self) -> float:
        self.host_call(self.costs.clock_s)
        return self.host_s

    def synchronize(self) -> None:
        self.forbid_in_capture("waiting for the device")
        self.host_call(0.0)
        self._wait()

    def event(self) -> FakeEvent:
        self.host_call(self.costs.event_s)
        return FakeEvent(self)

    def spin(self, seconds: float) -> None:
        self.host_call(self.costs.launch_s)
        self.spins_s.append(seconds)
        duration_s = seconds * self.spin_factor

        def execute(start: float) -> float:
            self._record("spin", start, duration_s, call)
            return duration_s

        call = self.calls
        self._submit(0.0, execute)

    def capture(self, work: Action) -> Action:
        self._captured = nodes = []
        try:
            work()
        finally:
            self._captured = None

        def replay() -> None:
            self.host_call(self.costs.graph_s + self.costs.node_s * len(nodes))
            self._make_room()
            call = self.calls
            for node in nodes:
                self._submit(self.costs.graph_gap_s, lambda start, kernel=node: self._run(kernel, start, call))

        return replay

    def trace(self, work: Action) -> list[KernelRecord]:
        self.synchronize()
        self.host_call(self.costs.trace_s)
        self._records = found = []
        work()
        self.synchronize()
        self._records = None
        return sorted(found, key=lambda record: (record.call, record.start_s))

    def synchronizes(self, work: Action) -> bool:
        self._waited = False
        work()
        return self._waited

    def preemptions(self):
        return self.preempted

    def end_persistence(self) -> bool:
        # Not an operation of the queue: it takes effect when the host calls it.
        self.host_call(self.costs.event_s)
        if self.cache:
            self.cache.end_persistence()
        return self.persistence

    def read(self) -> Reading:
        """Telemetry: the clock at this moment, and why it is slow."""
        self.host_call(self.costs.telemetry_s)
        factor, reasons = self._clock(self.host_s)
        return Reading(CLOCK_HZ * factor, 3.2e9, 50.0, 300.0, reasons, self.other_processes, None)

    @property
    def is_busy(self) -> bool:
        """Whether the device has something to do at the host's present time."""
        return bool(self._queue) or self._free_s > self.host_s

    # The host.

    def host_call(self, seconds: float) -> None:
        """Spend host time, and let the device come along."""
        self.calls += 1
        self.host_s += seconds + self.stalls.get(self.calls, 0.0)
        self._advance(self.host_s)

    def forbid_in_capture(self, what: str) -> None:
        if self._captured is not None:
            raise RuntimeError(f"{what} is not permitted when the stream is capturing")

    def queue_mark(self, stamp: Stamp) -> None:
        """Queue an event's mark."""
        self.host_call(self.costs.event_s)
        self._make_room()
        self.recorded += 1
        moved_s = self.moved_stamps.get(self.recorded, 0.0)

        def execute(start: float) -> float:
            stamp(start, moved_s)
            return 0.0

        self._submit(0.0, execute)

    def _launch(self, kernel: FakeKernel) -> None:
        self.host_call(self.costs.launch_s if kernel.host_s is None else kernel.host_s)
        if self._captured is not None:
            self._captured.append(kernel)
            return
        self._make_room()
        call = self.calls
        self._submit(self.costs.gap_s, lambda start: self._run(kernel, start, call))
        if self.waits:
            self._wait()

    def _wait(self) -> None:
        self._advance(math.inf)
        self.host_s = max(self.host_s, self._free_s) + self.costs.synchronize_s

    def _make_room(self) -> None:
        while len(self._queue) >= self.queue_limit:
            self.host_s = max(self.host_s, self._start(self._queue[0]))
            self._advance(self.host_s)

    def _submit(self, gap_s: float, execute: Callable[[float], float]) -> None:
        self._queue.append(_Operation(self.host_s, gap_s, execute))
        self._advance(self.host_s)

    # The device.

    def _start(self, operation: _Operation) -> float:
        return max(operation.queued_s, self._free_s) + operation.gap_s

    def _advance(self, until_s: float) -> None:
        while self._queue and (start := self._start(self._queue[0])) <= until_s:
            self._free_s = start + self._queue.popleft().execute(start)

    def _run(self, kernel: FakeKernel, start: float, call: int) -> float:
        factor, _ = self._clock(start)
        seconds = kernel.sampler.next_s() / factor
        if self.cache:
            seconds += sum(self.cache.read_s(buffer, kernel.persists) for buffer in kernel.reads)
        kernel.runs.append((start, seconds))
        self.busy_s += seconds
        self._record(kernel.name, start, seconds, call)
        return seconds

    def _record(self, name: str, start: float, seconds: float, call: int) -> None:
        if self._records is not None:
            self._records.append(KernelRecord(name, start, seconds, call))

    def _clock(self, now_s: float) -> tuple[float, tuple[str, ...]]:
        active = [slow for slow in self.slowdowns if slow.since_s <= now_s < slow.until_s]
        factor = math.prod(slow.factor for slow in active)
        return factor, tuple(reason for slow in active for reason in slow.reasons)

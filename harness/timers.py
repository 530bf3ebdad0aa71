"""Timers: how the duration of one launch is taken.

A timer runs a batch of (cache control, launch) pairs and returns the duration of each launch in seconds. Each is one
class behind `Timer`; a fake clock makes the host timer exact in tests.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol as Interface

import torch

from ..shapes.device import Device
from ..shapes.errors import UsageError

Action = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Batch:
    """Durations of consecutive launches, in order, in seconds.

    `host_s` is the wall time of launch and synchronize where the timer is not the host's; `blocked` says whether the
    device was kept busy until all launches were queued (None where that has no meaning).
    """

    times_s: tuple[float, ...]
    host_s: tuple[float, ...] = ()
    blocked: bool | None = None


class Timer(Interface):
    """One way to take time."""

    name: str
    resolution_s: float

    def batch(self, launch: Action, before: Action, count: int) -> Batch:
        """Run `before` and `launch` `count` times; time the launches only."""


class HostTimer:
    """Wall clock around launch and synchronize: the timer of the CPU."""

    name = "host"

    def __init__(self, synchronize: Action, clock_ns: Callable[[], int] = time.perf_counter_ns) -> None:
        self._synchronize = synchronize
        self._clock_ns = clock_ns
        self.resolution_s = time.get_clock_info("perf_counter").resolution

    def batch(self, launch: Action, before: Action, count: int) -> Batch:
        """Time each launch from an idle device to an idle device."""
        clock_ns, synchronize = self._clock_ns, self._synchronize
        times = []
        for _ in range(count):
            before()
            synchronize()
            start = clock_ns()
            launch()
            synchronize()
            times.append((clock_ns() - start) * 1e-9)
        return Batch(tuple(times))


class EventTimer:
    """Device events around each launch, queued behind a spinning kernel so that host latency is not between them.

    Event resolution is about 0.5 us on CUDA and 1 us on HIP. HIP can return negative times: those are left out.
    """

    name = "event"
    MAX_QUEUED = 200
    """Operations queued at once: past some 1,000 the driver blocks the host, which then waits for the blocker."""

    def __init__(self, device: Device, operations_per_sample: int) -> None:
        self.resolution_s = 1e-6 if device.is_rocm else 0.5e-6
        self._device = torch.device(device.torch_name)
        self._cycles_per_s = (device.spec.clock_hz if device.spec and device.spec.clock_hz else None) or 1.5e9
        self._most = max(1, self.MAX_QUEUED // (operations_per_sample + 3))
        self._queue_s = 1e-3

    def batch(self, launch: Action, before: Action, count: int) -> Batch:
        """Queue up to `count` samples behind a blocker; the last host time is taken of a launch on its own."""
        count = min(count, self._most)
        blocked = False
        for _ in range(3):  # the spin grows until it outlasts the queueing
            pairs, blocked = self._queue(launch, before, count)
            if blocked:
                break
            self._queue_s *= 2
        times = tuple(start.elapsed_time(end) * 1e-3 for start, end in pairs)
        return Batch(tuple(value for value in times if value > 0), (self._host_time(launch, before),), blocked)

    def _queue(
        self, launch: Action, before: Action, count: int
    ) -> tuple[list[tuple[torch.cuda.Event, torch.cuda.Event]], bool]:
        pairs = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(count)]
        free = torch.cuda.Event()
        torch.cuda.synchronize(self._device)
        begin = time.perf_counter()
        torch.cuda._sleep(int(2 * self._queue_s * self._cycles_per_s))
        free.record()
        for start, end in pairs:
            before()
            start.record()
            launch()
            end.record()
        blocked = not free.query()
        self._queue_s = max(self._queue_s, time.perf_counter() - begin)
        torch.cuda.synchronize(self._device)
        return pairs, blocked

    def _host_time(self, launch: Action, before: Action) -> float:
        before()
        torch.cuda.synchronize(self._device)
        start = time.perf_counter_ns()
        launch()
        torch.cuda.synchronize(self._device)
        return (time.perf_counter_ns() - start) * 1e-9


def make_timer(name: str, device: Device, operations_per_sample: int) -> Timer:
    """Build the timer `name` ("auto": event on GPUs, host on the CPU); raise UsageError when `device` has none such."""
    if name == "event" and not device.is_gpu:
        raise UsageError(f"timer event: {device.torch_name} has no events; leave --timer out, or use --timer host")
    if name == "event" or (name == "auto" and device.is_gpu):
        return EventTimer(device, operations_per_sample)
    return HostTimer(synchronizer(device))


def synchronizer(device: Device) -> Action:
    """Return the call that waits until the device is idle; on the CPU there is nothing to wait for."""
    if not device.is_gpu:
        return lambda: None
    index = device.index
    return lambda: torch.cuda.synchronize(index)

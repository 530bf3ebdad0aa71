"""What a test scripts of a `FakeDevice`: what calls cost, when the clock is slow, and the kernels."""

import math
from dataclasses import dataclass, field

from .fake_cache import Buffer
from .fake_latency import Sampler


@dataclass(frozen=True)
class Costs:
    """Seconds of the host per call, and of the device between operations.

    launch_s       launching a kernel that has no cost of its own; also a blocker
    event_s        making an event, recording one, asking for one: each
    synchronize_s  from the device's end until the host goes on
    graph_s        replaying a graph, plus node_s for each node
    trace_s        starting and stopping the profiler
    telemetry_s    one reading
    clock_s        reading the host's clock
    gap_s          of the device before each launched kernel; graph_gap_s before each node of a graph
    """

    launch_s: float = 5e-6
    event_s: float = 1e-6
    synchronize_s: float = 5e-6
    graph_s: float = 8e-6
    node_s: float = 0.0
    trace_s: float = 3e-3
    telemetry_s: float = 20e-6
    clock_s: float = 5e-8
    gap_s: float = 1e-6
    graph_gap_s: float = 2e-7


USUAL = Costs()
"""About those of a real machine."""

FREE = Costs(*(0.0,) * 10)
"""A host and a device on which only kernels take time."""


@dataclass(frozen=True)
class Slowdown:
    """From device time `since_s` until `until_s` the clock is `factor` of what it should be, for `reasons`."""

    since_s: float
    factor: float
    reasons: tuple[str, ...] = ("thermal",)
    until_s: float = math.inf


@dataclass
class FakeKernel:
    """A kernel: its model of time without memory, what it reads, what launching it costs the host."""

    name: str
    sampler: Sampler
    reads: tuple[Buffer, ...] = ()
    persists: bool = False
    host_s: float | None = None
    runs: list[tuple[float, float]] = field(default_factory=list)
    """Start and duration of every run, by the device's clock: the truth."""

    @property
    def durations_s(self) -> tuple[float, ...]:
        return tuple(duration for _, duration in self.runs)

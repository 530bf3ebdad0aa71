"""Calibration: the ceilings of this device, measured with the same timer as the cells.

1. Bandwidth per level of the memory hierarchy and pattern (bytes read plus written); inside a cache with many passes in
   one launch (`kernels/probes`).
2. GEMM peak per type that is multiplied: the vendor's GEMM on random normal data, on a CPU also our own
   (`kernels/probes/products.py`).
3. On GPUs, the rate of vector instructions, which decoding is bound by (`kernels/probes/triton/vector.py`).
4. Launch floors: an empty kernel and one of a single tile, warm and after a flush.
5. On GPUs, the latency of a load from the last-level cache and from memory (`kernels/probes/triton/latency.py`).

Each is the best of what a short budget holds: a ceiling is what the device can do, not what it does on average. What is
above the published or derived peak (`cpu_peak`) is not stored, and remarks report what is below all known measurements
of the device.
"""

import itertools
import math
import random
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from ...kernels.probes.floors import floors
from ...kernels.probes.probe import Pattern
from ...kernels.probes.products import MEASURED, products
from ...kernels.probes.sweeps import sweeps
from ...shapes.device import Device
from ...shapes.errors import RooflensError, UsageError
from ...shapes.published_ceilings import missed
from ...shapes.run_folder.disturbance import PREEMPTED
from ...shapes.scheme import DType
from ..timing.accelerator import Accelerator, Action, Host
from ..timing.cache import Flush, flushed, has_own_l2, warm
from ..timing.timer import Subject
from ..timing.timers import make_timer
from .known_limits import Row, ceiling, known_limits

Remarks = dict[str, str]
"""What the user should know of a calibration, by a key that stays the same where another one has other figures."""

BUDGET_S = {"cuda": 0.1, "cpu": 0.25}
"""Seconds for each probe, by kind of device: CPUs are noisier, and have fewer probes."""

FEWEST, FEWEST_IN_HASTE, LARGEST_BATCH = 5, 2, 20
"""Samples of a probe at least, also within a limit on the time of all of them, and of one batch at most."""

OVERRUN = 2
"""Budgets that a slow probe may take for its fewest samples; one launch that takes longer still has its one sample."""

SPEC_TOLERANCE = 1.02
"""A measurement above this many times the published or derived peak is wrong (cached data, a wrong table row) and not
stored."""

VECTOR = ("fma", "integer")
"""Kinds of vector instructions whose rate is measured."""

GPU_DRAM_BYTES, CPU_DRAM_BYTES_PER_THREAD = 1 << 30, 64 << 20
"""Least footprint in memory: on a GPU for a launch of 100 us and more; a CPU has no more last-level cache per thread,
all instances together, than a few MiB, but reports the size of one instance only."""


def calibrate(
    device: Device,
    machine: Host | Accelerator,
    types: Iterable[str],
    timer_name: str,
    step: Callable[[int, int, str], object] = lambda number, total, what: None,
    within_s: float | None = None,
) -> tuple[list[Row], Remarks]:
    """Measure the ceilings of `device`, which must be the current one; `machine` is `accelerator(device)`.

    `step` is called before each step with its number from 1, how many there are, and what it measures. After
    `within_s` seconds no probe begins: those that bound the fewest cells come last.
    Returns rows of ceilings.csv, the published and derived ones last, and remarks on what was rejected, is low or was
    not measured.
    A probe that fails costs its own ceiling only. Raises UsageError when the device has no timer of that name.
    """
    types = tuple(types) if device.is_gpu else (*dict.fromkeys((*types, "fp32")),)  # which our own kernel multiplies in
    multiplied = [name for name in types if name in (MEASURED if device.is_gpu else tuple(DType))]
    vector = VECTOR if device.is_gpu else ()
    latencies = ("llc", "dram") if device.is_gpu else ()
    caches = footprints(device)
    total = len(caches) * len(Pattern) + len(multiplied) + len(vector) + len(latencies) + 1
    numbers = itertools.count(1)
    run = _Calibration(
        device, machine, timer_name, lambda what: step(next(numbers), total, what),
        FEWEST if within_s is None else FEWEST_IN_HASTE,
        math.inf if within_s is None else time.perf_counter() + within_s,
    )  # fmt: skip
    memory = {level: caches.pop(level) for level in [*caches] if level == "dram"}
    measured = [
        *run.bandwidths(memory),
        *run.peaks(multiplied),
        *run.vector_rates(vector),
        *run.launch_floors(cold=timer_name != "graph"),
        *run.latencies(latencies),
        *run.bandwidths(caches),
    ]
    remarks = run.remarks
    if late := ", ".join(run.late):
        remarks[f"late: {late}"] = f"the {within_s:.0f} s for the ceilings were over before: {late}"
    known = known_limits(device, types)
    limits = {_key(row): row for row in known}
    kept = []
    for row in measured:
        if _above(row, limits):
            peak = limits[_key(row)]
            word = "published" if peak["kind"] == "spec" else "derived"
            remarks[f"above: {_name(row)}"] = (
                f"measured {_name(row)} of {_amount(row)} is above the {word} {_amount(peak)}: not stored"
            )
        else:
            kept.append(row)
    return kept + known, remarks | _low(kept, device) | _behind_memory(kept)


class _OverError(Exception):
    """The time for all probes is over."""


@dataclass(slots=True)
class _Calibration:
    """The probes of one calibration, which yield their ceilings. After the clock's `limit_s` none begins: see `late`.

    `step` reports what is measured next; `fewest` samples are taken of each probe.
    """

    device: Device
    machine: Host | Accelerator
    timer_name: str
    step: Callable[[str], object]
    fewest: int
    limit_s: float
    remarks: Remarks = field(default_factory=dict)
    late: list[str] = field(default_factory=list)

    def bandwidths(self, levels: dict[str, int]) -> Iterator[Row]:
        """Sweep over as many bytes as `levels` says of each level, in every pattern."""
        for level, footprint in levels.items():
            with self._reported(f"{level} bandwidth"):
                data = _words(footprint // 4, self.device)
                for pattern in Pattern:
                    found: list[tuple[float, str]] = []
                    with self._reported(f"{level} {pattern} bandwidth"):
                        self._begin(f"{level} {pattern} bandwidth")
                        for probe in sweeps(self.device, level, pattern, data):
                            seconds, how = self._time(probe.run, probe.how)
                            found.append((probe.moved_bytes / seconds, how))
                    if found:
                        rate, how = max(found)
                        yield ceiling("bandwidth", level, pattern.value, "", rate, "byte/s", how)

    def peaks(self, types: Iterable[str]) -> Iterator[Row]:
        """Multiply in each type."""
        m, n, k = (8192, 8192, 8192) if self.device.is_gpu else (512, 4096, 4096)
        for math_dtype in types:
            found: list[tuple[float, str]] = []
            with self._reported(f"{math_dtype} peak"):
                self._begin(f"{math_dtype} GEMM peak")
                for multiply, name in products(self.device, math_dtype, m, n, k):
                    seconds, how = self._time(multiply, f"{name} {m}x{n}x{k}, random normal")
                    found.append((2 * m * n * k / seconds, how))
            if found:
                rate, how = max(found)
                yield ceiling("peak", "", "gemm", math_dtype, rate, "FLOP/s", how)

    def vector_rates(self, patterns: Iterable[str]) -> Iterator[Row]:
        """Run chains of vector instructions."""
        for pattern in patterns:
            with self._reported(f"{pattern} vector rate"):
                self._begin(f"{pattern} vector rate")
                from ...kernels.probes.triton.vector import chains

                probe = chains(self.device, pattern)
                seconds, how = self._time(probe.run, probe.how)
                yield ceiling("vector", "", pattern, "", probe.lane_operations / seconds, "op/s", how)

    def launch_floors(self, cold: bool) -> Iterator[Row]:
        """Time the empty launch and the tile. Not `cold` with graphs, whose flush is a hundred times such a launch and
        would have to be subtracted.
        """
        with self._reported("launch floors"):
            self._begin("launch floors")
            flush = Flush(self.device) if cold else None
            for name, probe in floors(self.device):
                for cache, evict in (("warm", None), ("cold", flush)) if flush else (("warm", None),):
                    with self._reported(f"launch {name} {cache}"):
                        seconds, how = self._time(probe.run, probe.how, evict)
                        yield ceiling("launch", "", f"{name} {cache}", "", seconds, "s", how)

    def latencies(self, levels: Iterable[str]) -> Iterator[Row]:
        """Load from each level, one load after another."""
        for level in levels:
            with self._reported(f"{level} latency"):
                self._begin(f"{level} latency")
                from ...kernels.probes.triton.latency import STEPS, chase

                probe = chase(self.device, level)
                seconds, how = self._time(probe.run, probe.how)
                yield ceiling("latency", level, "", "", seconds / STEPS, "s", how)

    def _begin(self, what: str) -> None:
        self.step(what)
        self._stop_if_over()

    def _stop_if_over(self) -> None:
        if time.perf_counter() >= self.limit_s:
            raise _OverError

    def _time(self, launch: Action, how: str, flush: Flush | None = None) -> tuple[float, str]:
        """Return the least time of one launch in seconds, and what `source` of its ceiling is."""
        self._stop_if_over()
        subject = _undisturbed(launch, self.device, flush)
        seconds, timer = _fastest(self.timer_name, self.machine, self.device, self.fewest, subject)
        return seconds, f"{how}, best, {timer} timer"

    @contextmanager
    def _reported(self, what: str) -> Iterator[None]:
        """Turn a failure into a remark; a timer that the device does not have stays the caller's mistake."""
        try:
            yield
        except UsageError:
            raise
        except _OverError:
            self.late.append(what)
        except Exception as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            failed = f"not measured: {what}: {type(error).__name__}"
            self.remarks[failed] = f"{failed}: {lines[0] if lines else ''}"[:300]


def _fastest(
    timer_name: str, machine: Host | Accelerator, device: Device, fewest: int, subject: Subject
) -> tuple[float, str]:
    """Least time of one launch that the budget holds, in seconds, and the name of the timer."""
    subject.before()
    subject.launch()
    machine.synchronize()
    timer = make_timer(timer_name, machine, subject, device)
    budget_s = BUDGET_S[device.kind]
    times: list[float] = []
    begin, size, taken, elapsed_s = time.perf_counter(), 1, 0, 0.0
    while elapsed_s < budget_s or (len(times) < fewest and elapsed_s < OVERRUN * budget_s):
        batch = timer.batch(size)
        taken += len(batch.times_s)
        # The least counts, and losing a core only makes a sample longer.
        times += [
            seconds for seconds, reason in zip(batch.times_s, batch.reasons, strict=True) if reason in ("", PREEMPTED)
        ]
        elapsed_s = time.perf_counter() - begin
        # At the pace of whole samples: the flush before an empty launch takes a thousand times as long as that.
        size = max(1, min(LARGEST_BATCH, int(budget_s / FEWEST / elapsed_s * taken)))
    if not times:
        raise RooflensError(f"timer {timer.name}: no valid sample")
    return min(times), timer.name


def _words(count: int, device: Device) -> torch.Tensor:
    """Make int32 data, whole cache lines of it: random where that is fast; nowhere zeros, or denormals as fp32."""
    count = count // 64 * 64
    if device.is_gpu:
        return torch.empty(count, dtype=torch.int32, device=device.torch_name).random_()
    return torch.full((count,), 0x3F9E3779, dtype=torch.int32)


def footprints(device: Device) -> dict[str, int]:
    """Bytes that do not fit into the last-level cache (dram), or stay in each cache, by level.

    A cache with a smaller one in front of it gets a footprint well above that one.
    """
    if not device.is_gpu:
        threads = torch.get_num_threads()
        beyond = max(4 * device.llc_bytes, threads * CPU_DRAM_BYTES_PER_THREAD)
        inside = min(device.llc_bytes // 2, max(device.llc_bytes // 4, 2 * threads * device.l2_bytes))
        return {"dram": min(beyond, max(device.memory_bytes // 8, 4 * device.llc_bytes)), "llc": inside}
    beyond = max(8 * device.llc_bytes, min(GPU_DRAM_BYTES, device.memory_bytes // 8))
    inside = device.llc_bytes // (2 if device.l2_bytes < device.llc_bytes else 4)
    return {"dram": beyond, "llc": inside} | ({"l2": device.l2_bytes // 2} if has_own_l2(device) else {})


def _undisturbed(launch: Action, device: Device, flush: Flush | None = None) -> Subject:
    """Launch back to back, or after a flush; on the CPU with a pause of up to 2 ms before each.

    Without it, threads that meet at a barrier in every launch can fall into step with a busy neighbour's time slices,
    and then every sample waits for a whole slice (seen: 8 MiB in 4 ms instead of 40 us, a tile in 7 ms, not 2 us).
    """
    if device.is_gpu:
        return flushed(launch, flush) if flush else warm(launch)

    def before() -> None:
        time.sleep(random.uniform(0.0, 2e-3))
        if flush:
            flush()

    return Subject(launch, before, flush.operations if flush else 0)


def _key(row: Row) -> tuple[str, str, str]:
    return row["ceiling"], row["level"], row["dtype"]


def _name(row: Row) -> str:
    return " ".join(filter(None, (row["level"], row["dtype"], row["pattern"], row["ceiling"])))


def _above(row: Row, limits: dict[tuple[str, str, str], Row]) -> bool:
    return _key(row) in limits and bool(row["value"] > SPEC_TOLERANCE * limits[_key(row)]["value"])


def _low(rows: list[Row], device: Device) -> Remarks:
    """Remark on what is below all known measurements of this device although the best pattern counts."""
    if device.spec is None:
        return {}
    best: dict[tuple[str, str, str], Row] = {}
    for row in rows:
        if row["ceiling"] == "peak" or row["level"] == "dram":
            best[_key(row)] = max(best.get(_key(row), row), row, key=lambda one: one["value"])
    return {
        f"low: {_name(row)}": (
            f"measured {_name(row)} is {1 - row['value'] / known.value:.0%} below the least that is known of this "
            f"device, {_amount(row, known.value)} ({known.source}): was it busy, or its clock or power limit low?"
        )
        for row in best.values()
        if (known := missed(device.spec, row["ceiling"], row["dtype"], row["value"]))
    }


def _behind_memory(rows: list[Row]) -> Remarks:
    """Remark on caches that came out slower than memory: another process used the cores or the cache."""
    memory = {row["pattern"]: row["value"] for row in rows if row["level"] == "dram"}
    slow = {
        f"{row['level']} {row['pattern']}": f"{_amount(row)}, memory {_amount(row, memory[row['pattern']])}"
        for row in rows
        if row["ceiling"] == "bandwidth" and row["level"] != "dram" and row["value"] < memory.get(row["pattern"], 0.0)
    }
    if not slow:
        return {}
    found = "; ".join(f"{name} {rates}" for name, rates in slow.items())
    key = f"below memory: {', '.join(slow)}"
    return {key: f"measured bandwidth of a cache is below that of memory ({found}): was the device busy?"}


_UNITS = {"byte/s": (1e9, "GB/s"), "FLOP/s": (1e12, "TFLOPS"), "op/s": (1e12, "Top/s"), "s": (1e-6, "us")}
"""Base unit -> unit for readers: its size in base units, and its name."""


def _amount(row: Row, value: float | None = None) -> str:
    """Write the value of a row, or another `value` in its unit."""
    size, name = _UNITS[row["unit"]]
    return f"{(row['value'] if value is None else value) / size:.4g} {name}"

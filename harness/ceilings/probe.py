"""Calibration: the ceilings of this device, measured with the same timer as the cells.

1. Bandwidth per level of the memory hierarchy and pattern (bytes read plus written); inside a cache with many passes in
   one launch (`kernels/probes`).
2. GEMM peak per type that is multiplied: the vendor's GEMM on random normal data, on a CPU also our own
   (`kernels/probes/products.py`).
3. On GPUs, the rate of vector instructions, which decoding is bound by (`kernels/probes/triton/vector.py`).
4. Launch floors: an empty kernel and one of a single tile, warm and after a flush.
5. On GPUs, the latency of a load from the last-level cache and from memory (`kernels/probes/triton/latency.py`).

Each is the best of what a short budget holds: a ceiling is what the device can do, not what it does on average. What is
above the published or derived peak (`cpu_peak`) is not stored, and what misses all known measurements of the device is
told in a remark.
"""

import itertools
import math
import random
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import torch

from ...kernels.probes.floors import floors
from ...kernels.probes.probe import Pattern
from ...kernels.probes.products import MEASURED, products
from ...kernels.probes.sweeps import sweeps
from ...shapes.device import Device
from ...shapes.errors import RooflensError, UsageError
from ...shapes.published_ceilings import missed
from ...shapes.scheme import DType
from ..timing.accelerator import Accelerator, Action, Host
from ..timing.cache import Flush, flushed, has_own_l2, warm
from ..timing.host_timer import PREEMPTED
from ..timing.timer import Subject
from ..timing.timers import make_timer
from .known_limits import Row, ceiling, known_limits

Stopwatch = Callable[[Subject], tuple[float, str]]
"""Returns the least time of one launch in seconds, and the name of the timer."""

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
all instances together, than a few MiB, but tells the size of one instance only."""


def calibrate(
    device: Device,
    machine: Host | Accelerator,
    types: Iterable[str],
    timer_name: str,
    step: Callable[[int, int, str], object] = lambda number, total, what: None,
    within_s: float | None = None,
) -> tuple[list[Row], list[str]]:
    """Measure the ceilings of `device`, which must be the current one; `machine` is `accelerator(device)`.

    `step` is called before each step with its number from 1, how many there are, and what it measures. After
    `within_s` seconds no probe begins: those that bound the fewest cells come last.
    Returns rows of ceilings.csv, the published and derived ones last, and remarks on what was refused, is low or was
    not measured.
    A probe that fails costs its own ceiling only. Raises UsageError when the device has no timer of that name.
    """
    remarks: list[str] = []
    types = tuple(types)
    limit = math.inf if within_s is None else time.perf_counter() + within_s
    fewest = FEWEST if within_s is None else FEWEST_IN_HASTE

    def stopwatch(subject: Subject) -> tuple[float, str]:
        if time.perf_counter() >= limit:
            raise _OverError
        return _fastest(timer_name, machine, device, fewest, subject)

    multiplied = [name for name in types if name in (MEASURED if device.is_gpu else tuple(DType))]
    vector = VECTOR if device.is_gpu else ()
    latencies = 2 if device.is_gpu else 0
    probes = len(footprints(device)) * len(Pattern) + len(multiplied) + len(vector) + latencies + 1
    numbers, total = itertools.count(1), probes

    def begin(what: str) -> None:
        step(next(numbers), total, what)
        if time.perf_counter() >= limit:
            raise _OverError

    caches = footprints(device)
    memory = {level: caches.pop(level) for level in [*caches] if level == "dram"}
    measured = [
        *_bandwidths(device, stopwatch, memory, begin, remarks),
        *_peaks(device, stopwatch, multiplied, begin, remarks),
        *_vector_rates(device, stopwatch, vector, begin, remarks),
        *_launch_floors(device, stopwatch, begin, remarks, cold=timer_name != "graph"),
        *(_latencies(device, stopwatch, begin, remarks) if device.is_gpu else ()),
        *_bandwidths(device, stopwatch, caches, begin, remarks),
    ]
    if late := [remark.removeprefix(_LATE) for remark in remarks if remark.startswith(_LATE)]:
        remarks[:] = [remark for remark in remarks if not remark.startswith(_LATE)]
        remarks.append(f"the {within_s:.0f} s for the ceilings were over before: {', '.join(late)}")
    known = known_limits(device, types)
    limits = {_key(row): row for row in known}
    kept = [row for row in measured if not _above(row, limits)]
    for row in measured:
        if _above(row, limits):
            peak = limits[_key(row)]
            word = "published" if peak["kind"] == "spec" else "derived"
            remarks.append(f"measured {_name(row)} of {_amount(row)} is above the {word} {_amount(peak)}: not stored")
    return kept + known, [*remarks, *_low(kept, device), *_behind_memory(kept)]


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


class _OverError(Exception):
    """The time for all probes is over."""


_LATE = "late: "
"""Prefix of remarks on probes that came too late; they are reported together."""


@contextmanager
def _reported(what: str, remarks: list[str]) -> Iterator[None]:
    """Turn a failure into a remark; a timer that the device does not have is the caller's mistake, and stays one."""
    try:
        yield
    except UsageError:
        raise
    except _OverError:
        remarks.append(f"{_LATE}{what}")
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        remarks.append(f"not measured: {what}: {type(error).__name__}: {lines[0] if lines else ''}"[:300])


def _bandwidths(
    device: Device,
    stopwatch: Stopwatch,
    levels: dict[str, int],
    begin: Callable[[str], object],
    remarks: list[str],
) -> Iterator[Row]:
    for level, footprint in levels.items():
        with _reported(f"{level} bandwidth", remarks):
            data = _words(footprint // 4, device)
            for pattern in Pattern:
                found: list[tuple[float, str]] = []
                with _reported(f"{level} {pattern} bandwidth", remarks):
                    begin(f"{level} {pattern} bandwidth")
                    for probe in sweeps(device, level, pattern, data):
                        seconds, timer = stopwatch(_undisturbed(probe.run, device))
                        found.append((probe.moved_bytes / seconds, f"{probe.how}, best, {timer} timer"))
                if found:
                    rate, how = max(found)
                    yield ceiling("bandwidth", level, pattern.value, "", rate, "byte/s", how)


def _words(count: int, device: Device) -> torch.Tensor:
    """Make int32 data, whole cache lines of it: random where that is fast; nowhere zeros, or denormals as fp32."""
    count = count // 64 * 64
    if device.is_gpu:
        return torch.empty(count, dtype=torch.int32, device=device.torch_name).random_()
    return torch.full((count,), 0x3F9E3779, dtype=torch.int32)


def footprints(device: Device) -> dict[str, int]:
    """Bytes that surely do not fit into the last-level cache (dram), or stay in each cache, by level.

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


def _peaks(
    device: Device,
    stopwatch: Stopwatch,
    types: Iterable[str],
    begin: Callable[[str], object],
    remarks: list[str],
) -> Iterator[Row]:
    m, n, k = (8192, 8192, 8192) if device.is_gpu else (512, 4096, 4096)
    for math_dtype in types:
        found: list[tuple[float, str]] = []
        with _reported(f"{math_dtype} peak", remarks):
            begin(f"{math_dtype} GEMM peak")
            for multiply, name in products(device, math_dtype, m, n, k):
                seconds, timer = stopwatch(_undisturbed(multiply, device))
                found.append((2 * m * n * k / seconds, f"{name} {m}x{n}x{k}, random normal, best, {timer} timer"))
        if found:
            rate, how = max(found)
            yield ceiling("peak", "", "gemm", math_dtype, rate, "FLOP/s", how)


def _vector_rates(
    device: Device,
    stopwatch: Stopwatch,
    patterns: Iterable[str],
    begin: Callable[[str], object],
    remarks: list[str],
) -> Iterator[Row]:
    for pattern in patterns:
        with _reported(f"{pattern} vector rate", remarks):
            begin(f"{pattern} vector rate")
            from ...kernels.probes.triton.vector import chains

            probe = chains(device, pattern)
            seconds, timer = stopwatch(_undisturbed(probe.run, device))
            how = f"{probe.how}, best, {timer} timer"
            yield ceiling("vector", "", pattern, "", probe.lane_operations / seconds, "op/s", how)


def _launch_floors(
    device: Device, stopwatch: Stopwatch, begin: Callable[[str], object], remarks: list[str], cold: bool
) -> Iterator[Row]:
    """Time the empty launch and the tile. Not `cold` with graphs, whose flush is a hundred times such a launch and
    would have to be subtracted.
    """
    with _reported("launch floors", remarks):
        begin("launch floors")
        flush = Flush(device) if cold else None
        for name, probe in floors(device):
            for cache, evict in (("warm", None), ("cold", flush)) if flush else (("warm", None),):
                with _reported(f"launch {name} {cache}", remarks):
                    seconds, timer = stopwatch(_undisturbed(probe.run, device, evict))
                    yield ceiling(
                        "launch", "", f"{name} {cache}", "", seconds, "s", f"{probe.how}, best, {timer} timer"
                    )


def _latencies(
    device: Device, stopwatch: Stopwatch, begin: Callable[[str], object], remarks: list[str]
) -> Iterator[Row]:
    """Time one load after another from the last-level cache and from memory."""
    for level in ("llc", "dram"):
        with _reported(f"{level} latency", remarks):
            begin(f"{level} latency")
            from ...kernels.probes.triton import latency

            probe = latency.chase(device, level)
            seconds, timer = stopwatch(_undisturbed(probe.run, device))
            yield ceiling("latency", level, "", "", seconds / latency.STEPS, "s", f"{probe.how}, best, {timer} timer")


def _key(row: Row) -> tuple[str, str, str]:
    return row["ceiling"], row["level"], row["dtype"]


def _name(row: Row) -> str:
    return " ".join(filter(None, (row["level"], row["dtype"], row["pattern"], row["ceiling"])))


def _above(row: Row, limits: dict[tuple[str, str, str], Row]) -> bool:
    return _key(row) in limits and bool(row["value"] > SPEC_TOLERANCE * limits[_key(row)]["value"])


def _low(rows: list[Row], device: Device) -> list[str]:
    """Remark on what misses all known measurements of this device although the best pattern counts."""
    if device.spec is None:
        return []
    best: dict[tuple[str, str, str], Row] = {}
    for row in rows:
        if row["ceiling"] == "peak" or row["level"] == "dram":
            best[_key(row)] = max(best.get(_key(row), row), row, key=lambda one: one["value"])
    remarks = []
    for row in best.values():
        if known := missed(device.spec, row["ceiling"], row["dtype"], row["value"]):
            remarks.append(
                f"measured {_name(row)} is {1 - row['value'] / known.value:.0%} below the least that is known of this "
                f"device, {_amount(row, known.value)} ({known.source}): was it busy, or its clock or power limit low?"
            )
    return remarks


def _behind_memory(rows: list[Row]) -> list[str]:
    """Remark on caches that came out slower than memory: somebody else used the cores or the cache."""
    memory = {row["pattern"]: row["value"] for row in rows if row["level"] == "dram"}
    slow = [
        f"{row['level']} {row['pattern']} {_amount(row)}, memory {_amount(row, memory[row['pattern']])}"
        for row in rows
        if row["ceiling"] == "bandwidth" and row["level"] != "dram" and row["value"] < memory.get(row["pattern"], 0.0)
    ]
    return [f"measured bandwidth of a cache is below that of memory ({'; '.join(slow)}): was the device busy?"] * bool(
        slow
    )


_UNITS = {"byte/s": (1e9, "GB/s"), "FLOP/s": (1e12, "TFLOPS"), "op/s": (1e12, "Top/s"), "s": (1e-6, "us")}
"""Base unit -> unit for readers: its size in base units, and its name."""


def _amount(row: Row, value: float | None = None) -> str:
    """Write the value of a row, or another `value` in its unit."""
    size, name = _UNITS[row["unit"]]
    return f"{(row['value'] if value is None else value) / size:.4g} {name}"

"""Quick calibration: the ceilings of this device, measured with the same timers as the cells.

Bandwidth beyond and inside the last-level cache (bytes read plus written), GEMM peak per dtype on random data, and the
launch floor. Each is the best of a few short batches: a ceiling is what the device can do, not what it does on average.
"""

import math
import random
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import torch

from ..kernels.fourbit import cpu_library
from ..kernels.inputs import TORCH_DTYPES
from ..shapes.device import Device
from ..shapes.errors import RooflensError
from ..shapes.scheme import DType
from .cache import has_own_l2
from .timers import Timer, make_timer

Row = dict[str, Any]

FEWEST = 5

BUDGET_S = 0.25
"""Seconds for each ceiling."""

SPEC_TOLERANCE = 1.02
"""A measurement above this many times the published peak is wrong (cached data, a wrong table row) and not stored."""


def calibrate(device: Device, dtypes: Iterable[DType], timer_name: str) -> tuple[list[Row], list[str]]:
    """Measure the ceilings. Returns rows of ceilings.csv and remarks on what was refused."""
    timer = make_timer(timer_name, device, operations_per_sample=1)
    measured = [*_bandwidths(device, timer), *_peaks(device, timer, dtypes), _launch_floor(device, timer)]
    spec = _spec_rows(device)
    limits = {(row["ceiling"], row["level"], row["dtype"]): row["value"] for row in spec}
    kept, remarks = [], []
    for row in measured:
        limit = limits.get((row["ceiling"], row["level"], row["dtype"]))
        if limit and row["value"] > SPEC_TOLERANCE * limit:
            remarks.append(
                f"measured {row['ceiling']} {row['level']}{row['dtype']} of {row['value']:.4g} {row['unit']} "
                f"is above the published {limit:.4g}: not stored"
            )
        else:
            kept.append(row)
    return kept + spec, remarks


def _best_time(timer: Timer, launch: Callable[[], object]) -> float:
    """Fastest of at least `FEWEST` samples, and of as many as fit into `BUDGET_S`."""
    launch()
    pause = _pause if timer.name == "host" else lambda: None
    best, count, begin = math.inf, 0, time.perf_counter()
    while count < FEWEST or time.perf_counter() - begin < BUDGET_S:
        times = timer.batch(launch, pause, FEWEST).times_s
        best, count = min([best, *times]), count + len(times)
    return best


def _pause() -> None:
    """Wait for up to 2 ms. Without it, threads that meet at a barrier in every launch can fall into step with a busy
    neighbour's time slices, and then every sample waits for a whole slice (seen: 8 MiB in 4 ms instead of 40 us).
    """
    time.sleep(random.uniform(0.0, 2e-3))


def _row(ceiling: str, level: str, pattern: str, dtype: str, value: float, unit: str, source: str) -> Row:
    return {
        "ceiling": ceiling,
        "level": level,
        "pattern": pattern,
        "dtype": dtype,
        "value": value,
        "unit": unit,
        "kind": "measured",
        "source": source,
    }


def _bandwidths(device: Device, timer: Timer) -> Iterator[Row]:
    for level, footprint in _footprints(device).items():
        half = torch.ones(footprint // 8, dtype=torch.float32, device=device.torch_name)
        other = torch.empty_like(half)
        whole = torch.ones(footprint // 4, dtype=torch.float32, device=device.torch_name)
        reader, read = _reader(device, whole)
        patterns = (
            ("copy", "torch copy_", partial(other.copy_, half), 2 * half.nbytes),
            ("read", reader, read, whole.nbytes),
            ("write", "torch fill_", partial(whole.fill_, 2.0), whole.nbytes),
        )
        for pattern, how, launch, moved in patterns:
            rate = moved / _best_time(timer, launch)
            source = f"{how} over {footprint >> 20} MiB, best of {BUDGET_S} s, {timer.name} timer"
            yield _row("bandwidth", level, pattern, "", rate, "byte/s", source)


def _footprints(device: Device) -> dict[str, int]:
    """Bytes that stay in each level of the memory hierarchy, or surely do not fit into the one before."""
    sizes = {"dram": (8 if device.is_gpu else 4) * device.llc_bytes, "llc": device.llc_bytes // 4}
    return sizes | ({"l2": device.l2_bytes // 2} if has_own_l2(device) else {})


def _reader(device: Device, data: torch.Tensor) -> tuple[str, Callable[[], object]]:
    """The fastest plain read of `data` and its name: on the CPU our own, since torch.sum is bound by its additions."""
    if not device.is_gpu:
        with suppress(RooflensError):
            cpu_library.library()
            return "streaming read", partial(cpu_library.stream_read, data, torch.get_num_threads())
    total = torch.zeros((), dtype=torch.float32, device=device.torch_name)
    return "torch sum", partial(torch.sum, data, dim=0, out=total)


def _peaks(device: Device, timer: Timer, dtypes: Iterable[DType]) -> Iterator[Row]:
    m, n, k = (8192, 8192, 8192) if device.is_gpu else (512, 4096, 4096)
    for dtype in dtypes:
        a, b = (torch.randn(rows, k, device=device.torch_name).to(TORCH_DTYPES[dtype]) for rows in (m, n))
        out = torch.empty(m, n, dtype=a.dtype, device=device.torch_name)
        seconds = _best_time(timer, partial(torch.mm, a, b.t(), out=out))
        source = f"torch.mm {m}x{n}x{k}, random normal, best of {BUDGET_S} s, {timer.name} timer"
        yield _row("peak", "", "gemm", dtype.value, 2 * m * n * k / seconds, "FLOP/s", source)


def _launch_floor(device: Device, timer: Timer) -> Row:
    """Time of a launch that does next to nothing: one element written, through the same timer as the cells."""
    one = torch.zeros(1, device=device.torch_name)
    seconds = _best_time(timer, one.zero_)
    return _row("launch", "", "", "", seconds, "s", f"torch zero_ of one element, best, {timer.name} timer")


def _spec_rows(device: Device) -> list[Row]:
    spec = device.spec
    if spec is None:
        return []
    rows = []
    if spec.bandwidth_bytes_per_s:
        rows.append(_row("bandwidth", "dram", "", "", spec.bandwidth_bytes_per_s, "byte/s", spec.source))
    for dtype in DType:
        if peak := spec.peak_flops.get(dtype.value):
            rows.append(_row("peak", "", "gemm", dtype.value, peak, "FLOP/s", spec.source))
    return [row | {"kind": "spec"} for row in rows]

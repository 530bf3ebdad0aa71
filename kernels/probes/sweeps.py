"""Which sweeps over memory are tried for a level and a pattern; the fastest of them is what the device can do."""

from collections.abc import Iterator
from functools import partial

import torch

from ...shapes.device import Device
from ...shapes.errors import RooflensError
from . import cpu_probes
from .probe import Pattern, Probe

LEAST_S = 200e-6
"""How long a sweep inside a GPU's cache takes at least, so that its launch is a small part of it."""

CACHE_BYTES_PER_CLOCK = 64
"""Most that one multiprocessor or compute unit takes from its cache in a clock; sets the number of passes only."""

CLOCK_HZ = 2e9

CPU_PASSES = 8


def sweeps(device: Device, level: str, pattern: Pattern, data: torch.Tensor) -> Iterator[Probe]:
    """Yield ways to sweep over `data`: int32, contiguous, on `device`, as large as suits `level` (dram, llc or l2).

    What needs a compiler comes last, and may raise whatever that compiler raises.
    """
    if device.is_gpu:
        yield from _gpu_sweeps(device, level, pattern, data)
    else:
        yield from _cpu_sweeps(level, pattern, data)


def read_once(device: Device, data: torch.Tensor) -> Probe:
    """One pass of reads over `data` (as for `sweeps`), by our own kernel where it can be compiled, else by torch."""
    try:
        if not device.is_gpu:
            return cpu_probes.sweep(Pattern.READ, data, torch.get_num_threads())
        from .triton import streams

        order = streams.once(data.nbytes, streams.PROGRAMS_PER_UNIT[0] * device.compute_units)
        return streams.sweep(Pattern.READ, data, order, streams.cache_modifier(device))
    except (ImportError, RooflensError):
        return torch_sweep(Pattern.READ, data)


def _gpu_sweeps(device: Device, level: str, pattern: Pattern, data: torch.Tensor) -> Iterator[Probe]:
    if level == "dram":
        yield torch_sweep(pattern, data)
    from .triton import streams

    footprint = data.nbytes // 2 if pattern is Pattern.COPY else data.nbytes
    least_bytes = int(LEAST_S * CLOCK_HZ * CACHE_BYTES_PER_CLOCK * device.compute_units)
    for per_unit in streams.PROGRAMS_PER_UNIT:
        programs = per_unit * device.compute_units
        if level == "dram":
            order = streams.once(footprint, programs)
        else:
            order = streams.again_and_again(footprint, programs, least_bytes, stay=level == "l2")
        yield streams.sweep(pattern, data, order, streams.cache_modifier(device))


def _cpu_sweeps(level: str, pattern: Pattern, data: torch.Tensor) -> Iterator[Probe]:
    if pattern is not Pattern.READ:  # torch.sum is bound by its additions
        yield torch_sweep(pattern, data)
    threads = torch.get_num_threads()
    try:
        if level == "dram":
            yield cpu_probes.sweep(pattern, data, threads, streaming=pattern is not Pattern.READ)
        else:
            yield cpu_probes.sweep(pattern, data, threads, CPU_PASSES)
    except RooflensError:
        if pattern is not Pattern.READ:
            raise
        yield torch_sweep(pattern, data)


def torch_sweep(pattern: Pattern, data: torch.Tensor) -> Probe:
    """Bind torch's operation for `pattern`, one pass over `data`, contiguous int32; a copy uses its two halves."""
    size = f"{data.nbytes / 2**20:.4g} MiB"
    if pattern is Pattern.COPY:
        half = data.numel() // 2
        source, target = data[:half], data[half : 2 * half]
        return Probe(partial(target.copy_, source), source.nbytes + target.nbytes, f"torch copy_ of {size}")
    if pattern is Pattern.WRITE:
        return Probe(partial(data.fill_, 0x12345678), data.nbytes, f"torch fill_ of {size}")
    floats = data.view(torch.float32)
    total = torch.zeros((), dtype=torch.float32, device=data.device)
    run = partial(torch.sum, floats, dim=0, out=total)
    return Probe(run, data.nbytes, f"torch sum of {size}", operations=3)  # it may clear counters, and take two steps

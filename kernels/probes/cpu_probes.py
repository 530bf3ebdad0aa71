"""Probes of the CPU, by the C++ library of the 4-bit kernels. Everything here raises BuildError without a compiler."""

import torch

from ..fourbit.cpu_library import empty_call, stream_call
from .probe import Pattern, Probe

TILE_BYTES = 4096
"""What each thread reads in `tile_launch`."""


def sweep(pattern: Pattern, data: torch.Tensor, threads: int, passes: int = 1, streaming: bool = False) -> Probe:
    """Bind `passes` sweeps over `data`, contiguous, in one call; a copy uses its two halves.

    Each thread keeps to its own part, so that more passes measure the cache that holds it. `streaming` stores go to
    memory past the caches; a read has no use for it.
    """
    halves = data.view(torch.int64)[: data.nbytes // 128 * 16].view(2, -1)
    if pattern is Pattern.READ:
        call, moved = stream_call(data, None, threads, passes), data.nbytes
    elif pattern is Pattern.WRITE:
        call, moved = stream_call(None, data, threads, passes, streaming), data.nbytes
    else:
        call, moved = stream_call(halves[0], halves[1], threads, passes, streaming), halves.nbytes
    stores = " with streaming stores" if streaming else ""
    times = "once" if passes == 1 else f"{passes} times in one call"
    how = f"C++ {pattern} of {moved / 2**20:.4g} MiB{stores}, {times}, {threads} threads"
    return Probe(call, passes * moved, how)


def empty_launch() -> Probe:
    """Bind a call of a C function that returns at once."""
    return Probe(empty_call(), 0, "empty C++ call")


def tile_operand(threads: int) -> torch.Tensor:
    """Make what `tile_launch` reads: `TILE_BYTES` per thread."""
    return torch.arange(threads * TILE_BYTES // 4, dtype=torch.int32)


def tile_launch(operand: torch.Tensor, threads: int) -> Probe:
    """Bind the smallest parallel region: every thread of the team reads one tile. Its time is that of the team."""
    how = f"C++ region of {threads} threads, each reading {TILE_BYTES} bytes"
    return Probe(stream_call(operand, None, threads), operand.nbytes, how)

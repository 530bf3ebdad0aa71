"""Probes of the CPU, by its C++ library. Everything here raises BuildError without a compiler."""

import torch

from ..fourbit.cpu_library import Call
from .probe import Pattern, Probe

TILE_BYTES = 4096
"""What each thread reads in `tile_launch`."""

LINE_BYTES = 64
"""What is written is whole cache lines of this size."""


def sweep(pattern: Pattern, data: torch.Tensor, threads: int, passes: int = 1, streaming: bool = False) -> Probe:
    """Bind `passes` sweeps over `data`, contiguous, in one call; a copy uses its two halves.

    Each thread keeps to its own part, so that more passes measure the cache that holds it. `streaming` stores go to
    memory past the caches; a read has no use for it. The call returns the sum of all 64-bit words that were read.
    """
    lines = data.nbytes % LINE_BYTES == data.data_ptr() % LINE_BYTES == 0
    if not data.is_contiguous() or not (lines or pattern is Pattern.READ):
        raise ValueError(f"sweep: the data must be contiguous; if written, whole aligned lines of {LINE_BYTES} bytes")
    halves = data.view(torch.uint8)[: data.nbytes // 128 * 128].view(2, -1)
    operands = {Pattern.READ: (data, None), Pattern.WRITE: (None, data), Pattern.COPY: (halves[0], halves[1])}[pattern]
    length = halves[0].nbytes if pattern is Pattern.COPY else data.nbytes
    call = Call("sweep", *operands, length, passes, streaming, threads)
    moved = 2 * length if pattern is Pattern.COPY else length
    stores = " with streaming stores" if streaming else ""
    times = "once" if passes == 1 else f"{passes} times in one call"
    how = f"C++ {pattern} of {moved / 2**20:.4g} MiB{stores}, {times}, {threads} threads"
    return Probe(call, passes * moved, how)


def empty_launch() -> Probe:
    """Bind a call of a C function that returns at once."""
    return Probe(Call("lanes"), 0, "empty C++ call")


def tile_operand(threads: int) -> torch.Tensor:
    """Make what `tile_launch` reads: `TILE_BYTES` per thread."""
    return torch.arange(threads * TILE_BYTES // 4, dtype=torch.int32)


def tile_launch(operand: torch.Tensor, threads: int) -> Probe:
    """Bind the smallest parallel region: every thread of the team reads one tile. Its time is that of the team."""
    how = f"C++ region of {threads} threads, each reading {TILE_BYTES} bytes"
    return Probe(Call("sweep", operand, None, operand.nbytes, 1, False, threads), operand.nbytes, how)

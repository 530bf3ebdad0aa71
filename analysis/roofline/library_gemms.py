"""What a GEMM of cuBLAS takes at least, from the name of its kernel, whose machine code is not read."""

import json
import re

_NAME = re.compile(r"nvjet_sm90_tst_(\d+)x(\d+)_(\d+)x\d+_\w+")
"""Tile, step along K x steps in flight: nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT multiplies 16-bit operands in tiles of
64 x 8, 64 of K at a time. That the second pair are steps and their number shows in the shared memory: in all names of
the stored runs, (rows + columns) x step x 2 bytes x number is at most the 227 KiB that a workgroup can have."""

_ELEMENT_BYTES = 2

SHARED_BYTES_PER_CLOCK = 128
"""Of a multiprocessor of compute capability 9.0: 32 banks of 32 bits (CUDA C++ Programming Guide, "Shared Memory")."""


def library_gemms(kernels: str, contracted: int) -> tuple[int, float]:
    """Return how many kernels of a launch are such GEMMs, and the clocks that they pass through shared memory at least.

    `kernels` is the JSON list of their names, `contracted` the least size of K in any of them.

    Each runs one tile on some multiprocessor, however few or many there are. A warpgroup multiplies operands in shared
    memory (PTX ISA, "wgmma.mma_async"), so those of that tile are written there and read again: 2 (rows + columns) K
    elements, K padded to whole steps. A kernel that divides K has an unknown part of it, of which nothing is counted.
    """
    found = [(name, match) for name in json.loads(kernels or "[]") if (match := _NAME.match(name))]
    elements = 0
    for name, match in found:
        rows, columns, step = map(int, match.groups())
        elements += 0 if "splitK" in name else (rows + columns) * -(-contracted // step) * step
    return len(found), 2 * elements * _ELEMENT_BYTES / SHARED_BYTES_PER_CLOCK

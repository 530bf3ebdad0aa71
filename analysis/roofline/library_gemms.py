"""What a GEMM of cuBLAS takes at least, from the name of its kernel, whose machine code is not read."""

import json
import re

_NAME = re.compile(r"nvjet_sm90_(?:(qq)?tst|hsh)_(\d+)x(\d+)_(\d+)x\d+_\w+")
"""FP8 or not, tile, step along K x steps in flight: nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT multiplies bf16 operands
(hsh: fp16) in tiles of 64 x 8, 64 of K at a time. That the second pair are steps and their number shows in the shared
memory: in all names of the stored runs, (rows + columns) x step x bytes x number is at most the 227 KiB that a
workgroup has."""

_INSTRUCTION_ROWS = 64

SHARED_BYTES_PER_CLOCK = 128
"""Of a multiprocessor of compute capability 9.0: 32 banks of 32 bits (CUDA C++ Programming Guide, "Shared Memory")."""


def library_gemms(kernels: str, contracted: int) -> tuple[int, float]:
    """Return how many kernels of a launch are such GEMMs, and for how many clocks they read shared memory at least.

    `kernels` is the JSON list of their names, `contracted` the least size of K in any of them.

    Each runs one tile on some multiprocessor, however few or many there are. An instruction multiplies 64 rows with all
    columns of the tile, both in shared memory (PTX ISA, "wgmma.mma_async"): (rows + rows / 64 x columns) K elements, K
    padded to whole steps. Copies into shared memory take no turn of the reads (docs/measured-facts.md). A kernel that
    divides K has an unknown part of it, of which nothing is counted.
    """
    found = [(name, match) for name in json.loads(kernels or "[]") if (match := _NAME.match(name))]
    octets = 0
    for name, match in found:
        rows, columns, step = map(int, match.groups()[1:])
        if rows % _INSTRUCTION_ROWS:  # then the other side is that of an instruction's rows
            rows, columns = columns, rows
        read = rows + -(-rows // _INSTRUCTION_ROWS) * columns
        octets += 0 if "splitK" in name else (1 if match[1] else 2) * read * -(-contracted // step) * step
    return len(found), octets / SHARED_BYTES_PER_CLOCK

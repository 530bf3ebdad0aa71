"""Tile configurations of the Triton kernels, as data: by kernel, GPU family, width of the activations and range of M.

Rows were chosen from what the compiler emits (registers, spills, instructions per weight), not from timings. Sizes are
elements. SPLIT_K is computed, not listed: K is divided until the grid fills the device about twice.
"""

from collections.abc import Sequence
from dataclasses import replace

from ...shapes.device import Device
from ...shapes.gpu_architectures import architecture
from ...shapes.problem import Problem
from ...shapes.schemes.fourbit import FourBit
from ..jit.tiles import Tile, divided, fitting_stages, rows_for, with_undivided

FILL = 2
"""Programs per compute unit below which K is split."""

_Row = tuple[int, int, int, int, int, int]

# (largest M, BLOCK_M, BLOCK_N, BLOCK_K, warps, stages); the first row that fits is the default, the others candidates.
# simt: BLOCK_K = 8 elements per lane. A wave has 64 lanes on gfx9 (cdna), 32 elsewhere.
_TABLE: dict[tuple[str, str, int], tuple[_Row, ...]] = {
    ("simt_4bit", "cuda", 0): (
        (1, 1, 8, 1024, 4, 4), (1, 1, 4, 1024, 4, 4), (1, 1, 16, 1024, 4, 3),
        (2, 2, 8, 1024, 4, 4), (2, 2, 16, 1024, 4, 3),
        (4, 4, 8, 1024, 4, 3), (4, 4, 16, 1024, 4, 3),
        (0, 8, 8, 1024, 4, 3), (0, 4, 16, 1024, 4, 3)),
    ("simt_4bit", "cdna", 0): (
        (1, 1, 8, 1024, 2, 2), (1, 1, 4, 1024, 2, 2), (1, 1, 16, 1024, 2, 2),
        (2, 2, 8, 1024, 2, 2), (2, 2, 16, 1024, 2, 2),
        (4, 4, 4, 1024, 2, 2), (4, 4, 8, 1024, 2, 2), (0, 8, 4, 1024, 2, 2), (0, 4, 8, 1024, 2, 2)),
    ("simt_4bit", "rdna", 16): (
        (1, 1, 4, 1024, 4, 2), (1, 1, 8, 1024, 4, 2),
        (2, 2, 4, 1024, 4, 2), (2, 2, 8, 1024, 4, 2),
        (4, 4, 4, 1024, 4, 2), (4, 4, 8, 1024, 4, 2), (0, 8, 4, 1024, 4, 2), (0, 4, 8, 1024, 4, 2)),
    ("simt_4bit", "rdna", 32): (
        (1, 1, 4, 1024, 4, 2), (1, 1, 8, 1024, 4, 2),
        (2, 2, 4, 1024, 4, 2), (0, 4, 4, 1024, 4, 2), (0, 4, 2, 1024, 4, 2)),
    ("gemv_4bit", "cuda", 0): ((0, 1, 4, 1024, 4, 1),),
    ("gemv_4bit", "cdna", 0): ((0, 1, 4, 2048, 4, 1),),
    ("gemv_4bit", "rdna", 0): ((0, 1, 4, 1024, 4, 1),),
    ("gemv_4bit_opt", "cuda", 0): ((0, 1, 8, 1024, 4, 4), (0, 1, 4, 1024, 4, 4), (0, 1, 16, 1024, 4, 3)),
    ("gemv_4bit_opt", "cdna", 0): ((0, 1, 8, 1024, 2, 2), (0, 1, 4, 1024, 2, 2), (0, 1, 16, 1024, 2, 2)),
    ("gemv_4bit_opt", "rdna", 0): ((0, 1, 4, 1024, 4, 2), (0, 1, 8, 1024, 4, 2)),
    ("mma_4bit", "cuda", 16): (
        (16, 16, 64, 256, 4, 3), (16, 16, 64, 128, 4, 4),
        (32, 32, 64, 256, 4, 3), (64, 64, 128, 128, 8, 3), (0, 64, 128, 128, 8, 3), (0, 128, 128, 64, 8, 3)),
    ("mma_4bit", "cdna", 16): (
        (16, 16, 64, 128, 4, 2), (16, 16, 32, 256, 4, 2),
        (32, 32, 64, 128, 4, 2), (64, 64, 64, 64, 4, 2), (0, 128, 64, 64, 4, 2), (0, 64, 64, 64, 4, 2)),
    ("mma_4bit", "rdna", 16): ((16, 16, 64, 128, 4, 2), (32, 32, 64, 128, 4, 2), (0, 64, 64, 64, 4, 2)),
    ("mma_4bit", "cuda", 32): ((0, 16, 32, 64, 4, 3), (0, 32, 32, 64, 4, 3)),
    ("mma_4bit", "cdna", 32): ((0, 16, 64, 64, 4, 2), (0, 32, 64, 64, 4, 2)),
    ("mma_4bit", "rdna", 32): ((0, 16, 32, 64, 4, 2), (0, 32, 32, 64, 4, 2)),
    ("stock_triton", "cuda", 16): ((0, 64, 128, 64, 4, 3),),
    ("stock_triton", "cdna", 16): ((0, 64, 128, 64, 4, 2),),
    ("stock_triton", "rdna", 16): ((0, 64, 128, 32, 4, 2),),
    ("stock_triton", "cuda", 32): ((0, 64, 64, 32, 4, 3),),
    ("stock_triton", "cdna", 32): ((0, 64, 128, 32, 4, 2),),
    ("stock_triton", "rdna", 32): ((0, 64, 64, 32, 4, 2),),
}  # fmt: skip
"""(kernel, GPU family, bits of the activations; 0: any)"""

_BYTEWISE = {
    "simt_4bit": Tile(2, 4, 512, 4, 1),
    "gemv_4bit": Tile(1, 4, 512, 4, 1),
    "gemv_4bit_opt": Tile(1, 4, 512, 4, 1),
    "mma_4bit": Tile(16, 32, 64, 4, 1),
}
"""When K is not a multiple of 8, weights are read byte by byte: small tiles, no prefetch."""

SPLITTABLE = ("simt_4bit", "gemv_4bit_opt", "mma_4bit")
"""Kernels that can divide K among programs."""


def tile_configs(kernel: str, problem: Problem, scheme: FourBit, device: Device) -> Sequence[Tile]:
    """Return the configurations of `kernel` worth trying for a problem on a device, the default first, none twice."""
    if problem.K % 8 and kernel in _BYTEWISE:
        return (_BYTEWISE[kernel],)
    family, bits = architecture(device.arch).family, scheme.dtype.bytes * 8
    table = _TABLE.get((kernel, family, bits)) or _TABLE[kernel, family, 0]
    tiles = [Tile(*row[1:]) for row in rows_for(table, problem.M)]
    if kernel in SPLITTABLE:
        tiles = [divided(tile, _programs(problem, tile), problem.K, device, FILL) for tile in tiles]
    return with_undivided(replace(tile, stages=fitting_stages(tile.stages, device.arch)) for tile in tiles)


def _programs(problem: Problem, tile: Tile) -> int:
    return -(-problem.M // tile.block_m) * -(-problem.N // tile.block_n)

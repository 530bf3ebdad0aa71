"""Tile configurations of the Triton kernels, as data: one row per kernel, GPU family, activation width and range of M.

Rows were chosen from what the compiler emits (registers, spills, instructions per weight), not from timings. Sizes are
elements. SPLIT_K is computed, not listed: K is divided until the grid fills the device about twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...shapes.device import Device
from ...shapes.problem import Problem
from ...shapes.schemes.fourbit import FourBit
from ..arch import gpu_family

FILL = 2
"""Programs per compute unit below which K is split."""

MAX_SPLIT = 8
"""Most parts that K is divided into; every part costs an fp32 copy of the output."""


@dataclass(frozen=True, slots=True)
class TileConfig:
    """One way to run a kernel: tile sizes in elements, parts of K, warps, and stages of prefetching."""

    block_m: int
    block_n: int
    block_k: int
    warps: int
    stages: int
    split_k: int = 1

    def as_json(self) -> dict[str, Any]:
        """Return the plain mapping that is stored with a measurement."""
        return {
            "BLOCK_M": self.block_m,
            "BLOCK_N": self.block_n,
            "BLOCK_K": self.block_k,
            "SPLIT_K": self.split_k,
            "num_warps": self.warps,
            "num_stages": self.stages,
        }


@dataclass(frozen=True, slots=True)
class _Row:
    kernel: str
    family: str
    bits: int  # of the activations; 0: any
    max_m: int  # 0: any
    tile: TileConfig


def _rows(kernel: str, family: str, bits: int, *tiles: tuple[int, int, int, int, int, int]) -> list[_Row]:
    return [_Row(kernel, family, bits, tile[0], TileConfig(*tile[1:])) for tile in tiles]


# (largest M, BLOCK_M, BLOCK_N, BLOCK_K, warps, stages); the first row that fits is the default, the others candidates.
# simt: BLOCK_K = 8 elements per lane. A wave has 64 lanes on gfx9 (cdna), 32 elsewhere.
_TABLE: list[_Row] = [
    *_rows("simt_4bit", "cuda", 0,
           (1, 1, 8, 1024, 4, 4), (1, 1, 4, 1024, 4, 4), (1, 1, 16, 1024, 4, 3),
           (2, 2, 8, 1024, 4, 4), (2, 2, 16, 1024, 4, 3),
           (4, 4, 8, 1024, 4, 3), (4, 4, 16, 1024, 4, 3),
           (0, 8, 8, 1024, 4, 3), (0, 4, 16, 1024, 4, 3)),
    *_rows("simt_4bit", "cdna", 0,
           (1, 1, 8, 1024, 2, 2), (1, 1, 4, 1024, 2, 2), (1, 1, 16, 1024, 2, 2),
           (2, 2, 8, 1024, 2, 2), (2, 2, 16, 1024, 2, 2),
           (4, 4, 4, 1024, 2, 2), (4, 4, 8, 1024, 2, 2), (0, 8, 4, 1024, 2, 2), (0, 4, 8, 1024, 2, 2)),
    *_rows("simt_4bit", "rdna", 16,
           (1, 1, 4, 1024, 4, 2), (1, 1, 8, 1024, 4, 2),
           (2, 2, 4, 1024, 4, 2), (2, 2, 8, 1024, 4, 2),
           (4, 4, 4, 1024, 4, 2), (4, 4, 8, 1024, 4, 2), (0, 8, 4, 1024, 4, 2), (0, 4, 8, 1024, 4, 2)),
    *_rows("simt_4bit", "rdna", 32,
           (1, 1, 4, 1024, 4, 2), (1, 1, 8, 1024, 4, 2),
           (2, 2, 4, 1024, 4, 2), (0, 4, 4, 1024, 4, 2), (0, 4, 2, 1024, 4, 2)),
    *_rows("gemv_4bit", "cuda", 0, (0, 1, 4, 1024, 4, 1)),
    *_rows("gemv_4bit", "cdna", 0, (0, 1, 4, 2048, 4, 1)),
    *_rows("gemv_4bit", "rdna", 0, (0, 1, 4, 1024, 4, 1)),
    *_rows("gemv_4bit_opt", "cuda", 0, (0, 1, 8, 1024, 4, 4), (0, 1, 4, 1024, 4, 4), (0, 1, 16, 1024, 4, 3)),
    *_rows("gemv_4bit_opt", "cdna", 0, (0, 1, 8, 1024, 2, 2), (0, 1, 4, 1024, 2, 2), (0, 1, 16, 1024, 2, 2)),
    *_rows("gemv_4bit_opt", "rdna", 0, (0, 1, 4, 1024, 4, 2), (0, 1, 8, 1024, 4, 2)),
    *_rows("mma_4bit", "cuda", 16,
           (16, 16, 64, 256, 4, 3), (16, 16, 64, 128, 4, 4),
           (32, 32, 64, 256, 4, 3), (64, 64, 128, 128, 8, 3), (0, 64, 128, 128, 8, 3), (0, 128, 128, 64, 8, 3)),
    *_rows("mma_4bit", "cdna", 16,
           (16, 16, 64, 128, 4, 2), (16, 16, 32, 256, 4, 2),
           (32, 32, 64, 128, 4, 2), (64, 64, 64, 64, 4, 2), (0, 128, 64, 64, 4, 2), (0, 64, 64, 64, 4, 2)),
    *_rows("mma_4bit", "rdna", 16,
           (16, 16, 64, 128, 4, 2), (32, 32, 64, 128, 4, 2), (0, 64, 64, 64, 4, 2)),
    *_rows("mma_4bit", "cuda", 32, (0, 16, 32, 64, 4, 3), (0, 32, 32, 64, 4, 3)),
    *_rows("mma_4bit", "cdna", 32, (0, 16, 64, 64, 4, 2), (0, 32, 64, 64, 4, 2)),
    *_rows("mma_4bit", "rdna", 32, (0, 16, 32, 64, 4, 2), (0, 32, 32, 64, 4, 2)),
    *_rows("stock_triton", "cuda", 16, (0, 64, 128, 64, 4, 3)),
    *_rows("stock_triton", "cdna", 16, (0, 64, 128, 64, 4, 2)),
    *_rows("stock_triton", "rdna", 16, (0, 64, 128, 32, 4, 2)),
    *_rows("stock_triton", "cuda", 32, (0, 64, 64, 32, 4, 3)),
    *_rows("stock_triton", "cdna", 32, (0, 64, 128, 32, 4, 2)),
    *_rows("stock_triton", "rdna", 32, (0, 64, 64, 32, 4, 2)),
]  # fmt: skip

_BYTEWISE = {
    "simt_4bit": TileConfig(2, 4, 512, 4, 1),
    "gemv_4bit": TileConfig(1, 4, 512, 4, 1),
    "gemv_4bit_opt": TileConfig(1, 4, 512, 4, 1),
    "mma_4bit": TileConfig(16, 32, 64, 4, 1),
}
"""When K is not a multiple of 8, weights are read byte by byte: small tiles, no prefetch."""

_SMALL_SHARED = ("sm86", "sm89", "sm120", "sm121")
"""NVIDIA architectures with at most 99 KiB of shared memory per program: two stages of prefetching at most."""

SPLITTABLE = ("simt_4bit", "gemv_4bit_opt", "mma_4bit")
"""Kernels that can divide K among programs."""


def tile_configs(kernel: str, problem: Problem, scheme: FourBit, device: Device) -> Sequence[TileConfig]:
    """Return the configurations of `kernel` worth trying for a problem on a device, the default first, none twice."""
    bits = scheme.dtype.bytes * 8
    rows = [
        row
        for row in _TABLE
        if row.kernel == kernel and row.family == gpu_family(device.arch) and row.bits in (0, bits)
    ]
    bound = min((row.max_m for row in rows if row.max_m >= problem.M), default=0)
    if problem.K % 8 and kernel in _BYTEWISE:
        return (_BYTEWISE[kernel],)
    chosen: list[TileConfig] = []
    for row in rows:
        if row.max_m != bound:
            continue
        tile = _filled(row.tile, problem, device) if kernel in SPLITTABLE else row.tile
        chosen.append(replace(tile, stages=min(tile.stages, 2)) if device.arch in _SMALL_SHARED else tile)
    # Dividing K costs a pass over the parts: the undivided kernel is always worth a try.
    chosen += [replace(tile, split_k=1) for tile in chosen if tile.split_k > 1]
    return tuple(dict.fromkeys(chosen))


def _filled(tile: TileConfig, problem: Problem, device: Device) -> TileConfig:
    """Divide K in two until there are FILL programs per compute unit, at least two tiles of K each."""
    programs = -(-problem.M // tile.block_m) * -(-problem.N // tile.block_n)
    k_tiles = -(-problem.K // tile.block_k)
    split = 1
    while split < MAX_SPLIT and programs * split < FILL * device.compute_units and k_tiles >= 4 * split:
        split *= 2
    return replace(tile, split_k=split)

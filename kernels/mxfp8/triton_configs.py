"""Tile configurations of gemv_mx and mma_mx, as data: rows per provider, architecture or family, and range of M.

Rows were chosen from what the compiler emits (registers, spills, instructions per weight); those of mma_mx for
32 < M <= 64 on NVIDIA GPUs from all combinations of 32 and 64 rows, 64 and 128 columns, timed on an H200. Sizes are
elements. SPLIT_K is computed, not listed: K is divided as far as all programs still run at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...shapes.device import Device
from ...shapes.gpu_architectures import architecture
from ...shapes.problem import Problem
from ..jit.tiles import Tile, rows_for

FILL = 2
"""Programs per compute unit that K is divided for: all of them run at once."""

SMALL_FILL = 3
"""The same for small tiles (64 rows of W, 4 warps) on NVIDIA GPUs: at most 75 KiB of shared memory, 168 registers."""

MAX_SPLIT = 16
"""Most parts that K is divided into; every part costs an fp32 copy of the output."""

SCALED_COLUMNS = 16
"""Fewest columns of the second operand for which Triton (3.9) uses matrix units with block scales."""


@dataclass(frozen=True, slots=True)
class MxTile(Tile):
    """A tile of one of the kernels.

    kernel  "diagonal" (FP8 matrix units without scales), "scaled" (with scales), "bf16" (decoded to bf16), "vector"
    """

    kernel: str = ""

    def as_json(self, arch: str = "") -> dict[str, Any]:
        """Return the plain mapping that is stored with a measurement on `arch`."""
        config = {"kernel": self.kernel, **Tile.as_json(self)}
        if self.kernel == "scaled":
            config["emulated"] = emulated(arch, self.block_n, self.block_m)
        return config


def emulated(arch: str, rows: int, columns: int) -> bool:
    """Whether `tl.dot_scaled` of tiles [rows, K] and [K, columns] compiles to bf16 matrix instructions."""
    least = architecture(arch).scaled_rows
    return not least or rows < least or columns < SCALED_COLUMNS


_Row = tuple[int, str, int, int, int, int, int]

# (largest M, kernel, BLOCK_M, BLOCK_N, BLOCK_K, warps, stages); the first row of a range is its default.
# "diagonal" multiplies BLOCK_M * BLOCK_K / 32 columns; Triton 3.6 uses wgmma from 16 columns on, 3.9 from 8.
_TABLE: dict[str, dict[str, tuple[_Row, ...]]] = {
    "gemv_mx": {
        "cuda": (
            (1, "diagonal", 2, 64, 256, 4, 3), (1, "diagonal", 1, 64, 512, 4, 2), (1, "diagonal", 1, 64, 256, 4, 4),
            (1, "vector", 1, 8, 1024, 4, 3),
            (2, "diagonal", 2, 64, 256, 4, 3), (2, "diagonal", 2, 64, 512, 4, 2), (2, "vector", 2, 8, 1024, 4, 3),
            (4, "diagonal", 4, 64, 256, 4, 3), (4, "diagonal", 4, 64, 128, 4, 4),
            (8, "diagonal", 8, 64, 128, 4, 4), (8, "diagonal", 8, 128, 128, 4, 3),
            (16, "diagonal", 16, 64, 128, 4, 4), (16, "diagonal", 16, 128, 128, 4, 3),
        ),
        "sm100": (
            (1, "scaled", 16, 128, 256, 4, 3), (1, "scaled", 16, 128, 128, 4, 3), (1, "vector", 1, 8, 1024, 4, 3),
            (16, "scaled", 16, 128, 256, 4, 3), (16, "scaled", 16, 128, 128, 4, 3),
        ),
        "sm80": (
            (1, "vector", 1, 8, 1024, 4, 3), (1, "vector", 1, 4, 1024, 4, 3), (1, "bf16", 8, 64, 128, 4, 4),
            (2, "vector", 2, 8, 1024, 4, 3), (2, "bf16", 8, 64, 128, 4, 4),
            (8, "bf16", 8, 64, 128, 4, 4), (16, "bf16", 16, 64, 128, 4, 4),
        ),
        "gfx950": (
            (1, "vector", 1, 8, 1024, 4, 2), (1, "vector", 1, 4, 1024, 4, 2), (1, "scaled", 16, 64, 256, 4, 2),
            (2, "scaled", 16, 64, 256, 4, 2), (2, "scaled", 16, 32, 512, 4, 2), (2, "vector", 2, 8, 1024, 4, 2),
            (16, "scaled", 16, 64, 256, 4, 2), (16, "scaled", 16, 32, 512, 4, 2),
        ),
        "cdna": (
            (1, "vector", 1, 8, 1024, 4, 2), (1, "vector", 1, 4, 1024, 4, 2),
            (2, "vector", 2, 8, 1024, 4, 2), (2, "vector", 2, 4, 1024, 4, 2),
            (4, "vector", 4, 8, 1024, 4, 2), (4, "bf16", 16, 64, 128, 4, 2),
            (16, "bf16", 16, 64, 128, 4, 2), (16, "bf16", 16, 128, 128, 4, 2),
        ),
        "rdna": (
            (1, "vector", 1, 8, 512, 4, 2), (1, "vector", 1, 4, 512, 4, 2), (2, "vector", 2, 4, 512, 4, 2),
            (16, "vector", 4, 4, 512, 4, 2), (16, "bf16", 16, 64, 64, 4, 2),
        ),
    },
    "mma_mx": {
        "cuda": (
            (8, "bf16", 16, 64, 256, 4, 3), (8, "bf16", 16, 64, 128, 4, 4), (8, "diagonal", 8, 64, 128, 4, 4),
            (16, "bf16", 16, 64, 256, 4, 3), (16, "bf16", 16, 64, 128, 4, 4), (16, "diagonal", 16, 64, 128, 4, 4),
            (32, "bf16", 32, 128, 128, 8, 4), (32, "bf16", 32, 64, 128, 4, 4), (32, "diagonal", 32, 128, 64, 4, 4),
            (64, "bf16", 64, 64, 128, 4, 3), (64, "bf16", 64, 64, 256, 4, 3), (64, "bf16", 64, 128, 128, 4, 3),
        ),
        "sm100": (
            (16, "scaled", 16, 128, 256, 4, 3), (16, "scaled", 16, 128, 128, 4, 3),
            (32, "scaled", 32, 128, 128, 4, 3), (64, "scaled", 64, 128, 128, 4, 3),
        ),
        "sm80": (
            (8, "bf16", 8, 64, 128, 4, 4), (16, "bf16", 16, 64, 128, 4, 4), (32, "bf16", 32, 64, 128, 4, 3),
            (64, "bf16", 64, 128, 128, 8, 3),
        ),
        "gfx950": (
            (16, "scaled", 16, 64, 256, 4, 2), (16, "scaled", 16, 32, 512, 4, 2),
            (32, "scaled", 32, 64, 256, 4, 2), (32, "scaled", 32, 32, 256, 4, 2),
            (64, "scaled", 64, 64, 128, 4, 2), (64, "scaled", 64, 128, 128, 4, 2),
        ),
        "cdna": (
            (16, "bf16", 16, 64, 128, 4, 2), (16, "bf16", 16, 128, 128, 4, 2),
            (32, "bf16", 32, 64, 128, 4, 2), (64, "bf16", 64, 64, 64, 4, 2), (64, "bf16", 32, 64, 128, 4, 2),
        ),
        "rdna": (
            (16, "bf16", 16, 64, 64, 4, 2), (32, "bf16", 32, 64, 32, 4, 2), (64, "bf16", 32, 64, 32, 4, 2),
        ),
    },
}  # fmt: skip


def tiles(provider: str, problem: Problem, device: Device) -> Sequence[MxTile]:
    """Tiles of `provider` worth trying for a problem on a device, the default first, none twice.

    An M beyond the table, which `supports` declines, has the rows of the largest M.
    """
    rows = rows_for(architecture(device.arch).of(_TABLE[provider]), problem.M)
    listed = [MxTile(row[2], row[3], row[4], warps=row[5], stages=row[6], kernel=row[1]) for row in rows]
    chosen = [filled(tile, problem, device) for tile in listed]
    first = chosen[0]
    # Dividing K costs a pass over the parts: less of it, and none, are always worth a try.
    fewer = {parts(problem, first.block_k, max(1, first.split_k // 2)), 1} - {first.split_k}
    chosen += [replace(first, split_k=split) for split in sorted(fewer, reverse=True)]
    return tuple(dict.fromkeys(chosen))


def filled(tile: MxTile, problem: Problem, device: Device) -> MxTile:
    """Divide K, in whole tiles, as far as all programs still run at once; no part is empty."""
    programs = -(-problem.M // tile.block_m) * -(-problem.N // tile.block_n)
    small = tile.block_n <= 64 and tile.warps <= 4 and architecture(device.arch).family == "cuda"
    wanted = min((SMALL_FILL if small else FILL) * device.compute_units // programs, MAX_SPLIT)
    return replace(tile, split_k=parts(problem, tile.block_k, max(1, wanted)))


def parts(problem: Problem, block_k: int, wanted: int) -> int:
    """Most parts of K up to `wanted` of equally many tiles each, but for the last, which is not empty."""
    k_tiles = -(-problem.K // block_k)
    return -(-k_tiles // -(-k_tiles // min(wanted, k_tiles)))


def largest_m(provider: str) -> int:
    """Largest M of the provider's rows."""
    return max(row[0] for rows in _TABLE[provider].values() for row in rows)

"""How the MoE kernels run on each architecture: instructions, and tiles as data.

Rows were chosen from what the compiler emits (registers, no spills, instructions per weight), not from timings. On sm90
the main loop of grouped_moe takes 2.5 to 3.8 instructions per weight at 8 and 16 rows; one of tl.dot_scaled, which has
no such matrix instruction there, takes 6.7.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ...shapes.device import Device
from ...shapes.gpu_architectures import architecture
from ...shapes.problem import Problem
from ..jit.tiles import Tile, divided, rows_for, with_undivided
from .traffic import expected_blocks, mean_rows

FILL = 4
"""Programs per compute unit below which K is divided."""

GEMV_ROWS = 4
"""Rows of a block of gemv_moe."""


@dataclass(frozen=True, slots=True)
class Traits:
    """What an architecture wants: constants of the kernels of the same names (`triton.grouped`, `triton.tiles`).

    math "scaled" or "blocks"; decode "cvt" or "bits"; direct, words: how tiles and scales are addressed; isa "cdna"
    where the stores of a wave have to be waited for, else ""
    """

    math: str
    decode: str
    direct: bool
    words: bool
    isa: str


_TRAITS = {
    "gfx950": Traits("scaled", "cvt", direct=True, words=False, isa="cdna"),
    "cdna": Traits("blocks", "bits", direct=True, words=False, isa="cdna"),
    "rdna": Traits("blocks", "bits", direct=True, words=False, isa=""),
    "sm80": Traits("blocks", "bits", direct=False, words=True, isa=""),
    "cuda": Traits("blocks", "cvt", direct=False, words=True, isa=""),
}


def traits(arch: str) -> Traits:
    """Return what `arch` wants."""
    return architecture(arch).of(_TRAITS)


# family or architecture: (largest mean of rows per hit expert, BLOCK_M, BLOCK_N, BLOCK_K, warps, stages). The first row
# that fits is the default, the others of the same bound are candidates; 0: any.
_GROUPED: dict[str, tuple[tuple[int, int, int, int, int, int], ...]] = {
    "cuda": ((4, 8, 64, 256, 8, 3), (4, 8, 128, 128, 4, 3), (4, 8, 32, 256, 4, 4),
             (16, 16, 64, 128, 4, 3), (16, 16, 64, 256, 8, 3), (16, 8, 64, 256, 8, 3),
             (48, 32, 64, 128, 8, 3), (48, 16, 64, 128, 4, 3),
             (0, 64, 64, 128, 8, 3), (0, 32, 64, 128, 8, 3)),
    "gfx950": ((16, 16, 64, 256, 4, 2), (16, 16, 64, 512, 4, 2), (16, 16, 32, 256, 4, 2),
               (48, 32, 64, 256, 4, 2), (48, 16, 64, 256, 4, 2),
               (0, 64, 64, 256, 4, 2), (0, 64, 128, 256, 8, 2)),
    "cdna": ((16, 16, 64, 128, 4, 2), (16, 16, 32, 128, 4, 2),
             (0, 32, 64, 128, 4, 2), (0, 16, 64, 128, 4, 2)),
    "rdna": ((0, 16, 32, 128, 4, 2), (0, 16, 64, 128, 4, 2)),
}  # fmt: skip

# BLOCK_N, BLOCK_K, warps, stages
_GEMV: dict[str, tuple[tuple[int, int, int, int], ...]] = {
    "cuda": ((16, 512, 4, 3), (8, 512, 4, 4)),
    "cdna": ((8, 512, 4, 2), (16, 512, 4, 2)),
    "rdna": ((8, 512, 4, 2), (4, 512, 4, 2)),
}


def grouped_configs(problem: Problem, device: Device) -> Sequence[Tile]:
    """Configurations of the grouped kernel worth trying, the default first, none twice."""
    rows = rows_for(architecture(device.arch).of(_GROUPED), mean_rows(problem))
    tiles = [Tile(*row[1:]) for row in rows]
    return with_undivided(divided(tile, _programs(problem, tile), problem.K, device, FILL) for tile in tiles)


def _programs(problem: Problem, tile: Tile) -> float:
    return expected_blocks(problem, tile.block_m) * -(-problem.N // tile.block_n)


def gemv_configs(problem: Problem, device: Device) -> Sequence[Tile]:
    """Configurations of the GEMV kernel, the default first; BLOCK_K is halved where K is not a multiple of it."""
    chosen = []
    for block_n, block_k, warps, stages in architecture(device.arch).of(_GEMV):
        fitting = block_k // 2 if problem.K % block_k and problem.K % (block_k // 2) == 0 else block_k
        chosen.append(Tile(GEMV_ROWS, block_n, fitting, warps, stages))
    return tuple(chosen)

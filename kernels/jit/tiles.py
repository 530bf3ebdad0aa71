"""Tiles of GEMM kernels as values, their choice from tables, and the division of K among programs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from ...shapes.device import Device
from ...shapes.gpu_architectures import architecture
from ..provider import Config

MAX_SPLIT = 8
"""Most parts that `divided` divides K into; every part costs an fp32 copy of the output."""

Row = TypeVar("Row", bound=tuple[Any, ...])


@dataclass(frozen=True, slots=True)
class Tile:
    """One way to run a kernel: tile sizes in elements, warps, stages of prefetching, parts of K."""

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


def rows_for(table: Sequence[Row], size: float) -> list[Row]:
    """Return the rows with the least bound (their first entry) that is not below `size`.

    The bound 0 admits any size. Without it, sizes beyond the table have the rows of the largest bound.
    """
    bounds = {row[0] for row in table}
    bound = min((one for one in bounds if one >= size), default=0 if 0 in bounds else max(bounds))
    return [row for row in table if row[0] == bound]


def fitting_stages(stages: int, arch: str) -> int:
    """Stages of prefetching, two at most where shared memory is small."""
    return min(stages, 2) if architecture(arch).small_shared else stages


def divided(tile: Tile, programs: float, k: int, device: Device, fill: int) -> Tile:
    """Divide K in two until `programs` tiles are `fill` programs per compute unit; at least two tiles of K each."""
    k_tiles = -(-k // tile.block_k)
    split = 1
    while split < MAX_SPLIT and programs * split < fill * device.compute_units and k_tiles >= 4 * split:
        split *= 2
    return replace(tile, split_k=split)


def with_undivided(tiles: Iterable[Tile]) -> tuple[Tile, ...]:
    """Return the tiles, none twice, and those with a divided K once more without: parts cost a pass over them."""
    found = list(tiles)
    return tuple(dict.fromkeys([*found, *(replace(tile, split_k=1) for tile in found if tile.split_k > 1)]))


def compiler_options(config: Config) -> dict[str, int]:
    """Return the options of the compiler in a configuration."""
    return {name: int(config[name]) for name in ("num_warps", "num_stages")}

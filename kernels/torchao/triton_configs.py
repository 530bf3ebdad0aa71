"""Tiles of the Triton kernels, as data: one row per kernel and GPU family.

Rows were chosen from what the compiler emits (no spills, shared memory that fits). A GEMM tile steps 128 elements of
the contraction, a scaling group, so that BLOCK_M and BLOCK_N are all there is to choose.
"""

from typing import Any

from ...shapes.device import Device
from ...shapes.gpu_architectures import architecture
from ...shapes.schemes.torchao import BLOCK
from ..jit.tiled_gemm import GROUP_M
from ..jit.tiles import fitting_stages

Tile = tuple[int, int, int, int]
"""BLOCK_M, BLOCK_N, warps, stages of prefetching."""

_GEMM: dict[str, tuple[Tile, ...]] = {
    "cuda": ((128, 128, 8, 4), (128, 128, 8, 3), (64, 128, 4, 4), (128, 64, 4, 4), (64, 64, 4, 4)),
    "cdna": ((128, 128, 8, 2), (128, 128, 4, 2), (128, 64, 4, 2), (64, 64, 4, 2)),
    "rdna": ((64, 64, 4, 2), (128, 64, 8, 2)),
}
"""The first is the default of large problems, the last that of grids which would not fill the device otherwise."""

_UNALIGNED: Tile = (64, 32, 8, 1)
_ALIGNMENT = 16

_QUANTIZE: dict[str, tuple[tuple[int, int], ...]] = {
    "rows": ((64, 4), (32, 4), (128, 8), (16, 4)),
    "columns": ((64, 4), (128, 8), (32, 4)),
    "blocks": ((128, 8), (128, 4)),
}
"""Per kernel: rows (columns) of a tile whose other side is a group of 128, and warps."""

_QUANTIZE_WHOLE_CUDA: dict[str, tuple[tuple[int, int, int], ...]] = {
    "rows": ((64, 4, 0), (16, 4, 8), (32, 4, 8)),
    "columns": ((64, 2, 8), (64, 4, 4), (64, 4, 0)),
    "blocks": ((128, 4, 0), (128, 8, 8)),
}
"""The same for NVIDIA GPUs and tensors of whole groups, with VECTOR (`jit.quantizing`), by timings on an H200."""

_RAGGED: dict[str, tuple[tuple[int, int], ...]] = {"rows": ((16, 4), (32, 4)), "blocks": ((128, 16),)}
"""The same where the row length is not a multiple of 128."""


def gemm_configs(m: int, n: int, contraction: int, device: Device) -> list[dict[str, Any]]:
    """Tiles worth trying for an output [m,n], the default first; `contraction` is the length that both operands share.

    The default is the largest tile whose grid fills the device. Rows that do not begin at 16 bytes are read element by
    element, which takes registers: one small tile.
    """
    if contraction % _ALIGNMENT:
        return [_tile(_UNALIGNED, device)]
    rows = [_tile(tile, device) for tile in architecture(device.arch).of(_GEMM)]

    def fills(row: dict[str, Any]) -> bool:
        tiles: int = -(-m // row["BLOCK_M"]) * -(-n // row["BLOCK_N"])
        return tiles >= device.compute_units

    default = next((row for row in rows if fills(row)), min(rows, key=lambda row: row["BLOCK_M"] * row["BLOCK_N"]))
    ordered = [default, *(row for row in rows if row != default)]
    return [row for i, row in enumerate(ordered) if row not in ordered[:i]]


def _tile(tile: Tile, device: Device) -> dict[str, Any]:
    bm, bn, warps, stages = tile
    stages = fitting_stages(stages, device.arch)
    return {"BLOCK_M": bm, "BLOCK_N": bn, "GROUP_M": GROUP_M, "num_warps": warps, "num_stages": stages}


def quantize_configs(kernel: str, m: int, k: int, device: Device) -> list[dict[str, Any]]:
    """Tiles of a quantizer of `m` rows of `k` elements worth trying, the default first.

    Rows that do not end with a group are read element by element, which takes registers: large tiles would spill.
    """
    if architecture(device.arch).family == "cuda" and m % BLOCK == 0 and k % BLOCK == 0:
        return [
            {"BLOCK": block, "num_warps": warps, "VECTOR": vector, "NEWTON": 1}
            for block, warps, vector in _QUANTIZE_WHOLE_CUDA[kernel]
        ]
    tiles = _RAGGED.get(kernel, _QUANTIZE[kernel]) if k % BLOCK else _QUANTIZE[kernel]
    return [{"BLOCK": block, "num_warps": warps} for block, warps in tiles]

"""Tiles of the Triton kernels, as data: one row per kernel and GPU family.

Rows were chosen from what the compiler emits (no spills, shared memory that fits), the persistent one from timings on
an H200 as well. A GEMM tile steps 128 elements of the contraction, a scaling group, so that BLOCK_M and BLOCK_N are
all there is to choose.
"""

from collections.abc import Mapping
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

_PERSISTENT: dict[str, Tile] = {"sm90": (128, 128, 4, 3)}
"""The tile of the persistent kernel, which comes first where there is one."""

_WIDE_STAGES = 2
"""Stages where two such tiles are computed side by side: three would need more barriers than are safe, as
`fp8train.triton_configs` explains (`_SM90_NT`)."""

_PERSISTENT_DEPTH = 512
"""Least contracted length of the persistent kernel; `fp8train.triton_configs.PERSISTENT_DEPTH` says why."""

_WIDE_WAVES = 4
"""Least programs per multiprocessor for wide tiles to come first: with fewer, the last ones leave too much idle."""

_UNALIGNED: Tile = (64, 32, 8, 1)
_ALIGNMENT = 16

WIDE = 256
"""Columns of two tiles side by side."""

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


def gemm_configs(m: int, n: int, contraction: int, device: Device, *, wide: bool = True) -> list[dict[str, Any]]:
    """Tiles worth trying for an output [m,n], the default first; `contraction` is the length that both operands share.

    The default is the largest tile whose grid fills the device. Rows that do not begin at 16 bytes are read element by
    element, which takes registers: one small tile. `wide`: columns of 128 share their scales in some product.
    """
    if contraction % _ALIGNMENT:
        return [_tile(_UNALIGNED, device)]
    rows = [_tile(tile, device) for tile in architecture(device.arch).of(_GEMM)]
    if device.arch in _PERSISTENT and contraction >= _PERSISTENT_DEPTH:
        single = _tile(_PERSISTENT[device.arch], device) | {"PROGRAMS": device.compute_units}
        rows.insert(0, single)
        if wide and n % WIDE == 0:
            first = -(-m // single["BLOCK_M"]) * n // WIDE < _WIDE_WAVES * device.compute_units
            rows.insert(int(first), single | {"WIDE_STAGES": _WIDE_STAGES})

    def fills(row: dict[str, Any]) -> bool:
        tiles: int = -(-m // row["BLOCK_M"]) * -(-n // row["BLOCK_N"])
        return tiles >= device.compute_units

    default = next((row for row in rows if fills(row)), min(rows, key=lambda row: row["BLOCK_M"] * row["BLOCK_N"]))
    ordered = [default, *(row for row in rows if row != default)]
    return [row for i, row in enumerate(ordered) if row not in ordered[:i]]


def wgrad_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The tile of the weight gradient of experts: the same, with twice the warps of the persistent one."""
    return {**config, "num_warps": 8} if "PROGRAMS" in config else config


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

"""The FP8 product in CUDA C++ for sm90 (`matmul_fp8.cu`), for the providers of two families."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch

from ...shapes.device import Device
from ..geometry import Geometry
from ..libraries.nvrtc import Argument, Boxes
from ..provider import Config
from ..quantized import ScaledOperand
from .provider import SHARED_BYTES, LaunchPlan

SOURCES = ("../cuda/matmul_fp8.cu",)
"""From the folder of another package beside this one."""

HEADERS = ("sm90.cuh", "turns.cuh", "wgmma.cuh")

KERNEL = "matmul_fp8"

_DEPTH, _BOX = 128, 64
"""Of a stage; of what is stored of a tile at once."""


@dataclass(frozen=True, slots=True)
class _Tile:
    """Of Y; `w_lines` rows of W share scales."""

    rows: int
    columns: int
    w_lines: int

    @property
    def bytes(self) -> int:
        return 2 * self.rows * self.columns

    @property
    def stage_bytes(self) -> int:
        """Operands, two barriers, and scales."""
        return (self.rows + self.columns) * _DEPTH + 16 + 4 * (self.rows + self.columns // self.w_lines)


_TILES = {False: _Tile(128, 256, 128), True: _Tile(256, 128, 1)}
"""By whether each row of W has scales of its own."""

MOST_GROUPS = 2048
"""Of which a block knows the starts, 8 bytes each, beside `default_config`'s stages."""


def default_config(device: Device) -> Config:
    """One block per SM, with as many stages as fit."""
    stages = min((SHARED_BYTES - tile.bytes) // tile.stage_bytes for tile in _TILES.values())
    return {"STAGES": stages, "BLOCKS": device.compute_units}


def most_tiles(rows: int, columns: int, groups: int, *, by_row: bool) -> int:
    """Tiles of Y that so many rows in any groups have at most; of one group, exactly."""
    tile = _TILES[by_row]
    return (rows + groups * (tile.rows - 1)) // tile.rows * math.ceil(columns / tile.columns)


def launch_plan(
    a: ScaledOperand,
    b: ScaledOperand,
    out: torch.Tensor,
    config: Config,
    ends: torch.Tensor | None = None,
    *,
    by_row: bool = False,
) -> LaunchPlan:
    """Return the launch that computes out[R,C] = a[R,D] b[C,D]^T, in 16 bits; C is a multiple of 8, D of 16.

    a, b    in e4m3 or e5m2
    ends    int32 [E], ascending to R: the rows before each of them, in turn, are multiplied by a matrix of their own of
            b [E,C,D], whose scales follow each other, too
    by_row  each row of b has scales, not each 128 rows: [cd(D,128), C], those of a [cd(D,128), R], R, C multiples of 4;
            without `ends`
    """
    assert a.data.is_contiguous()
    assert b.data.is_contiguous()
    assert ends is None or (b.scale.is_contiguous() and ends.dtype is torch.int32 and not by_row)
    tile = _TILES[by_row]
    (rows, depth), columns, groups = a.data.shape, out.shape[1], 1 if ends is None else len(ends)
    if by_row:  # what bulk copies take
        assert rows % 4 == columns % 4 == 0
        assert all(one.scale_line == 1 and one.scale_depth % 4 == one.scale.data_ptr() % 16 == 0 for one in (a, b))
    arguments: list[Argument] = [
        Boxes(a.data.view(torch.uint8), (depth, rows), (depth,), (_DEPTH, tile.rows)),
        Boxes(b.data.view(torch.uint8), (depth, groups * columns), (depth,), (_DEPTH, tile.columns)),
        Boxes(out, (columns, rows), (2 * columns,), (_BOX, _BOX)),
        *(out, a.scale, b.scale, a.scale_line, a.scale_depth, b.scale_line, b.scale_depth),
        *(ends, groups, rows, columns, depth),
    ]
    constants = {"STAGES": config["STAGES"], "TILES": 8, "GROUPED": int(ends is not None), "BY_ROW": int(by_row)}
    constants |= {"FP16": int(out.dtype is torch.float16), "A_E5M2": _is_e5m2(a.data), "B_E5M2": _is_e5m2(b.data)}
    grid = min(most_tiles(rows, columns, groups, by_row=by_row), config["BLOCKS"])
    shared = config["STAGES"] * tile.stage_bytes + tile.bytes + (8 * (groups + 1) if ends is not None else 0)
    return LaunchPlan(constants, grid, 384, shared, arguments)


def geometry(plan: LaunchPlan, groups: Iterable[int], columns: int, depth: int) -> Geometry:
    """Whole tiles, which blocks take in turns; `groups`: rows of each."""
    tile = _TILES[bool(plan.constants["BY_ROW"])]
    tiles = sum(math.ceil(rows / tile.rows) for rows in groups) * math.ceil(columns / tile.columns)
    flops = 2 * tiles * tile.rows * tile.columns * math.ceil(depth / _DEPTH) * _DEPTH
    return Geometry(tile.rows, tile.columns, min(tiles, plan.grid), plan.resident, flops)


def _is_e5m2(data: torch.Tensor) -> int:
    assert data.dtype in (torch.float8_e4m3fn, torch.float8_e5m2)
    return int(data.dtype is torch.float8_e5m2)

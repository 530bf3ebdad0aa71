"""The FP8 product in CUDA C++ for sm90 (`matmul_fp8.cu`), for the providers of two families."""

import math
from collections.abc import Iterable

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

_ROWS, _COLUMNS, _DEPTH, _BOX = 128, 256, 128, 64
"""Of a tile of Y; of a stage; of what is stored of a tile at once."""

_Y_BYTES = 2 * _ROWS * _COLUMNS
_STAGE_BYTES = (_ROWS + _COLUMNS) * _DEPTH + 16 + 4 * (_ROWS + _COLUMNS // 128)
"""With two barriers, and scales."""

MOST_GROUPS = 2048
"""Of which a block knows the starts, 8 bytes each, beside `default_config`'s stages."""


def default_config(device: Device) -> Config:
    """One block per SM, with as many stages as fit."""
    return {"STAGES": (SHARED_BYTES - _Y_BYTES) // _STAGE_BYTES, "BLOCKS": device.compute_units}


def launch_plan(
    a: ScaledOperand, b: ScaledOperand, out: torch.Tensor, config: Config, ends: torch.Tensor | None = None
) -> LaunchPlan:
    """Return the launch that computes out[R,C] = a[R,D] b[C,D]^T, in 16 bits; C is a multiple of 8, D of 16.

    ends  int32 [E], ascending to R: the rows before each of them, in turn, are multiplied by a matrix of their own of
          b [E,C,D], whose scales follow each other, too
    """
    assert a.data.is_contiguous()
    assert b.data.is_contiguous()
    assert ends is None or (b.scale.is_contiguous() and ends.dtype is torch.int32)
    (rows, depth), columns, groups = a.data.shape, out.shape[1], 1 if ends is None else len(ends)
    arguments: list[Argument] = [
        Boxes(a.data.view(torch.uint8), (depth, rows), (depth,), (_DEPTH, _ROWS)),
        Boxes(b.data.view(torch.uint8), (depth, groups * columns), (depth,), (_DEPTH, _COLUMNS)),
        Boxes(out, (columns, rows), (2 * columns,), (_BOX, _BOX)),
        *(out, a.scale, b.scale, a.scale_line, a.scale_depth, b.scale_line, b.scale_depth),
        *(ends, groups, rows, columns, depth),
    ]
    constants = {"STAGES": config["STAGES"], "TILES": 8, "GROUPED": int(ends is not None)}
    if out.dtype == torch.float16:
        constants["FP16"] = 1
    most = rows // _ROWS + groups if ends is not None else math.ceil(rows / _ROWS)
    grid = min(most * math.ceil(columns / _COLUMNS), config["BLOCKS"])
    shared = config["STAGES"] * _STAGE_BYTES + _Y_BYTES + (8 * (groups + 1) if ends is not None else 0)
    return LaunchPlan(constants, grid, 384, shared, arguments)


def geometry(plan: LaunchPlan, groups: Iterable[int], columns: int, depth: int) -> Geometry:
    """Whole tiles, which blocks take in turns; `groups`: rows of each."""
    tiles = sum(math.ceil(rows / _ROWS) for rows in groups) * math.ceil(columns / _COLUMNS)
    flops = 2 * tiles * _ROWS * _COLUMNS * math.ceil(depth / _DEPTH) * _DEPTH
    return Geometry(_ROWS, _COLUMNS, min(tiles, plan.grid), plan.resident, flops)

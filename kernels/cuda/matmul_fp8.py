"""The FP8 product in CUDA C++ for sm90 (`matmul_fp8.cu`), for the providers of two families."""

import math

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
_STAGE_BYTES = (_ROWS + _COLUMNS) * _DEPTH + 16
"""With two barriers."""


def default_config(device: Device) -> Config:
    """One block per SM, with as many stages as fit."""
    return {"STAGES": (SHARED_BYTES - _Y_BYTES) // _STAGE_BYTES, "BLOCKS": device.compute_units}


def launch_plan(a: ScaledOperand, b: ScaledOperand, out: torch.Tensor, config: Config) -> LaunchPlan:
    """Return the launch that computes out[R,C] = a[R,D] b[C,D]^T, in bf16; C is a multiple of 8, D of 16."""
    (rows, depth), columns = a.data.shape, out.shape[1]
    arguments: list[Argument] = [
        Boxes(a.data.view(torch.uint8), (depth, rows), (depth,), (_DEPTH, _ROWS)),
        Boxes(b.data.view(torch.uint8), (depth, columns), (depth,), (_DEPTH, _COLUMNS)),
        Boxes(out, (columns, rows), (2 * columns,), (_BOX, _BOX)),
        *(a.scale, b.scale, a.scale_line, a.scale_depth, b.scale_line, b.scale_depth),
        *(rows, columns, depth),
    ]
    stages = config["STAGES"]
    grid = min(math.ceil(rows / _ROWS) * math.ceil(columns / _COLUMNS), config["BLOCKS"])
    return LaunchPlan({"STAGES": stages, "TILES": 8}, grid, 384, stages * _STAGE_BYTES + _Y_BYTES, arguments)


def geometry(plan: LaunchPlan, a: ScaledOperand, out: torch.Tensor) -> Geometry:
    """Whole tiles, which blocks take in turns."""
    rows, columns = (math.ceil(size / tile) * tile for size, tile in zip(out.shape, (_ROWS, _COLUMNS), strict=True))
    flops = 2 * rows * columns * math.ceil(a.data.shape[1] / _DEPTH) * _DEPTH
    return Geometry(tile_M=_ROWS, tile_N=_COLUMNS, workgroups=plan.grid, resident=plan.resident, issued_flops=flops)

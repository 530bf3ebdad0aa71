"""cuda_a16w8: large products of 16-bit activations and FP8 weights in CUDA C++ for sm90 (`matmul.cu`)."""

import math
from collections.abc import Sequence

import torch

from ...shapes.device import Device
from ...shapes.problem import Problem
from ...shapes.schemes.a16w8 import A16W8
from ..cuda.provider import SHARED_BYTES, CudaGemm, LaunchPlan
from ..geometry import Geometry
from ..libraries.nvrtc import Argument, Boxes
from ..needs import WRITTEN_FOR_SM90
from ..provider import Config, Support
from .inputs import A16W8Inputs

_ROWS, _STEP = 128, 64
"""Rows of W in a tile, and columns of W and X in a stage."""

_FEWEST_ROWS = 65
"""Of X: the smaller tile has 128."""

_COSTS = {256: 1.0, 128: 0.68}
"""Time of a tile by its rows of X, over that of the larger."""


class CudaA16W8(CudaGemm[A16W8, A16W8Inputs]):
    """Weights are decoded in registers while the stage before is multiplied."""

    name = "cuda_a16w8"
    family = "a16w8"
    sources = ("matmul.cu",)
    headers = ("sm90.cuh", "turns.cuh", "wgmma_16.cuh")
    kernel = "matmul_a16w8"

    def supports(self, problem: Problem, scheme: A16W8, device: Device) -> Support:
        """On sm90, from 65 rows of X, N in multiples of 8 and K of 16."""
        if device.arch != "sm90":
            return Support.no(WRITTEN_FOR_SM90)
        if scheme.prequant:
            return Support.no("multiplies in 16 bits: activations must not be rounded to FP8")
        if problem.M < _FEWEST_ROWS:
            return Support.no(f"takes {_FEWEST_ROWS} rows of X and more")
        if problem.N % 8 or problem.K % 16:
            return Support.no(f"N={problem.N} must be a multiple of 8, K={problem.K} of 16")
        return Support.yes()

    def candidates(self, problem: Problem, scheme: A16W8, device: Device) -> Sequence[Config]:
        """Both sizes of tiles, with as many stages as fit; first the one estimated to finish sooner."""
        units = device.compute_units
        sizes = sorted(_COSTS, key=lambda columns: math.ceil(_tiles(problem, columns) / units) * _COSTS[columns])
        return [
            {"COLUMNS": columns, "STAGES": (SHARED_BYTES - _y_bytes(columns)) // _stage_bytes(columns), "BLOCKS": units}
            for columns in sizes
        ]

    def plan(self, inputs: A16W8Inputs, output: torch.Tensor, config: Config) -> LaunchPlan:
        """Return the launch that writes `output`, [B,M,N]."""
        problem, fp16, columns = inputs.problem, inputs.dtype == torch.float16, config["COLUMNS"]
        b, m, n, k = problem.B, problem.M, problem.N, problem.K
        arguments: list[Argument] = [
            Boxes(inputs.q.view(torch.uint8), (k, n, b), (k, n * k), (_STEP, _ROWS, 1)),
            Boxes(inputs.x, (k, m, b), (2 * k, 2 * m * k), (_STEP, columns, 1)),
            inputs.scale,
            _factors(inputs.scale),
            inputs.bias,
            output,
            *(b, m, n, k),
        ]
        constants = {"COLUMNS": columns, "STAGES": config["STAGES"], "FP16": int(fp16)}
        shared = config["STAGES"] * _stage_bytes(columns) + _y_bytes(columns)
        return LaunchPlan(constants, min(_tiles(problem, columns), config["BLOCKS"]), 384, shared, arguments)

    def geometry(self, inputs: A16W8Inputs, config: Config, plan: LaunchPlan) -> Geometry:
        """Whole tiles, which blocks take in turns."""
        problem, columns = inputs.problem, config["COLUMNS"]
        weights = _tiles(problem, columns) * _ROWS * 128 * math.ceil(problem.K / 128)
        return Geometry(
            tile_M=columns,
            tile_N=_ROWS,
            workgroups=plan.grid,
            resident=plan.resident,
            issued_flops=2 * columns * weights,
            decoded_weights=weights,
        )


CUDA_A16W8 = CudaA16W8()


def _factors(scale: torch.Tensor) -> torch.Tensor:
    """Powers of two, fp32 [B, tiles of W], that no scale of a tile exceeds: scales are multiplied in 16 bits."""
    # The kernel multiplies by 2^-7 times a factor, too: both are normal numbers.
    exponents = torch.frexp(scale.amax(dim=-1)).exponent.clamp(-119, 127)
    return ((exponents + 127) << 23).view(torch.float32)


def _tiles(problem: Problem, columns: int) -> int:
    """Tiles with `columns` rows of X, of all matrices."""
    return problem.B * math.ceil(problem.M / columns) * math.ceil(problem.N / _ROWS)


def _stage_bytes(columns: int) -> int:
    """Of W in 8 bits and X in 16, and of two barriers."""
    return (_ROWS + 2 * columns) * _STEP + 16


def _y_bytes(columns: int) -> int:
    return 2 * _ROWS * columns

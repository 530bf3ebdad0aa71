"""cuda_mx: the product of two MX-FP8 matrices in CUDA C++ for sm90, compiled at run time (`matmul.cu`)."""

import math
from collections.abc import Sequence

import torch

from ...shapes.device import Device
from ...shapes.problem import Op, Problem
from ...shapes.schemes.mxfp8 import BLOCK, MxFp8
from ..cuda.provider import SHARED_BYTES, LaunchPlan
from ..cuda.stream_k import (
    StreamKGemm,
    divided,
    grids,
    in_steps,
    scratch,
    tiles_and_steps,
    worth_trying,
)
from ..libraries.nvrtc import Argument, Boxes
from ..provider import Config, Support
from .inputs import MxFp8Inputs

_STEP = 128
"""Columns in a stage."""

_ROWS = 64
"""Of W in a tile; 128 were as fast or slower."""

_STEP_US: dict[tuple[int, int], dict[int, float]] = {
    (2, 1): {8: 0.257, 16: 0.271, 32: 0.278, 64: 0.409},
    (1, 2): {64: 0.46},
}
"""Microseconds of a step, by the parts of its columns (SPLIT), the blocks that an SM holds (RESIDENT), and columns of
the sums: M, rounded up to one here. Fitted, with what `estimated_us` adds, to cold launches on an
H200 (docs/results/h200-stream-k).
"""

_LAUNCH_US = 5.62
"""What a launch takes apart from steps and shared tiles."""


class CudaMx(StreamKGemm[MxFp8, MxFp8Inputs]):
    """Up to 64 rows of X, on the FP8 matrix units; products of 32 columns are scaled and added up in fp32."""

    name = "cuda_mx"
    family = "mxfp8"
    op = Op.GEMM
    sources = ("matmul.cu",)
    headers = ("sm90.cuh", "stream_k.cuh", "wgmma.cuh")
    kernel = "matmul_mx"
    step = _STEP
    decodes = False

    def supports(self, problem: Problem, scheme: MxFp8, device: Device) -> Support:
        """K a multiple of 128, sm90."""
        if not (general := super().supports(problem, scheme, device)).ok:
            return general
        if problem.K % _STEP:
            return Support.no(f"K={problem.K} must be a multiple of {_STEP}")
        return Support.yes()

    def candidates(self, problem: Problem, scheme: MxFp8, device: Device) -> Sequence[Config]:
        """Parts of a step and numbers of blocks, by estimated time."""
        m = problem.M
        tiles, steps = tiles_and_steps(problem, _ROWS, _STEP)
        return worth_trying(
            (
                estimated_us(problem, split, resident, blocks),
                {
                    "ROWS": _ROWS,
                    "SPLIT": split,
                    "RESIDENT": resident,
                    "STAGES": _stages(split, resident, m),
                    "BLOCKS": blocks,
                },
            )
            for (split, resident), times in _STEP_US.items()
            if _columns(m) in times
            for blocks in sorted(_grids(tiles, steps, device.compute_units * resident))
        )

    def plan(self, inputs: MxFp8Inputs, output: torch.Tensor, config: Config) -> LaunchPlan:
        """Return the launch that writes `output`, [M,N]."""
        problem, rows = inputs.problem, config["ROWS"]
        m, n, k = problem.M, problem.N, problem.K
        tiles, steps = tiles_and_steps(problem, rows, _STEP)
        grid, columns = min(config["BLOCKS"], tiles * steps), _columns(m)
        arguments: list[Argument] = [
            Boxes(inputs.w.view(torch.uint8), (k, n), (k,), (_STEP, rows)),
            Boxes(inputs.x.view(torch.uint8), (k, m), (k,), (_STEP, m)),
            in_steps(inputs.w_scale, rows, _STEP // BLOCK),
            inputs.x_scale,
            output,
            *scratch(grid, rows, columns, output.device),
            m,
            n,
            divided(tiles, steps, grid),
        ]
        constants = {name: config[name] for name in ("ROWS", "STAGES", "SPLIT", "RESIDENT")} | {
            "TILES": columns // 8,
            "FP16": 0,
        }
        shared = config["STAGES"] * (_stage_bytes(rows, m) + 24) + _sum_bytes(rows, config["SPLIT"], m)
        return LaunchPlan(constants, grid, 2 * rows * config["SPLIT"] + 64, shared, arguments, config["RESIDENT"])

    def part_columns(self, problem: Problem, scheme: MxFp8) -> int:
        """All of a tile."""
        return _columns(problem.M)

    def operand_bytes(self, problem: Problem, scheme: MxFp8) -> int:
        """Those of the problem: W, X, their scales and Y."""
        return scheme.compulsory_bytes(problem)

    def math_dtype(self, problem: Problem, scheme: MxFp8, device: Device) -> str:
        """Matrix units that do not know the scales."""
        return "fp8"


CUDA_MX = CudaMx()


def estimated_us(problem: Problem, split: int, resident: int, blocks: int) -> float:
    """Return how long it takes, in us: the last block of a shared tile adds up the others' parts."""
    tiles, steps = tiles_and_steps(problem, _ROWS, _STEP)
    us = _LAUNCH_US + math.ceil(tiles * steps / blocks) * _STEP_US[split, resident][_columns(problem.M)]
    if tiles % blocks:
        others = math.ceil(blocks / tiles) - (blocks % tiles == 0)
        us += 0.797 + (1.149 * resident + 0.23 * others) * _columns(problem.M) / 64
    return us


def _grids(tiles: int, steps: int, slots: int) -> set[int]:
    """Blocks that fill the device, and those that divide tiles evenly: few that share one have less to add up."""
    even = {tiles * each for each in range(1, min(steps, slots // tiles) + 1)}
    return grids(tiles, steps, slots) | even


def _columns(m: int) -> int:
    """Columns of a tile, rows of X: 8, 16, 32 or 64."""
    return 8 << (math.ceil(m / 8) - 1).bit_length()


def _stages(split: int, resident: int, m: int) -> int:
    """As many as fit, 16 at most. The system takes 1 KB of each block."""
    return min(
        16, ((SHARED_BYTES + 1024) // resident - 1024 - _sum_bytes(_ROWS, split, m)) // (_stage_bytes(_ROWS, m) + 24)
    )


def _stage_bytes(rows: int, m: int) -> int:
    """Of the operands, their scales, 4 for each row, and those of X in fp32."""
    used = (rows + _columns(m)) * (_STEP + _STEP // BLOCK) + _columns(m) * 4 * _STEP // BLOCK
    return math.ceil(used / 1024) * 1024


def _sum_bytes(rows: int, split: int, m: int) -> int:
    """Where both parts of the columns are added up."""
    return 4 * rows * _columns(m) * (split - 1)

"""cuda_mx: the product of two MX-FP8 matrices in CUDA C++ for sm90, compiled at run time (`matmul.cu`)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from ...shapes.device import Device
from ...shapes.problem import Op, Problem
from ...shapes.schemes.mxfp8 import BLOCK, MxFp8
from ..cuda.provider import SHARED_BYTES, LaunchPlan
from ..cuda.stream_k import StreamKGemm, divided, grids, in_steps, scratch, tiles_and_steps, worth_trying
from ..libraries.nvrtc import Argument, Boxes
from ..provider import Config, Support
from .inputs import MxFp8Inputs

_STEP = 128
"""Columns in a stage."""

_A_ROWS = 64
"""Of one operand of the matrix units."""

_ROWS_OF_X = 32
"""Up to which X is the operand of fewer rows, and W that of 64: see `matmul.cu`."""

_B_ROWS = range(16, 64, 8)
"""Of W in a tile, where X is the operand of 64."""


@dataclass(frozen=True, slots=True)
class Times:
    """Microseconds, fitted to cold launches on an H200 (docs/results/h200-stream-k).

    launch   what a launch takes apart from steps and shared tiles
    steps    a step, by rows of the smaller operand
    shared   where tiles are shared, for each 64 x 64 elements of one
    other    as much, for each block that leaves a part of a tile
    uneven   where blocks do not divide tiles evenly
    """

    launch: float
    steps: Mapping[int, float]
    shared: float
    other: float
    uneven: float


_W_AS_A = Times(2.548, {8: 0.217, 16: 0.23, 32: 0.267}, 1.82, 0.541, 0.654)
"""With two parts of the columns of a step (SPLIT)."""

_X_AS_A = Times(3.778, {rows: 0.156 + 0.004 * rows for rows in _B_ROWS}, 4.648, 0.33, 1.097)
"""With two blocks per SM (RESIDENT)."""


class CudaMx(StreamKGemm[MxFp8, MxFp8Inputs]):
    """Up to 64 rows of X, on the FP8 matrix units; products of 32 columns are scaled and added up in fp32."""

    name = "cuda_mx"
    family = "mxfp8"
    op = Op.GEMM
    sources = ("matmul.cu",)
    headers = ("sm90.cuh", "stream_k.cuh", "wgmma.cuh")
    kernel = "matmul_mx"
    step = _STEP
    least_rows = _B_ROWS[0]
    decodes = False

    def supports(self, problem: Problem, scheme: MxFp8, device: Device) -> Support:
        """K a multiple of 128, sm90."""
        if not (general := super().supports(problem, scheme, device)).ok:
            return general
        if problem.K % _STEP:
            return Support.no(f"K={problem.K} must be a multiple of {_STEP}")
        return Support.yes()

    def candidates(self, problem: Problem, scheme: MxFp8, device: Device) -> Sequence[Config]:
        """Tiles and numbers of blocks, by estimated time."""
        m = problem.M
        split, resident = (1, 2) if _x_is_a(m) else (2, 1)
        return worth_trying(
            (
                estimated_us(problem, rows, blocks),
                {
                    "ROWS": rows,
                    "SPLIT": split,
                    "RESIDENT": resident,
                    "STAGES": _stages(split, resident, rows, m),
                    "BLOCKS": blocks,
                },
            )
            for rows in (_B_ROWS if _x_is_a(m) else (_A_ROWS,))
            for blocks in sorted(_grids(*tiles_and_steps(problem, rows, _STEP), device.compute_units * resident))
        )

    def plan(self, inputs: MxFp8Inputs, output: torch.Tensor, config: Config) -> LaunchPlan:
        """Return the launch that writes `output`, [M,N]."""
        problem, rows, split = inputs.problem, config["ROWS"], config["SPLIT"]
        m, n, k = problem.M, problem.N, problem.K
        assert rows in (range(8, _A_ROWS + 1, 8) if _x_is_a(m) else (_A_ROWS,))
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
        constants = {name: config[name] for name in ("STAGES", "SPLIT", "RESIDENT")} | {
            "X_IS_A": int(_x_is_a(m)),
            "TILES": _b_rows(rows, m) // 8,
            "FP16": 0,
        }
        shared = config["STAGES"] * (_stage_bytes(rows, m) + 24) + _sum_bytes(split, rows, m)
        return LaunchPlan(constants, grid, 128 * split + 64, shared, arguments, config["RESIDENT"])

    def columns(self, problem: Problem) -> int:
        """8, 16, 32 or 64."""
        return _columns(problem.M)

    def operand_bytes(self, problem: Problem, scheme: MxFp8) -> int:
        """Those of the problem: W, X, their scales and Y."""
        return scheme.compulsory_bytes(problem)

    def math_dtype(self, problem: Problem, scheme: MxFp8, device: Device) -> str:
        """Matrix units that do not know the scales."""
        return "fp8"


CUDA_MX = CudaMx()


def estimated_us(problem: Problem, rows: int, blocks: int) -> float:
    """Return how long it takes, in us: the last block of a shared tile adds up the others' parts."""
    times = _X_AS_A if _x_is_a(problem.M) else _W_AS_A
    tiles, steps = tiles_and_steps(problem, rows, _STEP)
    us = times.launch + math.ceil(tiles * steps / blocks) * times.steps[_b_rows(rows, problem.M)]
    if tiles % blocks:
        uneven = blocks % tiles != 0
        others = math.ceil(blocks / tiles) - (not uneven)
        us += (times.shared + times.other * others) * _columns(problem.M) * rows / 4096 + times.uneven * uneven
    return us


def _grids(tiles: int, steps: int, slots: int) -> set[int]:
    """Blocks that fill the device, and those that divide tiles evenly: few that share one have less to add up."""
    even = {tiles * each for each in range(1, min(steps, slots // tiles) + 1)}
    return grids(tiles, steps, slots) | even


def _x_is_a(m: int) -> bool:
    return m > _ROWS_OF_X


def _b_rows(rows: int, m: int) -> int:
    """Rows of the smaller operand, where a tile has `rows` of W."""
    return rows if _x_is_a(m) else _columns(m)


def _columns(m: int) -> int:
    """Columns of Y in a tile, rows of X: 8, 16, 32 or 64."""
    return 8 << (math.ceil(m / 8) - 1).bit_length()


def _stages(split: int, resident: int, rows: int, m: int) -> int:
    """As many as fit, 16 at most. The system takes 1 KB of each block."""
    room = (SHARED_BYTES + 1024) // resident - 1024 - _sum_bytes(split, rows, m)
    return min(16, room // (_stage_bytes(rows, m) + 24))


def _stage_bytes(rows: int, m: int) -> int:
    """Of both operands, scales of B, 4 for each row, the same in fp32, and those of A unless it is X."""
    b_rows = _b_rows(rows, m)
    used = (_A_ROWS + b_rows) * _STEP + (5 * b_rows + (0 if _x_is_a(m) else _A_ROWS)) * _STEP // BLOCK
    return math.ceil(used / 1024) * 1024


def _sum_bytes(split: int, rows: int, m: int) -> int:
    """Where both parts of the columns are added up."""
    return 4 * _A_ROWS * _b_rows(rows, m) * (split - 1)

"""cuda_4bit: the product with 4-bit weights in CUDA C++ for sm90, compiled at run time (`matmul.cu`)."""

import math
import struct
from collections.abc import Sequence

import torch

from ...shapes.device import Device
from ...shapes.problem import Problem
from ...shapes.scheme import DType
from ...shapes.schemes.fourbit import NESTED_BLOCK_SIZE, FourBit
from ...shapes.schemes.w4a16 import W4A16
from ..cuda.provider import SHARED_BYTES, LaunchPlan
from ..cuda.stream_k import StreamKGemm, divided, grids, in_steps, scratch, tiles_and_steps, worth_trying
from ..libraries.nvrtc import Argument, Boxes
from ..provider import Config, Support
from .groups import unpack
from .inputs import FourBitInputs

_MOST_EXACT_ROWS = 32
"""Of X: with 64, multiplying sums by the scales in fp32 takes 6 to 28 % longer than multiplying elements in 16 bits."""

_STEP = 256
"""Columns of W in a stage."""

_TABLE = 1 << 16

_STAGE_US: dict[tuple[int, int], dict[int, float]] = {
    (32, 16): {8: 0.199, 16: 0.216, 32: 0.298, 64: 0.445},
    (64, 32): {8: 0.29, 16: 0.347, 32: 0.546, 64: 0.734},
    (128, 64): {8: 0.596, 16: 0.665},
}
"""Microseconds of a stage, by rows of W in a tile and of a warp, and columns of the sums: M, rounded up to one here.

Fitted, with what `estimated_us` adds, to cold launches of NF4 with blocks of 64 on an H200
(docs/results/h200-stream-k).
"""

_LAUNCH_US = 3.056
"""What a launch takes apart from stages and shared tiles."""

_SCALES = ("fp32", "16 bits", "e8m0", "e4m3", "nested")
"""How scales are stored: SCALE of the source is an index of these."""

_E4M3_SHIFT = {torch.bfloat16: 120, torch.float16: 8}
"""Difference of the exponents' biases of a type and e4m3: the bits of a scale, in the place of those of the type, are a
value that is smaller by 2 to the power of this, for which the elements in the table make up."""


class Cuda4Bit(StreamKGemm[FourBit, FourBitInputs]):
    """All formats of 4-bit weights, up to 64 rows."""

    name = "cuda_4bit"
    family = "fourbit"
    sources = ("matmul.cu",)
    headers = ("sm90.cuh", "stream_k.cuh")
    kernel = "matmul_4bit"
    step = _STEP
    least_rows = min(rows for rows, _ in _STAGE_US)
    decodes = True

    def supports(self, problem: Problem, scheme: FourBit, device: Device) -> Support:
        """Whole blocks in each row, activations of 16 bits, sm90."""
        if not (general := super().supports(problem, scheme, device)).ok:
            return general
        if scheme.dtype is DType.FP32:
            return Support.no("multiplies in 16 bits: activations must be bf16 or fp16")
        unit = math.lcm(scheme.group, _STEP if scheme.nested else 64)
        if problem.K % unit:
            return Support.no(f"K={problem.K} must be a multiple of {unit}")
        return Support.yes()

    def candidates(self, problem: Problem, scheme: FourBit, device: Device) -> Sequence[Config]:
        """Tiles and numbers of blocks, by estimated time."""
        m = problem.M
        return worth_trying(
            (
                estimated_us(problem, (rows, warp_rows), blocks),
                {"ROWS": rows, "WARP_ROWS": warp_rows, "STAGES": _stages(rows, m, scheme), "BLOCKS": blocks},
            )
            for (rows, warp_rows), times in _STAGE_US.items()
            if _fitted_columns(m) in times
            for blocks in sorted(grids(*tiles_and_steps(problem, rows, _STEP), device.compute_units))
        )

    def plan(self, inputs: FourBitInputs, output: torch.Tensor, config: Config) -> LaunchPlan:
        """Return the launch that writes `output`, [M,N]."""
        problem, scheme, x = inputs.problem, inputs.scheme, inputs.x
        m, rows, element = problem.M, config["ROWS"], x.element_size()
        tiles, steps = tiles_and_steps(problem, rows, _STEP)
        grid, columns = min(config["BLOCKS"], tiles * steps), 8 * _column_tiles(m)
        codes, factor = code_bits(_exact_code(inputs), inputs.dtype)
        if inputs.groups and inputs.groups.total is not None:
            factor *= float(inputs.groups.total)
        nested = inputs.nested
        arguments: list[Argument] = [
            Boxes(
                inputs.packed.view(problem.N, -1), (problem.K // 2, problem.N), (problem.K // 2,), (_STEP // 2, rows)
            ),
            Boxes(x, (64, m, problem.K // 64), (problem.K * element, 64 * element), (64, m, 4)),
            ordered_scales(inputs, rows),
            struct.pack("16I", *codes),
            inputs.bias,
            output,
            *scratch(grid, rows, columns, x.device),
            m,
            problem.N,
            divided(tiles, steps, grid),
            factor,
            nested and nested.code,
            float(nested.offset) if nested else 0.0,
        ]
        shared = _TABLE + config["STAGES"] * (_stage_bytes(rows, m, scheme) + 16)
        threads = rows // config["WARP_ROWS"] * 128 + 128
        return LaunchPlan(constants_of(m, scheme, config), grid, threads, shared, arguments)

    def columns(self, problem: Problem) -> int:
        """Whole tiles of 8."""
        return 8 * _column_tiles(problem.M)

    def part_columns(self, problem: Problem, scheme: FourBit) -> int:
        """Fours of columns, as threads add them up, of which one at least is below M."""
        whole, rest = divmod(problem.M, 8)
        in_four = 2 if scheme.group == 32 or _column_tiles(problem.M) > 4 else 4  # HALVES of the source
        return 8 * whole + (0 if not rest else 4 if rest <= in_four else 8)

    def operand_bytes(self, problem: Problem, scheme: FourBit) -> int:
        """Bytes of W, X, bias and output, and of the scales in the order of stages."""
        return scheme.compulsory_bytes(problem) - scheme.scale_bytes(problem) + _scale_bytes(problem, scheme)


CUDA_4BIT = Cuda4Bit()


def estimated_us(problem: Problem, tile: tuple[int, int], blocks: int) -> float:
    """Return how long it takes, in us: the last block of a shared tile adds up the others' parts."""
    rows, _ = tile
    tiles, steps = tiles_and_steps(problem, rows, _STEP)
    us = _LAUNCH_US + math.ceil(tiles * steps / blocks) * _STAGE_US[tile][_fitted_columns(problem.M)]
    if tiles % blocks:
        uneven = blocks % tiles != 0
        others = math.ceil(blocks / tiles) - 1 + uneven
        us += 0.096 + 0.188 * others + (0.606 + 0.059 * others) * problem.M * rows / 1024 + 0.355 * uneven
    return us


def constants_of(m: int, scheme: FourBit, config: Config) -> dict[str, int]:
    """Return what the source is compiled with, for m rows of X."""
    tile = {name: config[name] for name in ("ROWS", "WARP_ROWS", "STAGES")}
    return tile | {
        "TILES": _column_tiles(m),
        "GROUP": scheme.group,
        "FP16": int(scheme.dtype is DType.FP16),
        "SCALE": _SCALES.index(_stored_as(scheme)),
        "ZERO": int(_has_zero_points(scheme)),
        "SCALED_PAIRS": int(_scaled_pairs(m, scheme)),
    }


def code_bits(code: torch.Tensor, dtype: torch.dtype) -> tuple[list[int], float]:
    """Return the bits of the 16 codes in `dtype`, and the factor of a product.

    The codes are multiplied by what lets them lose least when they are rounded to `dtype`, and products divided by it:
    NF4 in bf16 gains 5 dB.
    """
    exact = code.double()
    factors = 1 + torch.arange(4096, dtype=torch.float64, device=code.device)[:, None] / 4096
    lost = ((exact * factors).to(dtype).double() / factors - exact).square().sum(1)
    best = float(factors[lost.argmin()])
    bits = (exact * best).to(dtype).view(torch.int16).int() & 0xFFFF
    return bits.tolist(), 1 / best


def ordered_scales(inputs: FourBitInputs, rows: int) -> torch.Tensor:
    """Scales as the kernel reads them: bytes [tiles of `rows`, steps, bytes of a step], padded with 0.

    A step is 256 columns, or a whole group where that is larger. It has scales [rows, groups] as they are stored;
    before them those of nested scales, one fp32 per row; after them zero points, uint8 [rows, groups], twice in a byte.
    """
    scheme, groups, nested = inputs.scheme, inputs.groups, inputs.nested
    each, matrix = max(1, _STEP // scheme.group), (inputs.problem.N, -1)
    if nested:
        # Groups of a step are neighbours within one block of absmax values, as `supports` made sure.
        first = torch.arange(0, nested.q.numel(), each, device=nested.q.device)
        outer = nested.scale[first // NESTED_BLOCK_SIZE].view(matrix)
        parts = [in_steps(outer, rows, 1), in_steps(nested.q.view(matrix), rows, each)]
    elif groups:
        parts = [in_steps(groups.scale.view(matrix), rows, each)]
        if groups.zero is not None:
            zero = unpack(groups.zero, groups.scale.numel())
            parts.append(in_steps((zero << 4 | zero).view(matrix), rows, each))
    else:
        parts = [in_steps(inputs.absmax.view(matrix), rows, each)]
    return torch.cat(parts, dim=2)


def _exact_code(inputs: FourBitInputs) -> torch.Tensor:
    """Values of the codes, fp64, as the kernel multiplies them."""
    code = inputs.code.double()
    return code * 2.0 ** _E4M3_SHIFT[inputs.dtype] if _stored_as(inputs.scheme) == "e4m3" else code


def _stored_as(scheme: FourBit) -> str:
    """How scales are stored, one of `_SCALES`."""
    if scheme.nested:
        return "nested"
    return {"int4": "16 bits", "mxfp4": "e8m0", "nvfp4": "e4m3"}.get(scheme.weight, "fp32")


def _has_zero_points(scheme: FourBit) -> bool:
    return isinstance(scheme, W4A16) and scheme.zero_point


def _scaled_pairs(m: int, scheme: FourBit) -> bool:
    """Whether elements are multiplied by the scales: always by e4m3, as that is exact.

    Products with scales of 8 bits of exponent are out of the range of fp16.
    """
    stored = _stored_as(scheme)
    return stored == "e4m3" or (m > _MOST_EXACT_ROWS and (scheme.dtype is DType.BF16 or stored == "16 bits"))


def _column_tiles(m: int) -> int:
    """Tiles of 8 columns that hold M of them."""
    return math.ceil(m / 8)


def _fitted_columns(m: int) -> int:
    """The least number of columns in `_STAGE_US` that holds M of them: 8, 16, 32 or 64."""
    return 8 << (_column_tiles(m) - 1).bit_length()


def _stages(rows: int, m: int, scheme: FourBit) -> int:
    return min(16, (SHARED_BYTES - _TABLE) // (_stage_bytes(rows, m, scheme) + 16))


def _stage_bytes(rows: int, m: int, scheme: FourBit) -> int:
    used = rows * _STEP // 2 + 8 * _column_tiles(m) * _STEP * 2 + rows * _row_scale_bytes(scheme)
    return math.ceil(used / 1024) * 1024


def _row_scale_bytes(scheme: FourBit) -> int:
    """Bytes of the scales and zero points of a row in a step."""
    stored = _stored_as(scheme)
    each = {"fp32": 4, "16 bits": 2}.get(stored, 1) + _has_zero_points(scheme)
    return each * max(1, _STEP // scheme.group) + (4 if stored == "nested" else 0)


def _scale_bytes(problem: Problem, scheme: FourBit) -> int:
    """Bytes of all scales in the order of stages, without the padding of the last tile, and what all have in common."""
    common = 4 * 256 + 4 if scheme.nested else 4 if scheme.weight == "nvfp4" else 0
    return problem.N * math.ceil(problem.K / max(_STEP, scheme.group)) * _row_scale_bytes(scheme) + common

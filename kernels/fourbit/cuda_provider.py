"""cuda_4bit: the product with 4-bit weights in CUDA C++ for sm90, compiled at run time (`cuda/matmul.cu`)."""

import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch

from ...shapes.device import Device
from ...shapes.problem import Problem
from ...shapes.scheme import DType
from ...shapes.schemes.fourbit import NESTED_BLOCK_SIZE, FourBit
from ...shapes.schemes.w4a16 import W4A16
from ..geometry import Geometry
from ..libraries.nvrtc import Argument, Boxes, CudaKernel, compile_cubin
from ..needs import WRITTEN_FOR_SM90
from ..provider import Config, Launch, Provider, Support
from .groups import unpack
from .inputs import FourBitInputs

SOURCES = ("cuda/sm90.cuh", "cuda/matmul.cu")
"""Compiled as one file, in this order."""

MOST_ROWS = 64
"""Of X: at 64 it is as fast as dequantizing on some weights, and slower beyond."""

_ROWS_AT_ONCE = 32
"""Of X, in one launch: with 64 the sums of a warp spill, and took 10 to 45 % longer than two launches of 32."""

KERNEL = "matmul_4bit"

_STEP = 256
"""Columns of W in a stage."""

_SHARED = 227 << 10
"""Bytes of shared memory that a block can have on sm90."""

_TABLE = 1 << 16

_STAGE_US: dict[tuple[int, int], dict[int, float]] = {
    (32, 16): {8: 0.275, 16: 0.35, 32: 0.44},
    (64, 32): {8: 0.365, 16: 0.46, 32: 0.68},
    (128, 32): {8: 0.605, 16: 0.77},
    (128, 64): {8: 0.64, 16: 0.72},
    (256, 64): {8: 1.15},
}
"""Microseconds of a stage on an H200, by rows of W in a tile and of a warp, and columns of the sums (M, rounded up).

Fitted to measured launches of NF4 with blocks of 64, on five shapes (docs/measured-facts.md). No other tile was within
5 % of the fastest.
"""

_LAUNCH_US = 4.2
"""What a launch takes apart from stages and shared tiles."""

_WORTH_TRYING = 1.3
"""Times the least estimate: beyond, a configuration is no candidate."""

_SCALES = ("fp32", "16 bits", "e8m0", "e4m3", "nested")
"""How scales are stored: SCALE of the source is an index of these."""

_E4M3_SHIFT = {torch.bfloat16: 120, torch.float16: 8}
"""Difference of the exponents' biases of a type and e4m3: the bits of a scale, in the place of those of the type, are a
value that is smaller by 2 to the power of this, for which the elements in the table make up."""


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """One launch: constants of the source, grid, threads and shared memory of a block, arguments."""

    constants: Mapping[str, int]
    grid: int
    threads: int
    shared_bytes: int
    arguments: Sequence[Argument]


class Cuda4Bit(Provider[FourBit, FourBitInputs]):
    """All formats of 4-bit weights, up to 64 rows. `prepare` puts scales in the order of reading; W stays as it is."""

    name = "cuda_4bit"
    family = "fourbit"
    sources = SOURCES

    def supports(self, problem: Problem, scheme: FourBit, device: Device) -> Support:
        """Whole blocks in each row, activations of 16 bits, sm90."""
        if device.arch != "sm90":
            return Support.no(WRITTEN_FOR_SM90)
        if scheme.dtype is DType.FP32:
            return Support.no("multiplies in 16 bits: activations must be bf16 or fp16")
        if problem.B != 1 or problem.M > MOST_ROWS:
            return Support.no(f"takes up to {MOST_ROWS} rows of X, unbatched")
        unit = math.lcm(scheme.group, _STEP if scheme.nested else 64)
        if problem.K % unit:
            return Support.no(f"K={problem.K} must be a multiple of {unit}")
        return Support.yes()

    def candidates(self, problem: Problem, scheme: FourBit, device: Device) -> Sequence[Config]:
        """Tiles and numbers of blocks, by estimated time."""
        widest = min(problem.M, _ROWS_AT_ONCE)
        found = sorted(
            (estimated_us(problem, tile, blocks), *tile, blocks)
            for tile, times in _STAGE_US.items()
            if 8 * _column_tiles(widest) in times
            for blocks in _grids(*_tiles_and_steps(problem, tile[0]), device.compute_units)
        )
        return [
            {"ROWS": rows, "WARP_ROWS": warp_rows, "STAGES": _stages(rows, widest, scheme), "BLOCKS": blocks}
            for us, rows, warp_rows, blocks in found
            if us <= _WORTH_TRYING * found[0][0]
        ]

    def prepare(self, inputs: FourBitInputs, config: Config | None = None) -> Launch:
        """Compile, arrange the scales, allocate."""
        config, output = config or self.default_config(inputs), inputs.empty_output()
        plans = make_plans(inputs, output, config)
        with torch.cuda.device(inputs.x.device):
            cubins = [build(tuple(plan.constants.items())) for plan in plans]
            calls = [
                CudaKernel(cubin, KERNEL, plan.shared_bytes).call(plan.grid, plan.threads, plan.arguments)
                for plan, cubin in zip(plans, cubins, strict=True)
            ]

        def run() -> None:
            for call in calls:
                call()

        run()
        rows, columns = config["ROWS"], [8 * plan.constants["TILES"] for plan in plans]
        padded = math.prod(_tiles_and_steps(inputs.problem, rows)) * rows * _STEP
        geometry = Geometry(
            tile_M=columns[0],
            tile_N=rows,
            workgroups=plans[0].grid,
            resident=1,
            issued_flops=2 * sum(columns) * padded,
            decoded_weights=len(plans) * padded,
        )
        artifact = hashlib.sha256(b"".join(cubins)).hexdigest()[:16]
        run_once = calls[0] if len(calls) == 1 else run
        return Launch(run_once, output, config, (KERNEL,) * len(calls), artifact=artifact, geometry=geometry)

    def moved_bytes(self, problem: Problem, scheme: FourBit, config: Config) -> int:
        """W and scales once per launch, X, bias and output once; parts of shared tiles written and read."""
        launches, scales = len(_slices(problem.M)), _scale_bytes(problem, scheme)
        once = scheme.compulsory_bytes(problem) - scheme.scale_bytes(problem) - scheme.weight_bytes(problem)
        weights = scheme.weight_bytes(problem) + scales
        return once + launches * weights + 2 * _part_bytes(problem, config)

    def working_set_bytes(self, problem: Problem, scheme: FourBit, config: Config) -> int:
        """Operands, output, and the parts of tiles that blocks share."""
        scales = _scale_bytes(problem, scheme) - scheme.scale_bytes(problem)
        return scheme.compulsory_bytes(problem) + scales + _part_bytes(problem, config)


CUDA_4BIT = Cuda4Bit()


def estimated_us(problem: Problem, tile: tuple[int, int], blocks: int) -> float:
    """Return how long it takes on an H200, in us: 5 % off in the mean of what was measured, 20 % at most.

    The last block of a shared tile adds up the others' parts, with 128 threads for each row of warps. Where tiles are
    divided unevenly, many blocks share two of them.
    """
    rows, warp_rows = tile
    tiles, steps = _tiles_and_steps(problem, rows)
    even = tiles % blocks == 0 or blocks % tiles == 0
    parts = math.ceil(blocks / tiles) + (not even)
    us = 0.0
    for _, m in _slices(problem.M):
        us += _LAUNCH_US + math.ceil(tiles * steps / blocks) * _STAGE_US[tile][8 * _column_tiles(m)]
        if parts > 1:
            turns = math.ceil(m * warp_rows / 128)
            us += 1.2 * rows / 128 + turns * (0.4 + 0.28 * parts) + (0 if even else 1.7)
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
    }


def make_plans(inputs: FourBitInputs, output: torch.Tensor, config: Config) -> list[LaunchPlan]:
    """Return the launches that write `output`, [M,N], up to 32 rows each."""
    problem, scheme, x = inputs.problem, inputs.scheme, inputs.x
    rows, element = config["ROWS"], x.element_size()
    row_tiles, steps = _tiles_and_steps(problem, rows)
    grid = min(config["BLOCKS"], row_tiles * steps)
    pairs, factor = pair_table(_exact_code(inputs), inputs.dtype)
    if inputs.groups and inputs.groups.total is not None:
        factor *= float(inputs.groups.total)
    weight = Boxes(
        inputs.packed.view(problem.N, -1), (problem.K // 2, problem.N), (problem.K // 2,), (_STEP // 2, rows)
    )
    scales, nested = ordered_scales(inputs, rows), inputs.nested
    plans = []
    for first, m in _slices(problem.M):
        columns = 8 * _column_tiles(m)
        sizes, strides = (64, m, problem.K // 64), (problem.K * element, 64 * element)
        arguments: list[Argument] = [
            weight,
            Boxes(x[first : first + m], sizes, strides, (64, columns, 4)),
            scales,
            pairs,
            inputs.bias,
            output[first : first + m],
            torch.empty(2 * grid * columns * rows, device=x.device),
            torch.zeros(row_tiles, dtype=torch.int32, device=x.device),
            m,
            problem.N,
            steps,
            factor,
            nested and nested.code,
            float(nested.offset) if nested else 0.0,
        ]
        shared = _TABLE + config["STAGES"] * (_stage_bytes(rows, m, scheme) + 16) + 16
        threads = rows // config["WARP_ROWS"] * 128 + 32
        plans.append(LaunchPlan(constants_of(m, scheme, config), grid, threads, shared, arguments))
    return plans


def source() -> str:
    """CUDA C++, without its constants."""
    return "".join((Path(__file__).parent / name).read_text(encoding="utf-8") for name in SOURCES)


@cache
def build(constants: tuple[tuple[str, int], ...]) -> bytes:
    """Machine code of the kernel with these constants; CudaError when NVRTC rejects it."""
    options = ["--gpu-architecture=sm_90", "--std=c++17", *(f"-D{name}={value}" for name, value in constants)]
    return compile_cubin(source(), options)[0]


def pair_table(code: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, float]:
    """Return both elements of each byte, int32 [256] with the first in its low half, and the factor of a product.

    The codes are multiplied by what lets them lose least when they are rounded to `dtype`, and products divided by it:
    NF4 in bf16 gains 5 dB.
    """
    exact = code.double()
    factors = 1 + torch.arange(4096, dtype=torch.float64, device=code.device)[:, None] / 4096
    lost = ((exact * factors).to(dtype).double() / factors - exact).square().sum(1)
    best = float(factors[lost.argmin()])
    bits = (exact * best).to(dtype).view(torch.int16).int() & 0xFFFF
    byte = torch.arange(256, device=code.device)
    return bits[byte >> 4] | (bits[byte & 15] << 16), 1 / best


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


def in_steps(values: torch.Tensor, rows: int, each: int) -> torch.Tensor:
    """Values [N, n] in the order of stages: bytes [tiles of `rows`, steps, rows * each], padded with 0."""
    tiles, steps = math.ceil(values.shape[0] / rows), math.ceil(values.shape[1] / each)
    size = values.element_size()
    padded = torch.zeros(tiles * rows, steps * each * size, dtype=torch.uint8, device=values.device)
    padded[: values.shape[0], : values.shape[1] * size] = values.contiguous().view(torch.uint8)
    return padded.view(tiles, rows, steps, each * size).transpose(1, 2).reshape(tiles, steps, -1)


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


def _slices(m: int) -> list[tuple[int, int]]:
    """First row and number of rows of X of each launch."""
    return [(first, min(_ROWS_AT_ONCE, m - first)) for first in range(0, m, _ROWS_AT_ONCE)]


def _tiles_and_steps(problem: Problem, rows: int) -> tuple[int, int]:
    """Tiles of `rows` of W, and stages of each."""
    return math.ceil(problem.N / rows), math.ceil(problem.K / _STEP)


def _grids(tiles: int, steps: int, units: int) -> set[int]:
    """Blocks that fill the device, and the most of them that divide tiles evenly, or are divided so by them."""
    if tiles <= units:
        even = tiles * min(steps, units // tiles)
    else:
        even = max(blocks for blocks in range(1, units + 1) if tiles % blocks == 0)
    return {min(units, tiles * steps), even}


def _part_bytes(problem: Problem, config: Config) -> int:
    """Bytes of the sums, fp32, that blocks leave for others: none of a tile that one block has whole."""
    rows: int = config["ROWS"]
    tiles, steps = _tiles_and_steps(problem, rows)
    blocks = min(int(config["BLOCKS"]), tiles * steps)
    starts = {block * tiles * steps // blocks for block in range(blocks)}
    cuts = Counter(start // steps for start in starts if start % steps)
    return sum(4 * problem.M * min(rows, problem.N - tile * rows) * (cut + 1) for tile, cut in cuts.items())


def _column_tiles(m: int) -> int:
    """Tiles of 8 columns that hold M of them: 1, 2 or 4."""
    return 1 << (math.ceil(m / 8) - 1).bit_length()


def _stages(rows: int, m: int, scheme: FourBit) -> int:
    return min(16, (_SHARED - _TABLE - 16) // (_stage_bytes(rows, m, scheme) + 16))


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

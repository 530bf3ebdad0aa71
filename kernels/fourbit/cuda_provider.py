"""cuda_4bit: the product with 4-bit weights in CUDA C++ for sm90, compiled at run time (`cuda/matmul.cu`)."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch

from ...shapes.device import Device
from ...shapes.problem import Problem
from ...shapes.scheme import DType
from ...shapes.schemes.fourbit import FourBit
from ...shapes.schemes.w4a16 import W4A16
from ..geometry import Geometry
from ..needs import WRITTEN_FOR_SM90
from ..nvrtc import Argument, Boxes, Kernel, compile_cubin
from ..provider import Config, Launch, Provider, Support
from .inputs import FourBitInputs

SOURCES = ("cuda/sm90.cuh", "cuda/matmul.cu")
"""Compiled as one file, in this order."""

MOST_ROWS = 64
"""Of X: more need accumulators that a warp has no registers for."""

_STEP = 256
"""Columns of W in a stage."""

_SHARED = 227 << 10
"""Bytes of shared memory that a block can have on sm90."""

_TABLE = 1 << 16

_TILES = ((128, 32, 16), (128, 64, 16), (64, 32, 32), (64, 16, 16), (32, 16, 64))
"""Rows of W in a tile, and of a warp, and rows of X up to which registers hold the sums: the compiler spills none."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One launch: constants of the source, grid, threads and shared memory of a block, arguments."""

    constants: Mapping[str, int]
    grid: int
    threads: int
    shared_bytes: int
    arguments: Sequence[Argument]


class Cuda4Bit(Provider[FourBit, FourBitInputs]):
    """NF4 and FP4 for up to 64 rows. Scales are put in the order of reading in `prepare`; W stays as it is."""

    name = "cuda_4bit"
    family = "fourbit"
    sources = SOURCES

    def supports(self, problem: Problem, scheme: FourBit, device: Device) -> Support:
        """Whole blocks of 64 and more in each row, activations of 16 bits, sm90."""
        if device.arch != "sm90":
            return Support.no(WRITTEN_FOR_SM90)
        if isinstance(scheme, W4A16) or scheme.nested or scheme.group < 64:
            return Support.no(f"decodes NF4 and FP4 with fp32 absmax and blocks of 64 and more, not {scheme.name}")
        if scheme.dtype is DType.FP32:
            return Support.no("multiplies in 16 bits: activations must be bf16 or fp16")
        if problem.B != 1 or problem.M > MOST_ROWS:
            return Support.no(f"takes up to {MOST_ROWS} rows of X, unbatched")
        if problem.K % scheme.group:
            return Support.no(f"K={problem.K} must be a multiple of the block size {scheme.group}")
        return Support.yes()

    def candidates(self, problem: Problem, scheme: FourBit, device: Device) -> Sequence[Config]:
        """Tiles, those first that all multiprocessors have some of."""
        fitting = [(rows, warp_rows) for rows, warp_rows, most in _TILES if most >= problem.M]
        fitting.sort(key=lambda tile: tile[0] * device.compute_units > problem.N)
        return [
            {"ROWS": rows, "WARP_ROWS": warp_rows, "STAGES": _stages(rows, problem.M, scheme.group)}
            for rows, warp_rows in fitting
        ]

    def prepare(self, inputs: FourBitInputs, config: Config | None = None) -> Launch:
        """Compile, arrange the scales, allocate."""
        config, output = config or self.default_config(inputs), inputs.empty_output()
        plan = make_plan(inputs, output, config)
        with torch.cuda.device(inputs.x.device):
            cubin = build(tuple(plan.constants.items()))
            kernel = Kernel(cubin, "matmul_4bit", plan.shared_bytes)
            call = kernel.call(plan.grid, plan.threads, plan.arguments)
            call()
        problem, rows, columns = inputs.problem, config["ROWS"], 8 * plan.constants["TILES"]
        padded = math.ceil(problem.N / rows) * rows * math.ceil(problem.K / _STEP) * _STEP
        geometry = Geometry(
            tile_M=columns,
            tile_N=rows,
            workgroups=plan.grid,
            resident=1,
            issued_flops=2 * columns * padded,
            decoded_weights=padded,
        )
        artifact = hashlib.sha256(cubin).hexdigest()[:16]
        return Launch(call, output, config, ("matmul_4bit",), artifact=artifact, geometry=geometry)


CUDA_4BIT = Cuda4Bit()


def constants_of(problem: Problem, scheme: FourBit, config: Config) -> dict[str, int]:
    """Return what the source is compiled with."""
    tile = {name: config[name] for name in ("ROWS", "WARP_ROWS", "STAGES")}
    return tile | {
        "TILES": _column_tiles(problem.M),
        "GROUP": scheme.group,
        "FP16": int(scheme.dtype is DType.FP16),
    }


def make_plan(inputs: FourBitInputs, output: torch.Tensor, config: Config) -> Plan:
    """Return the launch that writes `output`, [M,N]."""
    problem, scheme, x = inputs.problem, inputs.scheme, inputs.x
    rows, tiles = config["ROWS"], _column_tiles(problem.M)
    row_tiles, steps = math.ceil(problem.N / rows), math.ceil(problem.K / _STEP)
    grid = min(inputs.device.compute_units, row_tiles * steps)
    pairs, factor = pair_table(inputs.code, inputs.dtype)
    weight = Boxes(
        inputs.packed.view(problem.N, -1), (problem.K // 2, problem.N), (problem.K // 2,), (_STEP // 2, rows)
    )
    element = x.element_size()
    activations = Boxes(x, (64, problem.M, problem.K // 64), (problem.K * element, 64 * element), (64, 8 * tiles, 4))
    arguments: list[Argument] = [
        weight,
        activations,
        ordered_scales(inputs.absmax.view(problem.N, -1), rows, scheme.group),
        pairs,
        inputs.bias,
        output,
        torch.empty(2 * grid * 8 * tiles * rows, device=x.device),
        torch.zeros(row_tiles, dtype=torch.int32, device=x.device),
        problem.M,
        problem.N,
        steps,
        factor,
    ]
    shared = _TABLE + config["STAGES"] * (_stage_bytes(rows, problem.M, scheme.group) + 16) + 16
    return Plan(constants_of(problem, scheme, config), grid, rows // config["WARP_ROWS"] * 128 + 32, shared, arguments)


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


def ordered_scales(absmax: torch.Tensor, rows: int, group: int) -> torch.Tensor:
    """Scales [N, K/group] as the kernel reads them: [tiles of `rows`, steps, rows, scales of a step], padded with 0.

    A step is 256 columns, or a whole block where that is larger.
    """
    each = max(1, _STEP // group)
    tiles, steps = math.ceil(absmax.shape[0] / rows), math.ceil(absmax.shape[1] / each)
    padded = absmax.new_zeros(tiles * rows, steps * each)
    padded[: absmax.shape[0], : absmax.shape[1]] = absmax
    return padded.view(tiles, rows, steps, each).transpose(1, 2).contiguous()


def _column_tiles(m: int) -> int:
    """Tiles of 8 columns that hold M of them: 1, 2, 4 or 8."""
    return 1 << (math.ceil(m / 8) - 1).bit_length()


def _stages(rows: int, m: int, group: int) -> int:
    return min(16, (_SHARED - _TABLE - 16) // (_stage_bytes(rows, m, group) + 16))


def _stage_bytes(rows: int, m: int, group: int) -> int:
    used = rows * _STEP // 2 + 8 * _column_tiles(m) * _STEP * 2 + 4 * rows * max(1, _STEP // group)
    return math.ceil(used / 1024) * 1024

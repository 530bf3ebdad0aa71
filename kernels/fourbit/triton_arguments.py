"""Arguments of the four fused kernels, which share their parameters: sizes, constants and operand types."""

import math
from typing import Any

from ...shapes.problem import Problem
from ...shapes.scheme import DType
from ...shapes.schemes.fourbit import FourBit
from ..geometry import Grid, Tiling, padded
from ..provider import Config
from .triton_codes import gemm_planes

_TYPES = {DType.BF16: "*bf16", DType.FP16: "*fp16", DType.FP32: "*fp32"}


def pointer_type(dtype: DType) -> str:
    """Return Triton's name of a pointer to elements of `dtype`."""
    return _TYPES[dtype]


def row_unit(k: int, words: bool) -> int:
    """Return K_UNIT: the largest power of two up to 128 that divides K; at most 4 when rows are read byte by byte."""
    return math.gcd(k, 128 if words else 4)


def fused_grid(problem: Problem, config: Config) -> Grid:
    """Return (tiles of the output, parts of K, 1)."""
    return (-(-problem.M // config["BLOCK_M"]) * -(-problem.N // config["BLOCK_N"]), config["SPLIT_K"], 1)


def fused_tiling(problem: Problem, config: Config, grid: Grid, matrix: bool) -> Tiling:
    """Say what the kernels do with `grid`: every part of K decodes its own; `matrix`: by tl.dot."""
    columns, depth = config["BLOCK_N"], config["BLOCK_K"]
    return Tiling(
        tile_M=config["BLOCK_M"],
        tile_N=columns,
        contracted=grid[0] * padded(problem.K, depth),
        matrix=matrix,
        decodes=True,
        decoded=columns * depth,
    )


def fused_sizes(problem: Problem, config: Config, words: bool) -> dict[str, int]:
    """Return the integer arguments. `words`: the packed weights are passed as int32, rows begin at a word."""
    k_tiles = -(-problem.K // config["BLOCK_K"])
    return {
        "M": problem.M,
        "N": problem.N,
        "k_units": problem.K // row_unit(problem.K, words),
        "split_tiles": -(-k_tiles // config["SPLIT_K"]),
    }


def fused_constants(problem: Problem, scheme: FourBit, config: Config, isa: str, words: bool) -> dict[str, Any]:
    """Return the constexpr arguments; `isa` as in `triton_decode.byte_permute`."""
    return {
        **gemm_planes(scheme.weight, scheme.dtype).constants(),
        "K_UNIT": row_unit(problem.K, words),
        "GROUP": scheme.group,
        "WHOLE": problem.K % scheme.group == 0,
        "MASKED": problem.K % config["BLOCK_K"] != 0 or not words,
        "NESTED": scheme.nested,
        "BIAS": scheme.bias,
        "BM": config["BLOCK_M"],
        "BN": config["BLOCK_N"],
        "BW": config["BLOCK_K"] // 8,
        "SPLIT": config["SPLIT_K"],
        "STAGES": config["num_stages"],
        "ISA": isa,
    }


def fused_options(config: Config) -> dict[str, int]:
    """Return the compiler options."""
    return {"num_warps": config["num_warps"], "num_stages": config["num_stages"]}


def fused_types(scheme: FourBit, config: Config, words: bool) -> dict[str, str | None]:
    """Return the type of every pointer argument, None for an operand that is absent: what a tensor would tell."""
    kind = _TYPES[scheme.dtype]
    split = config["SPLIT_K"] > 1
    return {
        "x": kind,
        "packed": "*i32" if words else "*u8",
        "absmax": "*fp32",
        "q": "*u8" if scheme.nested else None,
        "nested_code": "*fp32" if scheme.nested else None,
        "nested_offset": "*fp32" if scheme.nested else None,
        "bias": kind if scheme.bias else None,
        "y": kind,
        "partial": "*fp32" if split else None,
        "counter": "*i32" if split else None,
    }

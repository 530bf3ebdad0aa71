"""From operands and a configuration to a launch, or to what would be compiled for a device that is not here."""

from collections.abc import Mapping
from typing import Any

import torch

from ...shapes.device import Device
from ...shapes.problem import Problem
from ...shapes.schemes.a16w8 import A16W8
from ..aot import Request, large_operands
from ..fp8 import e4m3
from ..geometry import Geometry, Tiling, padded
from ..inputs import TORCH_DTYPES
from ..provider import Config
from ..triton_launch import POINTERS, CompiledLaunch, compile_launch
from .inputs import A16W8Inputs
from .quantize import LEAST_AMAX
from .triton_dequantize import BLOCK_N, dequantize_a16w8_kernel
from .triton_gemm import a16w8_kernel

_OPTIONS = ("num_warps", "num_stages", "waves_per_eu", "matrix_instr_nonkdim")
_PACKAGE = __name__.rpartition(".")[0]


def tiles(problem: Problem, config: Config) -> int:
    """Number of programs: tiles of all Y[b]."""
    block_m, block_n = int(config["BLOCK_M"]), int(config["BLOCK_N"])
    return problem.B * -(-problem.M // block_m) * -(-problem.N // block_n)


def gemm_launch(
    inputs: A16W8Inputs, w: torch.Tensor, scale: torch.Tensor, y: torch.Tensor, config: Config, transposed: bool
) -> CompiledLaunch:
    """Launch of the GEMM on `w` and `scale` in the native layout, or with their last two axes `transposed`."""
    problem = inputs.problem
    arguments = {"x": inputs.x, "w": w, "scale": scale, "bias": inputs.bias, "y": y, **_sizes(problem)}
    constants = _constants(problem, inputs.scheme, w.dtype, config, transposed)
    return compile_launch(a16w8_kernel, (tiles(problem, config), 1, 1), arguments, constants, _options(config))


def gemm_geometry(launch: CompiledLaunch, problem: Problem, scheme: A16W8, config: Config) -> Geometry:
    """Describe what `gemm_launch` launches: weights are converted unless the activations are rounded to FP8."""
    columns, depth = config["BLOCK_N"], config["BLOCK_K"]
    decodes = not scheme.prequant
    contracted = launch.grid[0] * padded(problem.K, depth)
    return launch.geometry(Tiling(config["BLOCK_M"], columns, contracted, decodes=decodes, decoded=columns * depth))


def gemm_request(problem: Problem, scheme: A16W8, device: Device, config: Config, transposed: bool) -> Request:
    """What `gemm_launch` would compile for `device`."""
    kind, fp8 = POINTERS[TORCH_DTYPES[scheme.dtype]], e4m3(device)
    bias = kind if scheme.bias else None
    arguments: Mapping[str, str | int | None] = {
        "x": kind, "w": POINTERS[fp8], "scale": "*fp32", "bias": bias, "y": kind, **_sizes(problem),
    }  # fmt: skip
    constants = _constants(problem, scheme, fp8, config, transposed)
    decoded = None if scheme.prequant else config["BLOCK_N"] * config["BLOCK_K"]
    sizes = {
        "x": scheme.activation_bytes(problem), "w": scheme.weight_bytes(problem), "y": scheme.output_bytes(problem)
    }  # fmt: skip
    large = large_operands(sizes)
    kernel = f"{_PACKAGE}.triton_gemm:a16w8_kernel"
    return Request(kernel, arguments, constants, _options(config), large, decoded)


def dequantize_launch(inputs: A16W8Inputs, out: torch.Tensor) -> CompiledLaunch:
    """Launch that writes the dequantized weights to `out` [B,N,K], contiguous, in the type of the activations."""
    problem = inputs.problem
    grid = (problem.B * -(-problem.N // BLOCK_N) * -(-problem.K // 128), 1, 1)
    arguments = {"q": inputs.q, "scale": inputs.scale, "out": out, "N": problem.N, "K": problem.K}
    return compile_launch(dequantize_a16w8_kernel, grid, arguments, {"BN": BLOCK_N}, {"num_warps": 4})


def dequantize_request(problem: Problem, scheme: A16W8, device: Device) -> Request:
    """What `dequantize_launch` would compile for `device`."""
    arguments: Mapping[str, str | int | None] = {
        "q": POINTERS[e4m3(device)], "scale": "*fp32", "out": POINTERS[TORCH_DTYPES[scheme.dtype]],
        "N": problem.N, "K": problem.K,
    }  # fmt: skip
    kernel = f"{_PACKAGE}.triton_dequantize:dequantize_a16w8_kernel"
    large = large_operands(
        {"q": scheme.weight_bytes(problem), "out": scheme.weight_bytes(problem) * scheme.dtype.bytes}
    )
    return Request(kernel, arguments, {"BN": BLOCK_N}, {"num_warps": 4}, large)


def _sizes(problem: Problem) -> dict[str, int]:
    return {"B": problem.B, "M": problem.M, "N": problem.N, "K": problem.K}


def _constants(problem: Problem, scheme: A16W8, fp8: torch.dtype, config: Config, transposed: bool) -> dict[str, Any]:
    return {
        "BM": config["BLOCK_M"],
        "BN": config["BLOCK_N"],
        "BK": config["BLOCK_K"],
        "GROUP_M": config["GROUP_M"],
        "KN": transposed,
        "SWAP": config["swap"],
        "SCALING": config["scaling"],
        "PREQUANT": scheme.prequant,
        "FP8_MAX": torch.finfo(fp8).max,
        "LEAST": LEAST_AMAX,
        "BIAS": scheme.bias,
        "BATCH_INNER": config["batch_inner"],
        "EVEN_N": problem.N % config["BLOCK_N"] == 0,
        "EVEN_K": problem.K % config["BLOCK_K"] == 0,
    }


def _options(config: Config) -> dict[str, int]:
    return {name: config[name] for name in _OPTIONS if name in config}

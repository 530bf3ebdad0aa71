"""From MX-FP8 operands and a tile to a launch, or to what has to be compiled for one."""

import math
from typing import Any

import torch

from ...shapes.device import Device
from ...shapes.errors import RooflensError
from ...shapes.problem import Problem
from ..aot import Request, kernel_path, large_operands
from ..geometry import Grid, Tiling, padded
from ..provider import Config, Launch
from ..triton_launch import INTERPRETED, compile_launch
from .inputs import MxFp8Inputs
from .quantize import BLOCK
from .triton_configs import Tile, from_json
from .triton_gemv import diagonal_mx_kernel, gemv_mx_kernel
from .triton_mma import mma_mx_kernel, scaled_mx_kernel

KERNELS = {
    "diagonal": diagonal_mx_kernel,
    "vector": gemv_mx_kernel,
    "bf16": mma_mx_kernel,
    "scaled": scaled_mx_kernel,
}

VIEWS: dict[str, tuple[torch.dtype, str]] = {
    "diagonal": (torch.float8_e4m3fn, "*fp8e4nv"),
    "vector": (torch.int32, "*i32"),
    "bf16": (torch.int32, "*i32"),
    "scaled": (torch.uint8, "*u8"),
}
"""How each kernel takes the payloads: torch's type and Triton's."""

LARGEST_SCALE = {"bf16": 134, "vector": 194}
"""Largest scale byte that the decode of a kernel can represent (`triton_parts`); the others take any."""

_DECODING = ("vector", "bf16")
_K_UNIT = 512


def target_isa(device: Device) -> str:
    """Which instructions the kernels may use, as `triton_parts` names them."""
    if INTERPRETED:
        return "interpreter"
    if not device.arch.startswith("gfx"):
        return "ptx"
    return "cdna" if device.arch.startswith("gfx9") else "rdna"


def grid(problem: Problem, tile: Tile) -> Grid:
    """Return (tiles of the output, parts of K, 1)."""
    return (-(-problem.M // tile.block_m) * -(-problem.N // tile.block_n), tile.split_k, 1)


def scratch_bytes(problem: Problem, tile: Tile) -> int:
    """Bytes of the fp32 parts of a divided K: whole tiles, also where they hang over the edge."""
    programs, split, _ = grid(problem, tile)
    return 4 * programs * split * tile.block_m * tile.block_n if split > 1 else 0


def tile_launch(inputs: MxFp8Inputs, config: Config) -> Launch:
    """Allocate output and split-K scratch, compile, warm up.

    Raises RooflensError when a scale is larger than the kernel's decode can represent.
    """
    problem, tile = inputs.problem, from_json(config)
    largest = LARGEST_SCALE.get(tile.kernel, 255)
    for name, scale in (("weights", inputs.w_scale), ("activations", inputs.x_scale)):
        if largest < 255 and int(scale.max()) > largest:
            raise RooflensError(
                f"kernel {tile.kernel!r} of MX-FP8 takes scales up to 2^{largest - 127}; the {name} have larger ones"
            )
    output, device = inputs.empty_output(), inputs.x.device
    programs, split, _ = grid(problem, tile)
    view, _ = VIEWS[tile.kernel]
    arguments = {
        "x": inputs.x.view(view),
        "x_scale": inputs.x_scale,
        "w": inputs.w.view(view),
        "w_scale": inputs.w_scale,
        "y": output,
        "partial": torch.empty(scratch_bytes(problem, tile) // 4, device=device) if split > 1 else None,
        "counter": torch.zeros(programs, dtype=torch.int32, device=device) if split > 1 else None,
        **_sizes(problem, tile),
    }
    constants = _constants(problem, tile, target_isa(inputs.device))
    launch = compile_launch(KERNELS[tile.kernel], grid(problem, tile), arguments, constants, _options(tile))
    geometry = launch.geometry(_tiling(problem, tile, programs))
    return Launch(launch.run, output, dict(config), (launch.kernel,), artifact=launch.artifact, geometry=geometry)


def _tiling(problem: Problem, tile: Tile, tiles: int) -> Tiling:
    """Say what a kernel does with `tiles` tiles of the output; "diagonal" multiplies zeros for each further block."""
    return Tiling(
        tile_M=tile.block_m,
        tile_N=tile.block_n,
        contracted=tiles * padded(problem.K, tile.block_k),
        matrix=tile.kernel != "vector",
        repeated=tile.block_k // BLOCK if tile.kernel == "diagonal" else 1,
        decodes=tile.kernel in _DECODING,
        decoded=tile.block_n * tile.block_k,
    )


def tile_request(problem: Problem, device: Device, config: Config) -> Request:
    """What `tile_launch` compiles."""
    tile = from_json(config)
    _, payload = VIEWS[tile.kernel]
    split = tile.split_k > 1
    arguments: dict[str, Any] = {
        "x": payload, "x_scale": "*u8", "w": payload, "w_scale": "*u8", "y": "*bf16",
        "partial": "*fp32" if split else None, "counter": "*i32" if split else None, **_sizes(problem, tile),
    }  # fmt: skip
    sizes_bytes = {
        "x": problem.M * problem.K,
        "w": problem.N * problem.K,
        "y": 2 * problem.M * problem.N,
        "partial": scratch_bytes(problem, tile),
    }
    return Request(
        kernel_path(KERNELS[tile.kernel]),
        arguments,
        _constants(problem, tile, target_isa(device)),
        _options(tile),
        large_operands(sizes_bytes),
        decoded=tile.block_n * tile.block_k if tile.kernel in _DECODING else None,
    )


def _sizes(problem: Problem, tile: Tile) -> dict[str, int]:
    k_tiles = -(-problem.K // tile.block_k)
    return {
        "M": problem.M,
        "N": problem.N,
        "k_units": problem.K // math.gcd(problem.K, _K_UNIT),
        "split_tiles": -(-k_tiles // tile.split_k),
    }


def _constants(problem: Problem, tile: Tile, isa: str) -> dict[str, Any]:
    return {
        "K_UNIT": math.gcd(problem.K, _K_UNIT),
        "BM": tile.block_m,
        "BN": tile.block_n,
        "BK": tile.block_k,
        "MASKED": problem.K % tile.block_k != 0,
        "SPLIT": tile.split_k,
        "STAGES": tile.stages,
        "ISA": isa,
    }


def _options(tile: Tile) -> dict[str, int]:
    return {"num_warps": tile.warps, "num_stages": tile.stages}

"""From operands and routing to the launch of a MoE kernel, or to the order to compile it for another GPU."""

from typing import Any

import torch

from ...shapes.problem import Problem
from ...shapes.schemes.mxfp8_moe import MxFp8Moe
from ..aot import Request, kernel_path, large_operands
from ..geometry import Geometry, Tiling, padded
from ..provider import Config
from ..triton_launch import CompiledLaunch, compile_launch
from .inputs import MoeInputs
from .routing import Aligned
from .triton_arguments import constants, grouped_grid, options, sizes, taken, types, uses_words
from .triton_configs import Traits
from .triton_gemv import gemv_moe_kernel


def moe_launch(
    kernel: Any, inputs: MoeInputs, aligned: Aligned, output: torch.Tensor, config: Config, chosen: Traits, wide: bool
) -> CompiledLaunch:
    """Compile one of the MoE kernels for these operands; scratch of a divided K is allocated here.

    aligned  the routing, in blocks of config["BLOCK_M"] rows; it is read at every call
    output   bf16 [M * top_k, N], on the device of the operands (the CPU only in Triton's interpreter)
    wide     64-bit offsets
    """
    problem, scheme = inputs.problem, inputs.scheme
    grid = grouped_grid(problem, config)
    tiles, split, _ = grid
    words = uses_words(kernel, problem, config, chosen)
    device = inputs.x.device
    operands = {
        "x": inputs.x.view(torch.uint8),
        "x_scale": inputs.x_scale.view(torch.int32) if words else inputs.x_scale,
        "w": inputs.w.view(torch.uint8),
        "w_scale": inputs.w_scale.view(torch.int32) if words else inputs.w_scale,
        "sorted_ids": aligned.sorted_ids,
        "expert_ids": aligned.expert_ids,
        "padded": aligned.padded,
        "weights": inputs.topk_weights,
        "y": output,
        "partial": torch.empty((split, *output.shape), dtype=torch.float32, device=device) if split > 1 else None,
        "counter": torch.zeros(tiles, dtype=torch.int32, device=device) if split > 1 else None,
        **sizes(problem, config),
    }
    fixed = constants(kernel, problem, scheme, config, chosen, wide)
    return compile_launch(kernel, grid, taken(kernel, operands), taken(kernel, fixed), options(config))


def moe_geometry(
    launch: CompiledLaunch, kernel: Any, problem: Problem, aligned: Aligned, config: Config, chosen: Traits
) -> Geometry:
    """Describe what `moe_launch` launches, of the blocks that are in use: waits for the device to tell them.

    A GEMV has a loop for 1, 2 and 4 rows each, so that there is no one number of instructions per weight.
    """
    rows, columns, depth = config["BLOCK_M"], config["BLOCK_N"], config["BLOCK_K"]
    tiles = -(-int(aligned.padded) // rows) * -(-problem.N // columns)
    vector = kernel is gemv_moe_kernel
    tiling = Tiling(
        tile_M=rows,
        tile_N=columns,
        contracted=tiles * padded(problem.K, depth),
        matrix=not vector,
        decodes=vector or chosen.math != "scaled",
        decoded=None if vector else columns * depth,
        workgroups=tiles * launch.grid[1],
    )
    return launch.geometry(tiling)


def moe_request(
    kernel: Any, problem: Problem, scheme: MxFp8Moe, config: Config, chosen: Traits, wide: bool
) -> Request:  # fmt: skip
    """Return what `moe_launch` would compile, for `aot_compiler.compile_in_child`."""
    operands = {**types(kernel, problem, scheme, config, chosen), **sizes(problem, config)}
    fixed = constants(kernel, problem, scheme, config, chosen, wide)
    split = config.get("SPLIT_K", 1)
    sizes_bytes = {
        "x": problem.M * problem.K,
        "w": problem.E * problem.N * problem.K,
        "y": scheme.output_bytes(problem),
        "partial": 4 * split * problem.rows * problem.N if split > 1 else 0,
    }
    return Request(
        kernel_path(kernel),
        taken(kernel, operands),
        taken(kernel, fixed),
        options(config),
        large_operands(sizes_bytes),
        decoded=config["BLOCK_N"] * config["BLOCK_K"],
    )

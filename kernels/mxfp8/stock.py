"""The plain `tl.dot_scaled` GEMM in two policies: the fixed 64 x 128 x 128 tile, and small tiles for small M.

The small tiles are vLLM's newer policy (vllm-project/vllm#46117) and the baseline of `mxfp8-decode`. Of a tile of 64
rows one token fills a 64th, so that a speedup over it says little.
"""

from collections.abc import Sequence
from typing import Any

import torch

from ...shapes.device import Device
from ...shapes.gpu_architectures import architecture
from ...shapes.problem import Op, Problem
from ...shapes.schemes.mxfp8 import MxFp8
from ..geometry import Tiling, padded
from ..jit.call import KernelCall
from ..jit.provider import TritonProvider
from ..jit.tiles import compiler_options
from ..needs import NOT_ON_CPU
from ..provider import Config, Role, Support
from .inputs import MxFp8Inputs
from .triton.stock import scaled_gemm_kernel
from .triton_configs import emulated

OFFSET_LIMIT = 1 << 31
"""The kernel's offsets are 32-bit: no operand may have this many elements."""

BLOCK_K = 128
"""K is a multiple of this: the kernel does not mask its loop."""

SMALL_M = 64
"""Largest M that the small tiles are for; above, the policy is the fixed tile."""


class StockTritonMx(TritonProvider[MxFp8, MxFp8Inputs]):
    """One fixed tile, 64 x 128 x 128 with 8 warps, for every problem: the older policy."""

    family = "mxfp8"
    op = Op.GEMM
    name = "stock_triton_mx"
    role = Role.STOCK_TRITON

    def supports(self, problem: Problem, scheme: MxFp8, device: Device) -> Support:
        """K in whole tiles, operands within 32-bit offsets, and an architecture that compiles it."""
        if not device.is_gpu:
            return Support.no(NOT_ON_CPU)
        arch = architecture(device.arch)
        if arch.dot_scaled:
            return Support.no(arch.dot_scaled)
        if not arch.converts_fp8:
            return Support.no(f"Triton has no e4m3 on {device.arch}: needs sm89 or newer")
        if problem.K % BLOCK_K:
            return Support.no(f"K={problem.K} is not a multiple of {BLOCK_K}: its K loop is not masked")
        for what, size in (("W", problem.N * problem.K), ("X", problem.M * problem.K), ("Y", problem.M * problem.N)):
            if size >= OFFSET_LIMIT:
                return Support.no(f"{what} has {size} elements: its offsets are 32-bit, {OFFSET_LIMIT - 1} at most")
        return Support.yes()

    def candidates(self, problem: Problem, scheme: MxFp8, device: Device) -> Sequence[Config]:
        """One configuration: the provider stands for the untuned default."""
        return [_config(64, 128, BLOCK_K, 8, 2 if architecture(device.arch).is_amd else 3, device.arch)]

    def calls(self, inputs: MxFp8Inputs, outputs: tuple[torch.Tensor, ...], config: Config) -> Sequence[KernelCall]:
        """The one kernel."""
        problem = inputs.problem
        rows, columns, depth = (config[name] for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K"))
        arguments = {
            "x": inputs.x.view(torch.uint8), "x_scale": inputs.x_scale, "w": inputs.w.view(torch.uint8),
            "w_scale": inputs.w_scale, "y": outputs[0], "M": problem.M, "N": problem.N, "K": problem.K,
        }  # fmt: skip
        grid = (-(-problem.M // rows), -(-problem.N // columns), 1)
        contracted = grid[0] * grid[1] * padded(problem.K, depth)
        decodes = bool(config.get("emulated"))  # into bf16, in registers
        tiling = Tiling(rows, columns, contracted, depth, decodes=decodes)
        constants = {"BM": rows, "BN": columns, "BK": depth}
        return [KernelCall(scaled_gemm_kernel, grid, arguments, constants, compiler_options(config), tiling)]

    def math_dtype(self, problem: Problem, scheme: MxFp8, device: Device) -> str:
        """bf16 where dot_scaled is emulated."""
        return "bf16" if self.candidates(problem, scheme, device)[0]["emulated"] else "mxfp8"


class SmallTileMx(StockTritonMx):
    """The same kernel with the newer policy: for M <= 64, 16-row tiles, narrow in N and long in K.

    BLOCK_K is the largest power of two up to 1024 that divides K where the operands stay e4m3; where they become bf16
    in registers, it is limited to 256, and to 128 on RDNA. Above 64 rows the tile is the stock one.
    """

    name = "small_tile_mx"

    def candidates(self, problem: Problem, scheme: MxFp8, device: Device) -> Sequence[Config]:
        """The policy's tile, and narrower and wider ones."""
        if problem.M > SMALL_M:
            return StockTritonMx.candidates(self, problem, scheme, device)
        largest = architecture(device.arch).of({"gfx950": 1024, "cdna": 256, "rdna": 128, "cuda": 256})
        block_k = next(size for size in (1024, 512, 256, 128) if size <= largest and problem.K % size == 0)
        stages = 2 if architecture(device.arch).is_amd else 3
        shapes = [(32, block_k), (64, min(block_k, largest // 2, 256)), (16, block_k)]
        return [_config(16, block_n, depth, 4, stages, device.arch) for block_n, depth in dict.fromkeys(shapes)]


def _config(block_m: int, block_n: int, block_k: int, warps: int, stages: int, arch: str) -> dict[str, Any]:
    return {
        "BLOCK_M": block_m,
        "BLOCK_N": block_n,
        "BLOCK_K": block_k,
        "num_warps": warps,
        "num_stages": stages,
        "emulated": emulated(arch, block_m, block_n),
    }


STOCK_TRITON = StockTritonMx()
SMALL_TILE = SmallTileMx()

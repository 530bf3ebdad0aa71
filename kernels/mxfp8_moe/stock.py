"""stock_triton_moe: the fused MoE path of a framework, untuned: one tile of 64 x 128 x 128 for all sizes."""

from collections.abc import Sequence
from typing import ClassVar

from ...shapes.device import Device
from ...shapes.gpu_architectures import architecture
from ...shapes.problem import Problem
from ...shapes.schemes.mxfp8_moe import MxFp8Moe
from ..jit.tiles import Tile
from ..mxfp8.triton_configs import emulated
from ..provider import Config, Launch, Role, Support
from .inputs import MoeInputs
from .providers import Fused
from .triton.stock import stock_moe_kernel

_BLOCK_M, _BLOCK_N, _BLOCK_K = 64, 128, 128


class StockTritonMoe(Fused):
    """tl.dot_scaled in tiles of 64 x 128 x 128 with 8 warps, rows of X first: what vLLM runs on gfx950."""

    name = "stock_triton_moe"
    role = Role.STOCK_TRITON
    kernel: ClassVar[object] = stock_moe_kernel

    def supports(self, problem: Problem, scheme: MxFp8Moe, device: Device) -> Support:
        """K in whole tiles, on a GPU for which Triton knows e4m3."""
        if problem.K % _BLOCK_K:
            return Support.no(f"K={problem.K} is not a multiple of {_BLOCK_K}: the loop over K has no mask")
        if device.is_gpu and not architecture(device.arch).converts_fp8:
            return Support.no("tl.dot_scaled on e4m3 needs sm89 or newer")
        return super().supports(problem, scheme, device)

    def tiles(self, problem: Problem, device: Device) -> Sequence[Tile]:
        """One: the provider stands for the untuned default."""
        return (Tile(_BLOCK_M, _BLOCK_N, _BLOCK_K, 8, 2 if architecture(device.arch).is_amd else 3),)

    def prepare(self, inputs: MoeInputs, config: Config | None = None) -> Launch:
        """As the other fused kernels; `emulated` is true where the matrix units multiply bf16 copies."""
        launch = super().prepare(inputs, config)
        launch.config = {**launch.config, "emulated": _is_emulated(inputs.device)}
        return launch

    def math_dtype(self, problem: Problem, scheme: MxFp8Moe, device: Device) -> str:
        """MX-FP8 where it is native, else bf16."""
        return "bf16" if _is_emulated(device) else "mxfp8"


def _is_emulated(device: Device) -> bool:
    """Whether tl.dot_scaled in this tile multiplies bf16 copies."""
    return emulated(device.arch, _BLOCK_M, _BLOCK_N)


STOCK_TRITON = StockTritonMoe()

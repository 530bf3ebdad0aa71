"""The Triton providers: which problems they take, their configurations, and which copies of the weights they read."""

from collections.abc import Sequence
from typing import ClassVar

import torch

from ...shapes.device import Device
from ...shapes.gpu_architectures import architecture
from ...shapes.problem import Problem
from ...shapes.schemes.a16w8 import A16W8
from ..geometry import Tiling, combined, padded, transposing_copy
from ..jit.call import KernelCall, launch_calls
from ..jit.provider import TritonProvider
from ..needs import NOT_ON_CPU
from ..provider import Config, Launch, Role, Support
from .inputs import A16W8Inputs
from .quantize import LEAST_AMAX
from .triton.gemm import a16w8_kernel
from .triton_configs import TileConfig, native_configs, transposed_configs, upstream_config

_MAX_SIZE = 1 << 22
"""Offsets inside a tile are 32-bit: 256 rows of this many elements, 128 rows of transposed weights."""

_OPTIONS = ("num_warps", "num_stages", "waves_per_eu", "matrix_instr_nonkdim")


def gemm_call(
    inputs: A16W8Inputs, w: torch.Tensor, scale: torch.Tensor, y: torch.Tensor, config: Config, transposed: bool
) -> KernelCall:
    """Call the GEMM on `w` and `scale` in the native layout, or with their last two axes `transposed`."""
    problem, scheme = inputs.problem, inputs.scheme
    rows, columns, depth = (config[name] for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K"))
    arguments = {
        "x": inputs.x, "w": w, "scale": scale, "bias": inputs.bias, "y": y,
        "B": problem.B, "M": problem.M, "N": problem.N, "K": problem.K,
    }  # fmt: skip
    constants = {
        "BM": rows,
        "BN": columns,
        "BK": depth,
        "GROUP_M": config["GROUP_M"],
        "KN": transposed,
        "SWAP": config["swap"],
        "SCALING": config["scaling"],
        "PREQUANT": scheme.prequant,
        "FP8_MAX": torch.finfo(w.dtype).max,
        "LEAST": LEAST_AMAX,
        "BIAS": scheme.bias,
        "BATCH_INNER": config["batch_inner"],
        "EVEN_N": problem.N % columns == 0,
        "EVEN_K": problem.K % depth == 0,
    }
    programs = _programs(problem, rows, columns)
    # weights are converted unless activations are rounded to FP8
    tiling = Tiling(rows, columns, programs * padded(problem.K, depth), depth, decodes=not scheme.prequant)
    options = {name: config[name] for name in _OPTIONS if name in config}
    return KernelCall(a16w8_kernel, (programs, 1, 1), arguments, constants, options, tiling)


def _programs(problem: Problem, rows: int, columns: int) -> int:
    """Tiles of all Y[b]."""
    return problem.B * -(-problem.M // rows) * -(-problem.N // columns)


class _Gemm(TritonProvider[A16W8, A16W8Inputs]):
    """One kernel; the providers differ in the layout of the weights, the tiles, and what they do at every call."""

    family = "a16w8"
    transposed: ClassVar[bool]

    def supports(self, problem: Problem, scheme: A16W8, device: Device) -> Support:
        """Any sizes up to 2^22 on a GPU with FP8 conversions; prequantization where FP8 is multiplied natively."""
        if not device.is_gpu:
            return Support.no(NOT_ON_CPU)
        arch = architecture(device.arch)
        if not arch.converts_fp8:
            return Support.no(f"Triton has no FP8 e4m3 on {device.arch}: needs sm89 or newer")
        if scheme.prequant and not arch.multiplies_fp8:
            return Support.no(f"{device.arch} multiplies no FP8, so that prequantization gains nothing: leave it out")
        if max(problem.N, problem.K) > _MAX_SIZE:
            return Support.no(f"N and K are limited to {_MAX_SIZE} (32-bit offsets inside a tile)")
        tiles = self._tiles(problem, scheme, device)
        if max(_programs(problem, tile.block_m, tile.block_n) for tile in tiles) >= 1 << 31:
            return Support.no("more than 2^31 tiles: take a smaller batch or M")
        return Support.yes()

    def candidates(self, problem: Problem, scheme: A16W8, device: Device) -> Sequence[Config]:
        """Rows of the per-architecture table for this M."""
        return [tile.as_json() for tile in self._tiles(problem, scheme, device)]

    def calls(self, inputs: A16W8Inputs, outputs: tuple[torch.Tensor, ...], config: Config) -> Sequence[KernelCall]:
        """The GEMM, on a copy of the weights in the layout of the kernel."""
        w, scale = (_transposed(inputs.q), _transposed(inputs.scale)) if self.transposed else inputs.weights
        return [gemm_call(inputs, w, scale, outputs[0], config, self.transposed)]

    def _tiles(self, problem: Problem, scheme: A16W8, device: Device) -> Sequence[TileConfig]:
        return transposed_configs(problem, scheme, device)


class TunedGemm(_Gemm):
    """On the weights as they are stored, [B,N,K], with tiles that follow M."""

    name = "tuned_a16w8"
    transposed = False

    def _tiles(self, problem: Problem, scheme: A16W8, device: Device) -> Sequence[TileConfig]:
        return native_configs(problem, scheme, device)


class KernelGemm(_Gemm):
    """On weights [B,K,N], the layout of the upstream kernel, transposed beforehand: the kernel alone."""

    name = "kernel_a16w8"
    transposed = True


class StockGemm(KernelGemm):
    """`kernel_a16w8` in upstream's one configuration, whatever M is."""

    name = "stock_triton_a16w8"
    role = Role.STOCK_TRITON

    def supports(self, problem: Problem, scheme: A16W8, device: Device) -> Support:
        """As `kernel_a16w8`, where the tile fits."""
        if device.is_gpu and architecture(device.arch).small_shared:
            return Support.no(f"the 64 x 256 x 128 tile needs 128 KiB of shared memory: {device.arch} has 99 KiB")
        return super().supports(problem, scheme, device)

    def _tiles(self, problem: Problem, scheme: A16W8, device: Device) -> Sequence[TileConfig]:
        return [upstream_config(device)]


class WrapperGemm(KernelGemm):
    """What upstream's wrapper does: transposes weights and scales at every call, then runs `kernel_a16w8`.

    The copies go to buffers that are allocated beforehand; upstream allocates them anew (`.contiguous()`).
    """

    name = "wrapper_a16w8"

    def prepare(self, inputs: A16W8Inputs, config: Config | None = None) -> Launch:
        """Allocate both copies and the output, compile and warm up."""
        config = config or self.default_config(inputs)
        w, scale, outputs = _transposed(inputs.q), _transposed(inputs.scale), inputs.empty_outputs()
        launch = launch_calls([gemm_call(inputs, w, scale, outputs[0], config, True)], outputs, config)
        gemm, q_view, scale_view = launch.run, inputs.q.transpose(1, 2), inputs.scale.transpose(1, 2)

        def run() -> None:
            w.copy_(q_view)
            scale.copy_(scale_view)
            gemm()

        launch.run, launch.kernels = run, ("torch.copy_", "torch.copy_", *launch.kernels)
        copies = [transposing_copy(tensor, inputs.device.arch) for tensor in inputs.weights]
        launch.geometry = combined([launch.geometry] if launch.geometry else [], copies)
        return launch

    def moved_bytes(self, problem: Problem, scheme: A16W8, config: Config) -> int:
        """Beside the kernel's, weights and scales are read and written once more."""
        copies = scheme.weight_bytes(problem) + scheme.scale_bytes(problem)
        return super().moved_bytes(problem, scheme, config) + 2 * copies

    def working_set_bytes(self, problem: Problem, scheme: A16W8, config: Config) -> int:
        """Weights and scales exist twice."""
        return scheme.compulsory_bytes(problem) + scheme.weight_bytes(problem) + scheme.scale_bytes(problem)


TUNED = TunedGemm()
KERNEL = KernelGemm()
STOCK_TRITON = StockGemm()
WRAPPER = WrapperGemm()


def _transposed(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.transpose(1, 2).contiguous()

"""The Triton providers: which problems they take, their configurations, and which copies of the weights they read."""

from collections.abc import Sequence
from typing import ClassVar

import torch

from ...shapes.device import Device
from ...shapes.problem import Problem
from ...shapes.schemes.a16w8 import A16W8
from ..aot import Request
from ..arch import NOT_ON_CPU, converts_fp8, multiplies_fp8
from ..provider import Config, Launch, Provider, Role, Support
from .inputs import A16W8Inputs
from .triton_configs import SMALL_SHARED, TileConfig, native_configs, transposed_configs, upstream_config
from .triton_launches import gemm_geometry, gemm_launch, gemm_request, tiles

_MAX_SIZE = 1 << 22
"""Offsets inside a tile are 32-bit: 256 rows of this many elements, 128 rows of transposed weights."""


class _Gemm(Provider[A16W8, A16W8Inputs]):
    """One kernel; the providers differ in the layout of the weights, the tiles, and what they do at every call."""

    family = "a16w8"
    transposed: ClassVar[bool]

    def supports(self, problem: Problem, scheme: A16W8, device: Device) -> Support:
        """Any sizes up to 2^22 on a GPU with FP8 conversions; prequantization where FP8 is multiplied natively."""
        if not device.is_gpu:
            return Support.no(NOT_ON_CPU)
        if not converts_fp8(device.arch):
            return Support.no(f"Triton has no FP8 e4m3 on {device.arch}: needs sm89 or newer")
        if scheme.prequant and not multiplies_fp8(device.arch):
            return Support.no(f"{device.arch} multiplies no FP8, so that prequantization gains nothing: leave it out")
        if max(problem.N, problem.K) > _MAX_SIZE:
            return Support.no(f"N and K are limited to {_MAX_SIZE} (32-bit offsets inside a tile)")
        if max(tiles(problem, config.as_json()) for config in self._tiles(problem, scheme, device)) >= 1 << 31:
            return Support.no("more than 2^31 tiles: take a smaller batch or M")
        return Support.yes()

    def candidates(self, problem: Problem, scheme: A16W8, device: Device) -> Sequence[Config]:
        """Rows of the per-architecture table for this M."""
        return [tile.as_json() for tile in self._tiles(problem, scheme, device)]

    def prepare(self, inputs: A16W8Inputs, config: Config | None = None) -> Launch:
        """Copy the weights into the layout of the kernel, allocate the output, compile and warm up."""
        config = config or self.candidates(inputs.problem, inputs.scheme, inputs.device)[0]
        w, scale = (_transposed(inputs.q), _transposed(inputs.scale)) if self.transposed else inputs.weights
        output = inputs.empty_output()
        launch = gemm_launch(inputs, w, scale, output, config, self.transposed)
        geometry = gemm_geometry(launch, inputs.problem, inputs.scheme, config)
        return Launch(launch.run, output, dict(config), (launch.kernel,), artifact=launch.artifact, geometry=geometry)

    def moved_bytes(self, problem: Problem, scheme: A16W8, config: Config) -> int:
        """Each operand once: re-reads of one batch entry by its tiles are served by the caches."""
        return scheme.compulsory_bytes(problem)

    def builds(self, problem: Problem, scheme: A16W8, device: Device, config: Config) -> Sequence[Request]:
        """The GEMM."""
        return (gemm_request(problem, scheme, device, config, self.transposed),)

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
        if device.arch in SMALL_SHARED:
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
        config = config or self.candidates(inputs.problem, inputs.scheme, inputs.device)[0]
        w, scale = _transposed(inputs.q), _transposed(inputs.scale)
        q_view, scale_view = inputs.q.transpose(1, 2), inputs.scale.transpose(1, 2)
        output = inputs.empty_output()
        gemm = gemm_launch(inputs, w, scale, output, config, self.transposed)

        def run() -> None:
            w.copy_(q_view)
            scale.copy_(scale_view)
            gemm.run()

        kernels = ("torch.copy_", "torch.copy_", gemm.kernel)
        geometry = gemm_geometry(gemm, inputs.problem, inputs.scheme, config)
        return Launch(run, output, dict(config), kernels, artifact=gemm.artifact, geometry=geometry)

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

"""The Triton providers: quantizers, the dense and the grouped product, and the plain tiled GEMM."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import torch

from ...shapes.device import Device
from ...shapes.gpu_architectures import architecture
from ...shapes.problem import Op, Pass, Problem
from ...shapes.schemes.torchao import AoQuant, Torchao
from ..jit.call import KernelCall
from ..jit.provider import TritonProvider
from ..jit.tiled_gemm import tiled_gemm_call
from ..needs import NOT_ON_CPU, fp8_missing
from ..provider import Config, Role, Support
from .blas import dense_weight
from .inputs import QuantInputsAo
from .linear_inputs import LinearInputs
from .product_inputs import ProductInputs
from .traffic import dense_bytes, fp8_bytes, fp8_memory_bytes
from .triton_casts import LAYOUTS, quantize_call
from .triton_configs import gemm_configs, quantize_configs
from .triton_products import linear_calls, product_calls

LONGEST_ROW = 1 << 24
"""Offsets inside a tile are 32-bit: up to 128 rows (or columns) of this many elements."""


class _Triton(TritonProvider[Torchao, Any]):
    """Kernels of one operation, on a GPU with FP8."""

    family = "torchao"

    def supports(self, problem: Problem, scheme: Torchao, device: Device) -> Support:
        """On a GPU with FP8, of rows and columns that a tile can address."""
        if max(problem.M, problem.N, problem.K) >= LONGEST_ROW:
            return Support.no(f"M, N and K are limited to {LONGEST_ROW - 1} (32-bit offsets inside a tile)")
        missing = fp8_missing(device)
        return Support.no(missing) if missing else Support.yes()


class Quantize(_Triton):
    """The five quantizers, one launch each."""

    name = "triton_quant_ao"
    op = Op.QUANTIZE

    def candidates(self, problem: Problem, scheme: Torchao, device: Device) -> Sequence[Config]:
        """Tiles of the kernel that makes this layout."""
        assert isinstance(scheme, AoQuant)
        return quantize_configs(LAYOUTS[scheme.kind][0], problem.M, problem.K, device)

    def calls(self, inputs: QuantInputsAo, outputs: tuple[torch.Tensor, ...], config: Config) -> list[KernelCall]:
        """The quantizer of the layout."""
        data, scale = outputs
        return [quantize_call(inputs.x, inputs.scheme.kind, data, scale, config)]


class Products(_Triton):
    """The blockwise-scaled GEMM; a linear's casts are launches of their own."""

    per_expert: ClassVar[bool] = False
    """Launch once for every expert with rows (and for the gradient of every expert's weight)."""

    def candidates(self, problem: Problem, scheme: Torchao, device: Device) -> Sequence[Config]:
        """Tiles, the largest that fills the device first."""
        rows = -(-problem.M // problem.E) if self.per_expert else problem.M
        # a step contracts over K, then N, then M, which is a multiple of 128 there
        contraction = math.gcd(problem.K, problem.N) if problem.pass_ is Pass.STEP else problem.K
        return gemm_configs(rows, problem.N, contraction, device)

    def moved_bytes(self, problem: Problem, scheme: Torchao, config: Config) -> int:
        """Operands and results once per product: re-reads of tiles are served by the caches."""
        return fp8_bytes(problem, scheme)

    def working_set_bytes(self, problem: Problem, scheme: Torchao, config: Config) -> int:
        """What comes in and goes out, and the FP8 copies between."""
        return fp8_memory_bytes(problem, scheme)

    def calls(
        self, inputs: ProductInputs | LinearInputs, outputs: tuple[torch.Tensor, ...], config: Config
    ) -> list[KernelCall]:
        """Casts where the scheme has them inside, and products."""
        if isinstance(inputs, LinearInputs):
            return linear_calls(inputs, outputs, config, self.per_expert)
        return product_calls(inputs, outputs[0], config, self.per_expert)


class GemmAo(Products):
    """One dense product, or the three of a step."""

    name = "gemm_ao"
    op = Op.GEMM


class GroupedAo(Products):
    """All experts in one launch; which tiles belong to whom is found on the device."""

    name = "grouped_ao"
    op = Op.GROUPED_GEMM


class Loop(Products):
    """The same kernel, launched expert by expert from ends of groups that the host knows."""

    name = "loop_ao"
    op = Op.GROUPED_GEMM
    per_expert = True


class StockTritonAo(_Triton):
    """The plain tiled Triton GEMM in the scheme's dtype, on operands that were dequantized beforehand."""

    name = "stock_triton_ao"
    role = Role.REFERENCE
    op = Op.GEMM

    def supports(self, problem: Problem, scheme: Torchao, device: Device) -> Support:
        """The forward product on any GPU."""
        if problem.pass_ is not Pass.FWD:
            return Support.no("computes the forward product only: its operands lie as Y = X W^T needs them")
        return Support.yes() if device.is_gpu else Support.no(NOT_ON_CPU)

    def candidates(self, problem: Problem, scheme: Torchao, device: Device) -> Sequence[Config]:
        """One configuration: the provider stands for the untuned default."""
        rdna, wide = architecture(device.arch).family == "rdna", scheme.dtype.bytes == 4
        return [{"BLOCK_M": 64, "BLOCK_N": 64 if wide else 128, "BLOCK_K": 32 if rdna or wide else 64,
                 "num_warps": 4, "num_stages": 2}]  # fmt: skip

    def moved_bytes(self, problem: Problem, scheme: Torchao, config: Config) -> int:
        """Dense operands and output, each once."""
        return dense_bytes(problem, scheme)

    def working_set_bytes(self, problem: Problem, scheme: Torchao, config: Config) -> int:
        """Dense operands and output."""
        return dense_bytes(problem, scheme)

    def math_dtype(self, problem: Problem, scheme: Torchao, device: Device) -> str:
        """Nothing is multiplied in FP8."""
        return scheme.dtype.value

    def calls(
        self, inputs: ProductInputs | LinearInputs, outputs: tuple[torch.Tensor, ...], config: Config
    ) -> list[KernelCall]:
        """The kernel, on weights that are dequantized here."""
        return [tiled_gemm_call(inputs.dense[0], dense_weight(inputs)[0], None, outputs[0], config)]


QUANTIZE = Quantize()
GEMM = GemmAo()
GROUPED = GroupedAo()
LOOP = Loop()
STOCK_TRITON = StockTritonAo()

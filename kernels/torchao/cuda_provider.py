"""Products in CUDA C++ for sm90, dense or grouped over experts, of operands that are quantized, or cast in the call."""

from collections.abc import Sequence

import torch

from ...shapes.device import Device
from ...shapes.problem import Op, Pass, Problem
from ...shapes.scheme import DType
from ...shapes.schemes.torchao import AoGrouped, Torchao, by_column
from ..aot import BuildRequest
from ..cuda import matmul_fp8
from ..cuda.provider import CudaProvider, LaunchPlan, Part
from ..geometry import Geometry
from ..inputs import Tensors, placeholders
from ..jit.call import KernelCall, requests
from ..needs import WRITTEN_FOR_SM90
from ..provider import Config, Launch, Support
from ..quantized import ScaledOperand
from .groups import group_rows
from .linear_inputs import LinearInputs
from .product_inputs import ProductInputs
from .traffic import casts_inside, fp8_bytes, fp8_memory_bytes
from .triton_configs import gemm_configs
from .triton_products import LinearProduct, Pair, linear_products, wgrad_calls
from .triton_providers import LONGEST_ROW

Ends = tuple[torch.Tensor, tuple[int, ...]]
"""Of groups of rows, on the device and on the host."""

_LONGEST = (1 << 31) - 256
"""Rows and columns, to whole tiles, and tiles are counted in 32 bits."""


class CudaAo(CudaProvider[Torchao, ProductInputs | LinearInputs]):
    """The product of `cuda_fp8`: while one partial sum is scaled and added, the next product runs.

    Casts, and the gradient of the weights of experts, are those of `gemm_ao` and `grouped_ao`.
    """

    name = "cuda_ao"
    family = "torchao"
    op = Op.GEMM
    sources = matmul_fp8.SOURCES
    headers = matmul_fp8.HEADERS
    kernel = matmul_fp8.KERNEL

    def supports(self, problem: Problem, scheme: Torchao, device: Device) -> Support:
        """On sm90, 16-bit results; K in multiples of 16, N of 8 (16 in a step), M of 4 where b has 128x1 groups."""
        if device.arch != "sm90":
            return Support.no(WRITTEN_FOR_SM90)
        if scheme.dtype is DType.FP32:
            return Support.no("stores 16-bit results")
        step = problem.pass_ is Pass.STEP
        if problem.N % (16 if step else 8) or problem.K % 16:
            return Support.no(f"N={problem.N} must be a multiple of {16 if step else 8}, K={problem.K} of 16")
        if problem.E > matmul_fp8.MOST_GROUPS:
            return Support.no(f"takes up to {matmul_fp8.MOST_GROUPS} experts")
        if by_column(scheme) and problem.M % 4:
            return Support.no(f"M={problem.M} must be a multiple of 4 where b has 128x1 groups")
        m, n, k = problem.M, problem.N, problem.K
        tiles = max(
            matmul_fp8.most_tiles(m, max(n, k) if step else n, problem.E, by_row=by_column(scheme)),
            matmul_fp8.most_tiles(n, k, 1, by_row=True) if step else 0,
        )
        if max(m, problem.E * n, k, problem.E * k if step else 0, tiles) > _LONGEST:
            return Support.no(f"M, E N, K and the number of tiles are limited to {_LONGEST}")
        if casts_inside(scheme) and max(m, n, k) >= LONGEST_ROW:
            return Support.no(f"M, N and K are limited to {LONGEST_ROW - 1} (32-bit offsets inside a tile)")
        return Support.yes()

    def candidates(self, problem: Problem, scheme: Torchao, device: Device) -> Sequence[Config]:
        """One block per SM, with as many stages as fit."""
        return [matmul_fp8.default_config(device)]

    def prepare(self, inputs: ProductInputs | LinearInputs, config: Config | None = None) -> Launch:
        """Allocate outputs and what is cast, compile, and run everything once."""
        config, outputs = config or self.default_config(inputs), inputs.empty_outputs()
        return self.prepared(_parts(inputs, outputs, config), outputs, config)

    def moved_bytes(self, problem: Problem, scheme: Torchao, config: Config) -> int:
        """Operands and results once per product: tiles are read again from the L2 cache."""
        return fp8_bytes(problem, scheme)

    def working_set_bytes(self, problem: Problem, scheme: Torchao, config: Config) -> int:
        """Operands and results, and the FP8 copies between."""
        return fp8_memory_bytes(problem, scheme)

    def builds(self, problem: Problem, scheme: Torchao, device: Device, config: Config) -> Sequence[BuildRequest]:
        """What Triton compiles: all but the products in CUDA C++."""
        inputs = placeholders(problem, scheme, device)
        parts = _parts(inputs, inputs.empty_outputs(), config)
        return requests(call for part in parts if isinstance(part, list) for call in part)


def _parts(inputs: ProductInputs | LinearInputs, outputs: Tensors, config: Config) -> list[Part]:
    """Casts and products, each cast just before the product that needs it."""
    if isinstance(inputs, ProductInputs):
        return [product_part(inputs, outputs[0], config)]
    parts: list[Part] = []
    for one in linear_products(inputs, outputs):
        parts.append(one.casts)
        ends = _ends(inputs)
        if one.by_column and ends:
            parts.append(_wgrad(inputs, one))
        else:
            parts.append(_part(one.left, one.right, one.output, config, ends, by_row=one.by_column))
    return parts


def _ends(inputs: ProductInputs | LinearInputs) -> Ends | None:
    """Ends of the experts' rows, where there are experts."""
    return (inputs.offs, inputs.ends) if isinstance(inputs.scheme, AoGrouped) else None


def product_part(inputs: ProductInputs, output: torch.Tensor, config: Config) -> tuple[LaunchPlan, Geometry]:
    """Return the launch that multiplies quantized operands."""
    left, right = (inputs.a, inputs.a_scale), (inputs.b, inputs.b_scale)
    return _part(left, right, output, config, _ends(inputs), by_row=inputs.by_column)


def _part(
    left: Pair, right: Pair, output: torch.Tensor, config: Config, ends: Ends | None, *, by_row: bool
) -> tuple[LaunchPlan, Geometry]:
    """Return the launch of a product, and its whole tiles of every group."""
    offs, host_ends = ends or (None, (len(output),))
    stride = right[1].stride(-2)
    a = ScaledOperand(*left, 1, left[1].stride(0))
    b = ScaledOperand(*right, *((1, stride) if by_row else (stride, 1)))
    plan = matmul_fp8.launch_plan(a, b, output, config, offs, by_row=by_row)
    rows = [last - first for first, last in group_rows(host_ends)]
    return plan, matmul_fp8.geometry(plan, rows, output.shape[1], left[0].shape[1])


def _wgrad(inputs: LinearInputs, product: LinearProduct) -> list[KernelCall]:
    """The gradient of the weights of experts, by Triton."""
    experts, n, k = inputs.w.shape
    return wgrad_calls(inputs, product, gemm_configs(experts * n, k, inputs.problem.M, inputs.device)[0])


class CudaGroupedAo(CudaAo):
    """All experts in one launch; which tiles belong to whom is found on the device."""

    name = "cuda_grouped_ao"
    op = Op.GROUPED_GEMM


CUDA = CudaAo()
CUDA_GROUPED = CudaGroupedAo()

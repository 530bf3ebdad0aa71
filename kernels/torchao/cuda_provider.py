"""Products of quantized operands in CUDA C++ for sm90, dense or grouped over experts."""

from collections.abc import Sequence

import torch

from ...shapes.device import Device
from ...shapes.problem import Op, Problem
from ...shapes.scheme import DType
from ...shapes.schemes.torchao import AoGrouped, Torchao, by_column
from ..cuda import matmul_fp8
from ..cuda.provider import CudaGemm, LaunchPlan
from ..geometry import Geometry
from ..needs import WRITTEN_FOR_SM90
from ..provider import Config, Support
from ..quantized import ScaledOperand
from .groups import group_rows
from .product_inputs import ProductInputs
from .traffic import casts_inside, fp8_bytes

_LONGEST = (1 << 31) - 256
"""Rows and columns, to whole tiles, and tiles are counted in 32 bits."""


class CudaAo(CudaGemm[Torchao, ProductInputs]):
    """The product of `cuda_fp8`: while one partial sum is scaled and added, the next product runs."""

    name = "cuda_ao"
    family = "torchao"
    op = Op.GEMM
    sources = matmul_fp8.SOURCES
    headers = matmul_fp8.HEADERS
    kernel = matmul_fp8.KERNEL

    def supports(self, problem: Problem, scheme: Torchao, device: Device) -> Support:
        """On sm90, 16-bit results, N in multiples of 8 and K of 16, M of 4 where columns of b have scales."""
        if device.arch != "sm90":
            return Support.no(WRITTEN_FOR_SM90)
        if casts_inside(scheme):
            return Support.no("multiplies operands that are quantized already")
        if scheme.dtype is DType.FP32:
            return Support.no("stores 16-bit results")
        if problem.N % 8 or problem.K % 16:
            return Support.no(f"N={problem.N} must be a multiple of 8, K={problem.K} of 16")
        if problem.E > matmul_fp8.MOST_GROUPS:
            return Support.no(f"takes up to {matmul_fp8.MOST_GROUPS} experts")
        if by_column(scheme) and problem.M % 4:
            return Support.no(f"M={problem.M} must be a multiple of 4 where b has 128x1 groups")
        tiles = matmul_fp8.most_tiles(problem.M, problem.N, problem.E, by_row=by_column(scheme))
        if max(problem.M, problem.E * problem.N, problem.K, tiles) > _LONGEST:
            return Support.no(f"M, E N, K and the number of tiles are limited to {_LONGEST}")
        return Support.yes()

    def candidates(self, problem: Problem, scheme: Torchao, device: Device) -> Sequence[Config]:
        """One block per SM, with as many stages as fit."""
        return [matmul_fp8.default_config(device)]

    def moved_bytes(self, problem: Problem, scheme: Torchao, config: Config) -> int:
        """Operands and results once: tiles are read again from the L2 cache."""
        return fp8_bytes(problem, scheme)

    def working_set_bytes(self, problem: Problem, scheme: Torchao, config: Config) -> int:
        """Operands and results."""
        return scheme.compulsory_bytes(problem)

    def plan(self, inputs: ProductInputs, output: torch.Tensor, config: Config) -> LaunchPlan:
        """Return the launch that writes `output`, [M,N]."""
        a = ScaledOperand(inputs.a, inputs.a_scale, 1, inputs.a_scale.stride(0))
        by_row, stride = inputs.by_column, inputs.b_scale.stride(1)
        b = ScaledOperand(inputs.b, inputs.b_scale, *((1, stride) if by_row else (stride, 1)))
        ends = inputs.offs if isinstance(inputs.scheme, AoGrouped) else None
        return matmul_fp8.launch_plan(a, b, output, config, ends, by_row=by_row)

    def geometry(self, inputs: ProductInputs, config: Config, plan: LaunchPlan) -> Geometry:
        """Whole tiles of every group."""
        rows = [last - first for first, last in group_rows(inputs.ends)]
        return matmul_fp8.geometry(plan, rows, inputs.problem.N, inputs.problem.K)


class CudaGroupedAo(CudaAo):
    """All experts in one launch; which tiles belong to whom is found on the device."""

    name = "cuda_grouped_ao"
    op = Op.GROUPED_GEMM


CUDA = CudaAo()
CUDA_GROUPED = CudaGroupedAo()

"""Library baselines: products of dequantized operands, and what a framework does without a blockwise-scaled GEMM."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from ...shapes.problem import Op, Problem
from ...shapes.schemes.torchao import Torchao
from ..inputs import Tensors
from ..libraries.dense import Decoded, DenseBlas
from ..libraries.rocm_blas import through_libraries
from ..needs import fp8_missing
from ..provider import Config, Role
from .groups import group_rows
from .linear_inputs import LinearInputs
from .product_inputs import ProductInputs
from .traffic import (
    casts_inside,
    dense_bytes,
    dense_memory_bytes,
    dequantized_bytes,
    round_trip_bytes,
    round_trip_reads,
)


def dense_weight(inputs: ProductInputs | LinearInputs) -> torch.Tensor:
    """W [E,N,K] in the scheme's dtype as the FP8 bits have it, rounded once."""
    weight = inputs.empty_weight()
    if not weight.is_meta:
        inputs.dequantize_weight(weight)
    return weight


def dense_products(activations: Tensors, weight: torch.Tensor, ends: tuple[int, ...], outputs: Tensors) -> None:
    """Multiply with the vendor's GEMM, expert by expert: Y = X W^T, and with three outputs dX = dY W, dW = dY^T X.

    activations  X [M,K]; in a step X and dY of the first two products, then X and dY of dW
    """
    for expert, (first, last) in enumerate(group_rows(ends)):
        torch.mm(activations[0][first:last], weight[expert].t(), out=outputs[0][first:last])
    if len(outputs) == 1:
        return
    _, dy, x_columns, dy_columns = activations
    gradients = outputs[2] if outputs[2].dim() == 3 else outputs[2][None]
    for expert, (first, last) in enumerate(group_rows(ends)):
        torch.mm(dy[first:last], weight[expert], out=outputs[1][first:last])
        torch.mm(dy_columns[first:last].t(), x_columns[first:last], out=gradients[expert])


class BlasAo(DenseBlas[Torchao, Any]):
    """The products alone: W is dequantized in `prepare`, and X and dY are taken dequantized.

    This is what a linear in the scheme's dtype costs, at the values that FP8 has.
    """

    family = "torchao"
    name = "blas_bf16_ao"
    op = Op.GEMM

    def decode(self, inputs: ProductInputs | LinearInputs, config: Config) -> Decoded:
        """W, once: X and dY are there, dequantized with every draw."""
        return Decoded((inputs.dense, dense_weight(inputs)))

    def multiply(
        self, inputs: ProductInputs | LinearInputs, operands: Any, outputs: Tensors, config: Config
    ) -> Callable[[], object]:
        """The vendor's GEMM, expert by expert."""
        torch.set_float32_matmul_precision("highest")
        activations, weight = operands
        return partial(dense_products, activations, weight, inputs.ends, outputs)

    def moved_bytes(self, problem: Problem, scheme: Torchao, config: Config) -> int:
        """Dense operands and results, each once per product."""
        return dense_bytes(problem, scheme)

    def working_set_bytes(self, problem: Problem, scheme: Torchao, config: Config) -> int:
        """Dense operands and results: a step reads one W twice."""
        return dense_memory_bytes(problem, scheme)


class DequantBlasAo(BlasAo):
    """Quantize where the scheme casts inside, dequantize, multiply with the vendor's GEMM: all of it timed.

    Config `dequantize`: "triton" (GPUs with FP8) or "torch" (the plain quantizer and dequantizer, anywhere).
    """

    name = "dequant_blas_ao"
    role = Role.DEQUANT_BLAS

    def decode(self, inputs: ProductInputs | LinearInputs, config: Config) -> Decoded:
        """X, W and dY, through their FP8 forms where casts are inside."""
        chosen = config.get("dequantize") or ("torch" if fp8_missing(inputs.device) else "triton")
        if chosen == "triton":
            from .triton_dequantize import prepare_dequantize as prepare_triton

            calls, activations, weight = prepare_triton(inputs)
            fill, described = calls.run, calls.described
        else:
            fill, activations, weight = _prepare_torch(inputs)
            described = ()
        return Decoded((activations, weight), fill, config={"dequantize": chosen}, described=described)

    def moved_bytes(self, problem: Problem, scheme: Torchao, config: Config) -> int:
        """Casts if they are inside (W is cast once), FP8 read, dense operands written, then the products'."""
        fp8 = round_trip_bytes(problem, scheme)
        casts = round_trip_reads(problem, scheme) + fp8 if casts_inside(scheme) else 0
        return casts + fp8 + dequantized_bytes(problem, scheme) + dense_bytes(problem, scheme)

    def working_set_bytes(self, problem: Problem, scheme: Torchao, config: Config) -> int:
        """What comes in, FP8 between if casts are inside, dense copies, and the results."""
        between = round_trip_bytes(problem, scheme) if casts_inside(scheme) else 0
        return scheme.compulsory_bytes(problem) + between + dequantized_bytes(problem, scheme)


def _prepare_torch(inputs: ProductInputs | LinearInputs) -> tuple[Callable[[], None], Tensors, torch.Tensor]:
    """The call that fills dense activations and weights, and those."""
    activations, weight = tuple(torch.empty_like(one) for one in inputs.dense), inputs.empty_weight()

    def fill() -> None:
        inputs.dequantize_activations(activations)
        inputs.dequantize_weight(weight)

    return fill, activations, weight


class LoopBlas(BlasAo):
    """The same, one GEMM per expert."""

    name = "loop_bf16_ao"
    op = Op.GROUPED_GEMM


class DequantLoopAo(DequantBlasAo):
    """The same, one GEMM per expert."""

    name = "dequant_loop_ao"
    op = Op.GROUPED_GEMM


DEQUANT_BLAS = DequantBlasAo()
BLAS = BlasAo()
BLAS_ROCBLAS, BLAS_HIPBLASLT = through_libraries(BlasAo, "blas_{}_ao")
DEQUANT_LOOP = DequantLoopAo()
LOOP_BLAS = LoopBlas()
LOOP_ROCBLAS, LOOP_HIPBLASLT = through_libraries(LoopBlas, "loop_{}_ao")

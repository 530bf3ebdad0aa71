"""The three products of a linear layer in fp64, in pieces, from their FP8 operands."""

from collections.abc import Callable

import torch

from ...shapes.problem import Pass, Problem
from ...shapes.schemes.fp8train import COMPUTES
from ..quantized import Quantized, exact_product


def output_shapes(problem: Problem) -> list[tuple[int, int]]:
    """Shapes of the outputs of a pass, in their order: Y[M,N], dX[M,K], dW[N,K]."""
    m, n, k = problem.M, problem.N, problem.K
    shapes = {Pass.FWD: (m, n), Pass.DGRAD: (m, k), Pass.WGRAD: (n, k)}
    return [shapes[product] for product in COMPUTES[problem.pass_]]


def products(
    problem: Problem, operand: Callable[[str], Quantized], place: torch.device | str = ""
) -> tuple[torch.Tensor, ...]:
    """Return the outputs of a pass in fp64; `operand` returns an FP8 operand by name.

    place  where results are stored, "" with the operands; elsewhere, the operands' device holds one piece at a time
    """
    results = []
    for product, shape in zip(COMPUTES[problem.pass_], output_shapes(problem), strict=True):
        if product is Pass.FWD:
            left, right = operand("x_row"), operand("w")
        elif product is Pass.DGRAD:
            left, right = operand("dy_row"), operand("w").transposed()
        else:
            left, right = operand("dy_col").transposed(), operand("x_col").transposed()
        results.append(torch.empty(shape, dtype=torch.float64, device=place or left.data.device))
        exact_product(left, right, results[-1])
    return tuple(results)

"""The three products of a linear layer in fp64, in pieces, from their FP8 operands."""

from collections.abc import Callable, Iterator

import torch

from ...shapes.problem import Pass, Problem
from ...shapes.schemes.fp8train import COMPUTES
from .quantize import Quantized, decode_rows

_CHUNK_ELEMENTS = 1 << 27
"""Elements of one operand decoded to fp64 at once (1 GiB)."""


def output_shapes(problem: Problem) -> list[tuple[int, int]]:
    """Shapes of the outputs of a pass, in their order: Y[M,N], dX[M,K], dW[N,K]."""
    m, n, k = problem.M, problem.N, problem.K
    shapes = {Pass.FWD: (m, n), Pass.DGRAD: (m, k), Pass.WGRAD: (n, k)}
    return [shapes[product] for product in COMPUTES[problem.pass_]]


def products(problem: Problem, operand: Callable[[str], Quantized]) -> tuple[torch.Tensor, ...]:
    """Return the outputs of a pass in fp64; `operand` returns an FP8 operand by name."""
    results = []
    for product, shape in zip(COMPUTES[problem.pass_], output_shapes(problem), strict=True):
        first, second = {
            Pass.FWD: ("x_row", "w"),
            Pass.DGRAD: ("dy_row", "w"),
            Pass.WGRAD: ("dy_col", "x_col"),
        }[product]
        a, b = operand(first), operand(second)
        result = torch.zeros(shape, dtype=torch.float64, device=a.data.device)
        {Pass.FWD: _forward, Pass.DGRAD: _dgrad, Pass.WGRAD: _wgrad}[product](a, b, result)
        results.append(result)
    return tuple(results)


def _forward(x: Quantized, w: Quantized, result: torch.Tensor) -> None:
    """result[M,N] = x[M,K] w[N,K]^T."""
    for m0, m1 in _ranges(x):
        rows = decode_rows(x, m0, m1, torch.float64)
        for n0, n1 in _ranges(w):
            result[m0:m1, n0:n1] = rows @ decode_rows(w, n0, n1, torch.float64).t()


def _dgrad(dy: Quantized, w: Quantized, result: torch.Tensor) -> None:
    """result[M,K] = dy[M,N] w[N,K]."""
    for m0, m1 in _ranges(dy):
        rows = decode_rows(dy, m0, m1, torch.float64)
        for n0, n1 in _ranges(w):
            result[m0:m1].addmm_(rows[:, n0:n1], decode_rows(w, n0, n1, torch.float64))


def _wgrad(dy: Quantized, x: Quantized, result: torch.Tensor) -> None:
    """result[N,K] = dy[M,N]^T x[M,K]."""
    for m0, m1 in _ranges(dy if dy.data.shape[1] > x.data.shape[1] else x):
        rows = decode_rows(dy, m0, m1, torch.float64)
        result.addmm_(rows.t(), decode_rows(x, m0, m1, torch.float64))


def _ranges(q: Quantized) -> Iterator[tuple[int, int]]:
    rows, columns = q.data.shape
    step = max(1, _CHUNK_ELEMENTS // columns)
    for first in range(0, rows, step):
        yield first, min(first + step, rows)

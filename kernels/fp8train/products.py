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


def products(
    problem: Problem, operand: Callable[[str], Quantized], place: torch.device | str = ""
) -> tuple[torch.Tensor, ...]:
    """Return the outputs of a pass in fp64; `operand` returns an FP8 operand by name.

    place  where results are stored, "" with the operands; elsewhere, the operands' device holds one piece at a time
    """
    results = []
    for product, shape in zip(COMPUTES[problem.pass_], output_shapes(problem), strict=True):
        first, second = {
            Pass.FWD: ("x_row", "w"),
            Pass.DGRAD: ("dy_row", "w"),
            Pass.WGRAD: ("dy_col", "x_col"),
        }[product]
        a, b = operand(first), operand(second)
        result = torch.empty(shape, dtype=torch.float64, device=place or a.data.device)
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
        piece = rows.new_zeros(m1 - m0, result.shape[1])
        for n0, n1 in _ranges(w):
            piece.addmm_(rows[:, n0:n1], decode_rows(w, n0, n1, torch.float64))
        result[m0:m1] = piece


def _wgrad(dy: Quantized, x: Quantized, result: torch.Tensor) -> None:
    """result[N,K] = dy[M,N]^T x[M,K]."""
    columns = max(1, _CHUNK_ELEMENTS // x.data.shape[1])
    for n0 in range(0, dy.data.shape[1], columns):
        part = Quantized(dy.data[:, n0 : n0 + columns], dy.scale[:, n0 : n0 + columns], dy.kind)
        piece = result.new_zeros(part.data.shape[1], x.data.shape[1], device=x.data.device)
        for m0, m1 in _ranges(part if part.data.shape[1] > x.data.shape[1] else x):
            piece.addmm_(decode_rows(part, m0, m1, torch.float64).t(), decode_rows(x, m0, m1, torch.float64))
        result[n0 : n0 + columns] = piece


def _ranges(q: Quantized) -> Iterator[tuple[int, int]]:
    rows, columns = q.data.shape
    step = max(1, _CHUNK_ELEMENTS // columns)
    for first in range(0, rows, step):
        yield first, min(first + step, rows)

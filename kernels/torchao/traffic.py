"""Bytes that the algorithms of this family move: casts, products of FP8, products of dense operands."""

from ...shapes.problem import Op, Pass, Problem
from ...shapes.schemes.torchao import AoGrouped, AoGroupedLinear, AoLinear, Torchao, blocks


def casts_inside(scheme: Torchao) -> bool:
    """Whether quantization is part of the call."""
    return isinstance(scheme, AoLinear | AoGroupedLinear)


def fp8_bytes(problem: Problem, scheme: Torchao) -> int:
    """Casts (if they are inside) and products: every product reads its operands once and writes its result once."""
    if not casts_inside(scheme):
        return scheme.compulsory_bytes(problem)
    return (
        cast_bytes(problem, scheme)
        + quantized_bytes(problem, scheme)
        + scheme.output_bytes(problem)
        + _ends(scheme, problem)
    )


def cast_bytes(problem: Problem, scheme: Torchao) -> int:
    """What the casts read in the scheme's dtype: X and W, and in a step X, W and dY twice; what they write."""
    x, w, y = problem.M * problem.K, problem.E * problem.N * problem.K, problem.M * problem.N
    read = x + w if problem.pass_ is Pass.FWD else 2 * (x + w + y)
    return read * scheme.dtype.bytes + quantized_bytes(problem, scheme, every_expert=True)


def quantized_bytes(problem: Problem, scheme: Torchao, every_expert: bool = False) -> int:
    """FP8 data and scales of the operands of all products; weights of the experts with rows, or of every expert."""
    m, n, k = problem.M, problem.N, problem.K
    experts = problem.E
    if isinstance(scheme, AoGrouped) and not every_expert:
        experts = scheme.experts_with_rows(problem)
    weights = experts * (n * k + 4 * blocks(n) * blocks(k))
    total = m * k + 4 * m * blocks(k) + weights
    if problem.pass_ is Pass.STEP:
        total += m * n + 4 * m * blocks(n) + weights
        total += m * (n + k) + 4 * blocks(m) * (n + k)
    return total


def dense_bytes(problem: Problem, scheme: Torchao) -> int:
    """Operands of all products in the scheme's dtype, and the results."""
    m, n, k = problem.M, problem.N, problem.K
    experts = scheme.experts_with_rows(problem) if isinstance(scheme, AoGrouped) else problem.E
    operands = m * k + experts * n * k
    if problem.pass_ is Pass.STEP:
        operands += m * n + experts * n * k + m * (n + k)
    return operands * scheme.dtype.bytes + scheme.output_bytes(problem) + _ends(scheme, problem)


def dequantized_bytes(problem: Problem, scheme: Torchao) -> int:
    """Operands of all products in the scheme's dtype: what dequantizing them writes."""
    return dense_bytes(problem, scheme) - scheme.output_bytes(problem) - _ends(scheme, problem)


def _ends(scheme: Torchao, problem: Problem) -> int:
    return 4 * problem.E if problem.op is Op.GROUPED_GEMM else 0

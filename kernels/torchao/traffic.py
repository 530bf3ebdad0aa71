"""Bytes that the algorithms of this family move: casts, products of FP8, products of dense operands."""

from ...shapes.problem import Op, Pass, Problem
from ...shapes.schemes.torchao import AoGemm, AoGrouped, AoGroupedLinear, AoLinear, Torchao, blocks


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


def fp8_memory_bytes(problem: Problem, scheme: Torchao) -> int:
    """Distinct memory of the same: what comes in and goes out, and the FP8 copies between."""
    between = quantized_bytes(problem, scheme, every_expert=True) if casts_inside(scheme) else 0
    return scheme.compulsory_bytes(problem) + between


def cast_bytes(problem: Problem, scheme: Torchao) -> int:
    """What the casts read in the scheme's dtype: X and W, and in a step X, W and dY twice; what they write."""
    x, w, y = problem.M * problem.K, problem.E * problem.N * problem.K, problem.M * problem.N
    read = x + w if problem.pass_ is Pass.FWD else 2 * (x + w + y)
    return read * scheme.dtype.bytes + quantized_bytes(problem, scheme, every_expert=True)


def quantized_bytes(problem: Problem, scheme: Torchao, every_expert: bool = False) -> int:
    """FP8 data and scales of the operands of all products; weights of the experts with rows, or of every expert."""
    m, n, k = problem.M, problem.N, problem.K
    experts = problem.E if every_expert else _experts(problem, scheme)
    weights = experts * (n * k + 4 * blocks(n) * blocks(k))
    total = m * k + 4 * m * blocks(k) + weights
    if problem.pass_ is Pass.STEP:
        total += m * n + 4 * m * blocks(n) + weights
        total += m * (n + k) + 4 * blocks(m) * (n + k)
    return total


def dense_bytes(problem: Problem, scheme: Torchao) -> int:
    """Operands of all products in the scheme's dtype, once per product, and the results."""
    m, n, k = problem.M, problem.N, problem.K
    weights = _experts(problem, scheme) * n * k
    operands = m * k + weights
    if problem.pass_ is Pass.STEP:
        operands += m * n + weights + m * (n + k)
    return operands * scheme.dtype.bytes + scheme.output_bytes(problem) + _ends(scheme, problem)


def dense_memory_bytes(problem: Problem, scheme: Torchao) -> int:
    """Distinct memory of the same: a step reads one W for two products."""
    elements = _rows_elements(problem) + _experts(problem, scheme) * problem.N * problem.K
    return elements * scheme.dtype.bytes + scheme.output_bytes(problem) + _ends(scheme, problem)


def round_trip_reads(problem: Problem, scheme: Torchao) -> int:
    """What casts read before operands are dequantized: W once, X once, or in a step X and dY twice; 0 without casts."""
    weights = problem.E * problem.N * problem.K
    return (_rows_elements(problem) + weights) * scheme.dtype.bytes if casts_inside(scheme) else 0


def round_trip_bytes(problem: Problem, scheme: Torchao) -> int:
    """FP8 data and scales that are dequantized: each row form of X and dY, and one W of every expert."""
    m, n, k = problem.M, problem.N, problem.K
    if isinstance(scheme, AoGemm):
        return scheme.weight_bytes(problem) + scheme.activation_bytes(problem) + scheme.scale_bytes(problem)
    scales = m * blocks(k) + problem.E * blocks(n) * blocks(k)
    if problem.pass_ is Pass.STEP:
        scales += m * blocks(n) + blocks(m) * (n + k)
    return _rows_elements(problem) + problem.E * n * k + 4 * scales


def dequantized_bytes(problem: Problem, scheme: Torchao) -> int:
    """The same in the scheme's dtype, without scales."""
    return (_rows_elements(problem) + problem.E * problem.N * problem.K) * scheme.dtype.bytes


def _rows_elements(problem: Problem) -> int:
    """Elements of X, or in a step of X and dY in groups of rows and again in groups of columns."""
    step = problem.pass_ is Pass.STEP
    return 2 * problem.M * (problem.K + problem.N) if step else problem.M * problem.K


def _experts(problem: Problem, scheme: Torchao) -> int:
    """Experts whose weights are multiplied."""
    return scheme.experts_with_rows(problem) if isinstance(scheme, AoGrouped) else problem.E


def _ends(scheme: Torchao, problem: Problem) -> int:
    return 4 * problem.E if problem.op is Op.GROUPED_GEMM else 0

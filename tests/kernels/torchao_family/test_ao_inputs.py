"""Operands of the torchao family: groups of rows, and exact results from the quantized bits."""

import random

import pytest
import torch
from rooflens.kernels.inputs import make_inputs
from rooflens.kernels.torchao.groups import group_ends, group_rows
from rooflens.kernels.torchao.quantize import quantize
from rooflens.shapes.problem import Op, Pass, Problem
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes.torchao import AoGrouped, AoGroupedLinear, AoLinear

from ..devices import cpu

BF16 = DType.BF16
G = Op.GROUPED_GEMM


def test_step_by_the_definition():
    """Each product from casts along its own contraction, dY in both directions."""
    problem = Problem(512, 70, 130, E=3, op=G, pass_=Pass.STEP)
    inputs = make_inputs(problem, AoGroupedLinear(BF16), cpu(), 5)

    def cast(x, rows, columns):
        operand = quantize(x.contiguous(), rows, columns, torch.float8_e4m3fn)
        return operand.dequantize(torch.empty(x.shape, dtype=torch.float64))

    y, dx, dw = inputs.reference()
    for expert, (first, last) in enumerate(group_rows(inputs.ends)):
        w, x, dy = inputs.w[expert], inputs.x[first:last], inputs.dy[first:last]
        assert torch.allclose(y[first:last], cast(x, 1, 128) @ cast(w, 128, 128).t(), rtol=1e-12, atol=1e-12)
        assert torch.allclose(dx[first:last], cast(dy, 1, 128) @ cast(w, 128, 128), rtol=1e-12, atol=1e-12)
        # groups are multiples of 128 rows, so that casting them alone gives the same bits
        assert torch.allclose(dw[expert], cast(dy, 128, 1).t() @ cast(x, 128, 1), rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize("scheme", [AoGrouped(BF16), AoGroupedLinear(BF16)])
def test_groups(scheme):
    draw = random.Random(2)
    for _ in range(200):
        experts, units = draw.randint(1, 20), draw.randint(1, 40)
        problem = Problem(units * scheme.unit, 1, 128, E=experts, op=G)
        ends = group_ends(problem, scheme, draw.randint(0, 5))
        sizes = [last - first for first, last in group_rows(ends)]
        assert (len(ends), ends[-1]) == (experts, problem.M)
        assert all(size >= 0 and size % scheme.unit == 0 for size in sizes)
        assert sum(size > 0 for size in sizes) == scheme.experts_with_rows(problem) == min(experts, units)


def test_groups_follow_from_the_seed_and_are_not_equal():
    problem = Problem(16640, 1, 128, E=8, op=G)
    first = group_ends(problem, AoGrouped(BF16), 1)
    assert first == group_ends(problem, AoGrouped(BF16), 1) != group_ends(problem, AoGrouped(BF16), 2)
    assert len({last - begin for begin, last in group_rows(first)}) > 4
    assert group_ends(problem, AoGrouped(BF16, balanced=True), 1) == tuple(2080 * (e + 1) for e in range(8))
    assert group_ends(Problem(7, 5, 300), AoLinear(BF16), 1) == (7,)

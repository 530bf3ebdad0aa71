"""Some columns of an output, computed alone: what checks a timed sample where the whole product takes too long."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from rooflens.kernels.inputs import make_inputs
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes import FAMILIES

from .contract_cases import schemes
from .devices import CPU


@pytest.mark.parametrize("family", dict.fromkeys(one.family for one in FAMILIES))
def test_columns_are_those_of_the_whole_product(family: str) -> None:
    """At each end and in between, from the same bits; the operands are left as they are."""
    cut = 0
    for scheme, problems in schemes(family, DType.BF16):
        for problem in problems:
            if not (unit := make_inputs(problem, scheme, CPU, seed=5).column_unit):
                continue
            inputs = make_inputs(replace(problem, N=problem.N + 3 * unit), scheme, CPU, seed=5)
            (whole,) = inputs.reference()
            for first, last in pairwise((0, unit, 3 * unit, whole.shape[-1])):
                (part,) = inputs.columns(slice(first, last)).reference()
                torch.testing.assert_close(part, whole[..., first:last], rtol=1e-12, atol=1e-12 * whole.abs().max())
                cut += 1
    assert cut

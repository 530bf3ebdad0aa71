"""How the output of a candidate is judged."""

import pytest
import torch
from rooflens.harness.worker.error_ratio import error_ratio
from rooflens.kernels.inputs import make_inputs
from rooflens.shapes.device import Device
from rooflens.shapes.problem import Problem
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes import parse_scheme

CPU = Device("cpu", 0, "test", "", "x86-64", 2, 32 << 20, 1 << 20, 1 << 34)


@pytest.mark.parametrize(("dtype", "kind"), [(DType.BF16, torch.bfloat16), (DType.FP16, torch.float16)])
def test_a_product_of_exact_weights_has_no_errors_and_one_of_rounded_weights_some(dtype, kind):
    """fp32 is the independent product here; that of aiter's tuners is the same, cast to the output type."""
    inputs = make_inputs(Problem(16, 512, 2048), parse_scheme("nf4-g64", dtype), CPU, 0)
    truth = inputs.reference()[0]
    x, exact, rounded = inputs.x.float(), inputs.dequantized(torch.float32), inputs.dequantized(kind).float()
    assert error_ratio((x @ exact.t()).to(kind), truth) == 0
    share = error_ratio((x @ rounded.t()).to(kind), truth)
    assert 0.05 < share < 0.15 if kind is torch.bfloat16 else 0 < share < 0.01


def test_the_ratio_is_the_share_outside_of_both_tolerances():
    truth = torch.tensor([[100.0, 100.0, 0.0, 0.0]], dtype=torch.float64)
    assert error_ratio(torch.tensor([[100.9, 101.2, 0.009, 0.02]]), truth) == 0.5
    assert error_ratio(torch.full((1, 4), torch.nan), truth) == 1.0


def test_what_the_output_type_cannot_hold_is_no_error_of_the_kernel():
    truth = torch.tensor([[1e6, 1.0]], dtype=torch.float64)
    assert error_ratio(torch.tensor([[torch.inf, 1.0]], dtype=torch.float16), truth) == 0

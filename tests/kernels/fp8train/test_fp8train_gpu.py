"""The family on a GPU: the plain quantizer to the bit, transposed forms, offsets beyond 2^31."""

import pytest
import torch
from rooflens.harness.machine.device import find_device
from rooflens.kernels.fp8train.providers import SPECIALISED
from rooflens.kernels.fp8train.quantize import quantize
from rooflens.kernels.inputs import make_inputs, poison
from rooflens.kernels.reference import measure
from rooflens.shapes.problem import Pass, Problem

from ..synthetic import scheme_of
from .test_fp8train_interpreted import check_transposed_forms

pytestmark = pytest.mark.gpu

ENOUGH_BYTES = 100 << 30


def test_the_plain_quantizer_is_the_same_on_cpu_and_gpu():
    x = torch.randn(300, 520).bfloat16()
    for kind in ("row", "col", "weight"):
        for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
            here, there = quantize(x, kind, dtype), quantize(x.cuda(), kind, dtype)
            assert torch.equal(here.data.view(torch.uint8), there.data.cpu().view(torch.uint8)), (kind, dtype)
            assert torch.equal(here.scale, there.scale.cpu()), (kind, dtype)


def test_transposed_forms_are_exact():
    from rooflens.kernels.fp8train.triton_configs import QUANT
    from rooflens.kernels.needs import fp8_missing

    device = find_device("cuda")
    if missing := fp8_missing(device):
        pytest.skip(missing)
    dtype = torch.float8_e4m3fnuz if device.arch == "gfx942" else torch.float8_e4m3fn
    for m, k in ((4096, 2048), (150, 300)):
        x = torch.randn(m, k, device="cuda").bfloat16()
        check_transposed_forms(x, dtype, dtype, QUANT["rowcol"][0], QUANT["weight"][0])


@pytest.mark.parametrize(
    "pass_", [Pass.FWD, *(pytest.param(one, marks=pytest.mark.slow) for one in (Pass.DGRAD, Pass.WGRAD))]
)
def test_operands_of_more_than_2_31_elements(pass_):
    """dY and Y are [32768, 65664]: 32-bit offsets would wrap around."""
    device, scheme = find_device("cuda"), scheme_of("fp8-blockwise-prequantized")
    problem = Problem(32768, 65664, 128, pass_=pass_)
    assert problem.M * problem.N > 1 << 31
    support = SPECIALISED.supports(problem, scheme, device)
    if not support.ok:
        pytest.skip(support.reason)
    if device.memory_bytes < ENOUGH_BYTES:
        pytest.skip(f"takes up to {ENOUGH_BYTES >> 30} GiB of device memory")
    inputs = make_inputs(problem, scheme, device, 3)
    launch = SPECIALISED.prepare(inputs)
    for output in launch.outputs:
        poison(output)
    launch()
    for output, wanted in zip(launch.outputs, inputs.reference(), strict=True):
        assert not measure(output, wanted).failure(scheme)

"""The family on a GPU: the plain quantizer to the bit, transposed forms, offsets beyond 2^31."""

import pytest
import torch
from rooflens.harness.machine.device import find_device
from rooflens.kernels.fp8train.inputs import make_inputs
from rooflens.kernels.fp8train.providers import SPECIALISED
from rooflens.kernels.fp8train.quantize import Quantized, quantize
from rooflens.kernels.inputs import poison
from rooflens.kernels.reference import measure
from rooflens.shapes.problem import Pass, Problem
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes import parse_scheme

pytestmark = pytest.mark.gpu

ENOUGH_BYTES = 100 << 30


def scheme_of(name):
    return parse_scheme(name, DType.BF16)


def test_the_plain_quantizer_is_the_same_on_cpu_and_gpu():
    x = torch.randn(300, 520).bfloat16()
    for kind in ("row", "col", "weight"):
        for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
            here, there = quantize(x, kind, dtype), quantize(x.cuda(), kind, dtype)
            assert torch.equal(here.data.view(torch.uint8), there.data.cpu().view(torch.uint8)), (kind, dtype)
            assert torch.equal(here.scale, there.scale.cpu()), (kind, dtype)


def test_transposed_forms_are_exact():
    from rooflens.kernels.fp8train.triton_calls import quantize_call, transpose_call, weight_call
    from rooflens.kernels.fp8train.triton_configs import QUANT
    from rooflens.kernels.jit.call import compile_calls
    from rooflens.kernels.needs import fp8_missing

    device = find_device("cuda")
    if missing := fp8_missing(device):
        pytest.skip(missing)
    for m, k in ((4096, 2048), (150, 300)):
        x = torch.randn(m, k, device="cuda").bfloat16()
        dtype = torch.float8_e4m3fnuz if device.arch == "gfx942" else torch.float8_e4m3fn
        row, col, block = (quantize(x, kind, dtype) for kind in ("row", "col", "weight"))
        mine_row = Quantized(torch.empty_like(row.data), torch.empty_like(row.scale.t().contiguous()), "row")
        mine_col = Quantized(torch.empty(k, m, dtype=dtype, device="cuda"), torch.empty_like(col.scale), "col")
        mine_block = Quantized(torch.empty_like(block.data), torch.empty_like(block.scale), "weight")
        turned, back = torch.empty(k, m, dtype=dtype, device="cuda"), torch.empty(m, k, dtype=dtype, device="cuda")
        compile_calls(
            [
                quantize_call(x, mine_row, mine_col, QUANT["rowcol"][0], k_major=True, scales_first=True),
                weight_call(x, mine_block, turned, QUANT["weight"][0]),
                transpose_call(turned, back),
            ]
        )
        pairs = (
            *((mine_row.data, row.data), (mine_row.scale.t(), row.scale)),
            *((mine_col.data.t(), col.data), (mine_col.scale, col.scale)),
            *((mine_block.data, block.data), (mine_block.scale, block.scale)),
            *((turned.t(), block.data), (back, block.data)),
        )
        for found, wanted in pairs:
            assert torch.equal(found.float(), wanted.float()), (m, k)


@pytest.mark.parametrize("pass_", [Pass.FWD, Pass.DGRAD, Pass.WGRAD])
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

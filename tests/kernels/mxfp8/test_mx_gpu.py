"""The MX-FP8 providers on a real device: correct for every M, and quantizers to the bit."""

import pytest
import torch
from rooflens.kernels.inputs import make_inputs
from rooflens.kernels.mxfp8.blas import BLAS_BF16, DEQUANT_BLAS
from rooflens.kernels.mxfp8.dispatch import DISPATCH
from rooflens.kernels.mxfp8.providers import GEMV, MMA
from rooflens.kernels.mxfp8.quantizers import TORCH_QUANT, TRITON_QUANT
from rooflens.kernels.mxfp8.scaled_mm import TORCH_SCALED_MM
from rooflens.kernels.mxfp8.stock import SMALL_TILE, STOCK_TRITON
from rooflens.shapes.problem import Op, Problem
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes.mxfp8 import MxFp8, MxFp8Quant

from ..checks import check_candidates

pytestmark = pytest.mark.gpu

GEMM = MxFp8("rceil", DType.BF16)
PRODUCTS = (GEMV, MMA, STOCK_TRITON, SMALL_TILE, DISPATCH, TORCH_SCALED_MM, BLAS_BF16, DEQUANT_BLAS)


@pytest.fixture(scope="module")
def device():
    from rooflens.harness.machine.device import find_device

    return find_device("cuda")


@pytest.mark.parametrize("provider", PRODUCTS, ids=lambda provider: provider.name)
@pytest.mark.parametrize("m", [1, 2, 3, 4, 7, 8, 16, 17, 32, 64])
def test_every_configuration_is_correct(device, provider, m):
    sizes = ((1152, 6144), (200, 1536), (72, 416))
    checked = [check_candidates(provider, Problem(m, n, k), GEMM, device, m) for n, k in sizes]
    if not any(checked):
        pytest.skip(provider.supports(Problem(m, 1152, 6144), GEMM, device).reason)


@pytest.mark.parametrize("rule", ["floor", "ceil", "even", "rceil"])
@pytest.mark.parametrize("provider", [TRITON_QUANT, TORCH_QUANT], ids=lambda provider: provider.name)
@pytest.mark.parametrize("sizes", [(1, 32), (3, 416), (64, 6144), (1000, 2048)])
def test_quantizers_are_exact_to_the_bit(device, provider, rule, sizes):
    scheme = MxFp8Quant(rule, DType.BF16)
    inputs = make_inputs(Problem(sizes[0], 1, sizes[1], op=Op.QUANTIZE), scheme, device, 3)
    inputs.x[0, 0] = torch.inf
    for config in provider.candidates(inputs.problem, scheme, device) or (None,):
        launch = provider.prepare(inputs, config)
        for output, truth in zip(launch.outputs, inputs.reference(), strict=True):
            output.fill_(0)
            launch()
            assert torch.equal(output.double(), truth)

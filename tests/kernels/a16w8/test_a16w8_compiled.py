"""The A16W8 kernels compiled for every GPU architecture, without a GPU: matrix instructions, no spills, wide loads."""

import re

import pytest
from rooflens.kernels.a16w8 import blas, triton_providers
from rooflens.kernels.provider import support
from rooflens.shapes.problem import Problem
from rooflens.shapes.scheme import DType

from ..ahead_of_time import MATRIX_16, WIDE, check_build, every, text
from ..devices import gpu
from ..synthetic import scheme_of

pytestmark = pytest.mark.slow

ONE, ROWS, LARGE = Problem(1, 512, 128, B=16), Problem(128, 128, 512, B=16), Problem(8192, 8192, 8192, B=16)
PLAIN, PREQUANT = "a16w8-128x128", "a16w8-128x128-prequant"
TUNED, KERNEL, STOCK = triton_providers.TUNED, triton_providers.KERNEL, triton_providers.STOCK_TRITON
CASES = (
    (TUNED, ONE, PLAIN, DType.BF16),
    (TUNED, ROWS, PLAIN + "-bias", DType.FP16),
    (TUNED, LARGE, PLAIN, DType.BF16),
    (TUNED, ONE, PREQUANT, DType.BF16),
    (TUNED, LARGE, PREQUANT, DType.BF16),
    (KERNEL, ONE, PLAIN, DType.BF16),
    (STOCK, ROWS, PLAIN, DType.BF16),
    (STOCK, ROWS, PREQUANT, DType.BF16),
    (blas.DEQUANT_BMM, LARGE, PLAIN, DType.BF16),
)
MATRIX_FP8 = {
    "gfx942": r"v_mfma_f32_\w*fp8_fp8",
    "gfx950": r"v_mfma_\w*f8f6f4|v_mfma_f32_\w*fp8_fp8",
    "gfx1201": r"v_wmma_f32_16x16x16_fp8_fp8",
    "sm90": r"QGMMA\.\S*E4M3",
    "sm100": r"UTCQMMA|UTC\w*MMA|QMMA",
}


def requests(arch):
    """{(provider, M, scheme, dtype): BuildRequest} of what is supported and compiles anything."""
    chosen = {}
    for provider, problem, name, dtype in CASES:
        scheme = scheme_of(name, dtype)
        if support(provider, problem, scheme, gpu(arch)).ok:
            config = provider.candidates(problem, scheme, gpu(arch))[0]
            if built := provider.builds(problem, scheme, gpu(arch), config):
                (chosen[provider.name, problem.M, name, dtype.value],) = built
    return chosen


@pytest.mark.parametrize(("arch", "name"), every(requests))
def test_kernels_compile(builds, arch, name):
    provider, _, scheme, _ = name
    build = builds[arch][name]
    check_build(build, arch, may_spill=provider == STOCK.name)  # one tile for every GPU: its cost on each is a result
    if provider != blas.DEQUANT_BMM.name:
        matrix = MATRIX_FP8 if scheme == PREQUANT else MATRIX_16
        # Below 64 rows of the first operand NVIDIA's instructions are those of one warp.
        narrow = arch == "sm90" and provider == KERNEL.name
        assert re.search(r"HMMA\." if narrow else matrix[arch], text(build)), "no such matrix instruction"
        assert re.search(WIDE, text(build)), "loads are narrow"


def test_large_operands_are_named():
    """Y of the large case has 2^31 bytes: AMD's buffer offsets do not reach its end."""
    scheme = scheme_of(PLAIN)
    config = TUNED.candidates(LARGE, scheme, gpu("gfx942"))[0]
    (request,) = TUNED.builds(LARGE, scheme, gpu("gfx942"), config)
    assert set(request.large) == {"x", "y"}
    (request,) = TUNED.builds(ROWS, scheme, gpu("gfx942"), config)
    assert not request.large

"""Every Triton kernel of the family compiled for every GPU that can, as a launch would compile it, without a GPU."""

import re

import pytest
from rooflens.kernels.inputs import placeholders
from rooflens.kernels.jit.call import requests as described
from rooflens.kernels.provider import support
from rooflens.kernels.torchao import triton_providers as providers
from rooflens.kernels.torchao.triton_dequantize import dequantize_calls
from rooflens.shapes.problem import Op, Pass, Problem
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes.torchao import QUANTIZERS, AoGemm, AoGrouped, AoGroupedLinear, AoLinear, AoQuant

from ..ahead_of_time import check_build, every
from ..devices import gpu

pytestmark = pytest.mark.slow

BF16, G, STEP = DType.BF16, Op.GROUPED_GEMM, Pass.STEP
CASES = (
    *((providers.QUANTIZE, Problem(4096, 1, 4096, op=Op.QUANTIZE), AoQuant(kind, BF16)) for kind in QUANTIZERS),
    (providers.GEMM, Problem(16640, 5120, 8192), AoGemm("128x128", BF16)),
    (providers.GEMM, Problem(16640, 5120, 8192), AoGemm("128x1", BF16)),
    (providers.GEMM, Problem(384, 576, 520, pass_=STEP), AoLinear(BF16)),  # tails everywhere
    (providers.GEMM, Problem(384, 576, 528), AoGemm("128x128", BF16)),  # a partial group of aligned rows
    (providers.GROUPED, Problem(16640, 5120, 8192, E=8, op=G, pass_=STEP), AoGroupedLinear(BF16)),
    (providers.LOOP, Problem(16640, 5120, 8192, E=8, op=G), AoGrouped(BF16)),
    (providers.STOCK_TRITON, Problem(16640, 5120, 8192), AoGemm("128x128", BF16)),
)
MATRIX = {
    "gfx942": r"v_mfma_f32_\d+x\d+x\d+_fp8_fp8",
    "gfx950": r"v_mfma_(?:scale_)?f32_\d+x\d+x\d+_f8f6f4",
    "gfx1201": r"v_wmma_f32_16x16x16_fp8_fp8",
    "sm90": r"wgmma\.mma_async\S*e4m3\.e4m3",
    "sm100": r"tcgen05\.mma\S*f8f6f4",
}


EVERY_TILE = ("sm90", "gfx942", "gfx950")
"""Architectures for which all tiles of the GEMM are compiled, not the default alone."""


def specialization(request):
    """What makes a binary another one: of a size, only whether it is 1 or a multiple of 16."""
    arguments = {
        name: (value == 1, value % 16 == 0) if isinstance(value, int) else value
        for name, value in request.arguments.items()
    }
    return repr((request.kernel, arguments, request.constants, request.options, request.large))


def requests(arch):
    """{kernel and number: BuildRequest}; what becomes the same binary stands once."""
    wanted = {}
    for provider, problem, scheme in CASES:
        config = provider.candidates(problem, scheme, gpu(arch))[0]
        for request in provider.builds(problem, scheme, gpu(arch), config):
            wanted.setdefault(specialization(request), request)
    for tile in providers.GEMM.candidates(*CASES[5][1:], gpu(arch)) if arch in EVERY_TILE else ():
        (request,) = providers.GEMM.builds(*CASES[5][1:], gpu(arch), tile)
        wanted.setdefault(specialization(request), request)
    inputs = placeholders(Problem(384, 256, 512, pass_=STEP), AoLinear(BF16), gpu(arch))
    for request in described(dequantize_calls(inputs)[0]):
        wanted.setdefault(specialization(request), request)
    return {f"{request.kernel.partition(':')[2]} {number}": request for number, request in enumerate(wanted.values())}


@pytest.mark.parametrize("arch", MATRIX)
def test_every_kernel_is_among_those_compiled(arch):
    assert all(support(*case, gpu(arch)).ok for case in CASES)
    assert {name.partition(" ")[0] for name in requests(arch)} == {
        "quantize_rows_kernel", "quantize_columns_kernel", "quantize_blocks_kernel", "dequantize_kernel",
        "gemm_kernel", "grouped_wgrad_kernel", "tiled_gemm_kernel",
    }  # fmt: skip


@pytest.mark.parametrize(("arch", "name"), every(requests, tuple(MATRIX)))
def test_kernels_compile_for_this_architecture(builds, arch, name):
    request, build = requests(arch)[name], builds[arch][name]
    check_build(build, arch)
    products = bool(re.search(MATRIX[arch], build.assembly))
    assert products == request.kernel.endswith((":gemm_kernel", ":grouped_wgrad_kernel"))
    if name.startswith("quantize_") and request.constants["WHOLE"]:
        wide = r"ld\.global\S*\.v4\.b32|(?:global|buffer)_load_(?:dwordx4|b128)"
        assert re.search(wide, build.assembly), "x is not loaded 16 bytes at a time"


def test_operands_beyond_2_gib_are_named():
    """AMD's buffer instructions reach 2 GiB: the JIT looks at each tensor, and a build must not differ from it."""
    problem, scheme = Problem(128000, 16384, 5120), AoGemm("128x128", BF16)
    (request,) = providers.GEMM.builds(
        problem, scheme, gpu("gfx942"), providers.GEMM.candidates(*CASES[5][1:], gpu("gfx942"))[0]
    )
    assert list(request.large) == ["c"], "128000 x 16384 x 2 bytes; a has 655 MB"

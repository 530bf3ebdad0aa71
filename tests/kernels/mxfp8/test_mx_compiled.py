"""The MX-FP8 kernels compiled for every GPU architecture, without a GPU: the machine code is as intended."""

import re

import pytest
from rooflens.kernels import aot
from rooflens.kernels.mxfp8.blas import BLAS_BF16
from rooflens.kernels.mxfp8.providers import GEMV, MMA
from rooflens.kernels.mxfp8.quantizers import TRITON_QUANT
from rooflens.kernels.mxfp8.stock import SMALL_TILE, STOCK_TRITON
from rooflens.shapes.problem import Op, Problem
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes.mxfp8 import MxFp8, MxFp8Quant

from ..ahead_of_time import WIDE, announces_after_its_stores, check_build, every, text
from ..devices import gpu

pytestmark = pytest.mark.slow

GEMM, QUANT = MxFp8("rceil", DType.BF16), MxFp8Quant("rceil", DType.BF16)
CASES = ((GEMV, 1), (GEMV, 16), (MMA, 64), (STOCK_TRITON, 64), (SMALL_TILE, 16))
NATIVE = r"v_mfma_scale_f32|kind::mxf8f6f4\.block_scale|kind::mxf8f6f4.*ue8m0"
BF16 = r"mf?ma\S*bf16|kind::f16"
FP8 = {"sm90": r"wgmma\S*e4m3\.e4m3"}


def gemm_requests(arch):
    """{(provider name, M): (config, BuildRequest)} of the default configurations of what the architecture supports."""
    requests = {}
    for provider, m in CASES:
        problem = Problem(m, 2304, 6144)
        if provider.supports(problem, GEMM, gpu(arch)).ok:
            config = provider.candidates(problem, GEMM, gpu(arch))[0]
            (request,) = provider.builds(problem, GEMM, gpu(arch), config)
            requests[provider.name, m] = (config, request)
    return requests


def quantize_request(arch):
    problem = Problem(64, 1, 6144, op=Op.QUANTIZE)
    (request,) = TRITON_QUANT.builds(problem, QUANT, gpu(arch), TRITON_QUANT.candidates(problem, QUANT, gpu(arch))[0])
    return request


def requests(arch):
    """{key: BuildRequest} of all kernels."""
    chosen = {key: request for key, (_, request) in gemm_requests(arch).items()}
    _, decode = BLAS_BF16.builds(Problem(1, 2304, 6144), GEMM, gpu(arch), {})
    return chosen | {"quantize": quantize_request(arch), "decode": decode}


@pytest.mark.parametrize(("arch", "key"), every(requests))
def test_all_kernels_compile_and_ours_do_not_spill(builds, arch, key):
    build = builds[arch][key]
    check_build(build, arch, may_spill=key[0] in (STOCK_TRITON.name, SMALL_TILE.name))
    assert re.search(WIDE, text(build)), "no load of 16 bytes at a time"


@pytest.mark.parametrize(("arch", "key"), every(gemm_requests))
def test_kernels_multiply_where_they_say(builds, arch, key):
    config, request = gemm_requests(arch)[key]
    text = builds[arch][key].assembly
    if "emulated" in config:  # what dot_scaled became
        assert bool(re.search(NATIVE, text)) is not config["emulated"]
        assert bool(re.search(BF16, text)) is config["emulated"]
    else:
        assert "dot_scaled" not in request.kernel
    kernel = config.get("kernel")
    matrix = r"\bw?mma\S*sync|tcgen05\.mma|v_mfma|v_wmma"
    if kernel == "vector":
        assert not re.search(matrix, text)
    elif kernel == "diagonal":
        assert re.search(FP8[arch], text)
        assert not re.search(r"cvt\S*e4m3|bf16x2", text.partition("st.global")[0]), "nothing is decoded"
    elif kernel == "bf16":
        assert re.search(matrix, text)
        assert re.search(BF16, text)


@pytest.mark.parametrize("arch", ["sm103", "sm120"])
def test_newer_architectures_multiply_scaled_blocks_where_they_say(builder, arch):
    for key, (config, request) in gemm_requests(arch).items():
        if "emulated" in config:
            text = builder.build(arch, request).assembly
            assert bool(re.search(NATIVE, text)) is not config["emulated"], key


@pytest.mark.parametrize("arch", aot.ARCHES)
def test_parts_of_k_have_left_every_wave_before_the_program_announces_them(builds, arch):
    divided = [key for key, (config, _) in gemm_requests(arch).items() if config.get("SPLIT_K", 1) > 1]
    assert divided
    for key in divided:
        assert announces_after_its_stores(builds[arch][key], arch), key


@pytest.mark.parametrize("arch", ("sm90", "sm100", "gfx950"))
def test_payloads_are_narrowed_by_the_hardware_where_it_can(builds, arch):
    pattern = r"cvt\.rn\.satfinite\.e4m3x2" if arch.startswith("sm") else r"v_cvt_(?:scalef32_)?pk_fp8_f32"
    assert re.search(pattern, builds[arch]["quantize"].assembly)

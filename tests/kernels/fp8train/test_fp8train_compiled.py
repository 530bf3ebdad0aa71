"""The family's kernels compiled for every GPU architecture, without a GPU: the machine code is as intended."""

import re

import pytest
from rooflens.kernels.fp8train.providers import SHARED, SPECIALISED
from rooflens.kernels.fp8train.quantizers import TRITON_QUANT
from rooflens.kernels.fp8train.stock import STOCK_TRITON
from rooflens.shapes.problem import Op, Pass, Problem

from ..ahead_of_time import check_build, every, main_loop, text
from ..devices import gpu
from ..synthetic import scheme_of

pytestmark = pytest.mark.slow

STEP = Problem(4096, 6144, 2048, pass_=Pass.STEP)
WGRAD = Problem(4096, 6144, 2048, pass_=Pass.WGRAD)
RAGGED = Problem(1000, 1104, 1200, pass_=Pass.STEP)
QUANT = Problem(4096, 1, 6144, op=Op.QUANTIZE)
FP8 = ("sm90", "sm100", "gfx942", "gfx950", "gfx1201")
EVIDENCE = ("gfx942", "gfx950")


def requests(arch):
    """{(what, number): BuildRequest} of one architecture; equal requests stand once."""
    found = {}

    def add(what, provider, problem, scheme, *, configs=1):
        if not provider.supports(problem, scheme_of(scheme), gpu(arch)).ok:
            return
        offered = provider.candidates(problem, scheme_of(scheme), gpu(arch))
        for config in offered[:configs]:
            for request in provider.builds(problem, scheme_of(scheme), gpu(arch), config):
                if request not in found.values():
                    found[what, len(found)] = request

    add("stock", STOCK_TRITON, STEP if arch == "sm90" else WGRAD, "fp8-blockwise-prequantized")
    add("shared wgrad", SHARED, WGRAD, "fp8-blockwise-prequantized", configs=4 if arch in EVIDENCE else 1)
    add("specialised wgrad", SPECIALISED, WGRAD, "fp8-blockwise-prequantized", configs=4 if arch in EVIDENCE else 1)
    add("specialised", SPECIALISED, STEP, "fp8-blockwise")
    if arch in ("sm90", "gfx942"):
        add("shared", SHARED, STEP, "fp8-blockwise")
        add("ragged", SPECIALISED, RAGGED, "fp8-blockwise-hybrid")
    for kind in ("row", "col", "rowcol", "weight"):
        add("quantizer", TRITON_QUANT, QUANT, f"fp8-quant-{kind}")
    return found


def of(builds, arch, what):
    return [builds[arch][name, number] for name, number in builds[arch] if name == what]


@pytest.mark.parametrize(("arch", "what"), every(requests))
def test_all_kernels_compile_without_spills(builds, arch, what):
    build = builds[arch][what]
    check_build(build, arch, may_spill=what[0] == "ragged")


MATRIX = {
    "sm90": r"QGMMA\.64x(?:64|128)x32\.F32\.E[45]M[32]\.E[45]M[32]",
    "sm100": r"UTCQMMA|UTCMMA|UTCOMMA|UTC\w*MMA",
    "gfx942": r"v_mfma_f32_\w+_(?:fp8|bf8)_(?:fp8|bf8)",
    "gfx950": r"v_mfma_f32_\w+_f8f6f4",
    "gfx1201": r"v_wmma_f32_16x16x16_(?:fp8|bf8)_(?:fp8|bf8)",
}


@pytest.mark.parametrize("arch", FP8)
def test_products_are_multiplied_in_fp8(builds, arch):
    for what in ("specialised wgrad", "shared wgrad"):
        assert any(re.search(MATRIX[arch], text(build)) for build in of(builds, arch, what)), what
    narrow = r"v_(?:mfma|wmma)_\w*_(?:bf16|f16)|HGMMA|HMMA"
    for (what, _), build in builds[arch].items():
        if what != "stock":
            assert not re.search(narrow, text(build)), what


SHORT = r"(?:buffer|global)_store_(?:short|b16)"
WIDE = r"(?:buffer|global)_store_(?:dwordx4|b128)"


@pytest.mark.parametrize("arch", EVIDENCE)
def test_a_transposed_epilogue_stores_16_bytes_at_a_time(builds, arch):
    """Of wgrad's [N,K] result, which is formed as [K,N]: all of the binaries, whatever their tile."""
    shared, specialised = of(builds, arch, "shared wgrad"), of(builds, arch, "specialised wgrad")
    assert len(shared) >= 2
    assert len(specialised) >= 3
    for build in shared:
        assert len(re.findall(SHORT, build.assembly)) == 64
        assert not re.findall(WIDE, build.assembly)
    for build in specialised:
        assert not re.findall(SHORT, build.assembly)
        assert len(re.findall(WIDE, build.assembly)) == 8


@pytest.mark.parametrize("arch", FP8)
def test_whole_blocks_are_read_and_quantized_16_bytes_at_a_time(builds, arch):
    """Or in tiles, by the tensor memory accelerator."""
    loads = r"LDG\.E\S*\.128|LDGSTS\S*\.128|UTMALDG|(?:buffer|global)_load_(?:dwordx4|b128)"
    for what in ("quantizer", "specialised"):
        for build in of(builds, arch, what):
            assert re.search(loads, text(build)), what


@pytest.mark.parametrize("arch", EVIDENCE)
def test_a_main_loop_without_masks_where_blocks_are_whole(builds, arch):
    def masks(what):
        loops = [main_loop(build) for build in of(builds, arch, what)]
        return [len(re.findall(r"v_cmp_|v_cndmask", loop)) for loop in loops if "v_mfma" in loop]

    assert max(masks("specialised wgrad")) == 0
    assert max(masks("specialised")) == 0
    assert len(masks("specialised")) == 2, "nt and nn; tn stands among those of wgrad"
    assert min(masks("shared wgrad")) > 0

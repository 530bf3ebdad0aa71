"""The A16W8 kernels compiled for every GPU architecture, without a GPU: matrix instructions, no spills, wide loads."""

import re

import pytest
from rooflens.kernels import aot
from rooflens.kernels.a16w8 import blas, triton_providers
from rooflens.kernels.provider import support
from rooflens.shapes.device import Device
from rooflens.shapes.problem import Problem
from rooflens.shapes.scheme import DType, Scheme
from rooflens.shapes.verdict import Verdict

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
MATRIX_16 = {
    **dict.fromkeys(("gfx90a", "gfx942", "gfx950"), r"v_mfma_f32_\w*(?:bf16|f16)"),
    **dict.fromkeys(("gfx1100", "gfx1151", "gfx1201"), r"v_wmma_f32_16x16x16_b?f16"),
    "sm90": r"HGMMA\.\S*F32",
    "sm100": r"UTCHMMA|HMMA\.",
}
MATRIX_FP8 = {
    "gfx942": r"v_mfma_f32_\w*fp8_fp8",
    "gfx950": r"v_mfma_\w*f8f6f4|v_mfma_f32_\w*fp8_fp8",
    "gfx1201": r"v_wmma_f32_16x16x16_fp8_fp8",
    "sm90": r"QGMMA\.\S*E4M3",
    "sm100": r"UTCQMMA|UTC\w*MMA|QMMA",
}
WIDE = r"LDG\.E\S*\.128|LDGSTS\S*\.128|(?:buffer|global)_load_(?:dwordx4|b128|lds_dwordx4)"


def gpu(arch):
    vendor = "AMD" if arch.startswith("gfx") else "NVIDIA"
    return Device("cuda", 0, arch, vendor, arch, 132, 1 << 26, 1 << 26, 1 << 36)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("triton")


def requests(arch):
    """{case: request}, and {case: reason} of what is unsupported."""
    chosen, reasons = {}, {}
    for case in CASES:
        provider, problem, name, dtype = case
        scheme = Scheme.parse(name, dtype)
        answer = support(provider, problem, scheme, gpu(arch))
        if not answer.ok:
            reasons[case] = answer.reason
            continue
        config = provider.candidates(problem, scheme, gpu(arch))[0]
        built = provider.builds(problem, scheme, gpu(arch), config)
        if built:
            (chosen[case],) = built
    return chosen, reasons


@pytest.mark.parametrize("arch", aot.ARCHES)
def test_kernels_compile(arch, cache):
    chosen, reasons = requests(arch)
    if arch == "sm80":
        assert not chosen
        assert set(reasons.values()) == {"Triton has no FP8 e4m3 on sm80: needs sm89 or newer"}
        return
    if arch not in MATRIX_FP8:
        assert {name for _, _, name, _ in reasons} == {PREQUANT}
        assert all("multiplies no FP8" in reason for reason in reasons.values())
    else:
        assert not reasons
    for case, build in zip(chosen, aot.compile_in_child(arch, list(chosen.values()), cache), strict=True):
        provider, problem, scheme, _ = case
        where = (provider.name, str(problem), scheme, arch)
        assert build.verdict is Verdict.PASSED, (where, build.reason)
        if provider is not STOCK:  # one tile for every GPU: what it costs on each is a result
            assert build.spills == 0, (where, build.registers, build.spills)
        if provider is not blas.DEQUANT_BMM:
            text = build.machine_code or build.assembly
            matrix = MATRIX_FP8 if scheme == PREQUANT else MATRIX_16
            # Below 64 rows of the first operand NVIDIA's instructions are those of one warp.
            narrow = arch == "sm90" and provider is KERNEL
            assert re.search(r"HMMA\." if narrow else matrix[arch], text), (where, "no such matrix instruction")
            assert re.search(WIDE, text), (where, "loads are narrow")


def test_large_operands_are_named():
    """Y of the large case has 2^31 bytes: AMD's buffer offsets do not reach its end."""
    scheme = Scheme.parse(PLAIN, DType.BF16)
    config = TUNED.candidates(LARGE, scheme, gpu("gfx942"))[0]
    (request,) = TUNED.builds(LARGE, scheme, gpu("gfx942"), config)
    assert set(request.large) == {"x", "y"}
    (request,) = TUNED.builds(ROWS, scheme, gpu("gfx942"), config)
    assert not request.large

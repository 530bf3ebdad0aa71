"""Every kernel of the family compiled for every GPU architecture, without a GPU: the machine code is as intended."""

import re

import pytest
from rooflens.kernels.mxfp8_moe.blas import DEQUANT_LOOP
from rooflens.kernels.mxfp8_moe.providers import GEMV, GROUPED, GROUPED_WITH_ALIGN, GUARDED
from rooflens.kernels.mxfp8_moe.stock import STOCK_TRITON
from rooflens.plugins.isa.compiled import sass
from rooflens.plugins.isa.compiled.loops import main_loop as counted_loop
from rooflens.plugins.isa.compiled.loops import with_loop
from rooflens.plugins.isa.compiled.schedule import schedule
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes.mxfp8_moe import MxFp8Moe

from ..ahead_of_time import check_build, every, main_loop, text
from ..contract_cases import moe
from ..devices import gpu

pytestmark = pytest.mark.slow

PLAIN = MxFp8Moe("rceil", DType.BF16)
WEIGHTED = MxFp8Moe("rceil", DType.BF16, weighted=True)


FEW = moe(4, 1536, 6144, 32, 4)
MANY = moe(256, 1536, 6144, 32, 4)
SECOND = moe(8, 6144, 768, 64, 1)

CASES = {
    "few rows": (GROUPED, FEW, PLAIN),
    "gemv": (GEMV, FEW, PLAIN),
    "stock": (STOCK_TRITON, FEW, PLAIN),
    "many rows": (GROUPED, MANY, PLAIN),
    "second": (GROUPED, SECOND, WEIGHTED),
    "over 2 GiB": (GROUPED, moe(2, 1536, 6144, 256, 4), PLAIN),
    "32-bit": (GUARDED, FEW, PLAIN),
    "gemv second": (GEMV, SECOND, WEIGHTED),
    "tails": (GROUPED, moe(3, 100, 160, 5, 2), PLAIN),
}

EVERYWHERE = ("few rows", "gemv", "stock")
THOROUGH = ("sm90", "gfx950")
"""These compile all cases, and three candidates for few rows."""


def requests(arch):
    chosen = {}
    for name, (provider, problem, scheme) in CASES.items():
        thorough = arch in THOROUGH
        if not provider.supports(problem, scheme, gpu(arch)).ok or not (thorough or name in EVERYWHERE):
            continue
        candidates = provider.candidates(problem, scheme, gpu(arch))
        for index, config in enumerate(candidates[: 3 if name == "few rows" and thorough else 1]):
            (chosen[f"{name} {index}"],) = provider.builds(problem, scheme, gpu(arch), config)
    config = GROUPED.candidates(FEW, PLAIN, gpu(arch))[0]
    count, place, _ = GROUPED_WITH_ALIGN.builds(FEW, PLAIN, gpu(arch), config)
    _, weights = DEQUANT_LOOP.builds(FEW, PLAIN, gpu(arch), {})
    return chosen | {"align count": count, "align place": place, "dequantize": weights}


MATRIX = {
    **dict.fromkeys(("gfx90a", "gfx942"), r"v_mfma_f32_\w*f16"),
    "gfx950": r"v_mfma_scale_f32_(16x16x128|32x32x64)_f8f6f4",
    **dict.fromkeys(("gfx1100", "gfx1151", "gfx1201"), r"v_wmma_f32_16x16x16_f16"),
    **dict.fromkeys(("sm80", "sm90", "sm100"), r"HMMA\.16816\.F32\b"),
}

ANY_MATRIX = r"v_mfma_\w+|v_wmma_\w+|\w*MMA\.\S+"


@pytest.mark.parametrize(("arch", "name"), every(requests))
def test_kernels_compile_without_spills_to_the_intended_instructions(builds, arch, name):
    build = builds[arch][name]
    check_build(build, arch, may_spill=name == "stock 0", most_shared=163840)  # an untuned baseline; room for others
    matrix = set(re.findall(ANY_MATRIX, text(build)))
    if name == "stock 0":
        native = any("scale" in one for one in matrix)
        assert native == (STOCK_TRITON.math_dtype(FEW, PLAIN, gpu(arch)) == "mxfp8"), matrix
        return
    if CASES.get(name.rpartition(" ")[0], (None,))[0] in (GROUPED, GUARDED):
        assert matrix
        assert all(re.match(MATRIX[arch], one) for one in matrix), matrix
    else:
        assert not matrix


def test_loads_of_the_main_loop_are_prefetched_on_sm90(builds):
    """Payloads and scales go to shared memory ahead of their use: no load of the loop is waited for at once."""
    loop = main_loop(builds["sm90"]["few rows 0"])
    assert "HMMA" in loop
    assert re.search(r"LDGSTS\S*\.128", loop)
    assert not re.search(r"\bLDG\b", loop)
    weights = 64 * 256 // (8 * 32)
    instructions = len(re.findall(r"^\s*/\*[0-9a-f]+\*/\s+\S", loop, re.MULTILINE))
    assert instructions < 3.5 * weights


def test_a_gemv_is_scheduled_with_the_loop_for_its_rows(builds):
    """One of three: a lane multiplies its 64 weights by each row; what runs the other loops is left out."""
    build = builds["sm90"]["gemv 0"]
    code = sass.parse(build.machine_code)
    bodies = [counted_loop(code, loop_rank) for loop_rank in range(3)]
    for rows, body in zip((4, 2, 1), bodies, strict=True):
        products = sum(one.opcode in ("FFMA", "FMUL") for one in body)
        assert 64 * rows <= products < 64 * (rows + 1), rows
        path = {id(one) for one in with_loop(code, body)}
        assert [sum(id(one) in path for one in other) for other in bodies] == [len(body) * (body is o) for o in bodies]
    every = [schedule(code, "sm90", build.warps, loop_rank) for loop_rank in range(4)]
    clocks = [one.of_launch(12).clocks for one in every[:3]]
    assert clocks[0] > 1.4 * clocks[1] > 1.4 * clocks[2]
    assert every[3] is None
    setups = [one.setup.pipes["fp32"] for one in every[:3]]
    assert max(setups) < every[2].iteration.pipes["fp32"], "no other loop is counted once"


def test_offsets_into_more_than_2_gib_are_64_bit():
    config = GROUPED.candidates(FEW, PLAIN, gpu("gfx942"))[0]
    (large,) = GROUPED.builds(moe(2, 1536, 6144, 256, 4), PLAIN, gpu("gfx942"), config)
    (small,) = GUARDED.builds(FEW, PLAIN, gpu("gfx942"), config)
    assert large.constants["WIDE"]
    assert list(large.large) == ["w"]
    assert not small.constants["WIDE"]
    assert not small.large

"""The family's Triton kernels in Triton's interpreter, against the fp64 products and the plain quantizer."""

import random
from pathlib import Path

import pytest
import torch

from .. import interpreter

HERE = Path(__file__).parent
SCHEMES = ("fp8-blockwise", "fp8-blockwise-hybrid", "fp8-blockwise-prequantized", "fp8-blockwise-prequantized-hybrid")
FLOOR_DB = 48
"""bf16 rounding of the operands and of the output leaves 51 dB, of the output alone 55."""


def interpret(cases):
    return interpreter.interpret(HERE / "interpret_fp8train_child.py", cases)


def gemm(provider, sizes, pass_, scheme, *, tile=(32, 64), k_major=False, arch="x86-64", seed=1):
    m, n, k = sizes
    return {
        "step": "gemm", "provider": provider, "M": m, "N": n, "K": k, "pass": pass_, "scheme": scheme, "tile": tile,
        "k_major": k_major, "arch": arch, "seed": seed,
    }  # fmt: skip


def assert_correct(cases):
    """Return for every case the names of its kernels."""
    results = interpret(cases)
    for case, result in zip(cases, results, strict=True):
        assert min(result["snr_db"]) > FLOOR_DB, (case, result)
    return [[name.removesuffix("_kernel") for name in result["kernels"]] for result in results]


WHOLE, TAILS, ONE = (128, 128, 256), (70, 150, 200), (1, 129, 130)


@pytest.mark.parametrize(
    ("provider", "k_major"),
    [
        ("specialised", False),
        ("shared", True),
        pytest.param("specialised", True, marks=pytest.mark.slow),
        pytest.param("shared", False, marks=pytest.mark.slow),
    ],
)
def test_gemms(provider, k_major):
    """Whole blocks without masks; tails everywhere; one row; both FP8 types, on a device with the fnuz ones as well."""
    lines = (
        (WHOLE, "step", SCHEMES[0], {}),
        (TAILS, "step", SCHEMES[3], {"arch": "gfx942"}),
        (TAILS, "bwd", SCHEMES[0], {"tile": (64, 32)}),
        (ONE, "step", SCHEMES[1], {}),
        (ONE, "wgrad", SCHEMES[2], {}),
    )
    assert_correct([gemm(provider, *line[:3], k_major=k_major, **line[3]) for line in lines])


def test_chiplets_get_chunks_of_tiles():
    """All tiles are computed once, whether or not they are whole rounds of 8 chiplets."""
    sizes = ((128, 160, 128), (300, 160, 128))  # 8 x 5 and 19 x 5 tiles in rounds of 16
    cases = [gemm("shared", size, "fwd", SCHEMES[0], tile=(16, 32), arch="gfx942") for size in sizes]
    assert_correct([case | {"chunk": 2} for case in cases])


@pytest.mark.slow
def test_persistent():
    """Fewer programs than tiles; tails of rows, columns and blocks, where whole 16 bytes make a row; one row."""
    lines = (
        ((256, 128, 256), "step", SCHEMES[0], {"tile": (64, 128)}),
        ((70, 144, 208), "fwd", SCHEMES[2], {"tile": (32, 64)}),
        ((80, 144, 208), "step", SCHEMES[1], {"tile": (64, 32)}),
        ((1, 130, 144), "fwd", SCHEMES[0], {}),
    )
    cases = [gemm("specialised", *line[:3], k_major=True, **line[3]) | {"programs": 1} for line in lines]
    wide = {"programs": 1, "wide": 1}
    cases += [
        gemm("specialised", (256, 512, 256), "fwd", name, k_major=True, tile=(128, 128)) | wide for name in SCHEMES[::3]
    ]
    assert set(assert_correct(cases)[1]) == {"nt_persistent"}


@pytest.mark.slow
def test_random_shapes_and_passes():
    draw = random.Random(12)
    cases = []
    for _ in range(10):
        sizes = tuple(draw.randint(1, 150) for _ in range(3))
        provider, pass_ = draw.choice(("shared", "specialised")), draw.choice(("fwd", "dgrad", "wgrad", "bwd", "step"))
        tile, k_major = (draw.choice((32, 64)), draw.choice((32, 64, 128))), draw.choice((True, False))
        scheme, seed = draw.choice(SCHEMES), draw.randint(0, 1000)
        cases.append(gemm(provider, sizes, pass_, scheme, tile=tile, k_major=k_major, seed=seed))
    assert_correct(cases)


@pytest.mark.slow
def test_kernels_of_a_launch():
    """One kernel per entry of the table in `plans`, then those of the products."""
    cases = [
        gemm("specialised", TAILS, "step", SCHEMES[0]),
        gemm("specialised", TAILS, "step", SCHEMES[2], k_major=True),
        gemm("shared", TAILS, "bwd", SCHEMES[0]),
        gemm("shared", TAILS, "bwd", SCHEMES[0], k_major=True),
    ]
    names = assert_correct(cases)
    assert names[0] == ["quantize", "quantize_weight", "quantize", "nt_gemm", "nn_gemm", "tn_gemm"]
    assert names[1] == ["nt_gemm", "transpose", "nt_gemm", "transpose", "transpose", "nt_gemm"]
    assert names[2] == names[3] == ["quantize"] * 3 + ["transpose", "transpose", "shared_gemm", "shared_gemm"]


def test_quantizers_are_exact():
    """Signed data, groups of zeros and of large values; whole tiles and tails; both ranges of E4M3."""
    lines = ((256, 256, "x86-64"), (150, 300, "gfx942"), (1, 130, "x86-64"), (130, 77, "gfx942"))
    cases = [
        {"step": "quantize", "M": m, "K": k, "scheme": f"fp8-quant-{kind}", "arch": arch, "config": i % 2}
        for kind in ("row", "col", "rowcol", "weight")
        for i, (m, k, arch) in enumerate(lines)
    ]
    for case, result in zip(cases, interpret(cases), strict=True):
        assert not any(result["different"]), (case, result)
        assert len(result["kernels"]) == 1


def test_transposed_forms_are_exact():
    cases = [{"step": "transposed", "M": m, "K": k} for m, k in ((256, 128), (150, 300), (1, 130))]
    for case, result in zip(cases, interpret(cases), strict=True):
        assert not any(result["different"]), (case, result)


def test_scaled_mm_gets_every_operand_as_the_library_wants_it():
    """A stand-in for torch's product checks strides and padding. No copy is left beside quantizers and products:

    W's quantizer writes both orders of its scales, with rows of 4, whatever the number of blocks (3 and 5 here).
    """
    if not hasattr(torch.nn.functional, "ScalingType"):
        pytest.skip(f"torch {torch.__version__} has no scaled_mm")
    sizes = {"M": 128, "N": 384, "K": 640}
    cases = [
        {"step": "scaled_mm", **sizes, "pass": pass_, "scheme": scheme}
        for scheme in (SCHEMES[0], SCHEMES[2])
        for pass_ in ("fwd", "dgrad", "wgrad", "bwd", "step")
    ]
    kernels = assert_correct(cases)[:5]
    assert dict(zip((case["pass"] for case in cases), kernels, strict=False)) == {
        "fwd": ["quantize", "quantize_weight", "scaled_mm"],
        "dgrad": ["quantize", "scaled_mm"],
        "wgrad": ["quantize", "scaled_mm"],
        "bwd": ["quantize", "scaled_mm", "scaled_mm"],
        "step": ["quantize", "quantize_weight", "quantize", *["scaled_mm"] * 3],
    }


def test_baselines():
    cases = [
        {"step": step, "M": 40, "N": 130, "K": 150, "pass": pass_, "scheme": scheme}
        for step in ("stock", "dequant")
        for pass_, scheme in (("step", SCHEMES[0]), ("bwd", SCHEMES[3]), ("fwd", SCHEMES[2]))
    ]
    assert_correct(cases)

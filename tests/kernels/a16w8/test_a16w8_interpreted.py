"""The A16W8 kernels against an fp64 product, in Triton's interpreter (child processes; its FP8 casts are repaired)."""

import random
from pathlib import Path

import pytest

from .. import interpreter

HERE = Path(__file__).parent
PARTS, WEIGHTS = "parts", "weights"


def interpret(cases):
    return interpreter.interpret(HERE / "a16w8_interpret_child.py", cases)


def gemm(sizes, scheme, tile, *, provider="tuned_a16w8", arch="sm90", dtype="bf16", batch_inner=True, seed=1):
    """`tile`: BLOCK_M, BLOCK_N, BLOCK_K, swap, scaling."""
    m, n, k, b = sizes
    block_m, block_n, block_k, swap, scaling = tile
    return {
        "step": "gemm", "provider": provider, "M": m, "N": n, "K": k, "B": b, "scheme": f"a16w8-128x128{scheme}",
        "tile": [block_m, block_n, block_k, 4, 1, swap, scaling], "dtype": dtype, "arch": arch,
        "batch_inner": batch_inner, "seed": seed,
    }  # fmt: skip


def assert_correct(cases):
    for case, result in zip(cases, interpret(cases), strict=True):
        assert not result["failure"], (case, result["failure"])
        assert result["kernels"][-1] == "a16w8_kernel"
        if "prequant" in case["scheme"]:
            # Rounding of the output alone: bf16 55 dB, fp16 73 dB; an element of X rounded the other way costs little.
            assert result["snr_of_rounded_db"] > 48, (case, result)


# What each line adds: several batch entries; M, N, K tails; two groups of rows in a tile; a step of half a group.
NATIVE = (
    gemm((1, 64, 128, 3), "", (16, 32, 128, True, PARTS)),
    gemm((5, 150, 200, 2), "-bias", (16, 32, 128, True, PARTS), dtype="fp16", batch_inner=False),
    gemm((18, 272, 300, 2), "", (16, 256, 64, True, WEIGHTS), dtype="fp16"),
    gemm((18, 272, 300, 2), "-bias", (16, 256, 64, False, WEIGHTS)),
    gemm((18, 272, 300, 1), "", (16, 256, 128, False, PARTS)),
    gemm((3, 140, 260, 2), "-bias", (16, 32, 64, True, WEIGHTS)),
    gemm((3, 140, 260, 2), "", (16, 32, 64, True, WEIGHTS), dtype="fp16"),
    gemm((17, 300, 132, 1), "", (16, 256, 32, False, WEIGHTS)),
    gemm((17, 160, 300, 2), "", (16, 32, 128, False, PARTS), arch="gfx942", dtype="fp16"),
)
PREQUANTIZED = (
    gemm((1, 64, 128, 2), "-prequant", (16, 32, 128, True, PARTS)),
    gemm((5, 150, 200, 2), "-prequant-bias", (16, 64, 128, False, PARTS), dtype="fp16"),
    gemm((18, 272, 300, 1), "-prequant", (16, 256, 128, True, PARTS)),
    gemm((7, 140, 300, 2), "-prequant-bias", (16, 64, 128, True, PARTS), arch="gfx942"),
)
TRANSPOSED = (
    gemm((1, 64, 128, 3), "", (16, 32, 128, False, PARTS), provider="kernel_a16w8"),
    gemm((18, 272, 300, 2), "-bias", (16, 256, 64, False, WEIGHTS), provider="kernel_a16w8", dtype="fp16"),
    gemm((5, 150, 200, 2), "", (16, 32, 64, True, WEIGHTS), provider="wrapper_a16w8"),
    gemm((5, 300, 200, 2), "", (16, 256, 128, False, WEIGHTS), provider="kernel_a16w8"),
    gemm((7, 140, 300, 2), "-prequant-bias", (16, 64, 128, False, PARTS), provider="wrapper_a16w8", arch="gfx942"),
    gemm((66, 300, 140, 2), "-bias", (64, 256, 128, False, PARTS), provider="stock_triton_a16w8"),
    gemm((66, 300, 140, 1), "-prequant", (64, 256, 128, False, PARTS), provider="stock_triton_a16w8", dtype="fp16"),
)


@pytest.mark.parametrize("cases", (NATIVE, PREQUANTIZED, TRANSPOSED), ids=("native", "prequantized", "transposed"))
def test_kernel_computes_the_product_of_the_same_bits(cases):
    assert_correct(cases)


@pytest.mark.slow
def test_random_shapes_and_tiles():
    draw = random.Random(8)
    cases = []
    for seed in range(12):
        prequant = draw.random() < 0.4
        scheme = "-prequant" * prequant + draw.choice(("", "-bias"))
        block_k = 128 if prequant else draw.choice((32, 64, 128))
        scaling = PARTS if prequant else draw.choice((PARTS, WEIGHTS))
        tile = (16, draw.choice((16, 64, 128, 256)), block_k, draw.random() < 0.5, scaling)
        sizes = (draw.randint(1, 34), draw.randint(1, 300), draw.randint(1, 300), draw.randint(1, 3))
        provider = draw.choice(("tuned_a16w8", "kernel_a16w8", "wrapper_a16w8"))
        arch, dtype = draw.choice(("sm90", "gfx942")), draw.choice(("bf16", "fp16"))
        inner = draw.random() < 0.5
        cases.append(gemm(sizes, scheme, tile, provider=provider, arch=arch, dtype=dtype, batch_inner=inner, seed=seed))
    assert_correct(cases)


def test_dequantize_is_exact():
    lines = (((1, 32, 128, 1), "sm90", "bf16"), ((1, 150, 300, 2), "gfx942", "fp16"), ((1, 33, 7, 3), "sm90", "fp16"))
    cases = [
        {"step": "dequantize", "scheme": "a16w8-128x128", "arch": arch, "dtype": dtype, "seed": 3}
        | dict(zip("MNKB", sizes, strict=True))
        for sizes, arch, dtype in lines
    ]
    for case, result in zip(cases, interpret(cases), strict=True):
        assert result["differing"] == 0, (case, "q * scale in fp32, rounded once: to the bit")

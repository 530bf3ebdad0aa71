"""Providers of the torchao family: what they take and why not, correct results on the CPU and on a GPU, bytes moved."""

import pytest
from rooflens.kernels.torchao import blas, triton_providers
from rooflens.shapes.problem import Op, Pass, Problem
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes.torchao import AoGemm, AoGrouped, AoGroupedLinear, AoLinear

from ..devices import H200

BF16, G, STEP = DType.BF16, Op.GROUPED_GEMM, Pass.STEP


def test_default_tiles_fill_the_device():
    def default(m, n):
        config = triton_providers.GEMM.candidates(Problem(m, n, 512), AoGemm("128x128", BF16), H200)[0]
        return config["BLOCK_M"], config["BLOCK_N"]

    assert default(16640, 5120) == (128, 128)
    assert default(1024, 1792) == (64, 128), "112 tiles of 128 x 128 on 132 compute units"
    assert default(16, 64) == (64, 64)
    (unaligned,) = triton_providers.GEMM.candidates(Problem(16640, 5120, 520), AoGemm("128x128", BF16), H200)
    assert (unaligned["BLOCK_M"], unaligned["BLOCK_N"]) == (64, 32)


@pytest.mark.parametrize(
    ("provider", "problem", "scheme", "moved"),
    [
        # data 1 byte and scales; one pass
        (
            triton_providers.GEMM, Problem(256, 384, 128), AoGemm("128x128", BF16),
            256 * 128 + 384 * 128 + 4 * (256 + 3) + 2 * 256 * 384,
        ),
        # casts: read 2 bytes, write 1 and scales; the product reads those and writes 2 bytes per result
        (
            triton_providers.GEMM, Problem(256, 384, 128), AoLinear(BF16),
            2 * (256 * 128 + 384 * 128) + 2 * (256 * 128 + 4 * 256 + 384 * 128 + 4 * 3) + 2 * 256 * 384,
        ),
        # two experts of three have rows: the third is cast and not multiplied
        (
            triton_providers.GROUPED, Problem(256, 384, 128, E=3, op=G), AoGroupedLinear(BF16),
            2 * (256 * 128 + 3 * 384 * 128) + (256 * 128 + 4 * 256 + 3 * (384 * 128 + 4 * 3))
            + (256 * 128 + 4 * 256 + 2 * (384 * 128 + 4 * 3)) + 2 * 256 * 384 + 4 * 3,
        ),
        (blas.BLAS, Problem(256, 384, 128), AoLinear(BF16), 2 * (256 * 128 + 384 * 128 + 256 * 384)),
        # three products of two dense operands and one result each
        (blas.BLAS, Problem(256, 384, 128, pass_=STEP), AoLinear(BF16), 3 * 2 * (256 * 128 + 384 * 128 + 256 * 384)),
        (
            blas.DEQUANT_BLAS, Problem(256, 384, 128), AoGemm("128x128", BF16),
            (256 * 128 + 384 * 128 + 4 * (256 + 3)) + 2 * 2 * (256 * 128 + 384 * 128) + 2 * 256 * 384,
        ),
    ],
    ids=lambda value: getattr(value, "name", ""),
)  # fmt: skip
def test_bytes_moved(provider, problem, scheme, moved):
    assert provider.moved_bytes(problem, scheme, {}) == moved


def test_bytes_of_a_step_of_4096():
    """S = 4096^2 elements, bf16. Casts: X, dY, X, dY by rows and columns, W once: 10 S read, 5 S written in FP8.

    Those are read, and 10 S of bf16 written; three products read 12 S and write 6 S. 805 MB and the scales, twice.
    """
    step, s = Problem(4096, 4096, 4096, pass_=STEP), 4096 * 4096
    scales = 4 * (4 * 4096 * 32 + 32 * 32)
    linear = AoLinear(BF16)
    assert 48 * s == 805306368
    assert blas.DEQUANT_BLAS.moved_bytes(step, linear, {}) == 48 * s + 2 * scales
    # 6 S come in, 5 S of FP8 with scales, 10 S decoded, 6 S go out
    assert blas.DEQUANT_BLAS.working_set_bytes(step, linear, {}) == 27 * s + scales
    assert blas.BLAS.moved_bytes(step, linear, {}) == 18 * s
    # X and dY twice (their casts differ), one W, three results: 268 MB
    assert blas.BLAS.working_set_bytes(step, linear, {}) == 16 * s == 268435456


def test_bytes_of_the_other_round_trips():
    x, w, y = 256 * 128, 384 * 128, 256 * 384
    forward = Problem(256, 384, 128)
    scales = 4 * (256 + 3)
    dense = blas.DEQUANT_BLAS
    assert dense.moved_bytes(forward, AoLinear(BF16), {}) == 2 * (x + w) + 2 * (x + w + scales) + 4 * (x + w) + 2 * y
    assert dense.working_set_bytes(forward, AoLinear(BF16), {}) == (2 + 1 + 2) * (x + w) + scales + 2 * y
    assert dense.working_set_bytes(forward, AoGemm("128x128", BF16), {}) == (1 + 2) * (x + w) + scales + 2 * y
    # 16 rows are one group of three: the weights of all are decoded, those of one multiplied; int32 ends
    few, x, y = Problem(16, 384, 128, E=3, op=G), 16 * 128, 16 * 384
    scales, ends = 4 * (16 + 3 * 3), 4 * 3
    decoded = (x + 3 * w + scales) + 2 * (x + 3 * w)
    assert blas.DEQUANT_LOOP.moved_bytes(few, AoGrouped(BF16), {}) == decoded + 2 * (x + w) + 2 * y + ends
    assert blas.LOOP_BLAS.working_set_bytes(few, AoGrouped(BF16), {}) == 2 * (x + w) + 2 * y + ends

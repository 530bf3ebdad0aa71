"""The scheme of MX-FP8 MoE: names, what it refuses, bytes by hand; its suites and shapes."""

import pytest
from rooflens.shapes import shapeset
from rooflens.shapes.errors import UsageError
from rooflens.shapes.problem import Op, Problem
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes.mxfp8 import RULES, MxFp8
from rooflens.shapes.schemes.mxfp8_moe import MxFp8Moe


def moe(m, n, k, e, top_k):
    return Problem(m, n, k, op=Op.MOE_GEMM, E=e, top_k=top_k)


PLAIN = MxFp8Moe("rceil", DType.BF16)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("suffix", ["", "-weighted"])
def test_names_are_read_back(rule, suffix):
    scheme = MxFp8Moe.read(f"mxfp8-moe-{rule}{suffix}", DType.BF16)
    assert scheme == MxFp8Moe(rule, DType.BF16, bool(suffix))
    assert scheme.name == f"mxfp8-moe-{rule}{suffix}"
    assert MxFp8.read(scheme.name, DType.BF16) is None
    assert MxFp8Moe.read(f"mxfp8-{rule}", DType.BF16) is None


def test_what_it_refuses():
    with pytest.raises(UsageError, match="bf16"):
        MxFp8Moe.read("mxfp8-moe-rceil", DType.FP32)
    with pytest.raises(UsageError, match="rule"):
        MxFp8Moe("up", DType.BF16)
    with pytest.raises(UsageError, match="multiple of its block of 32"):
        PLAIN.check(moe(4, 64, 48, 8, 2))
    with pytest.raises(UsageError, match="has no gemm"):
        PLAIN.check(Problem(4, 64, 64))
    PLAIN.check(moe(4, 63, 96, 8, 2))


def test_bytes_when_every_token_goes_to_every_expert():
    problem = moe(3, 64, 96, 4, 4)  # 12 rows, all 4 experts hit for certain
    assert PLAIN.weight_bytes(problem) == 4 * 64 * 96
    assert PLAIN.activation_bytes(problem) == 3 * 96, "a token's row is read once for its four experts"
    assert PLAIN.scale_bytes(problem) == 4 * 64 * 3 + 3 * 3
    assert PLAIN.output_bytes(problem) == 12 * 64 * 2
    ids = 4 * 12 + 4 * 4
    total = 4 * 64 * 96 + 3 * 96 + 4 * 64 * 3 + 9 + 12 * 64 * 2 + ids
    assert PLAIN.compulsory_bytes(problem) == total
    assert MxFp8Moe("rceil", DType.BF16, weighted=True).compulsory_bytes(problem) == total + 4 * 12


def test_bytes_count_experts_that_every_draw_hits():
    # two tokens, one expert each of four: 4 (1 - (3/4)^2) = 1.75 experts on average, 2 in every draw
    problem = moe(2, 64, 64, 4, 1)
    assert PLAIN.weight_bytes(problem) == 2 * 64 * 64
    assert PLAIN.scale_bytes(problem) == (2 * 64 + 2) * 2
    assert PLAIN.routing_bytes(problem) == 4 * 2 + 4 * 2
    assert PLAIN.weight_bytes(moe(1, 64, 64, 256, 8)) == 8 * 64 * 64, "one token hits its eight experts"


def test_real_shapes():
    shapes = {shape.label: shape for shape in shapeset.load("mxfp8_moe")}
    parallel = {(s.N, s.K): sorted(o.E for o in shapes.values() if (o.N, o.K) == (s.N, s.K)) for s in shapes.values()}
    assert parallel == {
        (1536, 6144): [32, 64, 128, 256],
        (6144, 768): [32, 64, 128, 256],
        (768, 6144): [32],
        (6144, 384): [32],
    }
    largest = shapes["MiniMax-M3 gemm1 tp4 ep1"]
    assert largest.E * largest.N * largest.K == 2415919104, "the case beyond signed 32-bit offsets"
    for shape in shapes.values():
        for m in shape.Ms:
            PLAIN.check(moe(m, shape.N, shape.K, shape.E, shape.top_k))

"""The schemes of all families: names, what they can store, compulsory bytes by hand, floors; their shipped shapes."""

import pytest
from rooflens.shapes import shapeset, suite
from rooflens.shapes.errors import UsageError
from rooflens.shapes.problem import Op, Pass, Problem
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes import FAMILIES, parse_scheme
from rooflens.shapes.schemes.a16w8 import A16W8, PREQUANT_SNR_DB
from rooflens.shapes.schemes.fp8train import Fp8Quant
from rooflens.shapes.schemes.mxfp8 import RULES, MxFp8, MxFp8Quant
from rooflens.shapes.schemes.mxfp8_moe import MxFp8Moe
from rooflens.shapes.schemes.torchao import QUANTIZERS, AoGemm, AoGrouped, AoGroupedLinear, AoLinear, AoQuant

BF16, QUANTIZE = DType.BF16, Op.QUANTIZE

NAMES = {
    "a16w8": [f"a16w8-128x128{more}" for more in ("", "-bias", "-prequant", "-prequant-bias")],
    "fp8train": [
        *(f"fp8-blockwise{more}" for more in ("", "-hybrid", "-prequantized", "-prequantized-hybrid")),
        *(f"fp8-quant-{kind}" for kind in ("row", "col", "rowcol", "weight")),
    ],
    "fourbit": ["nf4-g64", "fp4-g4096", "nf4-g32-nested", "fp4-g128-nested-bias", "nf4-g64-bias"],
    "mxfp8": [f"mxfp8{quantizer}-{rule}" for quantizer in ("", "-quant") for rule in RULES],
    "mxfp8_moe": [f"mxfp8-moe-{rule}{more}" for rule in RULES for more in ("", "-weighted")],
    "torchao": [
        *(f"ao-{kind}" for kind in QUANTIZERS),
        *("ao-1x128-128x128", "ao-1x128-128x1", "ao-linear"),
        *("ao-grouped", "ao-grouped-balanced", "ao-grouped-linear", "ao-grouped-linear-balanced"),
    ],
}

DTYPES = dict.fromkeys(("fp8train", "mxfp8", "mxfp8_moe"), (BF16,)) | {
    "a16w8": (BF16, DType.FP16),
    "torchao": tuple(DType),
    "fourbit": tuple(DType),
}


def read(name, dtype=BF16):
    return [scheme for kind in FAMILIES if (scheme := kind.read(name, dtype))]


@pytest.mark.parametrize(("family", "name"), [(family, name) for family, names in NAMES.items() for name in names])
def test_names_are_read_back_by_one_family_only(family, name):
    for dtype in DTYPES[family]:
        (scheme,) = read(name, dtype)
        assert (scheme.name, scheme.dtype, scheme.family) == (name, dtype, family)
        assert parse_scheme(name, dtype) == scheme
    for dtype in set(DType) - {*DTYPES[family]}:
        with pytest.raises(UsageError, match="16 bits: dtype bf16 or fp16" if family == "a16w8" else "bf16"):
            parse_scheme(name, dtype)


@pytest.mark.parametrize(
    "name",
    [
        *("fp8-blockwise-hybrid-prequantized", "fp8", "fp8-quant", "fp8-quant-col-row", "mxfp8-round"),
        *("act-lhs", "128x1", "ao-act", "ao-1x128", "ao-linear-balanced", "ao-grouped-linear-", ""),
    ],
)
def test_what_is_nearly_a_name_is_none(name):
    assert read(name) == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        *(
            (name, "write a16w8-128x128, then -prequant and -bias if wanted")
            for name in ("a16w8", "a16w8-64x64", "a16w8-128x128-bias-prequant")
        ),
        ("int4-g48", "group 48 of int4 does not exist: known: 32, 64, 128"),
        ("int4-g128-desc_act", "act-order"),
        ("int4-g128-actorder", "act-order"),
        ("mxfp4-g16", "write int4-g128 or"),
        ("nf4-g48", "block size 48"),
        ("int3-g64", "nf4-g64.*fp8-blockwise.*mxfp8-rceil.*ao-act-lhs"),  # how those of each family are written
        *((name, "unknown scheme") for name in ("nf4", "nf5-g64", "nf4-g64-bias-nested")),
    ],
)
def test_near_misses_are_refused_with_the_reason(name, words):
    with pytest.raises(UsageError, match=words) as caught:
        parse_scheme(name, BF16)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "sizes", "complaint"),
    [
        ("nf4-g64", {"K": 64, "B": 2}, "B=2"),
        ("nf4-g64", {"K": 64, "op": Op.GROUPED_GEMM}, "has no grouped_gemm: it has gemm"),
        ("nf4-g64", {"K": 64, "pass_": Pass.STEP}, "has no pass step: it has fwd"),
        ("a16w8-128x128", {"K": 128, "pass_": Pass.WGRAD}, "has no pass wgrad"),
        ("a16w8-128x128", {"M": 8, "K": 128, "E": 2, "op": Op.GROUPED_GEMM}, "has no grouped_gemm"),
        ("fp8-blockwise", {"M": 4, "K": 4, "op": QUANTIZE}, "no quantize"),
        ("fp8-blockwise", {"M": 4, "N": 4, "K": 4, "B": 2}, "B=2"),
        ("fp8-quant-row", {"M": 4, "N": 4, "K": 4}, "no gemm"),
        ("fp8-quant-row", {"M": 4, "K": 4, "op": QUANTIZE, "pass_": Pass.STEP}, "no pass step"),
        # OCP microscaling knows no partial block
        ("mxfp8-rceil", {"M": 4, "N": 64, "K": 100}, "K=100 is not a multiple of its block of 32"),
        ("mxfp8-moe-rceil", {"M": 4, "N": 64, "K": 64}, "has no gemm"),
        ("int4-g128-zp", {"N": 64, "K": 2880}, "K=2880 is not a multiple of its group of 128"),
        ("ao-act-lhs", {"K": 100, "op": QUANTIZE}, "K=100 must be a multiple of 128"),
        ("ao-act-rhs", {"K": 100, "op": QUANTIZE}, "K=100 must be a multiple of 128"),
        ("ao-act-transposed-lhs", {"M": 100, "K": 128, "op": QUANTIZE}, "M=100 must be a multiple of 128"),
        ("ao-weight-rhs", {"M": 100, "K": 128, "op": QUANTIZE}, "M=100 must be a multiple of 128"),
        ("ao-weight-transposed-rhs", {"M": 128, "K": 100, "op": QUANTIZE}, "K=100 must be a multiple of 128"),
        ("ao-act-lhs", {"K": 128}, "has no gemm"),
        ("ao-1x128-128x128", {"K": 128, "pass_": Pass.STEP}, "has no pass step"),
        ("ao-1x128-128x128", {"K": 128, "B": 2}, "B=2"),
        ("ao-linear", {"M": 100, "K": 128, "pass_": Pass.STEP}, "M=100 must be a multiple of 128"),
        ("ao-linear", {"M": 100, "K": 128, "pass_": Pass.BWD}, "has no pass bwd"),
        ("ao-grouped", {"M": 100, "K": 128, "E": 2, "op": Op.GROUPED_GEMM}, "M=100 must be a multiple of 16"),
        ("ao-grouped-balanced", {"M": 80, "K": 128, "E": 2, "op": Op.GROUPED_GEMM}, "M=80 must be a multiple of 32"),
        ("ao-grouped-linear", {"M": 64, "K": 128, "E": 2, "op": Op.GROUPED_GEMM}, "M=64 must be a multiple of 128"),
    ],
)
def test_what_cannot_be_stored_is_refused_in_one_line(name, sizes, complaint):
    with pytest.raises(UsageError, match=complaint) as caught:
        parse_scheme(name, BF16).check(Problem(**({"M": 1, "N": 1} | sizes)))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("a16w8-128x128", Problem(1, 512, 128, B=128)),
        ("mxfp4", Problem(1, 64, 2880)),
        ("mxfp8-rceil", Problem(4, 64, 96)),
        ("mxfp8-quant-rceil", Problem(4, 1, 96, op=QUANTIZE)),
        ("mxfp8-moe-rceil", Problem(4, 63, 96, op=Op.MOE_GEMM, E=4, top_k=2)),
        ("ao-act-rhs", Problem(100, 1, 128, op=QUANTIZE)),
        ("ao-act-transposed-lhs", Problem(128, 1, 100, op=QUANTIZE)),
        ("ao-linear", Problem(100, 5, 7)),
    ],
)
def test_sizes_without_the_restriction_are_taken(name, problem):
    parse_scheme(name, BF16).check(problem)


# M = 300, N = 200, K = 260: 3, 2 and 3 blocks of 128.
X, W, DY = 300 * 260, 200 * 260, 300 * 200
X_ROW, X_COL, W_SCALE, DY_ROW, DY_COL = 300 * 3, 3 * 260, 2 * 3, 300 * 2, 3 * 200
TRAINING = {
    ("fp8-blockwise", "fwd"): 2 * X + 2 * W + 2 * DY,
    ("fp8-blockwise", "dgrad"): 2 * DY + W + 4 * W_SCALE + 2 * X,
    ("fp8-blockwise", "wgrad"): 2 * DY + X + 4 * X_COL + 2 * W,
    ("fp8-blockwise", "bwd"): 2 * DY + W + 4 * W_SCALE + X + 4 * X_COL + 2 * X + 2 * W,
    ("fp8-blockwise", "step"): 2 * X + 2 * W + 2 * DY + 2 * (X + W + DY),
    ("fp8-blockwise-prequantized", "fwd"): X + W + 4 * (X_ROW + W_SCALE) + 2 * DY,
    ("fp8-blockwise-prequantized", "dgrad"): DY + W + 4 * (DY_ROW + W_SCALE) + 2 * X,
    ("fp8-blockwise-prequantized", "wgrad"): DY + X + 4 * (DY_COL + X_COL) + 2 * W,
    ("fp8-blockwise-prequantized", "bwd"): 2 * DY + X + W + 4 * (DY_ROW + DY_COL + X_COL + W_SCALE) + 2 * (X + W),
    ("fp8-blockwise-prequantized", "step"): (
        2 * DY + 2 * X + W + 4 * (DY_ROW + DY_COL + X_ROW + X_COL + W_SCALE) + 2 * (X + W + DY)
    ),
}
BATCHED, ROUTED = Problem(32, 512, 128, B=16), Problem(3, 64, 96, op=Op.MOE_GEMM, E=4, top_k=4)
ROUTED_BYTES = 4 * 64 * 96 + 3 * 96 + 4 * 64 * 3 + 9 + 12 * 64 * 2 + 4 * 12 + 4 * 4
"""12 rows, all 4 experts hit for certain: weights, X, their scales, Y, routing."""

SQUARE = Problem(1, 4096, 4096)
BYTES = [
    # bytes of a weight: 0.5 + 4/64 with fp32 absmax; nested 0.5 + 1/64 + 4/(64 * 256), with a table of 256 and a mean
    (parse_scheme("nf4-g64", BF16), SQUARE, 4096 * 4096 * 0.5625 + 2 * 2 * 4096),
    (parse_scheme("nf4-g64-nested", BF16), SQUARE, 4096**2 * (0.5 + 1 / 64 + 1 / 4096) + 4 * 256 + 4 + 2 * 2 * 4096),
    (parse_scheme("fp4-g32-bias", DType.FP32), Problem(4, 10, 33), 165 + 4 * 11 + 4 * (4 * 33 + 10 + 4 * 10)),
    # B (2MK + NK + 2MN + 4 cd(N,128) cd(K,128))
    (A16W8(BF16), BATCHED, 16 * (2 * 32 * 128 + 512 * 128 + 2 * 32 * 512 + 4 * 4 * 1)),
    (A16W8(DType.FP16, bias=True), BATCHED, 16 * (2 * 32 * 128 + 512 * 128 + 2 * 32 * 512 + 4 * 4 * 1 + 2 * 512)),
    *((parse_scheme(name, BF16), Problem(300, 200, 260, pass_=Pass(of)), TRAINING[name, of]) for name, of in TRAINING),
    *(
        (Fp8Quant(BF16, kind), Problem(300, 1, 260, op=QUANTIZE), 2 * X + written)
        for kind, written in {
            "row": X + 4 * 900, "col": X + 4 * 780, "rowcol": 2 * X + 4 * 1680, "weight": X + 4 * 9,
        }.items()
    ),
    # qkv of the decode suite at M = 4: (M + N) K (1 + 1/32) + 2 M N
    (MxFp8("rceil", BF16), Problem(4, 2304, 6144), (4 + 2304) * 6144 * 33 // 32 + 2 * 4 * 2304),
    (MxFp8Quant("even", BF16), Problem(16, 1, 2048, op=QUANTIZE), 2 * 32768 + 32768 + 1024),
    (MxFp8Moe("rceil", BF16), ROUTED, ROUTED_BYTES),
    (MxFp8Moe("rceil", BF16, weighted=True), ROUTED, ROUTED_BYTES + 4 * 12),
    # 2 bytes in, 1 byte out, fp32 scales: one per 128 of a row, of a column, of a square
    (AoQuant("act-lhs", BF16), Problem(256, 1, 384, op=QUANTIZE), 3 * 256 * 384 + 4 * 256 * 3),
    (AoQuant("act-rhs", BF16), Problem(200, 1, 384, op=QUANTIZE), 3 * 200 * 384 + 4 * 2 * 384),
    (AoQuant("act-transposed-lhs", DType.FP32), Problem(256, 1, 100, op=QUANTIZE), 5 * 25600 + 4 * 2 * 100),
    (AoQuant("weight-rhs", BF16), Problem(256, 1, 384, op=QUANTIZE), 3 * 256 * 384 + 4 * 2 * 3),
    (AoGemm("128x128", BF16), Problem(7, 200, 300), 7 * 300 + 200 * 300 + 4 * 3 * (7 + 2) + 2 * 7 * 200),
    (AoGemm("128x1", DType.FP32), Problem(7, 200, 300), 7 * 300 + 200 * 300 + 4 * 3 * (7 + 200) + 4 * 7 * 200),
    (AoLinear(BF16), Problem(128, 200, 300), 2 * (128 * 300 + 200 * 300 + 128 * 200)),
    # X, W, dY in; Y, dX, dW out
    (AoLinear(BF16), Problem(128, 200, 300, pass_=Pass.STEP), 2 * 2 * (128 * 300 + 200 * 300 + 128 * 200)),
    # M is the total of rows; three experts of eight have some
    (
        AoGrouped(BF16),
        Problem(48, 200, 300, E=8, op=Op.GROUPED_GEMM),
        48 * 300 + 3 * 200 * 300 + 4 * 3 * (48 + 3 * 2) + 4 * 8 + 2 * 48 * 200,
    ),
    (
        AoGroupedLinear(BF16),
        Problem(512, 200, 300, E=8, op=Op.GROUPED_GEMM, pass_=Pass.STEP),
        2 * (512 * 500 + 4 * 200 * 300 + 512 * 200 + 512 * 300 + 8 * 200 * 300) + 4 * 8,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("scheme", "problem", "expected"), BYTES, ids=lambda value: getattr(value, "name", ""))
def test_compulsory_bytes(scheme, problem, expected):
    scheme.check(problem)
    assert scheme.compulsory_bytes(problem) == expected


def test_parts_of_the_bytes():
    assert A16W8(BF16).scale_bytes(Problem(1, 129, 257, B=2)) == 2 * 4 * 2 * 3
    decode = Problem(4, 2304, 6144)
    assert MxFp8("rceil", BF16).weight_bytes(decode) == 14_155_776
    assert MxFp8("rceil", BF16).scale_bytes(decode) == 443_136
    moe = MxFp8Moe("rceil", BF16)
    assert moe.activation_bytes(ROUTED) == 3 * 96, "a token's row is read once for its four experts"
    assert (moe.weight_bytes(ROUTED), moe.scale_bytes(ROUTED)) == (4 * 64 * 96, 4 * 64 * 3 + 3 * 3)
    assert moe.output_bytes(ROUTED) == 12 * 64 * 2
    # two tokens, one expert each of four: 4 (1 - (3/4)^2) = 1.75 experts on average, 2 in every draw
    two = Problem(2, 64, 64, op=Op.MOE_GEMM, E=4, top_k=1)
    assert (moe.weight_bytes(two), moe.scale_bytes(two)) == (2 * 64 * 64, (2 * 64 + 2) * 2)
    assert moe.routing_bytes(two) == 4 * 2 + 4 * 2
    one = Problem(1, 64, 64, op=Op.MOE_GEMM, E=256, top_k=8)
    assert moe.weight_bytes(one) == 8 * 64 * 64, "one token hits its eight experts"


def test_floors_of_a16w8():
    assert A16W8(BF16).snr_floor_db == 40
    assert A16W8(DType.FP16).snr_floor_db == 55
    assert A16W8(DType.FP16, prequant=True).snr_floor_db == PREQUANT_SNR_DB == 28


def test_the_shapes_of_a16w8():
    shapes = shapeset.load("a16w8_batched_deepseek")
    assert len(shapes) == len({shape.label for shape in shapes}) == 9
    heads = {shape.label: (shape.N, shape.K, shape.B) for shape in shapes if shape.model == "DeepSeek-R1"}
    assert set(heads.values()) == {(n, k, 128 // tp) for n, k in ((512, 128), (128, 512)) for tp in (1, 2, 4, 8)}
    for label, (n, k, b) in heads.items():
        assert label == f"DeepSeek-R1 mla_kv_b {n}x{k} tp{128 // b} B{b}"
    assert (shapes[-1].N, shapes[-1].K, shapes[-1].B) == (8192, 8192, 16)


def test_the_shapes_of_experts():
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
            MxFp8Moe("rceil", BF16).check(Problem(m, shape.N, shape.K, op=Op.MOE_GEMM, E=shape.E, top_k=shape.top_k))


@pytest.mark.parametrize(
    ("name", "shapes", "problems"),
    [("ao-quant", 1, 2), ("ao-dense", 18, 18), ("ao-linear", 18, 18), ("ao-grouped", 51, 57)],
)
def test_shipped_suites_hold_the_published_shapes(name, shapes, problems):
    """torchao_quant 1 x 2 M, torchao_dense 18 distinct, torchao_grouped 42 (48 problems) and the 9 of the document."""
    found = suite.load(name)
    assert len(found.shapes) == shapes
    assert sum(len(found.sizes(shape)) for shape in found.shapes) == problems
    for scheme in found.parsed_schemes():
        for shape in found.shapes:
            for m in found.sizes(shape):
                scheme.check(Problem(m, shape.N, shape.K, E=shape.E, op=found.op))

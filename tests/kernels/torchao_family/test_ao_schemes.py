"""Schemes of the torchao family: names, compulsory bytes counted by hand, and what they refuse."""

import pytest
from rooflens.shapes import suite
from rooflens.shapes.errors import UsageError
from rooflens.shapes.problem import Op, Pass, Problem
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes import parse_scheme
from rooflens.shapes.schemes.torchao import QUANTIZERS, SCHEMES, AoGemm, AoGrouped, AoGroupedLinear, AoLinear, AoQuant

BF16 = DType.BF16
NAMES = (
    *(f"ao-{kind}" for kind in QUANTIZERS),
    *("ao-1x128-128x128", "ao-1x128-128x1", "ao-linear"),
    *("ao-grouped", "ao-grouped-balanced", "ao-grouped-linear", "ao-grouped-linear-balanced"),
)


def read(name, dtype=BF16):
    return [scheme for kind in SCHEMES if (scheme := kind.read(name, dtype))]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_read_back_by_one_family_only(name):
    (scheme,) = read(name, DType.FP16)
    assert (scheme.name, scheme.dtype, scheme.family, scheme.math_dtype) == (name, DType.FP16, "torchao", "fp8")
    assert parse_scheme(name, DType.FP16) == scheme


@pytest.mark.parametrize(
    "name", ["act-lhs", "128x1", "ao-act", "ao-1x128", "ao-linear-balanced", "ao-grouped-linear-", ""]
)
def test_other_names_are_left_to_others(name):
    assert read(name) == []


@pytest.mark.parametrize(
    ("scheme", "problem", "expected"),
    [
        # 2 bytes in, 1 byte out, fp32 scales: one per 128 of a row, of a column, of a square
        (AoQuant("act-lhs", BF16), Problem(256, 1, 384, op=Op.QUANTIZE), 3 * 256 * 384 + 4 * 256 * 3),
        (AoQuant("act-rhs", BF16), Problem(200, 1, 384, op=Op.QUANTIZE), 3 * 200 * 384 + 4 * 2 * 384),
        (AoQuant("act-transposed-lhs", DType.FP32), Problem(256, 1, 100, op=Op.QUANTIZE), 5 * 25600 + 4 * 2 * 100),
        (AoQuant("weight-rhs", BF16), Problem(256, 1, 384, op=Op.QUANTIZE), 3 * 256 * 384 + 4 * 2 * 3),
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
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_compulsory_bytes(scheme, problem, expected):
    scheme.check(problem)
    assert scheme.compulsory_bytes(problem) == expected


def test_flops_count_the_total_of_rows():
    assert Problem(4096, 2048, 1024, E=8, op=Op.GROUPED_GEMM).flops == 2 * 4096 * 2048 * 1024


@pytest.mark.parametrize(
    ("name", "sizes", "complaint"),
    [
        ("ao-act-lhs", {"M": 1, "K": 100, "op": Op.QUANTIZE}, "K=100 must be a multiple of 128"),
        ("ao-act-rhs", {"M": 1, "K": 100, "op": Op.QUANTIZE}, "K=100 must be a multiple of 128"),
        ("ao-act-transposed-lhs", {"M": 100, "K": 128, "op": Op.QUANTIZE}, "M=100 must be a multiple of 128"),
        ("ao-weight-rhs", {"M": 100, "K": 128, "op": Op.QUANTIZE}, "M=100 must be a multiple of 128"),
        ("ao-weight-transposed-rhs", {"M": 128, "K": 100, "op": Op.QUANTIZE}, "K=100 must be a multiple of 128"),
        ("ao-act-lhs", {"M": 1, "K": 128}, "has no gemm"),
        ("ao-1x128-128x128", {"M": 1, "K": 128, "pass_": Pass.STEP}, "has no pass step"),
        ("ao-1x128-128x128", {"M": 1, "K": 128, "B": 2}, "B=2"),
        ("ao-linear", {"M": 100, "K": 128, "pass_": Pass.STEP}, "M=100 must be a multiple of 128"),
        ("ao-linear", {"M": 100, "K": 128, "pass_": Pass.BWD}, "has no pass bwd"),
        ("ao-grouped", {"M": 100, "K": 128, "E": 2, "op": Op.GROUPED_GEMM}, "M=100 must be a multiple of 16"),
        ("ao-grouped-balanced", {"M": 80, "K": 128, "E": 2, "op": Op.GROUPED_GEMM}, "M=80 must be a multiple of 32"),
        ("ao-grouped-linear", {"M": 64, "K": 128, "E": 2, "op": Op.GROUPED_GEMM}, "M=64 must be a multiple of 128"),
    ],
)
def test_what_cannot_be_stored_is_refused_in_one_line(name, sizes, complaint):
    (scheme,) = read(name)
    with pytest.raises(UsageError, match=complaint) as caught:
        scheme.check(Problem(N=sizes.pop("N", 1), **sizes))
    assert "\n" not in str(caught.value)


def test_sizes_without_the_restriction_are_taken():
    read("ao-act-rhs")[0].check(Problem(100, 1, 128, op=Op.QUANTIZE))
    read("ao-act-transposed-lhs")[0].check(Problem(128, 1, 100, op=Op.QUANTIZE))
    read("ao-linear")[0].check(Problem(100, 5, 7))


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


@pytest.mark.parametrize("name", [name for name in suite.names() if name.startswith("ao-")])
def test_every_suite_has_its_baseline_and_challengers_among_its_providers(name):
    found = suite.load(name)
    assert {found.baseline, *found.challengers} <= set(found.providers)

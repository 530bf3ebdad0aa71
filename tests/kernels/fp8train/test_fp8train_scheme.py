"""Names, guards and compulsory bytes of the FP8 training schemes, against numbers worked out by hand."""

import pytest
from rooflens.shapes.errors import UsageError
from rooflens.shapes.problem import Op, Pass, Problem
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes import parse_scheme
from rooflens.shapes.schemes.fp8train import Fp8Quant, Fp8Train

NAMES = (
    "fp8-blockwise",
    "fp8-blockwise-hybrid",
    "fp8-blockwise-prequantized",
    "fp8-blockwise-prequantized-hybrid",
    "fp8-quant-row",
    "fp8-quant-col",
    "fp8-quant-rowcol",
    "fp8-quant-weight",
)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_reads_as_itself(name):
    scheme = parse_scheme(name, DType.BF16)
    assert scheme.name == name
    assert scheme.family == "fp8train"


@pytest.mark.parametrize("name", ["fp8-blockwise-hybrid-prequantized", "fp8", "fp8-quant", "fp8-quant-col-row"])
def test_what_is_nearly_a_name_is_none(name):
    assert Fp8Train.read(name, DType.BF16) is None
    assert Fp8Quant.read(name, DType.BF16) is None


@pytest.mark.parametrize("name", ["fp8-blockwise", "fp8-quant-row"])
def test_only_bf16(name):
    with pytest.raises(UsageError, match="bf16"):
        parse_scheme(name, DType.FP32)


def test_guards():
    gemm, quant = Fp8Train(DType.BF16), Fp8Quant(DType.BF16, "row")
    with pytest.raises(UsageError, match="no quantize"):
        gemm.check(Problem(4, 1, 4, op=Op.QUANTIZE))
    with pytest.raises(UsageError, match="no gemm"):
        quant.check(Problem(4, 4, 4))
    with pytest.raises(UsageError, match="no pass step"):
        quant.check(Problem(4, 1, 4, op=Op.QUANTIZE, pass_=Pass.STEP))
    with pytest.raises(UsageError, match="B=2"):
        gemm.check(Problem(4, 4, 4, B=2))
    with pytest.raises(UsageError, match="unknown quantizer"):
        Fp8Quant(DType.BF16, "diagonal")


# M = 300, N = 200, K = 260: 3, 2 and 3 blocks of 128.
X, W, DY = 300 * 260, 200 * 260, 300 * 200
X_ROW, X_COL, W_SCALE, DY_ROW, DY_COL = 300 * 3, 3 * 260, 2 * 3, 300 * 2, 3 * 200
BYTES = {
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


@pytest.mark.parametrize(("scheme", "pass_"), BYTES)
def test_compulsory_bytes_of_the_products(scheme, pass_):
    problem = Problem(300, 200, 260, pass_=Pass(pass_))
    assert parse_scheme(scheme, DType.BF16).compulsory_bytes(problem) == BYTES[scheme, pass_]


@pytest.mark.parametrize(
    ("kind", "written"),
    [("row", X + 4 * 900), ("col", X + 4 * 780), ("rowcol", 2 * X + 4 * 1680), ("weight", X + 4 * 9)],
)
def test_compulsory_bytes_of_the_quantizers(kind, written):
    problem = Problem(300, 1, 260, op=Op.QUANTIZE)
    scheme = parse_scheme(f"fp8-quant-{kind}", DType.BF16)
    assert scheme.compulsory_bytes(problem) == 2 * X + written
    assert problem.flops == 0


def test_useful_flops_of_a_step_are_three_products():
    assert Problem(300, 200, 260, pass_=Pass.STEP).flops == 6 * 300 * 200 * 260

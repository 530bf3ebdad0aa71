"""The A16W8 scheme: names, what it can store, compulsory bytes counted by hand, and the floors of its accuracy."""

import pytest
import torch
from rooflens.shapes import shapeset, suite
from rooflens.shapes.errors import UsageError
from rooflens.shapes.problem import Op, Pass, Problem
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes import parse_scheme
from rooflens.shapes.schemes.a16w8 import A16W8, PREQUANT_SNR_DB

NAMES = ("a16w8-128x128", "a16w8-128x128-bias", "a16w8-128x128-prequant", "a16w8-128x128-prequant-bias")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", (DType.BF16, DType.FP16))
def test_names(name, dtype):
    scheme = parse_scheme(name, dtype)
    assert isinstance(scheme, A16W8)
    assert (scheme.name, scheme.dtype) == (name, dtype)
    assert (scheme.bias, scheme.prequant) == ("bias" in name, "prequant" in name)
    assert scheme.math_dtype == ("fp8" if scheme.prequant else dtype.value)


def test_near_misses_are_named():
    for name in ("a16w8", "a16w8-64x64", "a16w8-128x128-bias-prequant"):
        with pytest.raises(UsageError, match="write a16w8-128x128, then -prequant and -bias if wanted"):
            parse_scheme(name, DType.BF16)
    with pytest.raises(UsageError, match="16 bits: dtype bf16 or fp16"):
        parse_scheme("a16w8-128x128", DType.FP32)


def test_batches_are_fine_other_operations_are_not():
    scheme = A16W8(DType.BF16)
    scheme.check(Problem(1, 512, 128, B=128))
    with pytest.raises(UsageError, match="has no pass wgrad"):
        scheme.check(Problem(1, 512, 128, pass_=Pass.WGRAD))
    with pytest.raises(UsageError, match="has no grouped_gemm"):
        scheme.check(Problem(8, 512, 128, op=Op.GROUPED_GEMM, E=2))


def test_compulsory_bytes_by_hand():
    problem, plain = Problem(32, 512, 128, B=16), A16W8(DType.BF16)
    # B (2MK + NK + 2MN + 4 cd(N,128) cd(K,128))
    assert plain.compulsory_bytes(problem) == 16 * (2 * 32 * 128 + 512 * 128 + 2 * 32 * 512 + 4 * 4 * 1)
    biased = A16W8(DType.FP16, bias=True)
    assert biased.compulsory_bytes(problem) - plain.compulsory_bytes(problem) == 16 * 2 * 512
    assert plain.scale_bytes(Problem(1, 129, 257, B=2)) == 2 * 4 * 2 * 3


def test_floors():
    assert A16W8(DType.BF16).snr_floor_db == 40
    assert A16W8(DType.FP16).snr_floor_db == 55
    assert A16W8(DType.FP16, prequant=True).snr_floor_db == PREQUANT_SNR_DB == 28


def rounding_snr_db(dtype):
    """Of normal values that are rounded to `dtype` with one scale per 128 of them."""
    x = torch.randn(4000, 128, generator=torch.Generator().manual_seed(5)).double()
    step = x.abs().amax(1, keepdim=True) / torch.finfo(dtype).max
    error = (x / step).float().to(dtype).double() * step - x
    return 10 * torch.log10(x.square().sum() / error.square().sum()).item()


def test_the_prequantized_floor_lies_between_e4m3_and_one_bit_less():
    assert rounding_snr_db(torch.float8_e4m3fn) == pytest.approx(31.8, abs=0.1)
    assert rounding_snr_db(torch.float8_e4m3fnuz) == pytest.approx(31.8, abs=0.1)
    assert rounding_snr_db(torch.float8_e5m2) == pytest.approx(25.8, abs=0.1)


def test_the_shape_set():
    shapes = shapeset.load("a16w8_batched_deepseek")
    assert len(shapes) == len({shape.label for shape in shapes}) == 9
    heads = {shape.label: (shape.N, shape.K, shape.B) for shape in shapes if shape.model == "DeepSeek-R1"}
    assert set(heads.values()) == {(n, k, 128 // tp) for n, k in ((512, 128), (128, 512)) for tp in (1, 2, 4, 8)}
    for label, (n, k, b) in heads.items():
        assert label == f"DeepSeek-R1 mla_kv_b {n}x{k} tp{128 // b} B{b}"
    assert (shapes[-1].N, shapes[-1].K, shapes[-1].B) == (8192, 8192, 16)


@pytest.mark.parametrize("name", ("a16w8-deepseek", "a16w8-deepseek-quick"))
def test_suites(name):
    loaded = suite.load(name)
    assert loaded.baseline in loaded.providers
    assert set(loaded.challengers) <= set(loaded.providers)
    assert {parse_scheme(scheme, DType.BF16).family for scheme in loaded.schemes} == {"a16w8"}

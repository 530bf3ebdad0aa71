"""The family's providers: what they decline and why, and the bytes they say they move."""

import pytest
import torch
from rooflens.kernels.fp8train.blas import BLAS_BF16, DEQUANT_BLAS
from rooflens.kernels.fp8train.providers import SHARED, SPECIALISED
from rooflens.kernels.fp8train.scaled_mm import TORCH_SCALED_MM
from rooflens.kernels.fp8train.stock import STOCK_TRITON
from rooflens.kernels.reference import measure
from rooflens.shapes.problem import Pass, Problem

from ..devices import gpu
from ..synthetic import operands, scheme_of


def test_a_product_that_was_not_quantized_is_not_right():
    """The floor tells FP8 operands from the bf16 ones they came from."""
    inputs = operands(Problem(256, 256, 512), "fp8-blockwise", seed=3)
    product = inputs.dense["x"] @ inputs.dense["w"].t()
    accuracy = measure(product, inputs.reference()[0])
    assert 26 < accuracy.snr_db < 31
    assert accuracy.failure(inputs.scheme)


def test_scaled_mm_is_asked_for(monkeypatch):
    problem, scheme = Problem(256, 256, 512), scheme_of("fp8-blockwise")
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    assert "CUDA 12.9" in TORCH_SCALED_MM.supports(problem, scheme, gpu("sm90")).reason
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    if not hasattr(torch.nn.functional, "scaled_mm"):
        pytest.skip(f"torch {torch.__version__} has no scaled_mm")
    assert TORCH_SCALED_MM.supports(problem, scheme, gpu("sm90")).ok
    ragged = Problem(256, 256, 500)
    assert "multiples of 128" in TORCH_SCALED_MM.supports(ragged, scheme, gpu("sm90")).reason
    step = Problem(256, 256, 512, pass_=Pass.STEP)
    assert "e5m2" in TORCH_SCALED_MM.supports(step, scheme_of("fp8-blockwise-hybrid"), gpu("sm90")).reason
    monkeypatch.delattr(torch.nn.functional, "scaled_mm")
    assert "no torch.nn.functional.scaled_mm" in TORCH_SCALED_MM.supports(problem, scheme, gpu("sm90")).reason


def test_a_tile_that_scales_do_not_fit_is_refused():
    inputs = operands(Problem(64, 128, 256), "fp8-blockwise-prequantized", seed=3)
    for wrong in ({"BLOCK_K": 64}, {"BLOCK_N": 256}):
        for provider in (SHARED, SPECIALISED):
            config = dict(provider.candidates(inputs.problem, inputs.scheme, gpu("sm90"))[0])
            config["fwd"] = config["fwd"] | wrong
            with pytest.raises(ValueError, match="BLOCK_K"):
                provider.prepare(inputs, config)


@pytest.mark.parametrize(
    ("pass_", "specialised", "shared"),
    [("fwd", 96, 32), ("dgrad", 144, 32), ("wgrad", 96, 32), ("bwd", 239, 63), ("step", 334, 94)],
)
def test_the_search_space_of_gfx950_is_the_published_one_for_each_product(pass_, specialised, shared):
    """Of a pass with several products, each tile of each beside the defaults of the others."""
    problem, scheme = Problem(4096, 4096, 4096, pass_=Pass(pass_)), scheme_of("fp8-blockwise")
    offered = SPECIALISED.candidates(problem, scheme, gpu("gfx950"))
    assert (len(offered), len(SHARED.candidates(problem, scheme, gpu("gfx950")))) == (specialised, shared)
    for config in offered:
        assert sum(config[name] != tile for name, tile in offered[0].items()) == (config is not offered[0])
        for product in ("fwd", "wgrad"):
            assert "matrix_instr_nonkdim" not in config.get(product, {}), "of dgrad alone"


# M = 256, N = 384, K = 512: 2, 3 and 4 blocks of 128.
X, W, DY = 256 * 512, 384 * 512, 256 * 384
X_ROW, X_COL, W_SCALE, DY_ROW, DY_COL = 4 * 256 * 4, 4 * 2 * 512, 4 * 3 * 4, 4 * 256 * 3, 4 * 2 * 384
GEMM = {
    "fwd": X + X_ROW + W + W_SCALE + 2 * DY,
    "dgrad": DY + DY_ROW + W + W_SCALE + 2 * X,
    "wgrad": DY + DY_COL + X + X_COL + 2 * W,
}


TURNED = {"fwd": 0, "dgrad": 2 * W, "wgrad": 2 * X + 2 * DY}
"""Operands that are transposed in the call, where K must be contiguous."""
SCALES = {"fwd": 2 * X_ROW, "dgrad": 2 * DY_ROW + 2 * W_SCALE, "wgrad": 0}
"""Scales that `shared` transposes in the call."""
PRODUCTS, BACKWARD = sum(GEMM.values()), GEMM["dgrad"] + GEMM["wgrad"]
X_BOTH, DY_BOTH = 4 * X + X_ROW + X_COL, 4 * DY + DY_ROW + DY_COL
FUSED = PRODUCTS + X_BOTH + DY_BOTH + 3 * W + W_SCALE
SINGLE = FUSED + 2 * X + 2 * DY + 2 * (X_ROW + DY_ROW + W_SCALE)  # X and dY are read twice
GIVEN, QUANTIZED = "fp8-blockwise-prequantized", "fp8-blockwise"


@pytest.mark.parametrize(
    ("provider", "name", "pass_", "arch", "expected"),
    [
        *((SPECIALISED, GIVEN, one, "gfx950", GEMM[one]) for one in GEMM),
        *((SPECIALISED, GIVEN, one, "sm90", GEMM[one] + TURNED[one]) for one in GEMM),
        *((SHARED, GIVEN, one, "gfx950", GEMM[one] + SCALES[one]) for one in GEMM),
        *((SHARED, GIVEN, one, "sm90", GEMM[one] + SCALES[one] + TURNED[one]) for one in GEMM),
        (SPECIALISED, QUANTIZED, "step", "gfx950", FUSED),
        (SPECIALISED, QUANTIZED, "step", "sm90", FUSED + W),  # W^T is written as well
        (SHARED, QUANTIZED, "step", "gfx950", SINGLE),
        (SHARED, QUANTIZED, "step", "sm90", SINGLE + W),
        # the column form of X is made by the forward pass of `specialised`, by the backward pass of `shared`
        (SPECIALISED, QUANTIZED, "fwd", "gfx950", GEMM["fwd"] + X_BOTH + 3 * W + W_SCALE),
        (SPECIALISED, QUANTIZED, "bwd", "gfx950", BACKWARD + DY_BOTH),
        (SHARED, QUANTIZED, "bwd", "gfx950", BACKWARD + 2 * DY + DY_BOTH + 3 * X + X_COL + 2 * (DY_ROW + W_SCALE)),
    ],
)
def test_moved_bytes(provider, name, pass_, arch, expected):
    problem, scheme = Problem(256, 384, 512, pass_=Pass(pass_)), scheme_of(name)
    config = provider.candidates(problem, scheme, gpu(arch))[0]
    assert provider.moved_bytes(problem, scheme, config) == expected


def test_bytes_of_torch_s_product():
    """As `specialised_fp8` on sm90, with W's scales in both orders, in rows of a multiple of 4: [3, 4] and [4, 4]."""

    def found(pass_, scheme="fp8-blockwise"):
        problem = Problem(256, 384, 512, pass_=Pass(pass_))
        return TORCH_SCALED_MM.moved_bytes(problem, scheme_of(scheme), {})

    turned = 4 * 4 * 4
    x_both, dy_both, weight = 4 * X + X_ROW + X_COL, 4 * DY + DY_ROW + DY_COL, 4 * W + W_SCALE + turned
    filled = turned - W_SCALE
    assert found("fwd") == x_both + weight + GEMM["fwd"]
    assert found("dgrad") == 3 * DY + DY_ROW + GEMM["dgrad"] + filled, "W was quantized by the forward pass"
    assert found("step") == x_both + weight + dy_both + sum(GEMM.values()) + filled
    assert found("fwd", "fp8-blockwise-prequantized") == GEMM["fwd"] + 2 * X_ROW, "scales of X are transposed"
    step = Problem(256, 384, 512, pass_=Pass.STEP)
    forms = 2 * X + 2 * W + 2 * DY + X_ROW + X_COL + DY_ROW + DY_COL + W_SCALE + turned
    touched = 2 * (X + W + DY) + forms + 2 * (X + W + DY)
    assert TORCH_SCALED_MM.working_set_bytes(step, scheme_of("fp8-blockwise"), {}) == touched


def test_bytes_of_the_baselines():
    scheme, problem = scheme_of("fp8-blockwise"), Problem(256, 384, 512, pass_=Pass.STEP)
    dense = 2 * (2 * X + 2 * W + 2 * DY) + 2 * (X + W + DY)
    for provider in (BLAS_BF16, STOCK_TRITON):
        assert provider.moved_bytes(problem, scheme, {}) == dense
        assert provider.working_set_bytes(problem, scheme, {}) == dense - 2 * W
    forms = 2 * X + W + 2 * DY
    scales = X_ROW + X_COL + W_SCALE + DY_ROW + DY_COL
    assert DEQUANT_BLAS.moved_bytes(problem, scheme, {}) == dense + 2 * (3 * forms + scales)
    assert DEQUANT_BLAS.working_set_bytes(problem, scheme, {}) == dense - 2 * W + forms + scales + 2 * (X + W + DY)

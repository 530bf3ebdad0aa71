"""The family's providers: what they decline and why, and what a search tries."""

import pytest
import torch
from rooflens.kernels.fp8train.providers import SHARED, SPECIALISED
from rooflens.kernels.fp8train.scaled_mm import TORCH_SCALED_MM
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

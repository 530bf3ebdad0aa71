"""Types of FP8 by device, and the operands of training."""

from dataclasses import replace

import pytest
import torch
from rooflens.kernels.fp8train import inputs as inputs_module
from rooflens.kernels.fp8train import quantize
from rooflens.kernels.fp8train.quantize import fp8_dtype
from rooflens.kernels.inputs import placeholders
from rooflens.shapes.problem import Pass, Problem

from ..devices import cpu, gpu
from ..synthetic import operands, scheme_of


def test_largest_values_are_those_of_the_device():
    assert fp8_dtype(cpu("gfx942")) is torch.float8_e4m3fnuz
    assert fp8_dtype(cpu("gfx942"), gradient=True) is torch.float8_e5m2fnuz
    for arch in ("sm90", "gfx950", "gfx1201", "x86-64"):
        assert fp8_dtype(cpu(arch)) is torch.float8_e4m3fn
        assert fp8_dtype(cpu(arch), gradient=True) is torch.float8_e5m2
    x = torch.randn(8, 128).bfloat16()
    assert quantize.quantize(x, "row", torch.float8_e4m3fnuz).data.float().abs().max() == 240


def inputs_of(scheme, pass_, arch="x86-64", sizes=(70, 150, 200)):
    return operands(Problem(*sizes, pass_=pass_), scheme, device=cpu(arch), seed=3)


@pytest.mark.parametrize(("m", "place"), [(1024, ""), (32768, "cpu")])
def test_a_reference_that_would_fill_the_gpu_is_kept_on_the_host(monkeypatch, m, place):
    """Of the largest layer of the 84, Llama-3.1-405B's gate and up projection: 14 GiB and 43 GiB."""
    problem = Problem(m, 106496, 16384, pass_=Pass.STEP)
    places = []
    monkeypatch.setattr(inputs_module, "products", lambda problem, operand, place: places.append(place) or ())
    inputs = placeholders(problem, scheme_of("fp8-blockwise"), gpu("sm90"))
    replace(inputs, device=replace(inputs.device, memory_bytes=150 << 30)).reference()
    assert places == [place]


def test_prequantized_operands_are_the_quantized_ones():
    """Both schemes ask for the same product: the same seed gives the same FP8 bits."""
    for pass_ in (Pass.FWD, Pass.STEP):
        for a, b in zip(
            inputs_of("fp8-blockwise", pass_).reference(),
            inputs_of("fp8-blockwise-prequantized", pass_).reference(),
            strict=True,
        ):
            assert torch.equal(a, b)

"""The plain torch quantizer against its definition, element by element, and the operands made of it."""

import math
from dataclasses import replace

import pytest
import torch
from rooflens.kernels import quantized
from rooflens.kernels.fp8train import inputs as inputs_module
from rooflens.kernels.fp8train import quantize
from rooflens.kernels.fp8train.quantize import fp8_dtype
from rooflens.kernels.inputs import placeholders
from rooflens.shapes.problem import Pass, Problem

from ..devices import cpu, gpu
from ..synthetic import operands, scheme_of

TYPES = (torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2)
GROUPS = {"row": (1, 128), "col": (128, 1), "weight": (128, 128)}


def divide(a, b):
    """fp32 quotient, rounded to nearest: the fp64 quotient of fp32 numbers rounds to it (53 >= 2 * 24 + 2 bits)."""
    return torch.tensor(a / b, dtype=torch.float64).float().item()


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("kind", GROUPS)
def test_definition(kind, dtype):
    torch.manual_seed(7)
    x = (torch.randn(150, 140) * torch.logspace(-3, 3, 140)).bfloat16()
    x[:, 3] = 0.0
    x[0] = -1e-5  # amax below its floor
    rows, columns = GROUPS[kind]
    largest = torch.finfo(dtype).max
    result = quantize.quantize(x, kind, dtype)
    for i in range(math.ceil(150 / rows)):
        for j in range(math.ceil(140 / columns)):
            if kind != "weight" and (i * 31 + j) % 7:
                continue  # a seventh of the groups, in no pattern of the blocks
            part = (slice(i * rows, (i + 1) * rows), slice(j * columns, (j + 1) * columns))
            amax = max(x[part].float().abs().max().item(), torch.tensor(1e-4).item())
            s = divide(largest, amax)
            expected = (x[part].float() * s).clamp(-largest, largest).to(dtype)
            assert torch.equal(result.data[part].float(), expected.float()), (i, j)
            assert result.scale[i, j].item() == divide(1.0, s), (i, j)
    assert result.scale.shape == (math.ceil(150 / rows), math.ceil(140 / columns))


@pytest.mark.parametrize("kind", GROUPS)
def test_pieces_do_not_show(kind, monkeypatch):
    x = torch.randn(700, 130).bfloat16()
    whole = quantize.quantize(x, kind, TYPES[0])
    monkeypatch.setattr(quantized, "_CHUNK_ELEMENTS", 1)
    pieces = quantize.quantize(x, kind, TYPES[0])
    assert torch.equal(whole.data.view(torch.uint8), pieces.data.view(torch.uint8))
    assert torch.equal(whole.scale, pieces.scale)
    assert torch.equal(whole.dequantized(torch.float64), pieces.dequantized(torch.float64))


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


def plain(q):
    """Decode in fp64 by indexing, not by the code under test."""
    rows, columns = q.data.shape
    r, c = torch.arange(rows), torch.arange(columns)
    group_rows, group_columns = q.rows, q.columns
    return q.data.double() * q.scale.double()[(r // group_rows)[:, None], (c // group_columns)[None, :]]


@pytest.mark.parametrize("scheme", ["fp8-blockwise-hybrid", "fp8-blockwise-prequantized"])
def test_reference_is_the_three_products(scheme, monkeypatch):
    inputs = inputs_of(scheme, Pass.STEP)
    operand = {name: plain(inputs.quantized(name)) for name in ("x_row", "w", "dy_row", "x_col", "dy_col")}
    expected = (
        operand["x_row"] @ operand["w"].t(),
        operand["dy_row"] @ operand["w"],
        operand["dy_col"].t() @ operand["x_col"],
    )
    for chunk in (1 << 27, 1000):
        monkeypatch.setattr(quantized, "_CHUNK_ELEMENTS", chunk)
        for found, wanted in zip(inputs.reference(), expected, strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)


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

"""Layouts of the plain torch quantizers, as torchao documents them, and what the kernels rely on."""

import pytest
import torch
from rooflens.kernels.quantized import Quantized
from rooflens.kernels.torchao.quantize import empty_layout, quantized_layout
from rooflens.shapes.schemes.torchao import QUANTIZERS

FP8 = torch.float8_e4m3fn


LAYOUTS = {
    # kind: of x[256,384], shape and stride of data and scales, as torchao's quantizers return them
    "act-lhs": ((256, 384), (384, 1), (256, 3), (1, 256)),
    "act-rhs": ((256, 384), (1, 256), (2, 384), (384, 1)),
    "act-transposed-lhs": ((384, 256), (256, 1), (384, 2), (1, 384)),
    "weight-rhs": ((256, 384), (1, 256), (2, 3), (1, 2)),
    "weight-transposed-rhs": ((384, 256), (1, 384), (3, 2), (1, 3)),
}


@pytest.mark.parametrize("kind", QUANTIZERS)
def test_layouts(kind):
    x = torch.randn(256, 384)
    for data, scale in (quantized_layout(x, kind, FP8), empty_layout(256, 384, kind, FP8, "cpu")):
        assert (tuple(data.shape), data.stride(), tuple(scale.shape), scale.stride()) == LAYOUTS[kind]
        assert (data.dtype, scale.dtype) == (FP8, torch.float32)


@pytest.mark.parametrize("kind", QUANTIZERS)
def test_layouts_hold_the_values(kind):
    x = torch.randn(256, 384)
    data, scale = quantized_layout(x, kind, FP8)
    rows, columns, _ = QUANTIZERS[kind]
    if "transposed" in kind:
        data, scale = data.t(), scale.t()
    back = data.float() * scale.repeat_interleave(rows, 0).repeat_interleave(columns, 1)
    assert (back - x).abs().max() <= x.abs().max() / 448 * 16, "half a step of the largest values"
    assert torch.equal(back, Quantized(data, scale, rows, columns).dequantize(torch.empty(256, 384)))

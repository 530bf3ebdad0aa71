"""Quantization of A16W8 weights to the bit, and the reference."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rooflens.kernels.a16w8.quantize import dequantize, quantize
from rooflens.shapes.problem import Problem
from rooflens.shapes.scheme import DType

from ..checks import e4m3, nearest_e4m3
from ..devices import CPU, cpu
from ..synthetic import operands

FN, FNUZ = torch.float8_e4m3fn, torch.float8_e4m3fnuz


@pytest.mark.parametrize("dtype", (FN, FNUZ))
@given(
    batch=st.integers(1, 2), rows=st.integers(1, 150), columns=st.integers(1, 150), seed=st.integers(0, 99),
    size=st.sampled_from((1.0, 1e-20, 3e4)),
)  # fmt: skip
def test_quantized_bits(dtype, batch, rows, columns, seed, size):
    dense = torch.randn(batch, rows, columns, generator=torch.Generator().manual_seed(seed)) * size
    q, scales = quantize(dense, dtype)
    array, largest = dense.numpy(), np.float32(torch.finfo(dtype).max)
    assert scales.shape == (batch, -(-rows // 128), -(-columns // 128))
    for b in range(batch):
        for i, j in np.ndindex(scales.shape[1:]):
            place = (b, slice(128 * i, 128 * i + 128), slice(128 * j, 128 * j + 128))
            scale = np.maximum(np.abs(array[place]).max(), np.float32(1e-12)) / largest
            assert scales[b, i, j].item() == scale
            assert (q[place].double().numpy() == nearest_e4m3(array[place] / scale, dtype)).all()
    assert dequantize(q, scales, torch.float64).shape == dense.shape


def inputs_of(scheme="a16w8-128x128-bias", device=CPU, dtype=DType.BF16, sizes=(3, 140, 200, 2)):
    return operands(Problem(*sizes), scheme, dtype, device=device, seed=4)


@pytest.mark.parametrize("device", (CPU, cpu("gfx942")), ids=("e4m3fn", "e4m3fnuz"))
@pytest.mark.parametrize("scheme", ("a16w8-128x128", "a16w8-128x128-bias", "a16w8-128x128-prequant-bias"))
def test_reference_is_the_product_of_the_stored_bits(scheme, device):
    inputs = inputs_of(scheme, device)
    assert inputs.q.dtype is (FNUZ if device.arch == "gfx942" else FN)
    (truth,) = inputs.reference()
    octets = inputs.q.view(torch.uint8).tolist()
    for b, m, n in ((0, 0, 0), (1, 2, 139), (0, 1, 128)):
        scales = inputs.scale[b, n // 128].double()
        total = sum(
            inputs.x[b, m, k].item() * e4m3(octets[b][n][k], inputs.q.dtype) * scales[k // 128].item()
            for k in range(200)
        )
        total += inputs.bias[b, n].item() if inputs.bias is not None else 0
        assert truth[b, m, n].item() == pytest.approx(total, rel=1e-12)


def test_large_batches_are_drawn_in_parts_without_repeating_values(monkeypatch):
    whole = inputs_of(sizes=(2, 130, 140, 5))
    monkeypatch.setattr("rooflens.kernels.a16w8.inputs._CHUNK_ELEMENTS", 2 * 130 * 140)
    parts = inputs_of(sizes=(2, 130, 140, 5))
    assert len({parts.q[b].view(torch.uint8).numpy().tobytes() for b in range(5)}) == 5
    torch.testing.assert_close(parts.reference()[0], _product(parts), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(whole.reference()[0], _product(whole), rtol=1e-12, atol=1e-12)


def _product(inputs):
    dense = dequantize(inputs.q, inputs.scale, torch.float64)
    return inputs.x.double() @ dense.transpose(1, 2) + inputs.bias.double().unsqueeze(1)

"""FP8 operands of every family by their definitions: each bit of a quantizer, and references from the stored bits."""

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rooflens.kernels import quantized
from rooflens.kernels.a16w8.quantize import quantize as quantize_a16w8
from rooflens.kernels.fp8train.quantize import quantize as quantize_training
from rooflens.kernels.torchao.quantize import quantize as quantize_ao
from rooflens.shapes.problem import Pass, Problem

from .checks import e4m3, nearest_e4m3
from .contract_cases import moe
from .devices import CPU, cpu
from .synthetic import operands

FN, FNUZ, E5M2 = torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2
ROW, COLUMN, SQUARE = (1, 128), (128, 1), (128, 128)


def of_a16w8(x, groups, dtype):
    data, scale = quantize_a16w8(x[None].float(), dtype)
    return data[0], scale[0]


def of_training(x, groups, dtype):
    found = quantize_training(x, {ROW: "row", COLUMN: "col", SQUARE: "weight"}[groups], dtype)
    return found.data, found.scale


def of_ao(x, groups, dtype):
    found = quantize_ao(x, *groups, dtype)
    return found.data, found.scale


def by_division(values, amax, largest, spread):
    scale = amax.astype(np.float32) / largest
    return scale, values / spread(scale)


def by_reciprocal(values, amax, largest, spread):
    s = (largest / amax.astype(np.float64)).astype(np.float32)
    return np.float32(1) / s, values * spread(s)


FAMILIES = (  # quantizer, groups, least amax, formula, types
    (of_a16w8, (SQUARE,), np.float32(1e-12), by_division, (FN, FNUZ)),
    (of_training, (ROW, COLUMN, SQUARE), np.float32(1e-4), by_reciprocal, (FN, FNUZ, E5M2)),
    (of_ao, (ROW, COLUMN, SQUARE), 1e-12, by_reciprocal, (FN, FNUZ)),
)


@pytest.mark.parametrize(
    ("quantize", "groups", "least", "formula", "dtype"),
    [
        (quantize, groups, least, formula, dtype)
        for quantize, every, least, formula, types in FAMILIES
        for groups, dtype in product(every, types)
    ],
)
@given(
    sizes=st.tuples(st.integers(1, 300), st.integers(1, 300)), seed=st.integers(0, 99),
    size=st.sampled_from((1.0, 1e-20, 3e4)), chunk=st.sampled_from((1, 1 << 26)),
)  # fmt: skip
def test_every_bit_of_a_quantizer(quantize, groups, least, formula, dtype, sizes, seed, size, chunk):
    """Signed values over six orders of magnitude, a row of zeros, and amax below the least; in pieces or whole."""
    (rows, columns), (height, width) = sizes, groups
    x = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed)) * torch.logspace(-3, 3, columns)
    x[rows // 2] = 0
    x[: rows // 4] *= 1e-14
    x = (x * size).bfloat16()
    values, largest = x.float().numpy(), np.float32(torch.finfo(dtype).max)
    by_rows = np.maximum.reduceat(np.abs(values), range(0, rows, height), axis=0)
    amax = np.maximum(np.maximum.reduceat(by_rows, range(0, columns, width), axis=1), least)
    scale, scaled = formula(values, amax, largest, lambda s: s.repeat(height, 0)[:rows].repeat(width, 1)[:, :columns])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quantized, "_CHUNK_ELEMENTS", chunk)
        data, found = quantize(x, groups, dtype)
    assert np.array_equal(found.numpy(), scale)
    exact = torch.from_numpy(scaled).clamp(-largest, largest).to(dtype).double().numpy()
    assert np.array_equal(data.double().numpy(), exact if dtype is E5M2 else nearest_e4m3(scaled, dtype))


TABLES = {dtype: torch.tensor([e4m3(code, dtype) for code in range(256)]).double() for dtype in (FN, FNUZ)}


def decoded(data, scale, rows, columns):
    numbers = TABLES[data.dtype][data.contiguous().view(torch.uint8).int()] if data.dtype in TABLES else data.double()
    spread = scale.double().repeat_interleave(rows, -2)[..., : data.shape[-2], :].repeat_interleave(columns, -1)
    return numbers * spread[..., : data.shape[-1]]


def with_bytes(data, scale):
    return decoded(data, torch.exp2(scale.double() - 127), 1, 32)


def batched(inputs):
    y = inputs.x.double() @ decoded(inputs.q, inputs.scale, 128, 128).mT
    return (y if inputs.bias is None else y + inputs.bias.double().unsqueeze(1),)


def step(inputs):
    names = ("x_row", "w", "dy_row", "x_col", "dy_col")
    x, w, dy, x_col, dy_col = (decoded(one.data, one.scale, one.rows, one.columns)
                               for one in map(inputs.quantized, names))  # fmt: skip
    return x @ w.mT, dy @ w, dy_col.mT @ x_col


def microscaled(inputs):
    return (with_bytes(inputs.x, inputs.x_scale) @ with_bytes(inputs.w, inputs.w_scale).mT,)


def routed(inputs):
    """A row for each token and expert of its own."""
    x, w = with_bytes(inputs.x, inputs.x_scale), with_bytes(inputs.w, inputs.w_scale)
    slots = zip(inputs.topk_ids.flatten().tolist(), inputs.topk_weights.double().flatten(), strict=True)
    return (torch.stack([w[expert] @ x[slot // 2] * weight for slot, (expert, weight) in enumerate(slots)]),)


def blockwise(inputs):
    by_column = inputs.b_scale[0].mT if inputs.by_column else inputs.b_scale[0]
    b = decoded(inputs.b[0], by_column, 1 if inputs.by_column else 128, 128)
    return (decoded(inputs.a, inputs.a_scale.mT, 1, 128) @ b.mT,)


TRAINED, EXPERTS = Problem(70, 150, 200, pass_=Pass.STEP), moe(2, 3, 64, 4, 2)


@pytest.mark.parametrize("chunk", [1 << 27, 1000])
@pytest.mark.parametrize(
    ("expected", "scheme", "problem", "device"),
    [
        *(
            (batched, f"a16w8-128x128{more}", Problem(3, 140, 200, B=2), device)
            for more in ("", "-bias", "-prequant-bias")
            for device in (CPU, cpu("gfx942"))
        ),
        *((step, f"fp8-blockwise-{more}", TRAINED, CPU) for more in ("hybrid", "prequantized")),
        (microscaled, "mxfp8-rceil", Problem(3, 7, 64), CPU),
        (routed, "mxfp8-moe-rceil-weighted", EXPERTS, CPU),
        *((blockwise, f"ao-1x128-{right}", Problem(3, 130, 257), CPU) for right in ("128x128", "128x1")),
    ],
)
def test_references_are_products_of_the_stored_bits(monkeypatch, expected, scheme, problem, device, chunk):
    inputs = operands(problem, scheme, device=device, seed=5)
    monkeypatch.setattr(quantized, "_CHUNK_ELEMENTS", chunk)
    for found, exact in zip(inputs.reference(), expected(inputs), strict=True):
        torch.testing.assert_close(found, exact, rtol=1e-12, atol=1e-12 * exact.abs().max().item())


def test_large_batches_are_drawn_in_parts_without_repeating_values(monkeypatch):
    monkeypatch.setattr("rooflens.kernels.a16w8.inputs._CHUNK_ELEMENTS", 2 * 130 * 140)
    inputs = operands(Problem(2, 130, 140, B=5), "a16w8-128x128-bias", seed=4)
    assert len({inputs.q[b].view(torch.uint8).numpy().tobytes() for b in range(5)}) == 5
    torch.testing.assert_close(inputs.reference(), batched(inputs), rtol=1e-12, atol=1e-12)

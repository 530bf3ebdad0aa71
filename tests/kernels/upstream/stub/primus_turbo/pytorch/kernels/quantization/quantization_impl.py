"""Quantizers by rows, columns, both at once, and of weights."""

from rooflens.kernels.fp8train.quantize import quantize

CALLS = []
"""What was quantized: "row", "col", "row+col", "weight"."""


def quant_fp8_blockwise_impl(x, dtype, axis, block_size=128):
    assert block_size == 128
    kind = ("col", "row")[axis]
    CALLS.append(kind)
    q = quantize(x, kind, dtype)
    return q.data, q.scale


def quant_fp8_blockwise_for_weight_impl(w, dtype, block_size=128):
    assert block_size == 128
    CALLS.append("weight")
    q = quantize(w, "weight", dtype)
    return q.data, q.scale


def quant_fp8_blockwise_dual_impl(x, dtype, block_size=128):
    assert block_size == 128
    CALLS.append("row+col")
    row, column = quantize(x, "row", dtype), quantize(x, "col", dtype)
    return row.data, row.scale, column.data, column.scale

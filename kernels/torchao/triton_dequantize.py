"""Dequantization on GPUs: casts where the scheme has them inside, then one pass per operand."""

import torch

from ...shapes.schemes.torchao import BLOCK
from ..jit.call import CompiledCalls, KernelCall, compile_calls
from .linear_inputs import LinearInputs
from .product_inputs import ProductInputs
from .triton_casts import cast, dequantize_call

Tensors = tuple[torch.Tensor, ...]


def prepare_dequantize(inputs: ProductInputs | LinearInputs) -> tuple[CompiledCalls, Tensors, torch.Tensor]:
    """Compile. Return the calls that fill dense activations and weights, and those, as `blas.dense_products` wants."""
    calls, activations, weight = dequantize_calls(inputs)
    return compile_calls(calls), activations, weight


def dequantize_calls(inputs: ProductInputs | LinearInputs) -> tuple[list[KernelCall], Tensors, torch.Tensor]:
    """The launches of one call, the dense activations and the dense W [E,N,K]."""
    if isinstance(inputs, ProductInputs):
        a = torch.empty_like(inputs.a_dense)
        weight = torch.empty(inputs.b.shape, dtype=a.dtype, device=a.device)
        calls = [
            dequantize_call(inputs.a, inputs.a_scale, 1, a),
            dequantize_call(inputs.b, inputs.b_scale, 1 if inputs.by_column else BLOCK, weight),
        ]
        return calls, (a,), weight
    weight, calls = _round_trip(inputs.w, "weight-transposed-rhs", inputs)
    if inputs.dy is None:
        x, more = _round_trip(inputs.x, "act-lhs", inputs)
        return calls + more, (x,), weight
    activations = []
    for source, kind in zip((inputs.x, inputs.dy) * 2, ("act-lhs",) * 2 + ("act-rhs",) * 2, strict=True):
        dense, more = _round_trip(source, kind, inputs)
        # columns are quantized into the transposed order
        activations.append(dense.t() if kind == "act-rhs" else dense)
        calls += more
    return calls, tuple(activations), weight


def _round_trip(x: torch.Tensor, kind: str, inputs: LinearInputs) -> tuple[torch.Tensor, list[KernelCall]]:
    data, scale, quantize = cast(x, kind, inputs.fp8, inputs.device)
    dense = torch.empty(data.shape, dtype=x.dtype, device=x.device)
    group_rows = BLOCK if kind.startswith("weight") else 1
    return dense, [quantize, dequantize_call(data, scale, group_rows, dense)]

"""The quantizers of this family in plain torch, in the layouts of torchao: what kernels compute, to the bit."""

import torch

from ...shapes.schemes.torchao import QUANTIZERS
from .. import quantized
from ..quantized import Quantized

SMALLEST_AMAX = 1e-12
"""amax of a group is taken to be at least this, so that a group of zeros has a scale."""


def quantize(x: torch.Tensor, rows: int, columns: int, dtype: torch.dtype) -> Quantized:
    """Quantize x[R,C] in groups of rows x columns."""
    return quantized.quantize(x, rows, columns, dtype, SMALLEST_AMAX)


def quantized_layout(x: torch.Tensor, kind: str, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Data and scales of x[M,K], shaped and strided as torchao's quantizer `kind` returns them (`empty_layout`)."""
    rows, columns, _ = QUANTIZERS[kind]
    operand = quantize(x, rows, columns, dtype)
    transposed = "transposed" in kind
    data, scale = empty_layout(*operand.shape, kind, dtype, x.device)
    data.copy_(operand.data.t() if transposed else operand.data)
    scale.copy_(operand.scale.t() if transposed else operand.scale)
    return data, scale


def empty_layout(
    m: int, k: int, kind: str, dtype: torch.dtype, device: torch.device | str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Allocate what the quantizer `kind` of x[M,K] returns: data and scales.

    act-lhs                [M,K] row-major       [M,cd(K)] stride (1,M)
    act-rhs                [M,K] column-major    [cd(M),K] row-major
    act-transposed-lhs     [K,M] row-major       [K,cd(M)] stride (1,K)
    weight-rhs             [M,K] column-major    [cd(M),cd(K)] stride (1,cd(M))
    weight-transposed-rhs  [K,M] column-major    [cd(K),cd(M)] stride (1,cd(K))
    where cd(n) = ceil(n / 128).
    """
    rows, columns, _ = QUANTIZERS[kind]
    data_shape, scale_shape = (m, k), (-(-m // rows), -(-k // columns))
    if "transposed" in kind:
        data_shape, scale_shape = data_shape[::-1], scale_shape[::-1]
    return (
        _empty(data_shape, kind.endswith("rhs"), dtype, device),
        _empty(scale_shape, kind != "act-rhs", torch.float32, device),
    )


def _empty(shape: tuple[int, int], columns_first: bool, dtype: torch.dtype, device: torch.device | str) -> torch.Tensor:
    if columns_first:
        return torch.empty(shape[::-1], dtype=dtype, device=device).t()
    return torch.empty(shape, dtype=dtype, device=device)

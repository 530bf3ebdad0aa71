"""The quantizers in plain torch: the specification, to the bit, of what the kernels compute.

Of every group, s = float32(FP8_MAX / float64(amax)) with amax of at least 1e-12, data = clamp(x * s) in FP8, and the
stored scale is 1 / s in fp32, so that dequantization multiplies.
"""

from dataclasses import dataclass

import torch

from ...shapes.schemes.torchao import BLOCK, QUANTIZERS, blocks

SMALLEST_AMAX = 1e-12
"""amax of a group is taken to be at least this, so that a group of zeros has a scale."""

_CHUNK_ELEMENTS = 1 << 25
"""Elements that are worked on in fp32 at once (128 MiB each for several temporaries)."""


@dataclass(frozen=True, slots=True)
class QuantizedOperand:
    """FP8 `data` [R,C] with fp32 reciprocal `scale` [cd(R,rows), cd(C,columns)]: value = data * scale of its group."""

    data: torch.Tensor
    scale: torch.Tensor
    rows: int
    columns: int

    @property
    def shape(self) -> tuple[int, int]:
        """R and C."""
        return self.data.shape[0], self.data.shape[1]

    def dequantize(self, out: torch.Tensor) -> torch.Tensor:
        """Write the values into `out` [R,C], rounded once from their fp32 (fp64 for a fp64 `out`) products."""
        wide = torch.float64 if out.dtype is torch.float64 else torch.float32
        for first, last in row_chunks(*self.shape):
            part = self.part(first, last)
            scale = part.scale.to(wide).repeat_interleave(self.columns, 1)[:, : self.shape[1]]
            scale = scale.repeat_interleave(self.rows, 0)[: last - first]
            out[first:last] = part.data.to(wide).mul_(scale)
        return out

    def part(self, first: int, last: int) -> "QuantizedOperand":
        """Rows first to last of the same operand; `first` begins a group."""
        scale = self.scale[first // self.rows : -(-last // self.rows)]
        return QuantizedOperand(self.data[first:last], scale, self.rows, self.columns)

    def transposed(self) -> "QuantizedOperand":
        """The same values as [C,R]; a view."""
        return QuantizedOperand(self.data.t(), self.scale.t(), self.columns, self.rows)


def row_chunks(rows: int, columns: int) -> list[tuple[int, int]]:
    """Split rows into ranges of about `_CHUNK_ELEMENTS` elements that begin at multiples of 128."""
    step = max(1, _CHUNK_ELEMENTS // (BLOCK * columns)) * BLOCK
    return [(first, min(first + step, rows)) for first in range(0, rows, step)]


def quantize(x: torch.Tensor, rows: int, columns: int, dtype: torch.dtype) -> QuantizedOperand:
    """Quantize x[R,C] in groups of rows x columns; edge groups are what is inside. Row-major data and scales."""
    data = torch.empty(x.shape, dtype=dtype, device=x.device)
    groups = (-(-x.shape[0] // rows), -(-x.shape[1] // columns))
    scale = torch.empty(groups, dtype=torch.float32, device=x.device)
    for first, last in row_chunks(x.shape[0], x.shape[1]):
        part, inverse = _quantize_chunk(x[first:last].float(), rows, columns, dtype)
        data[first:last] = part
        scale[first // rows : -(-last // rows)] = inverse
    return QuantizedOperand(data, scale, rows, columns)


def _quantize_chunk(x: torch.Tensor, rows: int, columns: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    height, width = x.shape
    padded = torch.nn.functional.pad(x, (0, -width % columns, 0, -height % rows))
    grouped = padded.view(padded.shape[0] // rows, rows, padded.shape[1] // columns, columns)
    amax = grouped.abs().amax(dim=(1, 3), keepdim=True).double().clamp_(min=SMALLEST_AMAX)
    limit = torch.finfo(dtype).max
    s = (torch.full_like(amax, limit) / amax).float()  # a scalar numerator would multiply by a rounded reciprocal
    data = (grouped * s).clamp_(-limit, limit).to(dtype).view(padded.shape)[:height, :width]
    return data, (torch.ones_like(s) / s)[:, 0, :, 0]


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
    data_shape, columns_first = {
        "act-lhs": ((m, k), False),
        "act-rhs": ((m, k), True),
        "act-transposed-lhs": ((k, m), False),
        "weight-rhs": ((m, k), True),
        "weight-transposed-rhs": ((k, m), True),
    }[kind]
    scale_shape, scale_columns_first = {
        "act-lhs": ((m, blocks(k)), True),
        "act-rhs": ((blocks(m), k), False),
        "act-transposed-lhs": ((k, blocks(m)), True),
        "weight-rhs": ((blocks(m), blocks(k)), True),
        "weight-transposed-rhs": ((blocks(k), blocks(m)), True),
    }[kind]
    return (
        _empty(data_shape, columns_first, dtype, device),
        _empty(scale_shape, scale_columns_first, torch.float32, device),
    )


def _empty(shape: tuple[int, int], columns_first: bool, dtype: torch.dtype, device: torch.device | str) -> torch.Tensor:
    if columns_first:
        return torch.empty(shape[::-1], dtype=dtype, device=device).t()
    return torch.empty(shape, dtype=dtype, device=device)


def exact_rows(left: QuantizedOperand, right: QuantizedOperand, out: torch.Tensor) -> None:
    """out[R,S] = left[R,C] right[S,C]^T of the dequantized values, in fp64. Zero where C is 0.

    Pieces of both sides are dequantized, about 256 MiB each.
    """
    depth = left.shape[1]
    if not depth:
        out.zero_()
        return
    for first, last in row_chunks(left.shape[0], depth):
        rows = _exact(left.part(first, last))
        for begin, end in row_chunks(right.shape[0], depth):
            out[first:last, begin:end] = rows @ _exact(right.part(begin, end)).t()


def _exact(operand: QuantizedOperand) -> torch.Tensor:
    return operand.dequantize(torch.empty(operand.shape, dtype=torch.float64, device=operand.data.device))

"""FP8 matrices with an fp32 scale per group of rows x columns, in plain torch, and their products in fp64.

For every group (those at the edges are what is inside):

    amax = max(max |x|, least_amax)    s = FP8_MAX / amax    data = FP8(clamp(x s, -FP8_MAX, FP8_MAX))    scale = 1 / s

all in fp32, divisions rounded to nearest. The stored scale multiplies when data are dequantized.
"""

from dataclasses import dataclass

import torch

_UNIT = 128
"""Rows that are worked on at once are a multiple of this, so that no group is cut."""

_CHUNK_ELEMENTS = 1 << 26
"""Elements that are worked on at once: 256 MiB in fp32, 512 MiB in fp64, of several temporaries each."""


@dataclass(frozen=True, slots=True)
class ScaledOperand:
    """One side of a product.

    data   FP8, row-major: [lines, depth], or [depth, lines] where the layout wants that
    scale  fp32; that of [line, block of depth] is at line * scale_line + block * scale_depth
    """

    data: torch.Tensor
    scale: torch.Tensor
    scale_line: int
    scale_depth: int


@dataclass(frozen=True, slots=True)
class Quantized:
    """FP8 `data` [R,C] with fp32 `scale` [cd(R,rows), cd(C,columns)]: value = data * scale of its group."""

    data: torch.Tensor
    scale: torch.Tensor
    rows: int
    columns: int

    @classmethod
    def empty(
        cls, shape: tuple[int, int], rows: int, columns: int, dtype: torch.dtype, device: torch.device | str
    ) -> "Quantized":
        """Allocate a matrix of this shape, row-major."""
        groups = (-(-shape[0] // rows), -(-shape[1] // columns))
        scale = torch.empty(groups, dtype=torch.float32, device=device)
        return cls(torch.empty(shape, dtype=dtype, device=device), scale, rows, columns)

    @property
    def shape(self) -> tuple[int, int]:
        """R and C."""
        return self.data.shape[0], self.data.shape[1]

    def fill(self, x: torch.Tensor, least_amax: float) -> None:
        """Overwrite it with x[R,C], of any floating type, quantized. Some rows at a time."""
        for first, last in _row_chunks(*self.shape):
            part = self.part(first, last)
            _quantize(x[first:last].float(), part, least_amax)

    def dequantize(self, out: torch.Tensor) -> torch.Tensor:
        """Write the values into `out` [R,C], rounded once from their fp32 (fp64 for a fp64 `out`) products."""
        wide = torch.float64 if out.dtype is torch.float64 else torch.float32
        for first, last in _row_chunks(*self.shape):
            part = self.part(first, last)
            scale = part.scale.to(wide).repeat_interleave(self.columns, 1)[:, : self.shape[1]]
            scale = scale.repeat_interleave(self.rows, 0)[: last - first]
            out[first:last] = part.data.to(wide).mul_(scale)
        return out

    def dequantized(self, dtype: torch.dtype) -> torch.Tensor:
        """Return the values, as `dequantize` writes them."""
        return self.dequantize(torch.empty(self.shape, dtype=dtype, device=self.data.device))

    def part(self, first: int, last: int) -> "Quantized":
        """Rows first to last of the same operand; `first` begins a group."""
        scale = self.scale[first // self.rows : -(-last // self.rows)]
        return Quantized(self.data[first:last], scale, self.rows, self.columns)

    def transposed(self) -> "Quantized":
        """The same values as [C,R]; a view."""
        return Quantized(self.data.t(), self.scale.t(), self.columns, self.rows)


def quantize(x: torch.Tensor, rows: int, columns: int, dtype: torch.dtype, least_amax: float) -> Quantized:
    """Quantize x[R,C] of any floating type in groups of rows x columns. Row-major data and scales."""
    result = Quantized.empty((x.shape[0], x.shape[1]), rows, columns, dtype, x.device)
    result.fill(x, least_amax)
    return result


def exact_product(left: Quantized, right: Quantized, out: torch.Tensor) -> None:
    """out[R,S] = left[R,C] right[S,C]^T of the dequantized values, in fp64. Zero where C is 0.

    Pieces of both sides are dequantized, about 512 MiB each; `out` may be on another device.
    """
    depth = left.shape[1]
    if not depth:
        out.zero_()
        return
    for first, last in _row_chunks(left.shape[0], depth):
        rows = left.part(first, last).dequantized(torch.float64)
        for begin, end in _row_chunks(right.shape[0], depth):
            out[first:last, begin:end] = rows @ right.part(begin, end).dequantized(torch.float64).t()


def _quantize(x: torch.Tensor, result: Quantized, least_amax: float) -> None:
    height, width = x.shape
    padded = torch.nn.functional.pad(x, (0, -width % result.columns, 0, -height % result.rows))
    groups = padded.view(-1, result.rows, padded.shape[1] // result.columns, result.columns)
    amax = groups.abs().amax(dim=(1, 3), keepdim=True).clamp_(min=least_amax)
    limit = torch.finfo(result.data.dtype).max
    s = torch.full_like(amax, limit) / amax  # tensor by tensor: torch turns number / tensor into number * (1 / tensor)
    data = (groups * s).clamp_(-limit, limit).view(padded.shape)[:height, :width]
    result.data.copy_(data.to(result.data.dtype))
    result.scale.copy_((torch.ones_like(s) / s)[:, 0, :, 0])


def _row_chunks(rows: int, columns: int) -> list[tuple[int, int]]:
    """Split rows into ranges of about `_CHUNK_ELEMENTS` elements that begin at multiples of 128."""
    step = max(1, _CHUNK_ELEMENTS // (_UNIT * columns)) * _UNIT
    return [(first, min(first + step, rows)) for first in range(0, rows, step)]

"""The quantizers in plain torch: what "to the bit" means for all others.

For every group of 128 elements, or block of 128 x 128 (edge groups are filled with zeros):

    amax = max(max |x|, 1e-4)    s = FP8_MAX / amax    q = FP8(clamp(x s, -FP8_MAX, FP8_MAX))    scale = 1 / s

all in fp32, divisions rounded to nearest. The stored scale multiplies when data are decoded.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch.nn.functional import pad

from ...shapes.device import Device
from ...shapes.schemes.fp8train import BLOCK, cd
from ..fp8 import e4m3, e5m2

AMAX_FLOOR = 1e-4
"""Least amax of a group: it bounds the scales of groups that are zero."""

_CHUNK_ELEMENTS = 1 << 26
"""Elements widened to fp32 at once (256 MiB)."""


@dataclass(frozen=True, slots=True)
class Quantized:
    """A matrix in FP8 with its scales, both row-major.

    data   FP8 [R,C], in the layout of the matrix however it was grouped
    scale  fp32: "row" [R, cd(C,128)], "col" [cd(R,128), C], "weight" [cd(R,128), cd(C,128)]
    """

    data: torch.Tensor
    scale: torch.Tensor
    kind: str


def fp8_dtype(device: Device, gradient: bool = False) -> torch.dtype:
    """Return the FP8 type that the matrix units of a device take: e4m3, or e5m2 for a `gradient`."""
    return e5m2(device) if gradient else e4m3(device)


def scale_shape(kind: str, rows: int, columns: int) -> tuple[int, int]:
    """Shape of the scales of a matrix [rows, columns]."""
    return (
        rows if kind == "row" else cd(rows, BLOCK),
        columns if kind == "col" else cd(columns, BLOCK),
    )


def quantize(x: torch.Tensor, kind: str, dtype: torch.dtype) -> Quantized:
    """Quantize x[R,C] of any floating type to FP8 `dtype`; `kind` is "row", "col" or "weight"."""
    rows, columns = x.shape
    data = torch.empty(rows, columns, dtype=dtype, device=x.device)
    scale = torch.empty(scale_shape(kind, rows, columns), dtype=torch.float32, device=x.device)
    result = Quantized(data, scale, kind)
    quantize_into(x, result)
    return result


def quantize_into(x: torch.Tensor, result: Quantized) -> None:
    """Overwrite `result` with x[R,C] quantized; its kind and type say how. Some rows at a time."""
    group_rows = 1 if result.kind == "row" else BLOCK
    group_columns = 1 if result.kind == "col" else BLOCK
    largest = torch.finfo(result.data.dtype).max
    for first, last in _row_chunks(*x.shape):
        groups = _grouped(x[first:last].float(), group_rows, group_columns)
        amax = groups.abs().amax(dim=(1, 3), keepdim=True).clamp(min=AMAX_FLOOR)
        s = torch.full_like(amax, largest) / amax  # tensor by tensor: torch turns number / tensor into 1 / tensor
        q = (groups * s).clamp(-largest, largest)
        result.data[first:last] = _ungrouped(q)[: last - first, : x.shape[1]].to(result.data.dtype)
        rows = slice(cd(first, group_rows), cd(last, group_rows))
        result.scale[rows] = _ungrouped(torch.ones_like(s) / s)[:, : result.scale.shape[1]]


def decode(q: Quantized, dtype: torch.dtype) -> torch.Tensor:
    """Return data * scale as `dtype` [R,C]: the product is fp32 and rounded once, or fp64 for fp64."""
    out = torch.empty(q.data.shape, dtype=dtype, device=q.data.device)
    decode_into(q, out)
    return out


def decode_into(q: Quantized, out: torch.Tensor) -> None:
    """Overwrite out[R,C] with data * scale; see `decode`. Some rows at a time."""
    for first, last in _row_chunks(*q.data.shape):
        out[first:last] = decode_rows(q, first, last, torch.float64 if out.dtype is torch.float64 else torch.float32)


def decode_rows(q: Quantized, first: int, last: int, dtype: torch.dtype) -> torch.Tensor:
    """Return rows first to last of data * scale in `dtype` (fp32 or fp64)."""
    scale = q.scale
    if q.kind == "row":
        scale = scale[first:last]
    else:
        lines = torch.arange(first, last, device=scale.device) // BLOCK
        scale = scale[lines]
    if q.kind != "col":
        scale = scale.repeat_interleave(BLOCK, dim=1)[:, : q.data.shape[1]]
    return q.data[first:last].to(dtype) * scale.to(dtype)


def _row_chunks(rows: int, columns: int) -> Iterator[tuple[int, int]]:
    """Ranges of whole blocks of rows."""
    step = max(1, _CHUNK_ELEMENTS // (BLOCK * columns)) * BLOCK
    for first in range(0, rows, step):
        yield first, min(first + step, rows)


def _grouped(x: torch.Tensor, group_rows: int, group_columns: int) -> torch.Tensor:
    """[R,C] -> [cd(R,gr), gr, cd(C,gc), gc], zeros at the edges."""
    rows, columns = x.shape
    filled = pad(x, (0, -columns % group_columns, 0, -rows % group_rows))
    return filled.view(cd(rows, group_rows), group_rows, cd(columns, group_columns), group_columns)


def _ungrouped(groups: torch.Tensor) -> torch.Tensor:
    """[a,b,c,d] -> [a b, c d]."""
    a, b, c, d = groups.shape
    return groups.reshape(a * b, c * d)

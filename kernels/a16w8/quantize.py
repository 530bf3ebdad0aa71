"""FP8 with one fp32 scale per 128 x 128 block, in plain torch: the definition that operands and tests are made from.

W[B,N,K] is `q` FP8 [B,N,K] row-major times `scale` fp32 [B, cd(N,128), cd(K,128)] of its block.
"""

import torch

from ...shapes.schemes.a16w8 import SCALE_BLOCK

LEAST_AMAX = 1e-12
"""A block of smaller values is scaled as if this were its largest: an all-zero block stays zero."""


def block_amax(dense: torch.Tensor) -> torch.Tensor:
    """Largest magnitude of each 128 x 128 block of [B,N,K]: [B, cd(N,128), cd(K,128)]. Edge blocks are smaller."""
    batch, rows, columns = dense.shape
    padded = torch.nn.functional.pad(dense, (0, -columns % SCALE_BLOCK, 0, -rows % SCALE_BLOCK))
    tiles = padded.view(batch, -(-rows // SCALE_BLOCK), SCALE_BLOCK, -(-columns // SCALE_BLOCK), SCALE_BLOCK)
    return tiles.abs().amax(dim=(2, 4))


def expand(scale: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    """Repeat block scales [B, cd(rows,128), cd(columns,128)] per element: [B, rows, columns]."""
    wide = scale.repeat_interleave(SCALE_BLOCK, dim=1)[:, :rows]
    return wide.repeat_interleave(SCALE_BLOCK, dim=2)[:, :, :columns]


def quantize(dense: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantize fp32 W[B,N,K]: scale = max(amax, 1e-12) / FP8_MAX, q = clamp(W / scale) rounded to nearest even.

    The clamp is explicit: torch's cast to e4m3 saturates since 2.13 only.
    """
    largest = torch.finfo(dtype).max
    scale = block_amax(dense).clamp_(min=LEAST_AMAX) / largest
    scaled = dense / expand(scale, *dense.shape[1:])
    return scaled.clamp_(-largest, largest).to(dtype), scale


def dequantize(q: torch.Tensor, scale: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return W[B,N,K] as `dtype`: q * scale in fp32 (in fp64 for fp64), rounded once."""
    wide = torch.float64 if dtype is torch.float64 else torch.float32
    return (q.to(wide) * expand(scale, *q.shape[1:]).to(wide)).to(dtype)

"""Nested (double) quantization: the fp32 absmax of a 4-bit weight, itself stored in 8 bits.

Semantics and rounding of the CPU backend of bitsandbytes 0.50 (csrc/cpu_ops.cpp): it does not search for the nearest
entry of the 256-entry map but reads a table of 65,536 bins over [-1, 1]. Entries of the map that are closer together
than a bin (2^-15, near zero) are therefore never produced. Its CUDA backend searches the map, so that its `q` differ
there; what a kernel computes from given `q` does not.
"""

from dataclasses import dataclass
from functools import cache

import torch

from ...shapes.schemes.fourbit import NESTED_BLOCK_SIZE

_BINS = 1 << 16


@dataclass(frozen=True, slots=True)
class NestedAbsmax:
    """absmax in 8 bits: absmax[i] = code[q[i]] * scale[i // 256] + offset, all on one device.

    q uint8 [blocks], scale fp32 [cd(blocks, 256)], code fp32 [256], offset fp32 [] (0-dim)
    """

    q: torch.Tensor
    scale: torch.Tensor
    code: torch.Tensor
    offset: torch.Tensor

    def rebuild(self) -> torch.Tensor:
        """Return the effective absmax, fp32 [blocks]: product and sum are each rounded (no fused multiply-add)."""
        values = self.code.index_select(0, self.q.int())
        whole = values.numel() - values.numel() % NESTED_BLOCK_SIZE
        values[:whole].view(-1, NESTED_BLOCK_SIZE).mul_(self.scale[: whole // NESTED_BLOCK_SIZE, None])
        if whole < values.numel():
            values[whole:].mul_(self.scale[-1])
        return values.add_(self.offset)


def quantize_absmax(absmax: torch.Tensor) -> NestedAbsmax:
    """Store absmax, fp32 [blocks], in 8 bits around its mean, in blocks of 256."""
    offset = absmax.mean()
    centred = absmax - offset
    short = -centred.numel() % NESTED_BLOCK_SIZE
    blocks = torch.nn.functional.pad(centred, (0, short)).view(-1, NESTED_BLOCK_SIZE)
    scale = blocks.abs().amax(dim=1)
    bins = _bin((blocks * (1.0 / scale)[:, None]).nan_to_num_(nan=-1.0))
    q = _code_of_bin(absmax.device).index_select(0, bins.reshape(-1)[: absmax.numel()])
    return NestedAbsmax(q, scale, dynamic_map(absmax.device), offset)


@cache
def dynamic_map(device: torch.device) -> torch.Tensor:
    """Value of each 8-bit code, ascending, fp32 [256] on `device`: 0, 1 and, of either sign, seven decades.

    Decade e, from 10^(e-7) to 10^(e-6), holds the midpoints of 2^e equal steps ("8-bit approximations for parallelism
    in deep learning", arXiv:1511.04561). bitsandbytes computes them in fp32 with `torch.linspace`, whose last bit
    depends on the vector width of the CPU; so does this, because equal bits on one machine are what matters.
    """
    decades = []
    for exponent in range(7):
        edges = torch.linspace(0.1, 1.0, 2**exponent + 1, dtype=torch.float32)
        decades.append((edges[:-1] + edges[1:]) / 2.0 * 10.0 ** (exponent - 6))
    positive = torch.cat(decades)
    return torch.cat((-positive, torch.tensor([0.0, 1.0]), positive)).sort().values.to(device)


def _bin(normalized: torch.Tensor) -> torch.Tensor:
    """Bin of each value of [-1, 1], int32.

    fp64 holds the product and the sum exactly; rounding once to fp32 gives what the fused multiply-add of the C++
    gives.
    """
    unit = (normalized.clamp_(-1.0, 1.0) + 1.0) * 0.5
    return (unit.double() * (_BINS - 1) + 0.5).float().int().clamp_(max=_BINS - 1)


@cache
def _code_of_bin(device: torch.device) -> torch.Tensor:
    """8-bit code of each bin, uint8 [65536]: how many midpoints of the map lie below the bin's value."""
    code = dynamic_map(torch.device("cpu"))
    midpoints = 0.5 * (code[:-1] + code[1:])
    values = torch.arange(_BINS, dtype=torch.float32) * 2.0 / (_BINS - 1) - 1.0
    return torch.bucketize(values, midpoints).to(torch.uint8).to(device)

"""4-bit formats in plain torch: code tables, bitsandbytes' quantization (`groups` has the others), dequantization.

W is flattened row-major and cut into blocks of `group` elements, so that a block straddles rows when K % group != 0.
Byte j holds element 2j in its HIGH nibble and 2j+1 in its LOW nibble; value = code[nibble] * absmax[flat index //
group], or (code[nibble] - zero[flat index // group]) * absmax[...] in INT4 with zero points.

Packed bytes and absmax equal, bit for bit, what the CPU backend of bitsandbytes 0.50 produces
(backends/default/ops.py), whatever the device here, so that a seed means the same weights everywhere. Its CUDA backend
(csrc/kernels.cu) takes other codes in a few places; each is as near to the weight, and a kernel must not care:

- its decision thresholds are decimal constants up to 5e-7 away from the fp32 midpoints used here;
- a magnitude that rounds to FP4 zero keeps its sign there (code 8); here a negative one takes code 0, a positive one 8;
- a value exactly on a threshold goes down in value here, down in magnitude there (FP4);
- in the last, short block it multiplies by 1/absmax, here the division is direct;
- in a block of zeros it computes 0 * inf; here absmax is clamped at 1e-38 and the codes are those of zero.
"""

import csv
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import torch

from .groups import GroupScales
from .nested import NestedAbsmax, quantize_absmax

__all__ = [
    "NestedAbsmax",
    "QuantizedWeight",
    "code_table",
    "dequantize",
    "dequantize_range",
    "prepare_dequantize",
    "quantize",
]

SOURCES = ("data/codes_4bit.csv",)
"""Data that belongs to this module's source hash."""

_CODES_FILE = Path(__file__).parent / SOURCES[0]
_CODES_COLUMN = {
    "nf4": "nf4",
    "fp4": "fp4_bnb",
    "int4": "int4_less_8",
    "mxfp4": "fp4_ocp_e2m1",
    "nvfp4": "fp4_ocp_e2m1",
}
_SMALLEST_ABSMAX = 1e-38
_CHUNK = {"cpu": 1 << 20, "cuda": 1 << 25}
"""Elements worked on at once: on a CPU they stay in its last cache, on a GPU they bound the scratch memory.

Dequantizing 4096 x 4096 to bf16 on two cores took 7.3, 6.3, 5.7 and 6.7 ms in chunks of 2^17, 2^18, 2^20 and 2^22.
"""


@dataclass(frozen=True, slots=True)
class QuantizedWeight:
    """A flattened weight of `numel` elements in 4 bits.

    packed uint8 [(numel+1)//2]; absmax fp32 [cd(numel, group)], the scale of each block, rebuilt from `nested` or
    `groups` when one is not None, and so is zero fp32 [cd(numel, group)], None without zero points; `kind` is a name of
    `code_table`; an odd `numel` leaves the low nibble of the last byte as padding, of the code of zero.
    """

    packed: torch.Tensor
    absmax: torch.Tensor
    nested: NestedAbsmax | None
    numel: int
    group: int
    kind: str
    groups: GroupScales | None = None
    zero: torch.Tensor | None = None

    def rebuild(self) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return absmax and zero, made anew from what is stored, as every call of a kernel has to."""
        if self.groups:
            return self.groups.rebuild()
        return (self.nested.rebuild() if self.nested else self.absmax), self.zero


@cache
def code_table(kind: str, device: torch.device) -> torch.Tensor:
    """Value of each of the 16 codes of "nf4", "fp4", "int4", "mxfp4" or "nvfp4", fp32 [16] on `device`."""
    with _CODES_FILE.open(encoding="utf-8") as file:
        values = [float(row[_CODES_COLUMN[kind]]) for row in csv.DictReader(file)]
    return torch.tensor(values, dtype=torch.float32, device=device)


@cache
def pair_table(kind: str, device: torch.device) -> torch.Tensor:
    """Both values of each byte, fp32 [256, 2] on `device`: high nibble first."""
    code = code_table(kind, device)
    byte = torch.arange(256, device=device)
    return torch.stack((code[byte >> 4], code[byte & 15]), dim=1)


def quantize(dense: torch.Tensor, kind: str, group: int, nested: bool = False) -> QuantizedWeight:
    """Quantize a finite tensor (fp32, bf16 or fp16, any shape) to "nf4" or "fp4" in blocks of `group` elements.

    Scratch memory is bounded: a weight of 235 million elements needs little more than its input and its output.
    """
    flat = dense.reshape(-1)
    numel = flat.numel()
    packed = torch.empty((numel + 1) // 2, dtype=torch.uint8, device=flat.device)
    absmax = torch.empty(-(-numel // group), dtype=torch.float32, device=flat.device)
    whole = numel - numel % group
    chunk = _chunk(flat.device)
    for start in range(0, whole, chunk):
        stop = min(start + chunk, whole)
        blocks = flat[start:stop].float().view(-1, group)
        largest = blocks.abs().amax(dim=1)
        absmax[start // group : stop // group] = largest
        scaled = blocks * largest.clamp_min(_SMALLEST_ABSMAX).reciprocal_()[:, None]
        _encode(scaled.view(-1), kind, packed[start // 2 : stop // 2])
    if whole < numel:
        tail = flat[whole:].float()
        largest = tail.abs().amax().clamp_min(_SMALLEST_ABSMAX)
        absmax[-1] = largest
        scaled = torch.nn.functional.pad(tail / largest, (0, tail.numel() % 2))
        _encode(scaled, kind, packed[whole // 2 :])
    second = quantize_absmax(absmax) if nested else None
    return QuantizedWeight(packed, second.rebuild() if second else absmax, second, numel, group, kind)


def dequantize(weight: QuantizedWeight, dtype: torch.dtype) -> torch.Tensor:
    """Return the flat tensor [numel]: fp32 code times fp32 absmax, rounded once to `dtype`."""
    out = torch.empty(weight.numel, dtype=dtype, device=weight.packed.device)
    prepare_dequantize(weight, out)()
    return out


def dequantize_range(weight: QuantizedWeight, start: int, stop: int) -> torch.Tensor:
    """Return elements start .. stop-1 of the flat tensor in fp32, where all of it would not fit."""
    first = start - start % weight.group
    packed = weight.packed[first // 2 : (stop + 1) // 2]
    blocks = slice(first // weight.group, -(-stop // weight.group))
    zero = None if weight.zero is None else weight.zero[blocks]
    part = QuantizedWeight(packed, weight.absmax[blocks], None, stop - first, weight.group, weight.kind, zero=zero)
    return dequantize(part, torch.float32)[start - first :]


def prepare_dequantize(weight: QuantizedWeight, out: torch.Tensor) -> Callable[[], None]:
    """Return a call that dequantizes into `out` (numel elements, contiguous, any float dtype), absmax included.

    Reads packed and scales, writes `out` once; its scratch is allocated here and stays in the caches of a CPU. Scales
    that are stored in fewer bits than fp32 has are rebuilt at every call, as with weights that are stored that way.
    """
    flat, group, device = out.view(-1), weight.group, weight.packed.device
    pairs = pair_table(weight.kind, device).view(torch.int64).view(-1)  # a pair of fp32 is gathered as one 8-byte word
    chunk = min(_chunk(device), weight.numel + weight.numel % 2)
    index = torch.empty(chunk // 2, dtype=torch.int32, device=device)
    gathered = torch.empty(chunk // 2, dtype=torch.int64, device=device)
    values = gathered.view(torch.float32)

    def dequantize_chunk(start: int, stop: int, absmax: torch.Tensor, zero: torch.Tensor | None) -> None:
        packed = weight.packed[start // 2 : (stop + 1) // 2]
        torch.index_select(pairs, 0, index[: len(packed)].copy_(packed), out=gathered[: len(packed)])
        whole = (stop - start) - (stop - start) % group
        first = start // group
        if zero is not None:  # of groups that are all whole
            values[:whole].view(-1, group).sub_(zero[first : first + whole // group, None])
        values[:whole].view(-1, group).mul_(absmax[first : first + whole // group, None])
        if start + whole < stop:
            values[whole : stop - start].mul_(absmax[-1])
        flat[start:stop].copy_(values[: stop - start])

    def run() -> None:
        absmax, zero = weight.rebuild()
        for start in range(0, weight.numel, chunk):
            dequantize_chunk(start, min(start + chunk, weight.numel), absmax, zero)

    return run


def _chunk(device: torch.device) -> int:
    return _CHUNK.get(device.type, _CHUNK["cuda"])


@cache
def _decisions(kind: str) -> tuple[int, tuple[tuple[float, int], ...]]:
    """Code of the lowest interval, then (threshold, step of the code there) ascending.

    Thresholds are the fp32 midpoints of the code values in ascending order; of FP4's two zeros, 0 comes before 8. A
    value strictly above a threshold takes the next code. Steps are modulo 256, so that uint8 sums of them give the
    code.
    """
    values = code_table(kind, torch.device("cpu"))
    order = torch.argsort(values, stable=True)
    midpoints = ((values[order[:-1]] + values[order[1:]]) / 2).tolist()
    codes: list[int] = order.tolist()
    steps = [(after - before) % 256 for before, after in pairwise(codes)]
    return codes[0], tuple(zip(midpoints, steps, strict=True))


def _encode(scaled: torch.Tensor, kind: str, packed: torch.Tensor) -> None:
    """Write the codes of `scaled`, fp32 [2n], into `packed`, uint8 [n].

    Fifteen vectorized comparisons in cache are several times faster than a binary search per element. Values that
    rounding pushed just beyond +-1 need no clamp: no threshold lies outside.
    """
    lowest, decisions = _decisions(kind)
    codes = torch.full_like(scaled, lowest, dtype=torch.uint8)
    above = torch.empty_like(scaled, dtype=torch.bool)
    for threshold, step in decisions:
        torch.gt(scaled, threshold, out=above)
        codes.add_(above.view(torch.uint8), alpha=step)
    torch.add(codes[1::2], codes[0::2], alpha=16, out=packed)

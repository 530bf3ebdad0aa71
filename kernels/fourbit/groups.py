"""INT4, MXFP4 and NVFP4 weights in plain torch: how groups along K are quantized, and how scales are stored.

W is flattened row-major; K is a multiple of the group, so that a group lies in one row. Packed like all weights of this
family: byte j holds element 2j in its HIGH nibble, as torch's own INT4 kernels on CUDA take it. Checkpoints differ
(`to_gptq`, `to_awq`), and so does `torch.float4_e2m1fn_x2`, whose first element is in the LOW nibble.

INT4   GPTQ's rule (IST-DASLab/gptq, quant.py): s = (max - min) / 15 and z = round(-min / s), with max and min of the
       group and 0; symmetric with max = -min = the largest magnitude and z = 8. q = clamp(round(x / s) + z, 0, 15).
       s is rounded to the type of the activations before it divides. AWQ's rule leaves out the 0, which makes a
       difference where all weights of a group have one sign.
MXFP4  OCP Microscaling Formats 1.0, section 6.3: the scale is 2^(floor(log2(amax)) - 2), elements are rounded to
       nearest, ties to even, and saturate at 6.
NVFP4  scale of all of W: amax / (6 * 448), fp32; of a group: its amax / 6 over that, rounded to e4m3 (NVIDIA
       TensorRT-Model-Optimizer and torchao, nvfp4 recipes). Their product, in fp32, divides the elements.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from ..mxfp8.quantize import scale_values

_E4M3_MAX, _E2M1_MAX, _E2M1_EMAX = 448.0, 6.0, 2
_AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
_CHUNK = 1 << 24
"""Elements quantized at once."""


@dataclass(frozen=True, slots=True)
class GroupScales:
    """Scales of all groups, flat in the order of the groups of W[N,K], as they are stored.

    scale  bf16 or fp16 (INT4), float8_e8m0fnu (MXFP4) or float8_e4m3fn (NVFP4) [N*K/group]
    zero   INT4 with zero points: uint8 [cd(groups, 2)], zero point 2j in the high nibble of byte j; else None
    total  NVFP4: the scale of all of W, fp32 [1]; else None
    """

    scale: torch.Tensor
    zero: torch.Tensor | None = None
    total: torch.Tensor | None = None

    def rebuild(self) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return fp32 scales [groups], and zero points less 8, fp32 [groups], or None."""
        if self.scale.dtype == torch.float8_e8m0fnu:
            return scale_values(self.scale.view(torch.uint8), torch.float32), None
        scale = self.scale.float()
        if self.total is not None:
            scale.mul_(self.total)
        zero = None if self.zero is None else unpack(self.zero, scale.numel()).float().sub_(8)
        return scale, zero


def pack(codes: torch.Tensor) -> torch.Tensor:
    """Pack codes 0..15, uint8 [n], two to a byte, the first one in the high nibble; an odd n leaves a zero."""
    even, odd = codes[0::2], codes[1::2]
    packed = even << 4
    packed[: len(odd)] |= odd
    return packed


def unpack(packed: torch.Tensor, count: int) -> torch.Tensor:
    """Return the first `count` codes of `pack`, uint8."""
    return torch.stack((packed >> 4, packed & 15), dim=1).view(-1)[:count]


def quantize_int4(
    flat: torch.Tensor, group: int, zero_point: bool, dtype: torch.dtype
) -> tuple[torch.Tensor, GroupScales]:
    """Quantize fp32 [n], n a multiple of `group`; scales of `dtype`. Returns packed codes and scales."""

    def quantized(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        if zero_point:
            low, high = x.amin(1).clamp_(max=0), x.amax(1).clamp_(min=0)
        else:
            high = x.abs().amax(1)
            low = -high
        scale = ((high - low) / 15).to(dtype)
        divisor = torch.where(scale > 0, scale, 1).float()  # a group of zeros
        zero = (-low / divisor).round_().clamp_(0, 15) if zero_point else torch.full_like(divisor, 8)
        codes = (x / divisor[:, None]).round_().add_(zero[:, None]).clamp_(0, 15).to(torch.uint8)
        return pack(codes.view(-1)), scale, zero.to(torch.uint8)

    packed, scale, zero = _in_parts(quantized, flat.view(-1, group))
    return packed, GroupScales(scale, pack(zero) if zero_point else None)


def quantize_mxfp4(flat: torch.Tensor) -> tuple[torch.Tensor, GroupScales]:
    """Quantize finite fp32 [n], n a multiple of 32. Returns packed e2m1 codes and e8m0 scales."""

    def quantized(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        byte = ((x.abs().amax(1).view(torch.int32) >> 23) - _E2M1_EMAX).clamp_(min=0).to(torch.uint8)
        return pack(e2m1(x / scale_values(byte, torch.float32)[:, None]).view(-1)), byte

    packed, byte = _in_parts(quantized, flat.view(-1, 32))
    return packed, GroupScales(byte.view(torch.float8_e8m0fnu))


def quantize_nvfp4(flat: torch.Tensor) -> tuple[torch.Tensor, GroupScales]:
    """Quantize fp32 [n], n a multiple of 16, not all zero. Returns packed e2m1 codes and scales."""
    low, high = flat.aminmax()
    total = torch.maximum(-low, high).view(1) / (_E2M1_MAX * _E4M3_MAX)

    def quantized(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        scale = (x.abs().amax(1) / _E2M1_MAX / total).clamp_(max=_E4M3_MAX).to(torch.float8_e4m3fn)
        divisor = scale.float() * total
        codes = e2m1(x / torch.where(divisor > 0, divisor, 1)[:, None])
        return pack(codes.view(-1)), scale.view(torch.uint8)

    packed, scale = _in_parts(quantized, flat.view(-1, 16))
    return packed, GroupScales(scale.view(torch.float8_e4m3fn), total=total)


def _in_parts(
    quantized: Callable[[torch.Tensor], tuple[torch.Tensor, ...]], groups: torch.Tensor
) -> list[torch.Tensor]:
    """Return what `quantized` gives for all rows, some at a time: scratch is bounded."""
    parts = [quantized(part) for part in groups.split(_CHUNK // groups.shape[1])]
    return [torch.cat(part) for part in zip(*parts, strict=True)]


def e2m1(x: torch.Tensor) -> torch.Tensor:
    """Codes of fp32 values in e2m1, uint8: to nearest, ties to even, saturating at 6. Bit 3 is the sign."""
    size = x.abs().clamp_(max=_E2M1_MAX)
    # 0, .5, 1, 1.5, 2 in steps of a half; then 3 and 4 in steps of 1; then 6 in a step of 2
    upper = torch.where(size < 4, size.round() + 2, (size / 2).round() + 4)
    return torch.where(size < 2, (2 * size).round(), upper).add_(x.signbit(), alpha=8).to(torch.uint8)


def to_gptq(
    packed: torch.Tensor, scales: GroupScales, shape: tuple[int, int]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return qweight int32 [K/8, N], qzeros int32 [K/group, N/8] and scales [K/group, N] of a GPTQ checkpoint.

    Eight codes along K, and eight zero points along N, fill a word from its lowest bits. Format v1, AutoGPTQ's: a zero
    point is stored less 1, modulo 16. `shape` is (N, K), both multiples of 8. There is no g_idx: groups follow K.
    """
    codes, zero, scale = _matrices(packed, scales, shape)
    return _words(codes.t()), _words((zero - 1) & 15).t().contiguous(), scale.t().contiguous()


def to_awq(
    packed: torch.Tensor, scales: GroupScales, shape: tuple[int, int]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return qweight int32 [K, N/8], qzeros int32 [K/group, N/8] and scales [K/group, N] of an AWQ checkpoint.

    Eight codes along N fill a word from its lowest bits, in the order 0, 2, 4, 6, 1, 3, 5, 7 (AutoAWQ, WQLinear_GEMM).
    """
    codes, zero, scale = _matrices(packed, scales, shape)
    order = torch.arange(shape[0]).view(-1, 8)[:, list(_AWQ_ORDER)].flatten().to(codes.device)
    return _words(codes[order]).t().contiguous(), _words(zero[order]).t().contiguous(), scale.t().contiguous()


def _matrices(
    packed: torch.Tensor, scales: GroupScales, shape: tuple[int, int]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Codes [N,K], zero points [N, K/group] (8 where there are none) and scales of INT4."""
    rows, columns = shape
    scale = scales.scale.view(rows, -1)
    zero = torch.full_like(scale, 8, dtype=torch.uint8)
    if scales.zero is not None:
        zero = unpack(scales.zero, scale.numel()).view_as(scale)
    return unpack(packed, rows * columns).view(shape), zero, scale


def _words(codes: torch.Tensor) -> torch.Tensor:
    """Eight codes along the first dimension to an int32, the first one in the lowest bits: [n, c] -> [n/8, c]."""
    eight = codes.unflatten(0, (-1, 8)).long() << (4 * torch.arange(8, device=codes.device))[None, :, None]
    return eight.sum(1).to(torch.int32)

"""MX-FP8 quantization in plain torch: the definition that every quantizer here must match to the bit.

A block is 32 consecutive elements of the last dimension. With amax = m * 2^e, 1 <= m < 2, the largest magnitude of the
block, the unbiased scale exponent for e4m3fn (largest value 448 = 1.75 * 2^8) is

    FLOOR  e - 8                           (OCP microscaling 1.0); what m > 1.75 makes larger than 448 saturates
    CEIL   e - 8 if m = 1, else e - 7
    EVEN   e - 8 if m < 1.9375, else e - 7 (m rounded to the 3 bits of e4m3, ties to even, carries to 2)
    RCEIL  e - 8 if m <= 1.75, else e - 7  = ceil(log2(amax / 448))

Everything is integer arithmetic on the fp32 bits, so that no rounding of a logarithm can decide. Where the exponent is
below that of byte 0 (2^-127), also for blocks of zeros, the byte is 0. A block with an infinity or a NaN gets the scale
NaN (byte 255) and payloads NaN (byte 127).
"""

import torch

BLOCK = 32
"""Elements per scale."""

FP8_MAX = torch.finfo(torch.float8_e4m3fn).max
"""Largest payload, 448: what is beyond saturates."""

SCALE_NAN = 255
"""e8m0 byte that means NaN."""

PAYLOAD_NAN = 127
"""e4m3fn byte of the positive NaN."""

MANTISSA = (1 << 23) - 1

LARGEST_MANTISSA = {"floor": MANTISSA, "ceil": 0, "even": 0x77FFFF, "rceil": 0x600000}
"""By rule: the largest fp32 mantissa field of amax that still takes the exponent e - 8; above it, it is e - 7."""

EMAX = 8
"""Exponent of the largest e4m3fn value."""


def scale_bytes(amax_bits: torch.Tensor, rule: str) -> torch.Tensor:
    """e8m0 bytes (int32, 0..255) from the fp32 bits (int32, without sign) of each block's largest magnitude.

    Raises KeyError for an unknown rule.
    """
    exponent, mantissa = amax_bits >> 23, amax_bits & MANTISSA
    byte = (exponent - EMAX + (mantissa > LARGEST_MANTISSA[rule]).int()).clamp_min(0)
    return torch.where(exponent == SCALE_NAN, SCALE_NAN, byte)


def quantize_mx(x: torch.Tensor, rule: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantize `x` [..., K] (bf16, fp16 or fp32) over its last dimension, K a multiple of 32.

    Returns payload float8_e4m3fn [..., K] and e8m0 scales uint8 [..., K/32], both contiguous. Raises ValueError for
    another K.
    """
    if x.shape[-1] % BLOCK:
        raise ValueError(f"last dimension {x.shape[-1]} is not a multiple of {BLOCK}")
    blocks = x.float().unflatten(-1, (-1, BLOCK)).contiguous()
    amax_bits = (blocks.view(torch.int32) & 0x7FFFFFFF).amax(-1)
    byte = scale_bytes(amax_bits, rule)
    unknown = byte == SCALE_NAN
    # 2^(127 - byte) in fp32 bits; byte is at most 247 where it is a number, so that the product is exact
    inverse = ((254 - torch.where(unknown, 127, byte)) << 23).view(torch.float32)
    # clamped, because eager casts of older versions of torch do not saturate
    scaled = (blocks * inverse[..., None]).clamp(-FP8_MAX, FP8_MAX)
    payload = scaled.to(torch.float8_e4m3fn).view(torch.uint8)
    payload = torch.where(unknown[..., None], PAYLOAD_NAN, payload).to(torch.uint8)
    return payload.flatten(-2).view(torch.float8_e4m3fn), byte.to(torch.uint8)


def empty_mx(shape: tuple[int, ...], device: torch.device | str) -> tuple[torch.Tensor, torch.Tensor]:
    """Allocate payload float8_e4m3fn [..., K] and scales uint8 [..., K/32]."""
    payload = torch.empty(shape, dtype=torch.float8_e4m3fn, device=device)
    return payload, torch.empty((*shape[:-1], shape[-1] // BLOCK), dtype=torch.uint8, device=device)


def scale_values(scales: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Values 2^(byte - 127) of e8m0 bytes, NaN for 255, in fp32 or fp64: exact, byte 0 is subnormal in fp32."""
    wide = scales.to(torch.int32)
    bits = torch.where(wide == 0, 1 << 22, wide << 23)
    return torch.where(wide == SCALE_NAN, torch.nan, bits.view(torch.float32)).to(dtype)


def dequantize_mx(q: torch.Tensor, scales: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return payload times scale, [..., K] as `dtype`: exact in fp32 and fp64, rounded once in a narrower type.

    q  float8_e4m3fn [..., K]; scales  uint8 [..., K/32]
    """
    exact = torch.float64 if dtype == torch.float64 else torch.float32
    values = q.to(exact).unflatten(-1, (-1, BLOCK)) * scale_values(scales, exact)[..., None]
    return values.flatten(-2).to(dtype)

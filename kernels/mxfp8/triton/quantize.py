"""MX-FP8 quantization and its inverse as Triton kernels: one pass over memory each."""

import triton
import triton.language as tl

from .parts import scale_value, spread_scales


@triton.jit
def e4m3_bits(value):
    """Bits (int32) of fp32 `value`, |value| <= 448, rounded to e4m3 to nearest even, by integer arithmetic."""
    bits = value.to(tl.int32, bitcast=True)
    sign = (bits >> 24) & 0x80
    size = bits & 0x7FFFFFFF
    normal = ((size + 0x7FFFF + ((size >> 20) & 1)) >> 20) - 960  # the exponent's bias goes from 127 to 7
    # below 2^-6 the steps are 2^-9, which are those of fp32 numbers at 2^14
    small = (tl.abs(value) + 16384.0).to(tl.int32, bitcast=True) - 0x46800000
    return sign | tl.where(size < 0x3C800000, small, normal)


@triton.jit(do_not_specialize=["blocks"])
def quantize_mx_kernel(
    x, payload, scales, blocks, LARGEST_MANTISSA: tl.constexpr, NATIVE: tl.constexpr, MASKED: tl.constexpr,
    BLOCKS: tl.constexpr,
):  # fmt: skip
    """MX-FP8 of contiguous bf16 rows that are whole blocks of 32; `quantize.quantize_mx` to the bit.

    x         bf16 [blocks, 32]; payload  uint8 [blocks, 32]; scales  uint8 [blocks]
    LARGEST_MANTISSA  the rule, as in `quantize.LARGEST_MANTISSA`
    NATIVE    narrow by the hardware's conversion, which saturates and rounds to nearest even
    MASKED    `blocks` is not a multiple of BLOCKS
    One program quantizes BLOCKS blocks: grid (cd(blocks, BLOCKS)). Traffic: every operand once.
    """
    first = tl.program_id(0).to(tl.int64) * BLOCKS
    block = tl.arange(0, BLOCKS)
    inner = tl.arange(0, 32)[None, :]
    at = block[:, None] * 32 + inner
    left = tl.minimum(blocks - first, BLOCKS).to(tl.int32)
    if MASKED:
        half = tl.load(x + first * 32 + at, mask=(block < left)[:, None], other=0.0)
    else:
        half = tl.load(x + first * 32 + at)
    wide = half.to(tl.int16, bitcast=True).to(tl.int32) << 16  # fp32, by the definition of bf16
    value = wide.to(tl.float32, bitcast=True)
    amax = tl.max(wide & 0x7FFFFFFF, axis=1)
    exponent = amax >> 23
    up = ((amax & 0x7FFFFF) > LARGEST_MANTISSA).to(tl.int32)
    byte = tl.where(exponent == 255, 255, tl.maximum(exponent - 8 + up, 0))
    inverse = ((254 - tl.minimum(byte, 247)) << 23).to(tl.float32, bitcast=True)
    scaled = tl.minimum(tl.maximum(value * inverse[:, None], -448.0), 448.0)
    if NATIVE:
        bits = scaled.to(tl.float8e4nv).to(tl.uint8, bitcast=True)
    else:
        bits = e4m3_bits(scaled).to(tl.uint8)
    bits = tl.where((byte == 255)[:, None], 127, bits).to(tl.uint8)
    if MASKED:
        tl.store(payload + first * 32 + at, bits, mask=(block < left)[:, None])
        tl.store(scales + first + block, byte.to(tl.uint8), mask=block < left)
    else:
        tl.store(payload + first * 32 + at, bits)
        tl.store(scales + first + block, byte.to(tl.uint8))


@triton.jit(do_not_specialize=["blocks"])
def dequantize_mx_kernel(payload, scales, out, blocks, MASKED: tl.constexpr, BLOCKS: tl.constexpr):
    """out = payload times scale, one rounding to the type of `out`; the inverse of `quantize_mx_kernel`'s layouts.

    payload  uint8 [blocks, 32]; scales  uint8 [blocks]; out  bf16 or fp32 [blocks, 32]
    One program expands BLOCKS blocks: grid (cd(blocks, BLOCKS)). Traffic: every operand once. A scale of NaN becomes
    infinity.
    """
    first = tl.program_id(0).to(tl.int64) * BLOCKS
    block = tl.arange(0, BLOCKS)
    at = tl.arange(0, BLOCKS * 32)
    left = tl.minimum(blocks - first, BLOCKS).to(tl.int32)
    if MASKED:
        q = tl.load(payload + first * 32 + at, mask=at < left * 32, other=0)
        byte = tl.load(scales + first + block, mask=block < left, other=0)
    else:
        q = tl.load(payload + first * 32 + at)
        byte = tl.load(scales + first + block)
    raw = ((q.to(tl.int8, bitcast=True).to(tl.int32) << 20) & -0x78100000).to(tl.float32, bitcast=True)
    scale = tl.reshape(spread_scales(scale_value(byte)[None, :], 1, BLOCKS, 32), [BLOCKS * 32])
    value = ((raw * 2.0**120) * scale).to(out.dtype.element_ty)
    if MASKED:
        tl.store(out + first * 32 + at, value, mask=at < left * 32)
    else:
        tl.store(out + first * 32 + at, value)

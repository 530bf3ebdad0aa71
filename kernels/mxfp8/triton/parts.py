"""Pieces of the MX-FP8 kernels: e8m0 scales as fp32, e4m3 payloads as fp32 and bf16, and whose rows a program reads.

Payloads arrive as bytes (uint8) or words (int32), so that the kernels compile where Triton has no e4m3 type. Everything
is addressed as a 64-bit scalar base plus 32-bit offsets inside the rows of one program.

ISA   "ptx" (NVIDIA), "cdna" or "rdna" (AMD), or "interpreter": inline assembly is for "ptx" only
"""

import triton
import triton.language as tl

PLANES_ASM = tl.constexpr(
    """{
.reg .b32 a, b, c, d, e, f, g, h, zero;
prmt.b32 a, $4, $5, 0x4400;
prmt.b32 b, $4, $5, 0x5511;
prmt.b32 c, $4, $5, 0x6622;
prmt.b32 d, $4, $5, 0x7733;
shr.u32 e, a, 4;
shr.u32 f, b, 4;
shr.u32 g, c, 4;
shr.u32 h, d, 4;
and.b32 e, e, 0x07F007F0;
and.b32 f, f, 0x07F007F0;
and.b32 g, g, 0x07F007F0;
and.b32 h, h, 0x07F007F0;
lop3.b32 e, a, 0x80008000, e, 0xEA;
lop3.b32 f, b, 0x80008000, f, 0xEA;
lop3.b32 g, c, 0x80008000, g, 0xEA;
lop3.b32 h, d, 0x80008000, h, 0xEA;
mov.b32 zero, 0x80008000;
fma.rn.bf16x2 $0, e, $6, zero;
fma.rn.bf16x2 $1, f, $6, zero;
fma.rn.bf16x2 $2, g, $6, zero;
fma.rn.bf16x2 $3, h, $6, zero;
}"""
)
"""Two words of four e4m3 bytes to four pairs of bf16, times the factor of the first word. A byte goes to the top of a
half word, then its sign and its other seven bits to where bf16 has sign, the low four bits of the exponent and the high
three of the mantissa; that is the value times 2^-120, exactly, also where it is subnormal. Adding -0 keeps the sign of
a zero."""


@triton.jit
def scale_value(byte):
    """2^(byte - 127) in fp32, exactly; byte 0 is subnormal, byte 255 (NaN) becomes infinity."""
    return tl.maximum(byte.to(tl.int32) << 23, 1 << 22).to(tl.float32, bitcast=True)


@triton.jit
def lifting_scale(byte):
    """2^(byte - 7) in bf16, twice in an int32, for `decode_bf16`; byte up to 134."""
    half = (byte.to(tl.int32) + 120) << 7
    return half | (half << 16)


@triton.jit
def raw_fp32(word, BYTE: tl.constexpr):
    """Byte BYTE of every word, as e4m3 times 2^-120 in fp32: its bits moved to where fp32 has them."""
    return (((word << (24 - 8 * BYTE)) >> 4) & -0x78100000).to(tl.float32, bitcast=True)


@triton.jit
def decode_bf16(word, lift, ISA: tl.constexpr):
    """Four tensors in bf16: byte 0..3 of every e4m3 word times 2^-120 `lift`; exact: a value has four significant bits.

    lift  int32 of the shape of `word`, from `lifting_scale`, equal for both words of a pair along K (lanes hold whole
          pairs); its 2^120 makes up for how the bits of e4m3 stand in bf16.
    """
    if ISA == "ptx":
        b0, b1, b2, b3 = tl.inline_asm_elementwise(
            PLANES_ASM, "=r,=r,=r,=r,r,r,r,r", [word, lift],
            dtype=(tl.bfloat16, tl.bfloat16, tl.bfloat16, tl.bfloat16), is_pure=True, pack=2,
        )  # fmt: skip
    else:
        b0 = scaled_bf16(raw_fp32(word, 0), lift)
        b1 = scaled_bf16(raw_fp32(word, 1), lift)
        b2 = scaled_bf16(raw_fp32(word, 2), lift)
        b3 = scaled_bf16(raw_fp32(word, 3), lift)
    return b0, b1, b2, b3


@triton.jit
def scaled_bf16(raw, lift):
    """fp32 `raw` times `lift`, cut off to bf16: the low half is zero."""
    scaled = raw * (lift << 16).to(tl.float32, bitcast=True)
    return (scaled.to(tl.int32, bitcast=True) >> 16).to(tl.int16).to(tl.bfloat16, bitcast=True)


@triton.jit
def spread_scales(scale, ROWS: tl.constexpr, BLOCKS: tl.constexpr, EACH: tl.constexpr):
    """Repeat every scale of [ROWS, BLOCKS] EACH times along the row: [ROWS, BLOCKS * EACH]."""
    return tl.reshape(tl.broadcast_to(scale[:, :, None], [ROWS, BLOCKS, EACH]), [ROWS, BLOCKS * EACH])

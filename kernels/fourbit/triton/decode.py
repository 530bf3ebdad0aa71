"""Decode eight 4-bit weights from one 32-bit word: the part that all Triton kernels of the family share.

A table of 16 codes is cut into byte planes (`triton_codes`). One plane is 16 bytes, four 32-bit registers, so that a
byte-permute instruction (`prmt` on NVIDIA, `v_perm_b32` on AMD) looks four nibbles up in half of it at once: two
permutes for the halves and one to choose between them give one byte of four weights. No memory is touched.

Nibble order (bitsandbytes): byte j of a word holds element 2j in its HIGH nibble and 2j+1 in its LOW nibble.
"""

import triton
import triton.language as tl


@triton.jit
def _emulate_permute(a, b, selector, SELECTOR_BITS: tl.constexpr):
    """Byte permute in plain integer operations."""
    both = (b.to(tl.uint32, bitcast=True).to(tl.uint64) << 32) | a.to(tl.uint32, bitcast=True).to(tl.uint64)
    result = both * 0
    for i in tl.static_range(4):
        index = ((selector >> (SELECTOR_BITS * i)) & 7).to(tl.uint64)
        result = result | (((both >> (index * 8)) & 255) << (8 * i))
    return result.to(tl.uint32).to(tl.int32, bitcast=True)


@triton.jit
def byte_permute(a, b, selector, ISA: tl.constexpr):
    """Four bytes chosen from eight, in one instruction: index 0..3 is a byte of `a`, 4..7 one of `b`.

    a, b, selector  int32 of one shape; `selector` holds the index of result byte i in its nibble i (ISA "ptx") or in
                    its byte i (the others)
    ISA             "ptx", "rdna", "cdna" and "cdna_bf16" (gfx950, which also converts to bf16) use inline assembly;
                    "ptx_emulated" and "gcn_emulated" compute the same in portable operations, for the interpreter
    """
    if ISA == "ptx":
        result = tl.inline_asm_elementwise(
            "prmt.b32 $0, $1, $2, $3;", "=r,r,r,r", [a, b, selector], dtype=tl.int32, is_pure=True, pack=1
        )
    elif ISA == "rdna" or ISA == "cdna" or ISA == "cdna_bf16":
        # v_perm_b32 numbers the bytes of its second source 0..3 and those of its first 4..7.
        result = tl.inline_asm_elementwise(
            "v_perm_b32 $0, $2, $1, $3", "=v,v,v,v", [a, b, selector], dtype=tl.int32, is_pure=True, pack=1
        )
    elif ISA == "ptx_emulated":
        result = _emulate_permute(a, b, selector, 4)
    else:
        tl.static_assert(ISA == "gcn_emulated", "ISA: ptx, rdna, cdna, cdna_bf16, ptx_emulated or gcn_emulated")
        result = _emulate_permute(a, b, selector, 8)
    return result


@triton.jit
def _register(like, PLANE: tl.constexpr, INDEX: tl.constexpr):
    """Bytes 4 INDEX .. 4 INDEX + 3 of a plane as a constant int32 of the shape of `like`."""
    VALUE: tl.constexpr = (((PLANE >> (32 * INDEX)) & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000
    return tl.full(like.shape, VALUE, tl.int32)


@triton.jit
def _pinned(salt, PLANE: tl.constexpr, INDEX: tl.constexpr, ISA: tl.constexpr):
    """`_register` as a scalar that ptxas does not recognise as a constant.

    Constants live in uniform registers on NVIDIA, and ptxas copies them into a vector register before every use: one
    extra instruction per weight (seen in SASS for sm90). The zero that is mixed in here is the lane number shifted out
    of its five bits, by a distance that only the launch knows.
    """
    VALUE: tl.constexpr = (((PLANE >> (32 * INDEX)) & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000
    if ISA == "ptx":
        result = tl.inline_asm_elementwise(
            "{ .reg .b32 zero; mov.u32 zero, %laneid; shr.u32 zero, zero, $1; xor.b32 $0, zero, $2; }",
            "=r,r,r",
            [salt, VALUE],
            dtype=tl.int32,
            is_pure=True,
            pack=1,
        )
    else:
        result = salt * 0 + VALUE
    return result


@triton.jit
def load_table(P3: tl.constexpr, P2: tl.constexpr, P1: tl.constexpr, P0: tl.constexpr, ISA: tl.constexpr):
    """What `decode_word` needs of the table besides its constants, made once per program: eight int32 scalars."""
    salt = tl.num_programs(0) + 4  # 5 or more, unknown to the compiler
    return (
        _pinned(salt, P0, 0, ISA),
        _pinned(salt, P0, 2, ISA),
        _pinned(salt, P1, 0, ISA),
        _pinned(salt, P1, 2, ISA),
        _pinned(salt, P2, 0, ISA),
        _pinned(salt, P2, 2, ISA),
        _pinned(salt, P3, 0, ISA),
        _pinned(salt, P3, 2, ISA),
    )


@triton.jit
def _lookup(low, high, first, third, PLANE: tl.constexpr, ISA: tl.constexpr):
    """One plane of four nibbles: `low` selects within both halves of the table, `high` selects the half."""
    if PLANE == 0:
        result = tl.full(low.shape, 0, tl.int32)
    elif ISA == "ptx":
        lower = byte_permute(tl.broadcast_to(first, low.shape), _register(low, PLANE, 1), low, ISA)
        upper = byte_permute(tl.broadcast_to(third, low.shape), _register(low, PLANE, 3), low, ISA)
        result = byte_permute(lower, upper, high, ISA)
    else:
        lower = byte_permute(_register(low, PLANE, 0), _register(low, PLANE, 1), low, ISA)
        upper = byte_permute(_register(low, PLANE, 2), _register(low, PLANE, 3), low, ISA)
        result = byte_permute(lower, upper, high, ISA)
    return result


@triton.jit
def _halves(pair):
    """fp32 values of the two fp16 patterns in an int32, the lower one first."""
    low = (pair & 0xFFFF).to(tl.int16).to(tl.float16, bitcast=True)
    high = ((pair >> 16) & 0xFFFF).to(tl.int16).to(tl.float16, bitcast=True)
    return low.to(tl.float32), high.to(tl.float32)


@triton.jit
def _words(top, bottom, ISA: tl.constexpr):
    """fp32 values whose upper and lower 16 bits are the halves of `top` and `bottom`, the lower pair first."""
    if ISA == "ptx" or ISA == "ptx_emulated":
        first = tl.full(top.shape, 0x5410, tl.int32)
        second = tl.full(top.shape, 0x7632, tl.int32)
    else:
        first = tl.full(top.shape, 0x05040100, tl.int32)
        second = tl.full(top.shape, 0x07060302, tl.int32)
    low = byte_permute(bottom, top, first, ISA).to(tl.float32, bitcast=True)
    high = byte_permute(bottom, top, second, ISA).to(tl.float32, bitcast=True)
    return low, high


@triton.jit
def _decode_four(
    low, high, table, P3: tl.constexpr, P2: tl.constexpr, P1: tl.constexpr, P0: tl.constexpr, ISA: tl.constexpr
):
    """Four fp32 code values in the order of the selector bytes or nibbles, the lowest first."""
    p0 = _lookup(low, high, table[0], table[1], P0, ISA)
    p1 = _lookup(low, high, table[2], table[3], P1, ISA)
    # Interleave two planes: bytes 0, 4, 1, 5 make the first two patterns, bytes 2, 6, 3, 7 the others.
    if ISA == "ptx" or ISA == "ptx_emulated":
        first = tl.full(low.shape, 0x5140, tl.int32)
        second = tl.full(low.shape, 0x7362, tl.int32)
    else:
        first = tl.full(low.shape, 0x05010400, tl.int32)
        second = tl.full(low.shape, 0x07030602, tl.int32)
    bottom01 = byte_permute(p0, p1, first, ISA)
    bottom23 = byte_permute(p0, p1, second, ISA)
    if P3 == 0 and P2 == 0:
        e0, e1 = _halves(bottom01)
        e2, e3 = _halves(bottom23)
    else:
        p2 = _lookup(low, high, table[4], table[5], P2, ISA)
        p3 = _lookup(low, high, table[6], table[7], P3, ISA)
        e0, e1 = _words(byte_permute(p2, p3, first, ISA), bottom01, ISA)
        e2, e3 = _words(byte_permute(p2, p3, second, ISA), bottom23, ISA)
    return e0, e1, e2, e3


@triton.jit
def decode_word(word, table, P3: tl.constexpr, P2: tl.constexpr, P1: tl.constexpr, P0: tl.constexpr, ISA: tl.constexpr):
    """Code values (before absmax) of the eight nibbles of every int32 word: eight fp32 tensors, in element order.

    table    from `load_table`, with the same planes
    P3..P0   byte planes of the table, `CodePlanes.constants()`; P3 = P2 = 0: the codes are fp16 patterns
    ISA      see `byte_permute`
    """
    if ISA == "ptx" or ISA == "ptx_emulated":
        # prmt takes nibble selectors, so the word itself is one, 16 bits at a time. Counted from the lowest nibble the
        # elements are 1, 0, 3, 2, 5, 4, 7, 6. Bit 3 of a selector would ask for a sign byte: it is cleared.
        low = word & 0x77777777
        high = ((word >> 1) & 0x44444444) | 0x32103210
        e1, e0, e3, e2 = _decode_four(low, high, table, P3, P2, P1, P0, ISA)
        e5, e4, e7, e6 = _decode_four(low >> 16, high >> 16, table, P3, P2, P1, P0, ISA)
    else:
        # v_perm takes byte selectors: the four low nibbles are the odd elements, the four high nibbles the even ones.
        odd = word & 0x07070707
        odd_half = ((word >> 1) & 0x04040404) | 0x03020100
        even = (word >> 4) & 0x07070707
        even_half = ((word >> 5) & 0x04040404) | 0x03020100
        e1, e3, e5, e7 = _decode_four(odd, odd_half, table, P3, P2, P1, P0, ISA)
        e0, e2, e4, e6 = _decode_four(even, even_half, table, P3, P2, P1, P0, ISA)
    return e0, e1, e2, e3, e4, e5, e6, e7

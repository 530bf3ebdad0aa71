"""Tiles of weights and scales: what the fused Triton kernels read, and how.

A tile is BN rows of W by BW words of eight elements. Everything is addressed as a 64-bit scalar base plus 32-bit
offsets inside the rows of one program: N*K may pass 2^31, and AMD's buffer loads need exactly this form.

ALIGNED   K is a multiple of 8: rows begin at a word, and a word lies in one block. Otherwise rows begin at any nibble;
          words are then put together from single bytes, and every element gets its own absmax (slow, but any K works).
WHOLE     K is a multiple of the block size: one absmax load serves all words of a block. Otherwise blocks straddle
          rows and every word loads its own.
MASKED    the last tile of a row is not full.
SCALES    how the scales of blocks are stored, see `load_scale`; "absmax" stands for all of them, as in bitsandbytes.
"""

import triton
import triton.language as tl

from ...mxfp8.triton.parts import scale_value
from .decode import decode_word


@triton.jit
def open_rows(packed, row0, N, k_size, BN: tl.constexpr, GROUP: tl.constexpr, ALIGNED: tl.constexpr):
    """Where the rows row0 .. row0 + BN - 1 of W begin; rows beyond N repeat the last one, so that loads stay inside.

    packed   int32 view of the packed weights when ALIGNED, else their bytes (uint8)
    Returns  base       `packed` at the first row
             row_start  int32 [BN, 1], first element of each row, counted from the first row
             parity     int32, 1 when the first row begins in the middle of a byte
             limit      int32, bytes from `base` to the end of the weights (not ALIGNED)
             block      int64, absmax block in which the first row begins
             rest       int32, element of that block at which it begins
    """
    flat = row0.to(tl.int64) * k_size
    row_start = tl.minimum(tl.arange(0, BN), N - 1 - row0)[:, None] * k_size
    block = flat // GROUP
    rest = (flat % GROUP).to(tl.int32)
    if ALIGNED:
        base = packed + flat // 8
        parity = 0
        limit = 0
    else:
        base = packed + flat // 2
        parity = (flat % 2).to(tl.int32)
        left = (N.to(tl.int64) * k_size + 1) // 2 - flat // 2
        limit = tl.minimum(left, 0x7FFFFFFF).to(tl.int32)
    return base, row_start, parity, limit, block, rest


@triton.jit
def load_words(base, row_start, parity, limit, words, mask, ALIGNED: tl.constexpr, MASKED: tl.constexpr):
    """Words of eight nibbles in the order of `decode`, int32 [BN, BW]; `words` [1, BW] counts within the row."""
    if ALIGNED:
        if MASKED:
            word = tl.load(base + (row_start // 8 + words), mask=mask, other=0)
        else:
            word = tl.load(base + (row_start // 8 + words))
    else:
        # Five bytes, shifted by a nibble where the row begins in the middle of one.
        element = parity + row_start + words * 8
        byte = element // 2
        whole = element % 2 == 0
        word = byte * 0
        current = tl.load(base + byte, mask=mask & (byte < limit), other=0).to(tl.int32)
        for j in tl.static_range(4):
            following = tl.load(base + byte + (j + 1), mask=mask & (byte + (j + 1) < limit), other=0).to(tl.int32)
            shifted = ((current & 15) << 4) | (following >> 4)
            word = word | (tl.where(whole, current, shifted) << (8 * j))
            current = following
    return word


@triton.jit
def load_scale(absmax, q, nested_code, nested_offset, first, block, mask, SCALES: tl.constexpr, MASKED: tl.constexpr):
    """Scales of the blocks `first + block` (int64 scalar, int32 tensor), fp32 of the shape of `block`.

    SCALES "fp32"        absmax fp32 [blocks]; the other three are None
           "nested"      nested_code[q[i]] * absmax[i // 256] + nested_offset, with q uint8 [blocks], absmax fp32
                         [cd(blocks, 256)], nested_code fp32 [256], nested_offset fp32 [1]
           "16 bits"     absmax bf16 or fp16 [blocks]
           "zero point"  the same, and q, which `load_zero` reads
           "e8m0"        absmax uint8 [blocks]
           "e4m3"        absmax uint8 [blocks], times nested_offset fp32 [1]
    """
    if SCALES == "nested":
        second = ((first % 256).to(tl.int32) + block) // 256
        if MASKED:
            index = tl.load(q + first + block, mask=mask, other=0)
            scale = tl.load(absmax + first // 256 + second, mask=mask, other=0.0)
        else:
            index = tl.load(q + first + block)
            scale = tl.load(absmax + first // 256 + second)
        result = tl.load(nested_code + index.to(tl.int32)) * scale + tl.load(nested_offset)
    else:
        if MASKED:
            result = tl.load(absmax + first + block, mask=mask, other=0)
        else:
            result = tl.load(absmax + first + block)
        if SCALES == "e8m0":
            result = scale_value(result)
        elif SCALES == "e4m3":
            # Scales have no sign: the bits, moved to where fp16 has them, are 2^-8 of the value, subnormal or not.
            half = (result.to(tl.int16) << 7).to(tl.float16, bitcast=True)
            result = half.to(tl.float32) * (tl.load(nested_offset) * 256.0)
        else:
            result = result.to(tl.float32)
    return result


@triton.jit
def load_zero(q, first, block, mask, MASKED: tl.constexpr):
    """Zero points less 8 of the same blocks, fp32: q uint8 [cd(blocks, 2)], the even one in the high nibble."""
    place = (first % 2).to(tl.int32) + block
    if MASKED:
        byte = tl.load(q + first // 2 + place // 2, mask=mask, other=0)
    else:
        byte = tl.load(q + first // 2 + place // 2)
    return ((byte >> ((1 - place % 2) * 4).to(tl.uint8)) & 15).to(tl.float32) - 8.0


@triton.jit
def weight_tile(
    rows, absmax, q, nested_code, nested_offset, table, word0, k_size,
    P3: tl.constexpr, P2: tl.constexpr, P1: tl.constexpr, P0: tl.constexpr,
    BN: tl.constexpr, BW: tl.constexpr, GROUP: tl.constexpr, ALIGNED: tl.constexpr, WHOLE: tl.constexpr,
    MASKED: tl.constexpr, SCALES: tl.constexpr, LIFT: tl.constexpr, ISA: tl.constexpr,
):  # fmt: skip
    """Weights of the tile that begins at word `word0` of its rows: e0..e7 and s, weight i of every word is e_i * s.

    rows, table  from `open_rows` and `decode.load_table`
    LIFT         shape [1, BN, BW] instead of [BN, BW]. The raw words are lifted, not the decoded weights: if the
                 compiler moves data between lanes at this point, it moves 4 bits per weight.
    Returns      eight fp32 tensors and s, fp32; elements beyond the row are finite and belong to other rows
    """
    base, row_start, parity, limit, block0, rest = rows
    words = word0 + tl.arange(0, BW)[None, :]
    word_mask = words < (k_size + 7) // 8
    word = load_words(base, row_start, parity, limit, words, word_mask, ALIGNED, MASKED)
    if LIFT:
        word = word[None]
    e0, e1, e2, e3, e4, e5, e6, e7 = decode_word(word, table, P3, P2, P1, P0, ISA)
    if ALIGNED:
        if WHOLE:
            BLOCKS: tl.constexpr = (BW * 8 + GROUP - 1) // GROUP
            blocks = tl.arange(0, BLOCKS)[None, :]
            block = (row_start + word0 * 8) // GROUP + blocks
            block_mask = word0 * 8 + blocks * GROUP < k_size
            s = load_scale(absmax, q, nested_code, nested_offset, block0, block, block_mask, SCALES, MASKED)
            s = tl.reshape(tl.broadcast_to(s[:, :, None], [BN, BLOCKS, BW // BLOCKS]), [BN, BW])
            if SCALES == "zero point":
                z = load_zero(q, block0, block, block_mask, MASKED)
                z = tl.reshape(tl.broadcast_to(z[:, :, None], [BN, BLOCKS, BW // BLOCKS]), [BN, BW])
        else:
            block = (rest + row_start + words * 8) // GROUP
            s = load_scale(absmax, q, nested_code, nested_offset, block0, block, word_mask, SCALES, MASKED)
            if SCALES == "zero point":
                z = load_zero(q, block0, block, word_mask, MASKED)
        if LIFT:
            s = s[None]
        if SCALES == "zero point":
            if LIFT:
                z = z[None]
            e0, e1, e2, e3, e4, e5, e6, e7 = e0 - z, e1 - z, e2 - z, e3 - z, e4 - z, e5 - z, e6 - z, e7 - z
    else:
        start = rest + row_start + words * 8
        s0 = element_scale(absmax, q, nested_code, nested_offset, block0, start, words, k_size, 0, GROUP, SCALES)
        s1 = element_scale(absmax, q, nested_code, nested_offset, block0, start, words, k_size, 1, GROUP, SCALES)
        s2 = element_scale(absmax, q, nested_code, nested_offset, block0, start, words, k_size, 2, GROUP, SCALES)
        s3 = element_scale(absmax, q, nested_code, nested_offset, block0, start, words, k_size, 3, GROUP, SCALES)
        s4 = element_scale(absmax, q, nested_code, nested_offset, block0, start, words, k_size, 4, GROUP, SCALES)
        s5 = element_scale(absmax, q, nested_code, nested_offset, block0, start, words, k_size, 5, GROUP, SCALES)
        s6 = element_scale(absmax, q, nested_code, nested_offset, block0, start, words, k_size, 6, GROUP, SCALES)
        s7 = element_scale(absmax, q, nested_code, nested_offset, block0, start, words, k_size, 7, GROUP, SCALES)
        if LIFT:
            s0, s1, s2, s3, s4, s5, s6, s7 = (
                s0[None],
                s1[None],
                s2[None],
                s3[None],
                s4[None],
                s5[None],
                s6[None],
                s7[None],
            )
        e0, e1, e2, e3, e4, e5, e6, e7 = e0 * s0, e1 * s1, e2 * s2, e3 * s3, e4 * s4, e5 * s5, e6 * s6, e7 * s7
        s = s0 * 0.0 + 1.0
    return e0, e1, e2, e3, e4, e5, e6, e7, s


@triton.jit
def element_scale(
    absmax, q, nested_code, nested_offset, block0, start, words, k_size, ELEMENT: tl.constexpr, GROUP: tl.constexpr,
    SCALES: tl.constexpr,
):  # fmt: skip
    """absmax of element ELEMENT of every word, fp32 [BN, BW]: in unaligned rows a word may touch two blocks."""
    block = (start + ELEMENT) // GROUP
    return load_scale(absmax, q, nested_code, nested_offset, block0, block, words * 8 + ELEMENT < k_size, SCALES, True)


@triton.jit
def narrow(weight, KIND: tl.constexpr, ISA: tl.constexpr):
    """Round fp32 weights to the type KIND of the activations.

    AMD GPUs but gfx950 have no instruction for bf16: what the compiler emits in its place costs six, mostly to keep
    NaN a NaN. Weights are finite, so here it is one addition; it differs from round-to-nearest-even in exact ties only.
    """
    if tl.bfloat16 == KIND and (ISA == "rdna" or ISA == "cdna" or ISA == "gcn_emulated"):
        result = ((weight.to(tl.int32, bitcast=True) + 0x8000) >> 16).to(tl.int16).to(tl.bfloat16, bitcast=True)
    else:
        result = weight.to(KIND)
    return result


@triton.jit
def split8(tile):
    """Split a tile [..., 2, 2, 2] into eight tensors [...], the last index running fastest."""
    even, odd = tl.split(tile)
    e04, e26 = tl.split(even)
    e15, e37 = tl.split(odd)
    e0, e4 = tl.split(e04)
    e2, e6 = tl.split(e26)
    e1, e5 = tl.split(e15)
    e3, e7 = tl.split(e37)
    return e0, e1, e2, e3, e4, e5, e6, e7


@triton.jit
def join8(e0, e1, e2, e3, e4, e5, e6, e7):
    """Inverse of `split8`."""
    even = tl.join(tl.join(e0, e4), tl.join(e2, e6))
    odd = tl.join(tl.join(e1, e5), tl.join(e3, e7))
    return tl.join(even, odd)


@triton.jit
def store_sum(
    total, y, bias, partial, counter, m, n, M, N, tile, split, BIAS: tl.constexpr, SPLIT: tl.constexpr,
    ISA: tl.constexpr,
):  # fmt: skip
    """Write Y[m, n] = total + bias, after adding up the parts of the other programs of this tile when K is split.

    total    fp32 [BM, BN]; m int32 [BM], n int32 [BN]
    partial  fp32 [SPLIT, M, N], scratch; counter int32 [tiles], zero before and after every launch; None when SPLIT = 1
    The program that arrives last adds the parts in the order of `split`, so that the result does not depend on timing.
    """
    mask = (m < M)[:, None] & (n < N)[None, :]
    offset = m[:, None].to(tl.int64) * N + n[None, :]
    if SPLIT > 1:
        plane = M.to(tl.int64) * N
        tl.store(partial + split * plane + offset, total, mask=mask)
        if ISA == "cdna" or ISA == "cdna_bf16":
            # The atomic below releases the stores of its own wave, and what other waves have completed. Before a
            # barrier the compiler waits for stores on the other architectures, but not on these.
            tl.inline_asm_elementwise(
                "s_waitcnt vmcnt(0)\nv_mov_b32 $0, $1", "=v,v", [tile], dtype=tl.int32, is_pure=False, pack=1
            )
        tl.debug_barrier()  # all lanes have stored before one of them announces it
        arrived = tl.atomic_add(counter + tile, 1, sem="acq_rel")
        if arrived == SPLIT - 1:
            total = tl.zeros_like(total)
            for part in range(SPLIT):
                total += tl.load(partial + part * plane + offset, mask=mask, other=0.0, cache_modifier=".cg")
            if BIAS:
                total += tl.load(bias + n, mask=n < N, other=0.0).to(tl.float32)[None, :]
            tl.store(y + offset, total.to(y.dtype.element_ty), mask=mask)
            tl.store(counter + tile, 0)
    else:
        if BIAS:
            total += tl.load(bias + n, mask=n < N, other=0.0).to(tl.float32)[None, :]
        tl.store(y + offset, total.to(y.dtype.element_ty), mask=mask)

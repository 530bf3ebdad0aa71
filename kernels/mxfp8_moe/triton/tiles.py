"""What the MX-FP8 MoE kernels share: decoding, the rows of a block of slots, and writing (partial) results.

Payloads and scales are passed as bytes, so that no kernel depends on the FP8 types of an architecture.

DECODE  how e4m3fn becomes fp16, which holds every value of it exactly:
        "cvt"   the compiler's conversion (one instruction per two values from sm89 on, and on gfx950)
        "bits"  shifts, and a multiplication that also normalises subnormals; NaN payloads become 480. Everywhere else:
                what the compiler emits for the conversion there costs ten times as much
"""

import triton
import triton.language as tl


@triton.jit
def scale_value(byte):
    """2^(byte - 127) in fp32, exact: byte 0 is the subnormal 2^-127. A NaN scale (255) becomes infinity."""
    return tl.maximum(byte.to(tl.int32) << 23, 1 << 22).to(tl.float32, bitcast=True)


@triton.jit
def decode(byte, DECODE: tl.constexpr):
    """e4m3fn bytes as fp16."""
    if DECODE == "cvt":
        value = byte.to(tl.float8e4nv, bitcast=True).to(tl.float16)
    else:
        # s eeee mmm -> s 0eeee mmm0000000: the exponent biases differ by 8
        bits = (byte.to(tl.int8, bitcast=True).to(tl.int16) << 7) & -16512
        value = bits.to(tl.float16, bitcast=True) * 256.0
    return value


@triton.jit
def block_rows(sorted_ids, numel, length, a_div, first, BM: tl.constexpr):
    """The slots of the block of rows that begins at `first`, in use or not; sorted_ids has `length` elements.

    Returns slots [BM], whether each is one, and the row of X of each (0 where it is none).
    """
    slots = tl.load(sorted_ids + tl.minimum(first + tl.arange(0, BM), length - 1))
    live = slots < numel
    return slots, live, tl.where(live, slots // a_div, 0)


@triton.jit
def scale_bytes(
    scales, row, group0, groups, ROWS: tl.constexpr, G: tl.constexpr, WORDS: tl.constexpr, MASKED: tl.constexpr
):
    """Scale bytes [ROWS, G] of the groups group0 .. group0 + G - 1 of each row, int32.

    row    offset of the row's first scale [ROWS], in units of `scales`
    WORDS  `scales` is int32: four of them at once, which the compiler can prefetch into shared memory; it does not do
           that with single bytes. Rows then begin at words, and G is a multiple of four.
    """
    if WORDS:
        word = tl.arange(0, G // 4)[None, :]
        pointer = scales + (row[:, None] + (group0 // 4 + word))
        if MASKED:
            four = tl.load(pointer, mask=group0 + word * 4 < groups, other=0)
        else:
            four = tl.load(pointer)
        shift = tl.arange(0, 4)[None, None, :] * 8
        byte = tl.reshape((four[:, :, None] >> shift) & 255, [ROWS, G])
    else:
        group = group0 + tl.arange(0, G)[None, :]
        byte = tl.load(scales + row[:, None] + group, mask=group < groups, other=0).to(tl.int32)
    return byte


@triton.jit
def store_rows(
    total, y, weights, partial, counter, slots, live, n, numel, N, tile, split, WEIGHTED: tl.constexpr,
    SPLIT: tl.constexpr, ISA: tl.constexpr,
):  # fmt: skip
    """Write Y[slot, n] = total * weights[slot], after adding up the parts of the other programs when K is split.

    total    fp32 [BN, BM]; slots, live [BM]; n [BN]
    partial  fp32 [SPLIT, numel, N], scratch; counter int32 [tiles], zero before and after; None when SPLIT is 1
    The program that arrives last adds the parts in order, so that the result does not depend on timing.
    """
    mask = live[None, :] & (n < N)[:, None]
    row = slots.to(tl.int64)
    offset = row[None, :] * N + n[:, None]
    if SPLIT > 1:
        plane = numel.to(tl.int64) * N
        tl.store(partial + split * plane + offset, total, mask=mask)
        if ISA == "cdna":
            # The atomic releases only what its own wave has stored; the others have to wait for their stores here.
            tl.inline_asm_elementwise(
                "s_waitcnt vmcnt(0)\nv_mov_b32 $0, $1", "=v,v", [tile], dtype=tl.int32, is_pure=False, pack=1
            )
        tl.debug_barrier()  # every lane has stored before one of them says so
        last = tl.atomic_add(counter + tile, 1, sem="acq_rel") == SPLIT - 1
        if last:
            total = tl.zeros_like(total)
            for part in range(SPLIT):
                total += tl.load(partial + part * plane + offset, mask=mask, other=0.0, cache_modifier=".cg")
            tl.store(counter + tile, 0)
            if WEIGHTED:
                total *= tl.load(weights + row, mask=live, other=0.0)[None, :]
            tl.store(y + offset, total.to(y.dtype.element_ty), mask=mask)
    else:
        if WEIGHTED:
            total *= tl.load(weights + row, mask=live, other=0.0)[None, :]
        tl.store(y + offset, total.to(y.dtype.element_ty), mask=mask)

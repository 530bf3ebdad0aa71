"""gemv_moe: the rows of an expert against its weights, on the vector units."""

import triton
import triton.language as tl

from .tiles import block_rows, decode, scale_value


@triton.jit
def load_scale(scales, group, groups, WORDS: tl.constexpr, MASKED: tl.constexpr):
    """fp32 scales of the groups at `group` (any shape; `groups` is no group) of a row that begins at `scales`.

    WORDS  as in `tiles.scale_bytes`: a word is loaded for each, which four of them share
    """
    if WORDS:
        place = group // 4
    else:
        place = group
    if MASKED:
        value = tl.load(scales + place, mask=group < groups, other=0)
    else:
        value = tl.load(scales + place)
    if WORDS:
        value = (value >> (group % 4 * 8)) & 255
    return scale_value(value)


@triton.jit
def row_sums(
    acc, x, x_scale, slot, numel, a_div, k, group, w_value, ws, K,
    DECODE: tl.constexpr, WORDS: tl.constexpr, MASKED: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Add the products of one row of X with a decoded tile of weights, 16 at a time.

    acc [BN, BK/16]; slot  scalar, `numel` for none; k [BK/16, 16] columns, group [BK/16] their scales
    w_value fp32 [BN, BK/16, 16]; ws fp32 [BN, BK/16]
    """
    row = tl.where(slot < numel, slot // a_div, 0)
    if WIDE:
        row = row.to(tl.int64)
    if MASKED:
        x_tile = tl.load(x + row * K + k, mask=k < K, other=0)
    else:
        x_tile = tl.load(x + row * K + k)
    UNIT: tl.constexpr = 128 if WORDS else 32
    xs = load_scale(x_scale + row * (K // UNIT), group, K // 32, WORDS, MASKED)
    x_value = decode(x_tile, DECODE).to(tl.float32)
    return acc + tl.sum(w_value * x_value[None, :, :], axis=2) * (ws * xs[None, :])


@triton.jit
def store_row(acc, y, weights, slot, numel, n, N, WEIGHTED: tl.constexpr):
    """Write one row of Y: the sum over the lanes."""
    total = tl.sum(acc, axis=1)
    if WEIGHTED:
        total *= tl.load(weights + tl.minimum(slot, numel - 1))
    columns = tl.where(slot < numel, N, 0)
    tl.store(y + slot.to(tl.int64) * N + n, total.to(y.dtype.element_ty), mask=n < columns)


@triton.jit
def gemv_rows(
    x, x_scale, w, w_scale, sorted_ids, weights, y, w_row, ws_row, n, first, numel, N, K, a_div,
    R: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr, DECODE: tl.constexpr,
    WORDS: tl.constexpr, MASKED: tl.constexpr, WEIGHTED: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """The first R (1, 2 or 4) rows of a block of slots: see `gemv_moe_kernel`. w, w_scale: the expert's weights."""
    part = tl.arange(0, BK // 16)
    inner = part[:, None] * 16 + tl.arange(0, 16)[None, :]
    slot0 = tl.load(sorted_ids + first)
    acc0 = tl.zeros([BN, BK // 16], tl.float32)
    if R > 1:
        slot1 = tl.load(sorted_ids + first + 1)
        acc1 = tl.zeros([BN, BK // 16], tl.float32)
    if R > 2:
        slot2 = tl.load(sorted_ids + first + 2)
        slot3 = tl.load(sorted_ids + first + 3)
        acc2 = tl.zeros([BN, BK // 16], tl.float32)
        acc3 = tl.zeros([BN, BK // 16], tl.float32)
    for k0 in tl.range(0, K, BK, num_stages=STAGES):
        k = k0 + inner
        group = k0 // 32 + part // 2
        if MASKED:
            w_tile = tl.load(w + w_row[:, None, None] + k[None, :, :], mask=(k < K)[None, :, :], other=0)
        else:
            w_tile = tl.load(w + w_row[:, None, None] + k[None, :, :])
        e = decode(w_tile, DECODE).to(tl.float32)
        s = load_scale(w_scale + ws_row[:, None], group[None, :], K // 32, WORDS, MASKED)
        acc0 = row_sums(acc0, x, x_scale, slot0, numel, a_div, k, group, e, s, K, DECODE, WORDS, MASKED, WIDE)
        if R > 1:
            acc1 = row_sums(acc1, x, x_scale, slot1, numel, a_div, k, group, e, s, K, DECODE, WORDS, MASKED, WIDE)
        if R > 2:
            acc2 = row_sums(acc2, x, x_scale, slot2, numel, a_div, k, group, e, s, K, DECODE, WORDS, MASKED, WIDE)
            acc3 = row_sums(acc3, x, x_scale, slot3, numel, a_div, k, group, e, s, K, DECODE, WORDS, MASKED, WIDE)
    store_row(acc0, y, weights, slot0, numel, n, N, WEIGHTED)
    if R > 1:
        store_row(acc1, y, weights, slot1, numel, n, N, WEIGHTED)
    if R > 2:
        store_row(acc2, y, weights, slot2, numel, n, N, WEIGHTED)
        store_row(acc3, y, weights, slot3, numel, n, N, WEIGHTED)


@triton.jit(do_not_specialize=["numel", "length", "N", "blocks", "a_div"])
def gemv_moe_kernel(
    x, x_scale, w, w_scale, sorted_ids, expert_ids, padded, weights, y, numel, length, N, K, blocks, a_div,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr, DECODE: tl.constexpr,
    WORDS: tl.constexpr, MASKED: tl.constexpr, WEIGHTED: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Y[slot, n] = sum_k X[slot // a_div, k] W[expert of slot, n, k], times weights[slot] when WEIGHTED.

    Operands as in `grouped.grouped_moe_kernel`; blocks of BM = 4 rows.

    One program computes BN columns for one block: grid blocks * cd(N, BN), blocks of the same columns next to each
    other. It looks how many of its rows are real, and runs the variant for 1, 2 or 4 of them: each weight is read and
    decoded once for all rows. Lanes divide K: a lane holds 16 consecutive weights of a row, whose products are added up
    before the scales are applied; lanes are added up once, at the end.

    Traffic: the weights of a hit expert once per 4 of its rows (neighbouring programs: from L2), X cd(N, BN) times
    (from L2), Y once.
    """
    tile = tl.program_id(0)
    first = tile % blocks * BM
    end = tl.load(padded)
    expert = tl.load(expert_ids + tile % blocks)
    slots, live, _ = block_rows(sorted_ids, numel, length, a_div, first, BM)
    if first >= end:
        return
    count = tl.sum(live.to(tl.int32), 0)
    n = tile // blocks * BN + tl.arange(0, BN)
    column = tl.minimum(n, N - 1)
    UNIT: tl.constexpr = 128 if WORDS else 32
    if expert < 0:
        out = y + slots.to(tl.int64)[:, None] * N + n[None, :]
        tl.store(out, tl.zeros([BM, BN], y.dtype.element_ty), mask=live[:, None] & (n < N)[None, :])
        return
    if WIDE:
        base = expert.to(tl.int64) * N
        w += base * K
        w_scale += base * (K // UNIT)
    else:
        column += expert * N
    w_row = column * K
    ws_row = column * (K // UNIT)
    if count == 1:
        gemv_rows(
            x, x_scale, w, w_scale, sorted_ids, weights, y, w_row, ws_row, n, first, numel, N, K, a_div,
            1, BN, BK, STAGES, DECODE, WORDS, MASKED, WEIGHTED, WIDE,
        )  # fmt: skip
    elif count == 2:
        gemv_rows(
            x, x_scale, w, w_scale, sorted_ids, weights, y, w_row, ws_row, n, first, numel, N, K, a_div,
            2, BN, BK, STAGES, DECODE, WORDS, MASKED, WEIGHTED, WIDE,
        )  # fmt: skip
    else:
        gemv_rows(
            x, x_scale, w, w_scale, sorted_ids, weights, y, w_row, ws_row, n, first, numel, N, K, a_div,
            4, BN, BK, STAGES, DECODE, WORDS, MASKED, WEIGHTED, WIDE,
        )  # fmt: skip

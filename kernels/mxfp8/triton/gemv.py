"""gemv_mx: one to sixteen rows of X against MX-FP8 weights that are streamed once per block of rows.

Two ways to multiply. `gemv_mx_kernel` decodes to fp32 and works on any GPU; `diagonal_mx_kernel` lets FP8 matrix units
multiply the payloads as they are stored and needs no decoding at all.
"""

import triton
import triton.language as tl

from .parts import raw_fp32, scale_value, spread_scales
from .split import store_tile


@triton.jit(do_not_specialize=["M", "N", "k_units", "split_tiles"])
def gemv_mx_kernel(
    x, x_scale, w, w_scale, y, partial, counter, M, N, k_units, split_tiles,
    K_UNIT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, MASKED: tl.constexpr,
    SPLIT: tl.constexpr, STAGES: tl.constexpr, ISA: tl.constexpr,
):  # fmt: skip
    """Y[M,N] = X[M,K] W[N,K]^T on the vector units, both operands MX-FP8, K = k_units K_UNIT.

    x, w              payloads as int32 words of four elements, row-major [M, K/4] and [N, K/4]
    x_scale, w_scale  uint8 [M, K/32] and [N, K/32]
    y                 bf16 [M, N]; partial, counter: scratch of split-K, `split.store_tile`
    MASKED            K is not a multiple of BK
    split_tiles       tiles of BK elements along K per program of axis 1

    One program computes BM x BN outputs over its share of K: grid (cd(N, BN) * cd(M, BM), SPLIT). A lane holds words
    of each of BN rows of W and the same words of BM rows of X, so that a weight is decoded once for BM uses; scales are
    applied to sums of four products. Lanes are added up once, at the end.
    Traffic: weights and scales cd(M, BM) times, X cd(N, BN) times from the caches, Y once; with SPLIT > 1 also SPLIT
    fp32 copies of Y, written and read.
    """
    BW: tl.constexpr = BK // 4
    BLOCKS: tl.constexpr = BK // 32
    k_blocks = k_units * (K_UNIT // 32)
    k_words = k_units * (K_UNIT // 4)
    m_tiles = (M + BM - 1) // BM
    tile = tl.program_id(0)
    split = tl.program_id(1)
    n0 = tile // m_tiles * BN
    m0 = tile % m_tiles * BM
    x += m0.to(tl.int64) * k_words
    x_scale += m0.to(tl.int64) * k_blocks
    w += n0.to(tl.int64) * k_words
    w_scale += n0.to(tl.int64) * k_blocks
    row = tl.minimum(tl.arange(0, BN), N - 1 - n0)
    m_row = tl.minimum(tl.arange(0, BM), M - 1 - m0)
    w_at = w + row[None, :, None] * k_words
    x_at = x + m_row[:, None, None] * k_words
    ws_at = w_scale + row[:, None] * k_blocks
    xs_at = x_scale + m_row[:, None] * k_blocks
    words = tl.arange(0, BW)[None, None, :]
    blocks = tl.arange(0, BLOCKS)[None, :]
    acc = tl.zeros([BM, BN, BW], tl.float32)
    begin = split * split_tiles * BLOCKS
    for block0 in tl.range(begin, tl.minimum(begin + split_tiles * BLOCKS, k_blocks), BLOCKS, num_stages=STAGES):
        word = block0 * 8 + words
        block = block0 + blocks
        if MASKED:
            wq = tl.load(w_at + word, mask=word < k_words, other=0)
            xq = tl.load(x_at + word, mask=word < k_words, other=0)
            ws = tl.load(ws_at + block, mask=block < k_blocks, other=0)
            xs = tl.load(xs_at + block, mask=block < k_blocks, other=0)
        else:
            wq = tl.load(w_at + word)
            xq = tl.load(x_at + word)
            ws = tl.load(ws_at + block)
            xs = tl.load(xs_at + block)
        total = (raw_fp32(xq, 0) * RAISE) * raw_fp32(wq, 0)
        total += (raw_fp32(xq, 1) * RAISE) * raw_fp32(wq, 1)
        total += (raw_fp32(xq, 2) * RAISE) * raw_fp32(wq, 2)
        total += (raw_fp32(xq, 3) * RAISE) * raw_fp32(wq, 3)
        ws4 = spread_scales(scale_value(ws) * HALF_RAISE, BN, BLOCKS, 8)[None]
        xs4 = spread_scales(scale_value(xs) * HALF_RAISE, BM, BLOCKS, 8)[:, None]
        acc += (total * ws4) * xs4
    store_tile(tl.trans(tl.sum(acc, axis=2)), y, partial, counter, m0, n0, M, N, tile, split, BM, BN, SPLIT, ISA)


RAISE = tl.constexpr(2.0**120)
"""Makes up for `raw_fp32` of X."""

HALF_RAISE = tl.constexpr(2.0**60)
"""Two of them make up for `raw_fp32` of W, after the sum of four products."""


@triton.jit(do_not_specialize=["M", "N", "k_units", "split_tiles"])
def diagonal_mx_kernel(
    x, x_scale, w, w_scale, y, partial, counter, M, N, k_units, split_tiles,
    K_UNIT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, MASKED: tl.constexpr,
    SPLIT: tl.constexpr, STAGES: tl.constexpr, ISA: tl.constexpr,
):  # fmt: skip
    """Y[M,N] = X[M,K] W[N,K]^T on FP8 matrix units without scales, both operands MX-FP8; nothing is decoded.

    x, w   payloads as float8_e4m3fn, row-major [M, K] and [N, K]; everything else as in `gemv_mx_kernel`

    Each block of 32 elements needs a sum of its own before its scales are applied. W[BN, BK] is therefore multiplied
    with BM * BK/32 columns: column (m, g) holds row m of X inside block g and zeros elsewhere, so that its product is
    the sum over block g alone. The sums [BN, BM * BK/32] then meet their scales in fp32. The zeros cost BK/32 times the
    products, on units that would otherwise idle; they are masked loads and cost no traffic.
    Grid and traffic: as `gemv_mx_kernel`.
    """
    BLOCKS: tl.constexpr = BK // 32
    k_blocks = k_units * (K_UNIT // 32)
    COLUMNS: tl.constexpr = BM * BLOCKS
    k_size = k_units * K_UNIT
    m_tiles = (M + BM - 1) // BM
    tile = tl.program_id(0)
    split = tl.program_id(1)
    n0 = tile // m_tiles * BN
    m0 = tile % m_tiles * BM
    x += m0.to(tl.int64) * k_size
    x_scale += m0.to(tl.int64) * k_blocks
    w += n0.to(tl.int64) * k_size
    w_scale += n0.to(tl.int64) * k_blocks
    row = tl.minimum(tl.arange(0, BN), N - 1 - n0)[:, None]
    inner = tl.arange(0, BK)[None, :]
    column = tl.arange(0, COLUMNS)
    m_row = tl.minimum(column // BLOCKS, M - 1 - m0)
    mine = inner // 32 == (column % BLOCKS)[:, None]
    w_at = w + (row * k_size + inner)
    x_at = x + (m_row[:, None] * k_size + inner)
    ws_at = w_scale + (row * k_blocks + tl.arange(0, BLOCKS)[None, :])
    xs_at = x_scale + (m_row * k_blocks + column % BLOCKS)
    acc = tl.zeros([BN, COLUMNS], tl.float32)
    begin = split * split_tiles * BLOCKS
    left = (
        column % BLOCKS
    )  # one byte per lane is too narrow to be prefetched into shared memory: it is loaded ahead here
    xs = tl.load(xs_at + begin, mask=left < k_blocks - begin, other=0)
    for block0 in tl.range(begin, tl.minimum(begin + split_tiles * BLOCKS, k_blocks), BLOCKS, num_stages=STAGES):
        k0 = block0 * 32
        if MASKED:
            wq = tl.load(w_at + k0, mask=inner < k_size - k0, other=0.0)
            xq = tl.load(x_at + k0, mask=mine & (inner < k_size - k0), other=0.0)
            ws = tl.load(ws_at + block0, mask=tl.arange(0, BLOCKS)[None, :] < k_blocks - block0, other=0)
        else:
            wq = tl.load(w_at + k0)
            xq = tl.load(x_at + k0, mask=mine, other=0.0)
            ws = tl.load(ws_at + block0)
        xs_next = tl.load(xs_at + (block0 + BLOCKS), mask=left < k_blocks - block0 - BLOCKS, other=0)
        sums = tl.dot(wq, tl.trans(xq))
        ws_all = tl.broadcast_to(scale_value(ws)[:, None, :], [BN, BM, BLOCKS])
        acc += (sums * tl.reshape(ws_all, [BN, COLUMNS])) * scale_value(xs)[None, :]
        xs = xs_next
    total = tl.sum(tl.reshape(acc, [BN, BM, BLOCKS]), axis=2)
    store_tile(total, y, partial, counter, m0, n0, M, N, tile, split, BM, BN, SPLIT, ISA)

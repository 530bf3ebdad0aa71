"""mma_mx: matrix units for 8 to 64 rows of X, with K divided among programs.

`mma_mx_kernel` decodes both operands to bf16 and works on any GPU with bf16 matrix units; `scaled_mx_kernel` is for
those that take e4m3 with e8m0 scales.
"""

import triton
import triton.language as tl

from .parts import decode_bf16, lifting_scale, spread_scales
from .split import store_tile


@triton.jit(do_not_specialize=["M", "N", "k_units", "split_tiles"])
def mma_mx_kernel(
    x, x_scale, w, w_scale, y, partial, counter, M, N, k_units, split_tiles,
    K_UNIT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, MASKED: tl.constexpr,
    SPLIT: tl.constexpr, STAGES: tl.constexpr, ISA: tl.constexpr,
):  # fmt: skip
    """Y[M,N] = X[M,K] W[N,K]^T on bf16 matrix units; operands as in `gemv.gemv_mx_kernel`, scales up to 134.

    One program computes BM x BN outputs over its share of K, as the transposed product W[BN, BK] X[BM, BK]^T: N, not
    the small M, is then the long side of the instruction, and the weights are the operand that may come from registers.
    A word holds four elements along K. Byte j of all words of a tile is one operand, of both matrices alike, so that
    four products with K = BK/4 add up to the tile's, and no element ever changes its lane.
    Grid (cd(N, BN) * cd(M, BM), SPLIT); traffic: weights and scales cd(M, BM) times, X cd(N, BN) times from the caches,
    Y once; with SPLIT > 1 also SPLIT fp32 copies of Y, written and read.
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
    row = tl.minimum(tl.arange(0, BN), N - 1 - n0)[:, None]
    m_row = tl.minimum(tl.arange(0, BM), M - 1 - m0)[:, None]
    words = tl.arange(0, BW)[None, :]
    blocks = tl.arange(0, BLOCKS)[None, :]
    w_at = w + row * k_words
    x_at = x + m_row * k_words
    ws_at = w_scale + row * k_blocks
    xs_at = x_scale + m_row * k_blocks
    acc = tl.zeros([BN, BM], tl.float32)
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
        w0, w1, w2, w3 = decode_bf16(wq, spread_scales(lifting_scale(ws), BN, BLOCKS, 8), ISA)
        x0, x1, x2, x3 = decode_bf16(xq, spread_scales(lifting_scale(xs), BM, BLOCKS, 8), ISA)
        acc = tl.dot(w0, tl.trans(x0), acc)
        acc = tl.dot(w1, tl.trans(x1), acc)
        acc = tl.dot(w2, tl.trans(x2), acc)
        acc = tl.dot(w3, tl.trans(x3), acc)
    store_tile(acc, y, partial, counter, m0, n0, M, N, tile, split, BM, BN, SPLIT, ISA)


@triton.jit(do_not_specialize=["M", "N", "k_units", "split_tiles"])
def scaled_mx_kernel(
    x, x_scale, w, w_scale, y, partial, counter, M, N, k_units, split_tiles,
    K_UNIT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, MASKED: tl.constexpr,
    SPLIT: tl.constexpr, STAGES: tl.constexpr, ISA: tl.constexpr,
):  # fmt: skip
    """Y[M,N] = X[M,K] W[N,K]^T on matrix units that take the scales: `tl.dot_scaled`, with K divided among programs.

    x, w  payloads as bytes (uint8), row-major [M, K] and [N, K]; everything else as in `mma_mx_kernel`, any scale
    """
    BLOCKS: tl.constexpr = BK // 32
    k_blocks = k_units * (K_UNIT // 32)
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
    m_row = tl.minimum(tl.arange(0, BM), M - 1 - m0)[:, None]
    inner = tl.arange(0, BK)[None, :]
    blocks = tl.arange(0, BLOCKS)[None, :]
    acc = tl.zeros([BN, BM], tl.float32)
    begin = split * split_tiles * BLOCKS
    for block0 in tl.range(begin, tl.minimum(begin + split_tiles * BLOCKS, k_blocks), BLOCKS, num_stages=STAGES):
        k = block0 * 32 + inner
        block = block0 + blocks
        if MASKED:
            wq = tl.load(w + row * k_size + k, mask=k < k_size, other=0)
            xq = tl.load(x + m_row * k_size + k, mask=k < k_size, other=0)
            ws = tl.load(w_scale + row * k_blocks + block, mask=block < k_blocks, other=0)
            xs = tl.load(x_scale + m_row * k_blocks + block, mask=block < k_blocks, other=0)
        else:
            wq = tl.load(w + row * k_size + k)
            xq = tl.load(x + m_row * k_size + k)
            ws = tl.load(w_scale + row * k_blocks + block)
            xs = tl.load(x_scale + m_row * k_blocks + block)
        acc = tl.dot_scaled(wq, ws, "e4m3", tl.trans(xq), xs, "e4m3", acc)
    store_tile(acc, y, partial, counter, m0, n0, M, N, tile, split, BM, BN, SPLIT, ISA)

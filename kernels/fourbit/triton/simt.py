"""simt_4bit: dequantization fused into a GEMM on the vector units, no matrix instruction."""

import triton
import triton.language as tl

from .decode import load_table
from .tiles import open_rows, split8, store_sum, weight_tile


@triton.jit
def simt_tile(
    x, packed, absmax, q, nested_code, nested_offset, bias, y, partial, counter, M, N, k_units, split_tiles,
    P3: tl.constexpr, P2: tl.constexpr, P1: tl.constexpr, P0: tl.constexpr, SCALE: tl.constexpr,
    K_UNIT: tl.constexpr, GROUP: tl.constexpr, WHOLE: tl.constexpr, MASKED: tl.constexpr, SCALES: tl.constexpr,
    BIAS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BW: tl.constexpr, SPLIT: tl.constexpr,
    STAGES: tl.constexpr, ISA: tl.constexpr,
):  # fmt: skip
    """Body of `simt_4bit_kernel` and, with BM = 1, of `gemv_4bit_opt_kernel`; see there."""
    ALIGNED: tl.constexpr = K_UNIT % 8 == 0
    k_size = k_units * K_UNIT
    m_blocks = (M + BM - 1) // BM
    tile = tl.program_id(0)
    split = tl.program_id(1)
    row0 = tile // m_blocks * BN
    m0 = tile % m_blocks * BM
    rows = open_rows(packed, row0, N, k_size, BN, GROUP, ALIGNED)
    table = load_table(P3, P2, P1, P0, ISA)
    x += m0.to(tl.int64) * k_size
    x_row = tl.minimum(tl.arange(0, BM), M - 1 - m0)[:, None, None] * k_size
    inner = tl.arange(0, BW * 8)[None, None, :]
    acc = tl.zeros([BM, BN, BW], tl.float32)
    begin = split * split_tiles * BW
    for word0 in tl.range(begin, tl.minimum(begin + split_tiles * BW, (k_size + 7) // 8), BW, num_stages=STAGES):
        e0, e1, e2, e3, e4, e5, e6, e7, s = weight_tile(
            rows, absmax, q, nested_code, nested_offset, table, word0, k_size,
            P3, P2, P1, P0, BN, BW, GROUP, ALIGNED, WHOLE, MASKED, SCALES, True, ISA,
        )  # fmt: skip
        k = word0 * 8 + inner
        if MASKED:
            x_tile = tl.load(x + x_row + k, mask=k < k_size, other=0.0)
        else:
            x_tile = tl.load(x + x_row + k)
        x0, x1, x2, x3, x4, x5, x6, x7 = split8(tl.reshape(x_tile, [BM, 1, BW, 2, 2, 2]))
        word_sum = x0.to(tl.float32) * e0
        word_sum += x1.to(tl.float32) * e1
        word_sum += x2.to(tl.float32) * e2
        word_sum += x3.to(tl.float32) * e3
        word_sum += x4.to(tl.float32) * e4
        word_sum += x5.to(tl.float32) * e5
        word_sum += x6.to(tl.float32) * e6
        word_sum += x7.to(tl.float32) * e7
        acc += word_sum * s
    total = tl.sum(acc, axis=2) * SCALE
    store_sum(
        total, y, bias, partial, counter, m0 + tl.arange(0, BM), row0 + tl.arange(0, BN), M, N, tile, split,
        BIAS, SPLIT, ISA,
    )  # fmt: skip


@triton.jit(do_not_specialize=["M", "N", "k_units", "split_tiles"])
def simt_4bit_kernel(
    x, packed, absmax, q, nested_code, nested_offset, bias, y, partial, counter, M, N, k_units, split_tiles,
    P3: tl.constexpr, P2: tl.constexpr, P1: tl.constexpr, P0: tl.constexpr, SCALE: tl.constexpr,
    K_UNIT: tl.constexpr, GROUP: tl.constexpr, WHOLE: tl.constexpr, MASKED: tl.constexpr, SCALES: tl.constexpr,
    BIAS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BW: tl.constexpr, SPLIT: tl.constexpr,
    STAGES: tl.constexpr, ISA: tl.constexpr,
):  # fmt: skip
    """Y[M,N] = X[M,K] W[N,K]^T + bias, W in 4 bits.

    x            [M,K] row-major, bf16, fp16 or fp32; y [M,N] of the same type; bias [N] or None
    packed       W flattened row-major, two elements per byte (`decode`), int32 view or bytes (`tiles`)
    absmax ...   block scales, `tiles.load_scale`
    partial ...  scratch of split-K, `tiles.store_sum`
    k_units      K / K_UNIT, where K_UNIT is the largest power of two up to 128 that divides K: the compiler sees the
                 alignment of rows, and with it the widest load, without a variant per K
    split_tiles  tiles of BW words along K per program of axis 1

    One program computes BM x BN outputs over its share of K: grid (cd(N, BN) * cd(M, BM), SPLIT), M blocks of the same
    rows of W next to each other. Lanes and warps divide K: a lane holds a word (8 elements) of each of BN rows of W and
    the same 8 elements of BM rows of X, so that a weight is decoded once for BM uses and an activation is loaded once
    for BN. absmax is applied once per word, to a sum of 8 products. Lanes are added up once, at the end.

    Traffic: packed weights and scales cd(M, BM) times (neighbouring programs: from L2), X cd(N, BN) times (from L1 and
    L2), Y once; with SPLIT > 1 also SPLIT fp32 copies of Y, written and read.
    """
    simt_tile(
        x, packed, absmax, q, nested_code, nested_offset, bias, y, partial, counter, M, N, k_units, split_tiles,
        P3, P2, P1, P0, SCALE, K_UNIT, GROUP, WHOLE, MASKED, SCALES, BIAS, BM, BN, BW, SPLIT, STAGES, ISA,
    )  # fmt: skip

"""gemv_4bit, the baseline, and gemv_4bit_opt: one batch row at a time, every row reads all weights again."""

import triton
import triton.language as tl

from .decode import load_table
from .simt import simt_tile
from .tiles import open_rows, split8, store_sum, weight_tile


@triton.jit(do_not_specialize=["M", "N", "k_units", "split_tiles"])
def gemv_4bit_kernel(
    x, packed, absmax, q, nested_code, nested_offset, bias, y, partial, counter, M, N, k_units, split_tiles,
    P3: tl.constexpr, P2: tl.constexpr, P1: tl.constexpr, P0: tl.constexpr, SCALE: tl.constexpr,
    K_UNIT: tl.constexpr, GROUP: tl.constexpr, WHOLE: tl.constexpr, MASKED: tl.constexpr, SCALES: tl.constexpr,
    BIAS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BW: tl.constexpr, SPLIT: tl.constexpr,
    STAGES: tl.constexpr, ISA: tl.constexpr,
):  # fmt: skip
    """Y[M,N] = X[M,K] W[N,K]^T + bias, W in 4 bits; operands as in `simt.simt_4bit_kernel` (BM = SPLIT = 1).

    The plain design: a warp per output column, BN columns of one batch row per program, grid (cd(N, BN) * M). Words are
    decoded where they were loaded, absmax is loaded per word, the warp adds up after every tile, nothing is prefetched.
    Traffic: packed weights and scales M times, X cd(N, BN) times, Y once.
    """
    ALIGNED: tl.constexpr = K_UNIT % 8 == 0
    k_size = k_units * K_UNIT
    tile = tl.program_id(0)
    row0 = tile // M * BN
    m = tile % M
    rows = open_rows(packed, row0, N, k_size, BN, GROUP, ALIGNED)
    table = load_table(P3, P2, P1, P0, ISA)
    x += m.to(tl.int64) * k_size
    total = tl.zeros([BN], tl.float32)
    for word0 in range(0, (k_size + 7) // 8, BW):
        e0, e1, e2, e3, e4, e5, e6, e7, s = weight_tile(
            rows, absmax, q, nested_code, nested_offset, table, word0, k_size,
            P3, P2, P1, P0, BN, BW, GROUP, ALIGNED, False, MASKED, SCALES, False, ISA,
        )  # fmt: skip
        k = word0 * 8 + tl.arange(0, BW * 8)
        if MASKED:
            x_tile = tl.load(x + k, mask=k < k_size, other=0.0)
        else:
            x_tile = tl.load(x + k)
        x0, x1, x2, x3, x4, x5, x6, x7 = split8(tl.reshape(x_tile, [1, BW, 2, 2, 2]))
        word_sum = e0 * x0.to(tl.float32)
        word_sum += e1 * x1.to(tl.float32)
        word_sum += e2 * x2.to(tl.float32)
        word_sum += e3 * x3.to(tl.float32)
        word_sum += e4 * x4.to(tl.float32)
        word_sum += e5 * x5.to(tl.float32)
        word_sum += e6 * x6.to(tl.float32)
        word_sum += e7 * x7.to(tl.float32)
        total += tl.sum(word_sum * s, axis=1)
    store_sum(
        total[None, :] * SCALE, y, bias, partial, counter, m + tl.arange(0, 1), row0 + tl.arange(0, BN), M, N, tile, 0,
        BIAS, 1, ISA,
    )  # fmt: skip


@triton.jit(do_not_specialize=["M", "N", "k_units", "split_tiles"])
def gemv_4bit_opt_kernel(
    x, packed, absmax, q, nested_code, nested_offset, bias, y, partial, counter, M, N, k_units, split_tiles,
    P3: tl.constexpr, P2: tl.constexpr, P1: tl.constexpr, P0: tl.constexpr, SCALE: tl.constexpr,
    K_UNIT: tl.constexpr, GROUP: tl.constexpr, WHOLE: tl.constexpr, MASKED: tl.constexpr, SCALES: tl.constexpr,
    BIAS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BW: tl.constexpr, SPLIT: tl.constexpr,
    STAGES: tl.constexpr, ISA: tl.constexpr,
):  # fmt: skip
    """Y[M,N] = X[M,K] W[N,K]^T + bias, W in 4 bits; operands as in `simt.simt_4bit_kernel` (BM = 1).

    The same tile as simt_4bit (wide prefetched loads, BN rows of W per program, split-K) for a single batch row: grid
    (cd(N, BN) * M, SPLIT). Traffic: packed weights and scales M times, X cd(N, BN) times, Y once and SPLIT fp32 copies.
    """
    simt_tile(
        x, packed, absmax, q, nested_code, nested_offset, bias, y, partial, counter, M, N, k_units, split_tiles,
        P3, P2, P1, P0, SCALE, K_UNIT, GROUP, WHOLE, MASKED, SCALES, BIAS, 1, BN, BW, SPLIT, STAGES, ISA,
    )  # fmt: skip

"""Blockwise-scaled FP8 products as Triton kernels: dense, grouped over experts, and the weight gradient of experts.

Both operands have their contraction contiguous, which is what FP8 matrix units want. Every 128 of it are multiplied
into a fresh accumulator, which is scaled and added in fp32.
"""

import triton
import triton.language as tl


@triton.jit
def _place(pid, m_tiles, n_tiles, GROUP_M: tl.constexpr):
    """Row and column of a tile: GROUP_M tile rows share columns of b while they are in L2."""
    group = pid // (GROUP_M * n_tiles)
    rows = tl.minimum(m_tiles - group * GROUP_M, GROUP_M)
    inner = pid % (GROUP_M * n_tiles)
    return group * GROUP_M + inner % rows, inner // rows


@triton.jit
def _product(
    a, b, a_scale, b_scale, a_scale_step, b_scale_step, first, last, end, a_inside, b_inside,
    BM: tl.constexpr, BN: tl.constexpr, BY_COLUMN: tl.constexpr, WHOLE_K: tl.constexpr,
):  # fmt: skip
    """Sum of the scaled products of the 128-blocks `first` to `last` of the contraction, which stops at `end`.

    a [BM,128] and b [128,BN] are pointers at contraction 0, a_scale [BM] (and b_scale [BN] if BY_COLUMN, else one
    pointer) at block 0; scales of the next block are one step away. Scales outside the matrices are not read.
    """
    acc = tl.zeros([BM, BN], tl.float32)
    k = tl.arange(0, 128)
    a_scale_step += tl.zeros([], tl.int64)
    b_scale_step += tl.zeros([], tl.int64)
    for block in range(first, last):
        # before the product, so that their latency passes while it is computed
        scale_m = tl.load(a_scale + block * a_scale_step, mask=a_inside, other=0.0)
        if BY_COLUMN:
            scale_n = tl.load(b_scale + block * b_scale_step, mask=b_inside, other=0.0)
        else:
            scale_m *= tl.load(b_scale + block * b_scale_step)
        at = block * 128
        if WHOLE_K:
            part = tl.dot(tl.load(a + at), tl.load(b + at))
        else:
            left = tl.load(a + at, mask=(k < end - block * 128)[None, :], other=0.0)
            right = tl.load(b + at, mask=(k < end - block * 128)[:, None], other=0.0)
            part = tl.dot(left, right)
        if BY_COLUMN:
            acc += part * scale_m[:, None] * scale_n[None, :]
        else:
            acc += part * scale_m[:, None]
    return acc


@triton.jit
def gemm_kernel(
    a, b, c, a_scale, b_scale, offs, M, N, K, E, a_scale_pitch,
    BM: tl.constexpr, BN: tl.constexpr, GROUP_M: tl.constexpr, EXPERTS: tl.constexpr, BY_COLUMN: tl.constexpr,
    WHOLE_K: tl.constexpr,
):  # fmt: skip
    """c[M,N] = a[M,K] b[e][N,K]^T with the scales of 1x128 groups of a, and of 128x128 groups of b (1x128: BY_COLUMN).

    a_scale [cd(K,128),a_scale_pitch], b_scale [E,cd(N,128),cd(K,128)] or [cd(K,128),N]; c of any float type, row-major.
    EXPERTS is 0 in a dense product (offs unused, E = 1); else a power of two >= E, and rows offs[e-1] to offs[e] use
    b[e]: tiles are assigned to groups here, from offs, so that the host need not know it.
    Grid: (cd(M, BM) + E if grouped, else cd(M, BM)) * cd(N, BN): a tile list can have one partial tile per group, and
    programs beyond its end return. BN divides 128. Traffic: a cd(N,BN) times, b cd(rows,BM) times per group, mostly
    from L2; c once.
    """
    n_tiles = tl.cdiv(N, BN)
    if EXPERTS:
        e = tl.arange(0, EXPERTS)
        ends = tl.load(offs + e, mask=e < E, other=0)
        starts = tl.where(e > 0, tl.load(offs + e - 1, mask=(e > 0) & (e < E), other=0), 0)
        tiles = tl.where(e < E, tl.cdiv(ends - starts, BM), 0)
        tile_ends = tl.cumsum(tiles, 0)
        m_tiles = tl.sum(tiles, 0)
        if tl.program_id(0) >= m_tiles * n_tiles:
            return
        m_tile, n_tile = _place(tl.program_id(0), m_tiles, n_tiles, GROUP_M)
        expert = tl.sum((tile_ends <= m_tile).to(tl.int32), 0)
        mine = e == expert
        start = tl.sum(tl.where(mine, starts, 0), 0)
        end = tl.sum(tl.where(mine, ends, 0), 0)
        m0 = start + (m_tile - tl.sum(tl.where(mine, tile_ends - tiles, 0), 0)) * BM
    else:
        m_tile, n_tile = _place(tl.program_id(0), tl.cdiv(M, BM), n_tiles, GROUP_M)
        expert = 0
        end = M
        m0 = m_tile * BM
    k_blocks = tl.cdiv(K, 128)
    m = m0 + tl.arange(0, BM)
    n = n_tile * BN + tl.arange(0, BN)
    k = tl.arange(0, 128)
    # rows beyond the end are computed from the last one and not stored
    a_tile = a + tl.minimum(m, end - 1)[:, None].to(tl.int64) * K + k[None, :]
    b_tile = b + (expert * N + tl.minimum(n, N - 1)).to(tl.int64)[None, :] * K + k[:, None]
    if BY_COLUMN:
        b_scale_at = b_scale + n
        step = N
    else:
        b_scale_at = b_scale + (expert * tl.cdiv(N, 128) + n_tile * BN // 128) * k_blocks
        step = 1
    acc = _product(
        a_tile, b_tile, a_scale + m, b_scale_at, a_scale_pitch, step, 0, k_blocks, K, m < end, n < N,
        BM, BN, BY_COLUMN, WHOLE_K,
    )  # fmt: skip
    inside = (m < end)[:, None] & (n < N)[None, :]
    tl.store(c + m[:, None].to(tl.int64) * N + n[None, :], acc.to(c.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["first_expert"])
def grouped_wgrad_kernel(
    a, b, c, a_scale, b_scale, offs, M, N, K, first_expert,
    BM: tl.constexpr, BN: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """c[e][N,K] = a[N, rows of e] b[K, rows of e]^T for every expert: dW from dY^T and X^T, contracted over its rows.

    a [N,M] with a_scale [M/128,N], b [K,M] with b_scale [M/128,K]; rows offs[e-1] to offs[e] are those of e, multiples
    of 128. An expert without rows gets zeros. Grid (cd(N, BM) * cd(K, BN), experts from first_expert on). No
    accumulator in memory: a program keeps its tile of c in registers.
    """
    expert = first_expert + tl.program_id(1)
    start = tl.load(offs + expert - 1, mask=expert > 0, other=0)
    end = tl.load(offs + expert)
    n_tile, k_tile = _place(tl.program_id(0), tl.cdiv(N, BM), tl.cdiv(K, BN), GROUP_M)
    n = n_tile * BM + tl.arange(0, BM)
    k = k_tile * BN + tl.arange(0, BN)
    row = tl.arange(0, 128)
    a_tile = a + tl.minimum(n, N - 1)[:, None].to(tl.int64) * M + row[None, :]
    b_tile = b + tl.minimum(k, K - 1)[None, :].to(tl.int64) * M + row[:, None]
    acc = _product(
        a_tile, b_tile, a_scale + n, b_scale + k, N, K, start // 128, end // 128, end, n < N, k < K,
        BM, BN, True, True,
    )  # fmt: skip
    inside = (n < N)[:, None] & (k < K)[None, :]
    at = (expert.to(tl.int64) * N + n[:, None]) * K + k[None, :]
    tl.store(c + at, acc.to(c.dtype.element_ty), mask=inside)

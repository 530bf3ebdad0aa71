"""The blockwise-scaled FP8 products on sm90, warp-specialized: dense, and grouped over experts.

One program per multiprocessor works through tiles. One warp group fetches 128-blocks of both operands into shared
memory with the tensor memory accelerator; two others multiply and promote 64 of the 128 rows each, out of step with
each other, so that the matrix unit multiplies for one while the other applies its scales.

Triton forms those groups out of the loop over tiles with num_warps = 4 and BM = 128; the loop may hold neither
reductions nor searches, so that a small kernel finds the rows and the expert of every tile beforehand.
"""

import triton
import triton.language as tl

from .gemm import _place


@triton.jit
def tile_rows_kernel(offs, where, E, tiles, BM: tl.constexpr, EXPERTS: tl.constexpr, BLOCK: tl.constexpr):
    """Divide the rows of each expert into tiles of BM, the last one of each perhaps partial.

    offs   int32 [E], the inclusive end row of each group; EXPERTS  a power of two >= E
    where  int32 [4,tiles]: per tile its expert, its first row and the end of its group; [3,0] is the number of tiles
    Grid (cd(tiles, BLOCK)).
    """
    e = tl.arange(0, EXPERTS)
    ends = tl.load(offs + e, mask=e < E, other=0)
    starts = tl.where(e > 0, tl.load(offs + e - 1, mask=(e > 0) & (e < E), other=0), 0)
    counts = tl.where(e < E, tl.cdiv(ends - starts, BM), 0)
    last = tl.cumsum(counts, 0)
    tile = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mine = (last - counts)[None, :] <= tile[:, None]
    mine &= tile[:, None] < last[None, :]
    expert = tl.sum(tl.where(mine, e[None, :], 0), 1)
    row = tl.sum(tl.where(mine, starts[None, :] + (tile[:, None] - (last - counts)[None, :]) * BM, 0), 1)
    end = tl.sum(tl.where(mine, ends[None, :], 0), 1)
    inside = tile < tiles
    tl.store(where + tile, expert, mask=inside)
    tl.store(where + tiles + tile, row, mask=inside)
    tl.store(where + 2 * tiles + tile, end, mask=inside)
    tl.store(where + 3 * tiles + tile, tl.zeros_like(tile) + tl.sum(counts, 0), mask=inside & (tile == 0))


@triton.jit
def gemm_persistent_kernel(
    a, b, c, a_scale, b_scale, where, M, N, K, E, tiles, a_scale_pitch,
    BM: tl.constexpr, BN: tl.constexpr, GROUP_M: tl.constexpr, BY_COLUMN: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """c[M,N] = a[M,K] b[e][N,K]^T; operands and scales as `gemm_kernel`, K a multiple of 16, pointers of 16 bytes.

    where  what `tile_rows_kernel` writes, or None in a dense product (E = 1). Blocks that reach over an edge of the
    matrices are filled with zeros, over the end of a group with what follows; neither is stored. WIDE tiles are two of
    BM x BN = 128 x 128 beside each other, which share the block of a; N is a multiple of 256, not BY_COLUMN. Any grid
    of one dimension. Traffic: a cd(N,BN) times, b cd(rows,BM) times per group, mostly from L2; c once. No tensor is
    made of m0 alone: where Triton splits a tile, it adds 64 rows to it on top of those that the tensor counts.
    """
    a_tiles = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, 128])
    b_tiles = tl.make_tensor_descriptor(b, [E * N, K], [K, 1], [BN, 128])
    width: tl.constexpr = 2 * BN if WIDE else BN
    n_tiles = tl.cdiv(N, width)
    k_blocks = tl.cdiv(K, 128)
    if where is None:
        m_tiles = tl.cdiv(M, BM)
    else:
        m_tiles = tl.load(where + 3 * tiles)
    for tile in tl.range(tl.program_id(0), m_tiles * n_tiles, tl.num_programs(0), warp_specialize=True):
        m_tile, n_tile = _place(tile, m_tiles, n_tiles, GROUP_M)
        if where is None:
            expert = 0
            m0 = m_tile * BM
            end = M
        else:
            expert = tl.load(where + m_tile)
            m0 = tl.load(where + tiles + m_tile)
            end = tl.load(where + 2 * tiles + m_tile)
        n0 = n_tile * width
        m = tl.arange(0, BM)
        n = tl.arange(0, BN)
        a_scale_at = a_scale + m0 + tl.minimum(m, end - m0 - 1)
        a_step = a_scale_pitch + tl.zeros([], tl.int64)
        if BY_COLUMN:
            b_scale_at = b_scale + n0 + tl.minimum(n, N - n0 - 1)
            b_step = N + tl.zeros([], tl.int64)
        else:
            b_scale_at = b_scale + (expert * tl.cdiv(N, 128) + n0 // 128) * k_blocks
            b_step = 1
        acc = tl.zeros([BM, BN], tl.float32)
        if WIDE:
            beside = tl.zeros([BM, BN], tl.float32)
        for block in range(k_blocks):
            left = a_tiles.load([m0, block * 128])
            right = b_tiles.load([expert * N + n0, block * 128]).T
            # before the product, so that their latency passes while it is computed
            scale_m = tl.load(a_scale_at + block * a_step)
            scale_n = tl.load(b_scale_at + block * b_step)
            if BY_COLUMN:
                acc += tl.dot(left, right) * scale_m[:, None] * scale_n[None, :]
            else:
                acc += tl.dot(left, right) * (scale_m * scale_n)[:, None]
            if WIDE:
                right = b_tiles.load([expert * N + n0 + BN, block * 128]).T
                scale_n = tl.load(b_scale_at + k_blocks + block)
                beside += tl.dot(left, right) * (scale_m * scale_n)[:, None]
        places = c + m0.to(tl.int64) * N + n0 + m[:, None] * N + n[None, :]
        if WIDE:
            inside = (m < end - m0)[:, None]
            tl.store(places, acc.to(c.dtype.element_ty), mask=inside)
            tl.store(places + BN, beside.to(c.dtype.element_ty), mask=inside)
        else:
            inside = (m < end - m0)[:, None] & (n < N - n0)[None, :]
            tl.store(places, acc.to(c.dtype.element_ty), mask=inside)

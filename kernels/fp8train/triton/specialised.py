"""The specialised GEMMs: one kernel per layout of the operands.

    nt  C[R,C] = A[R,D] B[C,D]^T        forward: X W^T; dgrad and wgrad too, once their operands are transposed
    nn  C[R,C] = A[R,D] B[D,C]          dgrad: dY W
    tn  C[C,R] = (A[D,R]^T B[D,C])^T    wgrad: X^T dY is formed and stored transposed

All operands are row-major FP8, the result is row-major bf16. D is contracted in blocks of BK = 128, each with scales:
acc += (A block . B block) * scale of A * scale of B, in fp32. Scales: [r, block] at r a_scale_r + block a_scale_d, and
so for B; with SCALE_2D_B all 128 columns that share a block have one, and BN divides 128.

EVEN_D, EVEN_R, EVEN_C say that BK, BM, BN divide D, R, C: loads then need no mask. Addresses of tiles are 64-bit,
offsets inside them 32-bit. One program computes a BM x BN tile, grid (cd(R,BM) * cd(C,BN)). Traffic: A cd(C,BN) times
and B cd(R,BM) times, mostly from L2; C once.
"""

import triton
import triton.language as tl

from .tiles import accumulate, clamped, column_scales, row_scales, store_tile, tile_origin


@triton.jit
def nt_gemm_kernel(
    a, b, c, a_scale, b_scale, R, C, D, a_scale_r, a_scale_d, b_scale_c, b_scale_d,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr, XCDS: tl.constexpr,
    CHUNK: tl.constexpr, SCALE_2D_B: tl.constexpr, EVEN_D: tl.constexpr, EVEN_R: tl.constexpr, EVEN_C: tl.constexpr,
):  # fmt: skip
    """A[R,D], B[C,D] -> C[R,C]."""
    r0, c0 = tile_origin(R, C, BM, BN, GROUP_M, XCDS, CHUNK)
    r = clamped(BM, R - r0, EVEN_R)
    n = clamped(BN, C - c0, EVEN_C)
    d = tl.arange(0, BK)
    a_tile = a + r0.to(tl.int64) * D
    b_tile = b + c0.to(tl.int64) * D
    a_offsets = r[:, None] * D + d[None, :]
    b_offsets = n[None, :] * D + d[:, None]
    a_scales = row_scales(a_scale, r0, r, a_scale_r)
    b_scales = column_scales(b_scale, c0, n, b_scale_c, SCALE_2D_B)
    acc = tl.zeros([BM, BN], tl.float32)
    for i in range(tl.cdiv(D, BK)):
        if EVEN_D:
            x = tl.load(a_tile + a_offsets)
            y = tl.load(b_tile + b_offsets)
        else:
            x = tl.load(a_tile + a_offsets, mask=d[None, :] < D - i * BK, other=0.0)
            y = tl.load(b_tile + b_offsets, mask=d[:, None] < D - i * BK, other=0.0)
        acc = accumulate(acc, x, y, tl.load(a_scales), tl.load(b_scales), SCALE_2D_B)
        a_tile += BK
        b_tile += BK
        a_scales += a_scale_d
        b_scales += b_scale_d
    store_tile(c, acc, r0, c0, R, C, BM, BN, EVEN_R and EVEN_C)


@triton.jit
def nn_gemm_kernel(
    a, b, c, a_scale, b_scale, R, C, D, a_scale_r, a_scale_d, b_scale_c, b_scale_d,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr, XCDS: tl.constexpr,
    CHUNK: tl.constexpr, SCALE_2D_B: tl.constexpr, EVEN_D: tl.constexpr, EVEN_R: tl.constexpr, EVEN_C: tl.constexpr,
):  # fmt: skip
    """A[R,D], B[D,C] -> C[R,C]."""
    r0, c0 = tile_origin(R, C, BM, BN, GROUP_M, XCDS, CHUNK)
    r = clamped(BM, R - r0, EVEN_R)
    n = tl.arange(0, BN)
    d = tl.arange(0, BK)
    a_tile = a + r0.to(tl.int64) * D
    b_tile = b + c0
    a_offsets = r[:, None] * D + d[None, :]
    b_offsets = d[:, None] * C + n[None, :]
    a_scales = row_scales(a_scale, r0, r, a_scale_r)
    b_scales = column_scales(b_scale, c0, clamped(BN, C - c0, EVEN_C), b_scale_c, SCALE_2D_B)
    acc = tl.zeros([BM, BN], tl.float32)
    for i in range(tl.cdiv(D, BK)):
        if EVEN_D:
            x = tl.load(a_tile + a_offsets)
        else:
            x = tl.load(a_tile + a_offsets, mask=d[None, :] < D - i * BK, other=0.0)
        if EVEN_D and EVEN_C:
            y = tl.load(b_tile + b_offsets)
        else:
            y = tl.load(b_tile + b_offsets, mask=(d < D - i * BK)[:, None] & (n < C - c0)[None, :], other=0.0)
        acc = accumulate(acc, x, y, tl.load(a_scales), tl.load(b_scales), SCALE_2D_B)
        a_tile += BK
        b_tile += BK * C
        a_scales += a_scale_d
        b_scales += b_scale_d
    store_tile(c, acc, r0, c0, R, C, BM, BN, EVEN_R and EVEN_C)


@triton.jit
def tn_gemm_kernel(
    a, b, c, a_scale, b_scale, R, C, D, a_scale_r, a_scale_d, b_scale_c, b_scale_d,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr, XCDS: tl.constexpr,
    CHUNK: tl.constexpr, SCALE_2D_B: tl.constexpr, EVEN_D: tl.constexpr, EVEN_R: tl.constexpr, EVEN_C: tl.constexpr,
):  # fmt: skip
    """A[D,R], B[D,C] -> C[C,R]: transposed before the store, so that a lane's elements are neighbours."""
    r0, c0 = tile_origin(R, C, BM, BN, GROUP_M, XCDS, CHUNK)
    r = tl.arange(0, BM)
    n = tl.arange(0, BN)
    d = tl.arange(0, BK)
    a_tile = a + r0
    b_tile = b + c0
    a_offsets = d[None, :] * R + r[:, None]
    b_offsets = d[:, None] * C + n[None, :]
    a_scales = row_scales(a_scale, r0, clamped(BM, R - r0, EVEN_R), a_scale_r)
    b_scales = column_scales(b_scale, c0, clamped(BN, C - c0, EVEN_C), b_scale_c, SCALE_2D_B)
    acc = tl.zeros([BM, BN], tl.float32)
    for i in range(tl.cdiv(D, BK)):
        if EVEN_D and EVEN_R:
            x = tl.load(a_tile + a_offsets)
        else:
            x = tl.load(a_tile + a_offsets, mask=(d < D - i * BK)[None, :] & (r < R - r0)[:, None], other=0.0)
        if EVEN_D and EVEN_C:
            y = tl.load(b_tile + b_offsets)
        else:
            y = tl.load(b_tile + b_offsets, mask=(d < D - i * BK)[:, None] & (n < C - c0)[None, :], other=0.0)
        acc = accumulate(acc, x, y, tl.load(a_scales), tl.load(b_scales), SCALE_2D_B)
        a_tile += BK * R
        b_tile += BK * C
        a_scales += a_scale_d
        b_scales += b_scale_d
    store_tile(c, tl.trans(acc), c0, r0, C, R, BN, BM, EVEN_R and EVEN_C)

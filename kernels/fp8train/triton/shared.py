"""The shared GEMM: one kernel for all layouts of the operands, told apart by strides. What training started from."""

import triton
import triton.language as tl

from .tiles import tile_origin


@triton.jit
def shared_gemm_kernel(
    a, b, c, a_scale, b_scale, R, C, D, a_r, a_d, b_c, b_d, c_r, c_c, a_scale_r, a_scale_d, b_scale_c, b_scale_d,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr, XCDS: tl.constexpr,
    CHUNK: tl.constexpr, SCALE_2D_B: tl.constexpr,
):  # fmt: skip
    """C[R,C] = A[R,D] B[D,C] in FP8: acc += (A block . B block) * scale of A * scale of B, per block of BK = 128 of D.

    a, b  FP8, element [r,d] at r a_r + d a_d, element [d,c] at c b_c + d b_d; c  bf16, element [r,c] at r c_r + c c_c
    a_scale, b_scale  fp32, [r, block] at r a_scale_r + block a_scale_d; B has a scale per column, or per 128 columns
          when SCALE_2D_B: then BN divides 128
    Offsets are 32-bit: no operand may have 2^31 elements. One program computes a BM x BN tile.
    Grid (cd(R,BM) * cd(C,BN)). Traffic: A cd(C,BN) times and B cd(R,BM) times, mostly from L2; C once. A wgrad stores a
    transposed result: neighbouring elements of a lane are c_c apart, so that each takes a store of its own.
    """
    r0, c0 = tile_origin(R, C, BM, BN, GROUP_M, XCDS, CHUNK)
    r = r0 + tl.arange(0, BM)
    n = c0 + tl.arange(0, BN)
    d = tl.arange(0, BK)
    a_tile = a + (r % R)[:, None] * a_r + d[None, :] * a_d
    b_tile = b + (n % C)[None, :] * b_c + d[:, None] * b_d
    a_scales = a_scale + (r % R) * a_scale_r
    if SCALE_2D_B:
        b_scales = b_scale + c0 // 128 * b_scale_c
    else:
        b_scales = b_scale + (n % C) * b_scale_c
    acc = tl.zeros([BM, BN], tl.float32)
    for i in range(tl.cdiv(D, BK)):
        x = tl.load(a_tile, mask=d[None, :] < D - i * BK, other=0.0)
        y = tl.load(b_tile, mask=d[:, None] < D - i * BK, other=0.0)
        s = tl.load(a_scales)
        t = tl.load(b_scales)
        if SCALE_2D_B:
            acc += tl.dot(x, y) * (s * t)[:, None]
        else:
            acc += tl.dot(x, y) * s[:, None] * t[None, :]
        a_tile += BK * a_d
        b_tile += BK * b_d
        a_scales += a_scale_d
        b_scales += b_scale_d
    places = c + r[:, None] * c_r + n[None, :] * c_c
    tl.store(places, acc.to(c.dtype.element_ty), mask=(r < R)[:, None] & (n < C)[None, :])

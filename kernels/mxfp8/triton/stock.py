"""The plain tl.dot_scaled GEMM of MX-FP8 operands: no split of K, one tile per program."""

import triton
import triton.language as tl


@triton.jit
def scaled_gemm_kernel(
    x, x_scale, w, w_scale, y, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):  # fmt: skip
    """Y[M,N] = X[M,K] W[N,K]^T with `tl.dot_scaled`; K is a multiple of BK.

    x, w    payloads as bytes, row-major; x_scale, w_scale  uint8 [M, K/32] and [N, K/32]; y  bf16 [M, N]
    One program computes BM x BN outputs: grid (cd(M, BM), cd(N, BN)). Offsets are 32-bit.
    Traffic: weights cd(M, BM) times, activations cd(N, BN) times, from the caches where they fit.
    """
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    blocks = tl.arange(0, BK // 32)
    m_in = (m < M)[:, None]
    n_in = (n < N)[:, None]
    acc = tl.zeros([BM, BN], tl.float32)
    for k0 in range(0, K, BK):
        xq = tl.load(x + m[:, None] * K + (k0 + k)[None, :], mask=m_in, other=0)
        wq = tl.load(w + n[:, None] * K + (k0 + k)[None, :], mask=n_in, other=0)
        xs = tl.load(x_scale + m[:, None] * (K // 32) + (k0 // 32 + blocks)[None, :], mask=m_in, other=0)
        ws = tl.load(w_scale + n[:, None] * (K // 32) + (k0 // 32 + blocks)[None, :], mask=n_in, other=0)
        acc = tl.dot_scaled(xq, xs, "e4m3", tl.trans(wq), ws, "e4m3", acc)
    tl.store(y + m[:, None] * N + n[None, :], acc.to(y.dtype.element_ty), mask=m_in & (n < N)[None, :])

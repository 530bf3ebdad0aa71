"""The batched GEMM on 16-bit activations and block-scaled FP8 weights: one kernel for both layouts of the weights."""

import triton
import triton.language as tl


@triton.jit
def a16w8_kernel(
    x, w, scale, bias, y, B, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr, KN: tl.constexpr,
    SWAP: tl.constexpr, SCALING: tl.constexpr, PREQUANT: tl.constexpr, FP8_MAX: tl.constexpr, LEAST: tl.constexpr,
    BIAS: tl.constexpr, BATCH_INNER: tl.constexpr, EVEN_N: tl.constexpr, EVEN_K: tl.constexpr,
):  # fmt: skip
    """Y[b] = X[b] W[b]^T + bias[b] for b in 0 .. B-1, accumulated in fp32.

    x      [B,M,K] bf16 or fp16; y [B,M,N] and bias [B,N] (or None) of the same type
    w      FP8 e4m3, [B,N,K], or [B,K,N] when KN
    scale  fp32 [B, cd(N,128), cd(K,128)], or [B, cd(K,128), cd(N,128)] when KN
    BK divides 128 and BN divides it or is a multiple; PREQUANT needs BK = 128.

    One program computes a BM x BN tile of one Y[b], in steps of BK. Grid (B * cd(M,BM) * cd(N,BN)): tiles of one b
    follow one another, GROUP_M rows of tiles at a time; with BATCH_INNER all b of one tile do instead.
    SWAP      forms the tile as W X^T: N, not a small M, is the long side of the instruction, and the operand that is
              converted may stay in registers (wgmma)
    SCALING   where the scale of a step of K enters:
              "parts"    every step has an accumulator of its own, which is scaled and added
              "weights"  the weights are scaled and rounded to the type of X
    PREQUANT  rounds X to FP8 per row and BK columns first; the product is one of FP8, SCALING must be "parts"
    With a bias the sum is rounded to its type before the bias is added.
    Traffic: W cd(M,BM) times, X cd(N,BN) times, mostly from L2; Y once. Offsets between tiles are 64-bit, those inside
    a tile 32-bit.
    """
    tl.static_assert(128 % BK == 0)
    tl.static_assert((BK == 128 and SCALING == "parts") or not PREQUANT)
    m_blocks = tl.cdiv(M, BM)
    n_blocks = tl.cdiv(N, BN)
    k_groups = tl.cdiv(K, 128)
    n_groups = tl.cdiv(N, 128)
    pid = tl.program_id(0)
    if BATCH_INNER:
        batch = (pid % B).to(tl.int64)
        tile = pid // B
    else:
        batch = (pid // (m_blocks * n_blocks)).to(tl.int64)
        tile = pid % (m_blocks * n_blocks)
    in_group = GROUP_M * n_blocks
    group = tile // in_group
    group_rows = tl.minimum(m_blocks - group * GROUP_M, GROUP_M)
    m0 = (group * GROUP_M + tile % in_group % group_rows) * BM
    n0 = tile % in_group // group_rows * BN

    m = tl.arange(0, BM)
    n = tl.arange(0, BN)
    k = tl.arange(0, BK)
    x += (batch * M + m0) * K
    x_tile = tl.minimum(m, M - 1 - m0)[:, None] * K + k[None, :]
    if KN:
        w += batch * N * K + n0
        w_tile = k[:, None] * N + n[None, :]
        n_stride = 1
        k_stride = n_groups
    else:
        w += (batch * N + n0) * K
        w_tile = tl.minimum(n, N - 1 - n0)[:, None] * K + k[None, :]
        n_stride = k_groups
        k_stride = 1
    scale += batch * n_groups * k_groups
    if BN <= 128:
        scale += n0 // 128 * n_stride  # one scale per step: the tile lies in one group of rows
    else:
        scale += (tl.minimum(n0 + n, N - 1) // 128) * n_stride

    if SWAP:
        acc = tl.zeros([BN, BM], tl.float32)
    else:
        acc = tl.zeros([BM, BN], tl.float32)
    s_next = tl.load(scale)
    for k0 in range(0, K, BK):
        if EVEN_K:
            xs = tl.load(x + x_tile)
        else:
            xs = tl.load(x + x_tile, mask=k[None, :] < K - k0, other=0.0)
        if KN:
            if EVEN_K and EVEN_N:
                ws = tl.load(w + w_tile)
            else:
                inside = (k[:, None] < K - k0) & (n[None, :] < N - n0)
                ws = tl.load(w + w_tile, mask=inside, other=0.0)
        elif EVEN_K:
            ws = tl.load(w + w_tile)
        else:
            ws = tl.load(w + w_tile, mask=k[None, :] < K - k0, other=0.0)
        x += BK
        if KN:
            w += BK * N.to(tl.int64)
        else:
            w += BK
        s = s_next
        # Of the step after this one: no step waits for its own scale.
        s_next = tl.load(scale + tl.minimum((k0 + BK) // 128, k_groups - 1) * k_stride)

        if PREQUANT:
            wide = xs.to(tl.float32)
            amax = tl.maximum(tl.max(tl.abs(wide), axis=1), LEAST)
            xs = (wide * (FP8_MAX / amax)[:, None]).to(w.dtype.element_ty)  # |x| <= amax: no clamp is needed
            row_scale = amax * (1.0 / FP8_MAX)
        elif SCALING == "weights":
            if BN <= 128:
                ws = (ws.to(tl.float32) * s).to(x.dtype.element_ty)
            elif KN:
                ws = (ws.to(tl.float32) * s[None, :]).to(x.dtype.element_ty)
            else:
                ws = (ws.to(tl.float32) * s[:, None]).to(x.dtype.element_ty)
        else:
            ws = ws.to(x.dtype.element_ty)

        if SWAP:
            a = tl.trans(ws) if KN else ws
            b = tl.trans(xs)
        else:
            a = xs
            b = ws if KN else tl.trans(ws)
        if SCALING == "weights":
            acc = tl.dot(a, b, acc)
        else:
            part = tl.dot(a, b)
            if PREQUANT:
                part *= row_scale[None, :] if SWAP else row_scale[:, None]
            if BN <= 128:
                acc += part * s
            elif SWAP:
                acc += part * s[:, None]
            else:
                acc += part * s[None, :]

    if SWAP:
        acc = tl.trans(acc)
    kind: tl.constexpr = y.dtype.element_ty
    out = acc.to(kind)
    if BIAS:
        added = tl.load(bias + batch * N + n0 + n, mask=n < N - n0, other=0.0)
        out = (out.to(tl.float32) + added.to(tl.float32)[None, :]).to(kind)
    y += (batch * M + m0) * N + n0
    tl.store(y + m[:, None] * N + n[None, :], out, mask=(m < M - m0)[:, None] & (n < N - n0)[None, :])

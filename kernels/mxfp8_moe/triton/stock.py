"""stock_triton_moe: the fused MoE GEMM as a framework's Triton path has it, with one tile for all sizes."""

import triton
import triton.language as tl

from .tiles import block_rows


@triton.jit(do_not_specialize=["numel", "length", "N", "a_div"])
def stock_moe_kernel(
    x, x_scale, w, w_scale, sorted_ids, expert_ids, padded, weights, y, numel, length, N, K, a_div,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, WEIGHTED: tl.constexpr,
):  # fmt: skip
    """Y[slot, n] = sum_k X[slot // a_div, k] W[expert of slot, n, k], times weights[slot] when WEIGHTED.

    Operands as in `grouped.grouped_moe_kernel`, scales as bytes, but K a multiple of BK. One program computes
    BM rows by BN columns with tl.dot_scaled, rows of X as the first operand: grid (blocks * cd(N, BN)), columns of one
    block next to each other.

    Traffic: the weights of a hit expert once per block of its rows, rows of X cd(N, BN) times (from L2), Y once.
    """
    columns = tl.cdiv(N, BN)
    block = tl.program_id(0) // columns
    if block * BM >= tl.load(padded):
        return
    slots, live, rows = block_rows(sorted_ids, numel, length, a_div, block * BM, BM)
    n = tl.program_id(0) % columns * BN + tl.arange(0, BN)
    out = y + slots.to(tl.int64)[:, None] * N + n[None, :]
    mask = live[:, None] & (n < N)[None, :]
    expert = tl.load(expert_ids + block).to(tl.int64)
    if expert < 0:
        tl.store(out, tl.zeros([BM, BN], y.dtype.element_ty), mask=mask)
        return
    groups = K // 32
    column = expert * N + n % N
    k = tl.arange(0, BK)
    group = tl.arange(0, BK // 32)
    x_tile = x + rows.to(tl.int64)[:, None] * K + k[None, :]
    x_scales = x_scale + rows.to(tl.int64)[:, None] * groups + group[None, :]
    w_tile = w + column[None, :] * K + k[:, None]
    w_scales = w_scale + column[:, None] * groups + group[None, :]
    acc = tl.zeros([BM, BN], tl.float32)
    for k0 in range(0, K, BK):
        a = tl.load(x_tile + k0, mask=live[:, None], other=0).to(tl.float8e4nv, bitcast=True)
        b = tl.load(w_tile + k0).to(tl.float8e4nv, bitcast=True)
        a_scale = tl.load(x_scales + k0 // 32)
        b_scale = tl.load(w_scales + k0 // 32)
        acc = tl.dot_scaled(a, a_scale, "e4m3", b, b_scale, "e4m3", acc)
    if WEIGHTED:
        acc *= tl.load(weights + slots, mask=live, other=0.0)[:, None]
    tl.store(out, acc.to(y.dtype.element_ty), mask=mask)

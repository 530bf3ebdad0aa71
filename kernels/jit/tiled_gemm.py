"""stock_triton: the plain tiled GEMM that every Triton user starts from, on weights that are already dense."""

# Triton types its kernels itself.
# mypy: disable-error-code="no-untyped-def,untyped-decorator"

import torch
import triton
import triton.language as tl

from ..geometry import Tiling, padded
from ..provider import Config
from .call import KernelCall
from .tiles import compiler_options

GROUP_M = 8
"""Rows of tiles that share columns of W while those are in L2."""


@triton.jit
def tiled_gemm_kernel(
    x, w, bias, y, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr,
    BIAS: tl.constexpr,
):  # fmt: skip
    """Y[M,N] = X[M,K] W[N,K]^T + bias, all row-major and of one type (bf16, fp16 or fp32), fp32 accumulation.

    One program computes a BM x BN tile of Y in steps of BK; programs are numbered so that GROUP_M tile rows share
    columns of W while they are in L2. Grid (cd(M, BM) * cd(N, BN)). fp32 is multiplied as fp32 ("ieee"), not TF32.
    Traffic: X cd(N, BN) times and W cd(M, BM) times, mostly from L2; Y once.
    """
    m_blocks = tl.cdiv(M, BM)
    n_blocks = tl.cdiv(N, BN)
    tile = tl.program_id(0)
    group = tile // (GROUP_M * n_blocks)
    group_rows = tl.minimum(m_blocks - group * GROUP_M, GROUP_M)
    m0 = (group * GROUP_M + tile % (GROUP_M * n_blocks) % group_rows) * BM
    n0 = tile % (GROUP_M * n_blocks) // group_rows * BN
    m = m0 + tl.arange(0, BM)
    n = n0 + tl.arange(0, BN)
    k = tl.arange(0, BK)
    x_row = x + (m % M)[:, None].to(tl.int64) * K + k[None, :]
    w_row = w + (n % N)[None, :].to(tl.int64) * K + k[:, None]
    acc = tl.zeros([BM, BN], tl.float32)
    for k0 in range(0, K, BK):
        a = tl.load(x_row + k0, mask=k[None, :] < K - k0, other=0.0)
        b = tl.load(w_row + k0, mask=k[:, None] < K - k0, other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    if BIAS:
        acc += tl.load(bias + n, mask=n < N, other=0.0).to(tl.float32)[None, :]
    mask = (m < M)[:, None] & (n < N)[None, :]
    tl.store(y + m[:, None].to(tl.int64) * N + n[None, :], acc.to(y.dtype.element_ty), mask=mask)


def tiled_gemm_call(
    x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None, y: torch.Tensor, config: Config
) -> KernelCall:
    """y[M,N] = x[M,K] w[N,K]^T + bias."""
    (m, k), n = x.shape, w.shape[0]
    tiles = -(-m // config["BLOCK_M"]) * -(-n // config["BLOCK_N"])
    constants = {
        "BM": config["BLOCK_M"], "BN": config["BLOCK_N"], "BK": config["BLOCK_K"], "GROUP_M": GROUP_M,
        "BIAS": bias is not None,
    }  # fmt: skip
    arguments = {"x": x, "w": w, "bias": bias, "y": y, "M": m, "N": n, "K": k}
    tiling = Tiling(config["BLOCK_M"], config["BLOCK_N"], tiles * padded(k, config["BLOCK_K"]), config["BLOCK_K"])
    return KernelCall(tiled_gemm_kernel, (tiles, 1, 1), arguments, constants, compiler_options(config), tiling)

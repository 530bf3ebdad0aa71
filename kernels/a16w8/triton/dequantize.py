"""Dequantization of block-scaled FP8 weights to 16 bits, for the baseline that multiplies dense weights."""

import torch
import triton
import triton.language as tl

from ...jit.call import KernelCall
from ..inputs import A16W8Inputs

BLOCK_N = 32
"""Rows of a program's tile; it has 128 columns, so that one scale is enough."""


@triton.jit
def dequantize_a16w8_kernel(q, scale, out, N, K, BN: tl.constexpr):
    """out[B,N,K] = q * scale in fp32, rounded once to the type of `out` (bf16 or fp16).

    q FP8 [B,N,K], scale fp32 [B, cd(N,128), cd(K,128)]. BN divides 128. One program: BN rows of 128 columns.
    Grid (B * cd(N,BN) * cd(K,128)). Traffic: reads 1 byte, writes 2 bytes per element; scales.
    """
    n_blocks = tl.cdiv(N, BN)
    k_groups = tl.cdiv(K, 128)
    pid = tl.program_id(0)
    batch = (pid // (n_blocks * k_groups)).to(tl.int64)
    tile = pid % (n_blocks * k_groups)
    n0 = tile // k_groups * BN
    k_group = tile % k_groups
    n = tl.arange(0, BN)[:, None]
    k = tl.arange(0, 128)[None, :]
    s = tl.load(scale + (batch * tl.cdiv(N, 128) + n0 // 128) * k_groups + k_group)
    start = (batch * N + n0) * K + k_group * 128
    inside = (n < N - n0) & (k < K - k_group * 128)
    values = tl.load(q + start + n * K + k, mask=inside, other=0.0).to(tl.float32) * s
    tl.store(out + start + n * K + k, values.to(out.dtype.element_ty), mask=inside)


def dequantize_call(inputs: A16W8Inputs, out: torch.Tensor) -> KernelCall:
    """Write the dequantized weights to `out` [B,N,K], contiguous, in the type of the activations."""
    problem = inputs.problem
    grid = (problem.B * -(-problem.N // BLOCK_N) * -(-problem.K // 128), 1, 1)
    arguments = {"q": inputs.q, "scale": inputs.scale, "out": out, "N": problem.N, "K": problem.K}
    return KernelCall(dequantize_a16w8_kernel, grid, arguments, {"BN": BLOCK_N}, {"num_warps": 4})

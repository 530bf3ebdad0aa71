"""MX-FP8 to bf16 in one pass: the dequantizer of the baselines that multiply with a BLAS."""

import torch
import triton
import triton.language as tl

from ...jit.call import KernelCall
from ..triton_configs import traits
from .tiles import decode, scale_value

GROUPS = 128
"""Scales per program: 4 KiB of payload."""

OPTIONS = {"num_warps": 4, "num_stages": 1}


@triton.jit(do_not_specialize=["groups"])
def dequantize_moe_kernel(payload, scales, out, groups, GROUPS: tl.constexpr, DECODE: tl.constexpr):
    """out[i] = payload[i] * scale of its 32 elements, rounded once to bf16.

    payload  bytes of e4m3fn; scales  bytes of e8m0; out  bf16 [groups, 32]
    groups   scales; grid cd(groups, GROUPS)

    Traffic: 1 + 1/32 bytes read and 2 written per element.
    """
    start = tl.program_id(0).to(tl.int64) * GROUPS
    group = tl.arange(0, GROUPS)
    here = group < groups - start
    scale = tl.load(scales + start + group, mask=here, other=0)
    element = group[:, None] * 32 + tl.arange(0, 32)[None, :]
    value = tl.load(payload + start * 32 + element, mask=here[:, None], other=0)
    product = decode(value, DECODE).to(tl.float32) * scale_value(scale)[:, None]
    tl.store(out + start * 32 + element, product.to(tl.bfloat16), mask=here[:, None])


def dequantize_call(payload: torch.Tensor, scales: torch.Tensor, out: torch.Tensor, arch: str) -> KernelCall:
    """Write out [..., K] (bf16, contiguous) from payload [..., K] and scales [..., K/32]."""
    groups = scales.numel()
    arguments = {"payload": payload.view(torch.uint8), "scales": scales, "out": out, "groups": groups}
    constants = {"GROUPS": GROUPS, "DECODE": traits(arch).decode}
    grid = (-(-groups // GROUPS), 1, 1)
    return KernelCall(dequantize_moe_kernel, grid, arguments, constants, OPTIONS, decoded=GROUPS * 32)

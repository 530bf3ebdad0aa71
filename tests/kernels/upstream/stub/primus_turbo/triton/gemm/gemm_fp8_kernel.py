"""Blockwise FP8 GEMM in three layouts."""

import torch

CALLS = []
"""(trans_a, trans_b, trans_c) of every call."""


def _expand(scale, shape):
    for axis in (0, 1):
        if scale.shape[axis] != shape[axis]:
            assert scale.shape[axis] == -(-shape[axis] // 128)
            scale = scale.repeat_interleave(128, axis).narrow(axis, 0, shape[axis])
    return scale


def gemm_fp8_blockwise_triton_kernel(
    a, a_scale_inv, b, b_scale_inv, trans_a=False, trans_b=True, out_dtype=torch.bfloat16, trans_c=False
):
    CALLS.append((trans_a, trans_b, trans_c))
    wide_a = a.double() * _expand(a_scale_inv, a.shape)
    wide_b = b.double() * _expand(b_scale_inv, b.shape)
    result = (wide_a.t() if trans_a else wide_a) @ (wide_b.t() if trans_b else wide_b)
    return (result.t() if trans_c else result).to(out_dtype).contiguous()

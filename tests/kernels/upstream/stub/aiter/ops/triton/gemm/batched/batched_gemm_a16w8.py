"""Batched A16W8 GEMM with block scales."""

import torch

SEEN = []
"""Shapes of the weights at every call."""


def batched_gemm_a16w8(x, w, w_scale, bias=None, dtype=torch.bfloat16, y=None, config=None, prequant=False):
    batch, columns, depth = w.shape
    SEEN.append((tuple(w.shape), prequant))
    assert w_scale.shape == (batch, -(-columns // 128), -(-depth // 128))
    scale = w_scale.repeat_interleave(128, 1)[:, :columns].repeat_interleave(128, 2)[:, :, :depth]
    result = x.double() @ (w.double() * scale.double()).transpose(1, 2)
    if bias is not None:
        assert bias.shape == (batch, columns)
        result += bias.double().unsqueeze(1)
    out = y if y is not None else torch.empty(result.shape, dtype=dtype, device=x.device)
    return out.copy_(result)

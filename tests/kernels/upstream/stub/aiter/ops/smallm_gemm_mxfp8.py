"""Small-M MX-FP8 GEMM: which kernel is chosen, None for what is left to others, and errors that are swallowed."""

import torch

LEFT_TO_OTHERS = 48
"""Number of columns that stands for a shape which the wrapper leaves to Triton."""
BROKEN = 96
"""Number of columns at which both kernels raise."""
HALF_BROKEN = 160
"""Number of columns at which only the kernel on the matrix units raises."""


def _wide(payload, scale):
    values = payload.view(torch.float8_e4m3fn).double().unflatten(-1, (-1, 32))
    return torch.ldexp(values, scale.int().unsqueeze(-1) - 127).flatten(-2)


def _product(Xq, Xs, Wq, Ws, out_dtype):
    return (_wide(Xq, Xs) @ _wide(Wq, Ws).t()).to(out_dtype)


def smallm_mxfp8_gemv(Xq, Xs, Wq, Ws, out_dtype, block_n):
    if Wq.shape[0] == BROKEN:
        raise RuntimeError("gemv: no kernel image\nfor this device")
    return _product(Xq, Xs, Wq, Ws, out_dtype)


def smallm_mxfp8_mfma(Xq, Xs, Wq, Ws, out_dtype, n_sub, k_splits):
    if Wq.shape[0] in (BROKEN, HALF_BROKEN):
        raise RuntimeError("mfma: k_splits does not divide K")
    return _product(Xq, Xs, Wq, Ws, out_dtype)


def smallm_mxfp8_moe_grouped_gemm(
    a_q, a_scale, w, w_scale, sorted_token_ids, expert_ids, num_tokens_post_padded, out,
    E, N, K, num_valid_tokens, M_act, a_div, block_m, mul_weight_by,
):  # fmt: skip
    if N == BROKEN:
        raise RuntimeError("moe: no kernel image")
    for place in range(int(num_tokens_post_padded)):
        slot, expert = int(sorted_token_ids[place]), int(expert_ids[place // block_m])
        if slot < num_valid_tokens:
            row = slice(slot // a_div, slot // a_div + 1)
            product = _wide(a_q[row], a_scale[row]) @ _wide(w[expert], w_scale[expert]).t()
            out[slot] = (product * (1 if mul_weight_by is None else mul_weight_by[slot].double()))[0]
    return out


def grouped_gemm_mxfp8(
    a_q, a_scale, w, w_scale, sorted_token_ids, expert_ids, num_tokens_post_padded, num_valid_tokens, top_k, block_m,
    out_dtype, a_div, mul_weight_by=None, topk_ids=None,
):  # fmt: skip
    experts, columns, depth = w.shape
    if columns == LEFT_TO_OTHERS:
        return None
    out = torch.zeros(num_valid_tokens, columns, dtype=out_dtype)
    octets = a_q.view(torch.uint8), a_scale, w.view(torch.uint8), w_scale
    try:
        return smallm_mxfp8_moe_grouped_gemm(
            *octets, sorted_token_ids, expert_ids, num_tokens_post_padded, out, experts, columns, depth,
            num_valid_tokens, a_q.shape[0], a_div, block_m, mul_weight_by,
        )  # fmt: skip
    except Exception:
        return None


def mxfp8_gemv(xq, x_scale, wq, w_scale, out_dtype=torch.bfloat16):
    rows, columns = xq.shape[0], wq.shape[0]
    octets = xq.view(torch.uint8), x_scale, wq.view(torch.uint8), w_scale
    if columns == LEFT_TO_OTHERS:
        return None
    if rows in (8, 16, 32, 64):
        try:
            return smallm_mxfp8_mfma(*octets, out_dtype, 1, 2)
        except Exception:
            pass
    if rows > 16:
        return None
    try:
        return smallm_mxfp8_gemv(*octets, out_dtype, 8)
    except Exception:
        return None

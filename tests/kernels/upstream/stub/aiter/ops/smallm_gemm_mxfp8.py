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

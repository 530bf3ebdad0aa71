"""How much of an output is farther from what is expected than aiter's tuners tolerate."""

import torch

TOLERANCE = 1e-2
"""Relative and absolute, of `error_ratio`: that of aiter's errRatio."""

_CHUNK = 1 << 27
"""Elements compared at a time: a GiB in fp64."""


def error_ratio(output: torch.Tensor, truth: torch.Tensor) -> float:
    """Share of the elements of `output` that are farther than atol + rtol |expected| from what is expected.

    Expected is `truth` (fp64, same shape) rounded to the type of the output. That is in effect what aiter's tuners
    compare with: a product of exactly dequantized operands in fp32, cast to bf16 (its gemm_a8w8_tune.py and
    gemm_a4w4_blockscale_tune.py). A product whose weights stay exact has 0. One whose weights are rounded to the
    activation type before they are multiplied is as correct, but where a sum nearly cancels its error is a large part
    of the little that remains: 0.08 to 0.10 in bf16 and up to 0.006 in fp16 (nf4-g64, K from 512 to 11008).
    """
    close = 0
    for part, exact in zip(output.reshape(-1).split(_CHUNK), truth.reshape(-1).split(_CHUNK), strict=True):
        expected = exact.to(output.device, output.dtype).double()
        close += int(torch.isclose(part.double(), expected, rtol=TOLERANCE, atol=TOLERANCE).sum())
    numel: int = output.numel()
    return 1.0 - close / numel

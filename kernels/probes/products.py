"""The GEMM whose best rate is the peak of a type: the vendor's, on random normal data."""

from collections.abc import Callable
from functools import partial

import torch

from ...shapes.device import Device
from ...shapes.scheme import DType
from ..fp8 import e4m3
from ..inputs import TORCH_DTYPES

MEASURED = (*(dtype.value for dtype in DType), "fp8")
"""Types that there is a product for; of others only published peaks are known."""


def product(device: Device, math_dtype: str, m: int, n: int, k: int) -> tuple[Callable[[], object], str]:
    """Return a call that multiplies [m,k] by [k,n], and the words for it.

    fp8 is the device's E4M3 with one scale per operand, out in bf16. Raises what torch raises for what a device lacks.
    """
    a, b = (torch.randn(rows, k, device=device.torch_name) for rows in (m, n))
    if math_dtype != "fp8":
        dtype = TORCH_DTYPES[DType(math_dtype)]
        a, b = a.to(dtype), b.to(dtype)
        return partial(torch.mm, a, b.t(), out=torch.empty(m, n, dtype=dtype, device=a.device)), "torch.mm"
    one = torch.ones((), device=a.device)
    a, b = (operand.to(e4m3(device)) for operand in (a, b))
    out = torch.empty(m, n, dtype=torch.bfloat16, device=a.device)
    return partial(torch._scaled_mm, a, b.t(), one, one, out_dtype=torch.bfloat16, out=out), "torch._scaled_mm"

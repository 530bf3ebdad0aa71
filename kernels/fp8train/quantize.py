"""How operands of this family are grouped and quantized: what "to the bit" means for all quantizers (`..quantized`)."""

import torch

from ...shapes.device import Device
from ...shapes.schemes.fp8train import BLOCK
from .. import quantized
from ..fp8 import e4m3, e5m2
from ..quantized import Quantized

AMAX_FLOOR = 1e-4
"""Least amax of a group: it bounds the scales of groups that are zero."""

GROUPS = {"row": (1, BLOCK), "col": (BLOCK, 1), "weight": (BLOCK, BLOCK)}
"""Rows and columns that share a scale."""


def fp8_dtype(device: Device, gradient: bool = False) -> torch.dtype:
    """Return the FP8 type that the matrix units of a device take: e4m3, or e5m2 for a `gradient`."""
    return e5m2(device) if gradient else e4m3(device)


def quantize(x: torch.Tensor, kind: str, dtype: torch.dtype) -> Quantized:
    """Quantize x[R,C] of any floating type to FP8 `dtype`; `kind` is "row", "col" or "weight"."""
    return quantized.quantize(x, *GROUPS[kind], dtype, AMAX_FLOOR)

"""Calls of the quantizers: which kernel makes which layout, and the memory that it writes."""

import struct
from typing import Any

import torch

from ...shapes.device import Device
from ...shapes.schemes.torchao import BLOCK, blocks
from ..jit.call import KernelCall
from ..jit.quantizing import newton
from ..provider import Config
from .quantize import SMALLEST_AMAX
from .triton.quantize import dequantize_kernel, quantize_blocks_kernel, quantize_columns_kernel, quantize_rows_kernel
from .triton_configs import quantize_configs

LAYOUTS = {
    "act-lhs": ("rows", False),
    "act-rhs": ("columns", False),
    "act-transposed-lhs": ("columns", False),
    "weight-rhs": ("blocks", True),
    "weight-transposed-rhs": ("blocks", False),
}
"""kind -> kernel, and whether the block kernel transposes. act-rhs and act-transposed-lhs are the same bytes."""


def quantize_call(x: torch.Tensor, kind: str, data: torch.Tensor, scale: torch.Tensor, config: Config) -> KernelCall:
    """Quantize x[M,K] (or [E,M,K] for the two weight kinds) into `data` and `scale`, contiguous in whatever order."""
    name, transpose = LAYOUTS[kind]
    m, k = x.shape[-2:]
    block = int(config["BLOCK"])
    limit = torch.finfo(data.dtype).max
    constants: dict[str, Any] = {"FP8_MAX": limit, "CEILING": _float32(limit / SMALLEST_AMAX)}
    constants |= {"VECTOR": config.get("VECTOR", 0), "NEWTON": newton(x, config.get("NEWTON", 0))}
    if name == "rows":
        kernel, programs = quantize_rows_kernel, -(-m // block) * blocks(k)
        constants |= {"BM": block, "WHOLE": m % block == 0 and k % BLOCK == 0}
    elif name == "columns":
        kernel, programs = quantize_columns_kernel, blocks(m) * -(-k // block)
        constants |= {"BK": block, "WHOLE": m % BLOCK == 0 and k % block == 0}
    else:
        kernel, programs = quantize_blocks_kernel, blocks(m) * blocks(k)
        constants |= {"TRANSPOSE": transpose, "WHOLE": m % BLOCK == 0 and k % BLOCK == 0}
    arguments = {"x": x, "q": data, "scale": scale, "M": m, "K": k}
    experts = x.shape[0] if x.dim() == 3 else 1
    return KernelCall(kernel, (programs, experts, 1), arguments, constants, {"num_warps": int(config["num_warps"])})


def cast(x: torch.Tensor, kind: str, fp8: torch.dtype, device: Device) -> tuple[torch.Tensor, torch.Tensor, KernelCall]:
    """Allocate data and scales of the quantizer `kind`, in the order of memory, and the call that fills them.

    act-lhs [M,K], [cd(K),M]; act-rhs and act-transposed-lhs [K,M], [cd(M),K];
    weight-rhs [E,K,M], [E,cd(K),cd(M)]; weight-transposed-rhs [E,M,K], [E,cd(M),cd(K)]; cd(n) = ceil(n / 128).
    """
    name, transpose = LAYOUTS[kind]
    m, k = x.shape[-2:]
    if name == "rows":
        data_shape, scale_shape = (m, k), (blocks(k), m)
    elif name == "columns":
        data_shape, scale_shape = (k, m), (blocks(m), k)
    else:
        data_shape, scale_shape = ((k, m), (blocks(k), blocks(m))) if transpose else ((m, k), (blocks(m), blocks(k)))
    leading = tuple(x.shape[:-2])
    data = torch.empty(leading + data_shape, dtype=fp8, device=x.device)
    scale = torch.empty(leading + scale_shape, dtype=torch.float32, device=x.device)
    return data, scale, quantize_call(x, kind, data, scale, quantize_configs(name, m, k, device)[0])


def dequantize_call(data: torch.Tensor, scale: torch.Tensor, group_rows: int, out: torch.Tensor) -> KernelCall:
    """Write data [R,C] (or [E,R,C]) times its scales into `out`, of the same shape.

    Groups are 128 columns wide; `scale` is [cd(C),R] for group_rows = 1 and [(E,)cd(R),cd(C)] for 128.
    """
    r, c = data.shape[-2:]
    tile = 64
    steps = (1, r) if group_rows == 1 else (blocks(c), 1)
    arguments = {"q": data, "scale": scale, "out": out, "R": r, "C": c, "row_step": steps[0], "column_step": steps[1]}
    constants = {"GROUP_R": group_rows, "BR": tile, "WHOLE": r % tile == 0 and c % BLOCK == 0}
    experts = data.shape[0] if data.dim() == 3 else 1
    return KernelCall(
        dequantize_kernel, (-(-r // tile) * blocks(c), experts, 1), arguments, constants, {"num_warps": 4}
    )


def _float32(value: float) -> float:
    """Round to the nearest fp32."""
    rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    return rounded

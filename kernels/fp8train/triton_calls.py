"""Kernel calls of the family: quantizers, their inverse, the transposition, and GEMMs with their operands' strides."""

from dataclasses import replace
from typing import Any

import torch

from ...shapes.device import Device
from ...shapes.problem import Pass
from ...shapes.schemes.fp8train import BLOCK, cd
from ..geometry import Tiling, padded
from ..jit.call import KernelCall
from ..jit.quantizing import newton
from ..quantized import Quantized, ScaledOperand
from .triton.dequantize import dequantize_kernel
from .triton.quantize import quantize_kernel, quantize_weight_kernel, transpose_kernel
from .triton.shared import shared_gemm_kernel
from .triton.specialised import nn_gemm_kernel, nt_gemm_kernel, tn_gemm_kernel
from .triton_configs import TRANSPOSE, Tile, layout_of

KERNELS = {"nt": nt_gemm_kernel, "nn": nn_gemm_kernel, "tn": tn_gemm_kernel}


def specialised_call(
    product: Pass, a: ScaledOperand, b: ScaledOperand, out: torch.Tensor, tile: Tile, device: Device, *, k_major: bool
) -> KernelCall:
    """Compute one product with the kernel of its layout.

    fwd    a X[M,K], b W[N,K], out Y[M,N]
    dgrad  a dY[M,N], b W[N,K] (W^T[K,N] when k_major), out dX[M,K]
    wgrad  a X[M,K], b dY[M,N], out dW[N,K], or when k_major a dY^T[N,M], b X^T[K,M]
    """
    layout, options = layout_of(product, k_major), dict(tile)
    rows, columns, depth = _sizes(a, out, turned=layout == "tn")
    constants = _tile_constants(product, options, device)
    block_m, block_n, block_k = constants["BM"], constants["BN"], constants["BK"]
    constants |= {"EVEN_D": depth % block_k == 0, "EVEN_R": rows % block_m == 0, "EVEN_C": columns % block_n == 0}
    arguments = {
        "a": a.data, "b": b.data, "c": out, "a_scale": a.scale, "b_scale": b.scale, "R": rows, "C": columns, "D": depth,
        **_scale_strides(a, b),
    }  # fmt: skip
    tiles = cd(rows, block_m) * cd(columns, block_n)
    tiling = Tiling(block_m, block_n, tiles * padded(depth, block_k), block_k)
    return KernelCall(
        KERNELS[layout], (tiles, 1, 1), arguments, constants, options, _stored(tiling, turned=layout == "tn")
    )


def shared_call(
    product: Pass, a: ScaledOperand, b: ScaledOperand, out: torch.Tensor, tile: Tile, device: Device, *, k_major: bool
) -> KernelCall:
    """Compute one product with the kernel that all layouts share; operands as in `specialised_call`."""
    layout, options = layout_of(product, k_major), dict(tile)
    turned = layout == "tn"
    rows, columns, depth = _sizes(a, out, turned=turned)
    strides = {
        "nt": (depth, 1, depth, 1, columns, 1),
        "nn": (depth, 1, 1, columns, columns, 1),
        "tn": (1, rows, 1, columns, 1, rows),
    }[layout]
    constants = _tile_constants(product, options, device)
    arguments = {
        "a": a.data, "b": b.data, "c": out, "a_scale": a.scale, "b_scale": b.scale, "R": rows, "C": columns, "D": depth,
        **dict(zip(("a_r", "a_d", "b_c", "b_d", "c_r", "c_c"), strides, strict=True)),
        **_scale_strides(a, b),
    }  # fmt: skip
    programs = cd(rows, constants["BM"]) * cd(columns, constants["BN"])
    tiling = Tiling(constants["BM"], constants["BN"], programs * padded(depth, constants["BK"]), constants["BK"])
    tiling = _stored(tiling, turned=turned)
    return KernelCall(shared_gemm_kernel, (programs, 1, 1), arguments, constants, options, tiling)


def _stored(tiling: Tiling, *, turned: bool) -> Tiling:
    """Return the tile as it lies in the output, which some kernels store transposed."""
    return replace(tiling, tile_M=tiling.tile_N, tile_N=tiling.tile_M) if turned else tiling


def _scale_strides(a: ScaledOperand, b: ScaledOperand) -> dict[str, int]:
    return {
        "a_scale_r": a.scale_line,
        "a_scale_d": a.scale_depth,
        "b_scale_c": b.scale_line,
        "b_scale_d": b.scale_depth,
    }


def _sizes(a: ScaledOperand, out: torch.Tensor, *, turned: bool) -> tuple[int, int, int]:
    """Rows, columns and depth of a product, whose output is stored transposed when `turned`."""
    if turned:
        depth, rows = a.data.shape
        return rows, out.shape[0], depth
    rows, depth = a.data.shape
    return rows, out.shape[1], depth


def _tile_constants(product: Pass, options: dict[str, int], device: Device) -> dict[str, Any]:
    """Take the tile out of the `options`: constants that the kernels share."""
    block_m, block_n, block_k = (options.pop(name) for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K"))
    if block_k != BLOCK or BLOCK % block_n:
        raise ValueError(
            f"BLOCK_K={block_k}, BLOCK_N={block_n}: scales need BLOCK_K = {BLOCK} and BLOCK_N a divisor of it"
        )
    return {
        "BM": block_m,
        "BN": block_n,
        "BK": block_k,
        "GROUP_M": options.pop("GROUP_M"),
        "XCDS": device.chiplets,
        "CHUNK": options.pop("CHUNK", 0),
        "SCALE_2D_B": product is not Pass.WGRAD,
    }


def quantize_call(
    x: torch.Tensor,
    row: Quantized | None,
    col: Quantized | None,
    config: dict[str, int],
    *,
    k_major: bool = False,
    scales_first: bool = False,
) -> KernelCall:
    """Quantize x[R,C] by rows, by columns, or both at once.

    row  data [R,C]; scale [R, cd(C,128)], or [cd(C,128), R] when `scales_first`
    col  data [R,C], or [C,R] when `k_major`; scale [cd(R,128), C]
    """
    rows, columns = x.shape
    blocks = cd(columns, BLOCK)
    options = dict(config)
    tile_rows, tile_columns = options.pop("ROWS"), options.pop("COLUMNS")
    arguments = {
        "x": x,
        "row_data": row.data if row else None,
        "row_scale": row.scale if row else None,
        "col_data": col.data if col else None,
        "col_scale": col.scale if col else None,
        "R": rows,
        "C": columns,
        "row_scale_r": 1 if scales_first else blocks,
        "row_scale_c": rows if scales_first else 1,
        "col_data_r": 1 if k_major else columns,
        "col_data_c": rows if k_major else 1,
    }
    constants = {
        "ROWS": tile_rows,
        "COLUMNS": tile_columns,
        "TRANSPOSED": k_major,
        "EVEN": rows % tile_rows == 0 and columns % tile_columns == 0,
        "ROW_MAX": largest(row),
        "COL_MAX": largest(col),
        "VECTOR": options.pop("VECTOR", 0),
        "NEWTON": newton(x, options.pop("NEWTON", 0)),
    }
    programs = cd(rows, tile_rows) * cd(columns, tile_columns)
    return KernelCall(quantize_kernel, (programs, 1, 1), arguments, constants, options)


def weight_call(
    w: torch.Tensor,
    q: Quantized,
    transposed: torch.Tensor | None,
    config: dict[str, int],
    turned_scale: torch.Tensor | None = None,
) -> KernelCall:
    """Quantize w[R,C] in blocks of 128 x 128; rows of scales may be longer than there are blocks.

    Unless they are None, `transposed` [C,R] gets the same data, `turned_scale` [cd(C,128), cd(R,128)] the same scales.
    """
    rows, columns = w.shape
    options = dict(config)
    arguments = {
        "w": w,
        "data": q.data,
        "scale": q.scale,
        "transposed": transposed,
        "turned_scale": turned_scale,
        "R": rows,
        "C": columns,
        "scale_r": q.scale.stride(0),
        "turned_r": 0 if turned_scale is None else turned_scale.stride(0),
    }
    constants = {
        "BOTH": transposed is not None,
        "EVEN": rows % BLOCK == 0 and columns % BLOCK == 0,
        "LARGEST": largest(q),
        "VECTOR": options.pop("VECTOR", 0),
        "NEWTON": newton(w, options.pop("NEWTON", 0)),
    }
    programs = cd(rows, BLOCK) * cd(columns, BLOCK)
    return KernelCall(quantize_weight_kernel, (programs, 1, 1), arguments, constants, options)


def transpose_call(source: torch.Tensor, target: torch.Tensor) -> KernelCall:
    """target[C,R] = source[R,C]^T."""
    rows, columns = source.shape
    options = dict(TRANSPOSE)
    constants = {"ROWS": options.pop("ROWS"), "COLUMNS": options.pop("COLUMNS")}
    programs = cd(rows, constants["ROWS"]) * cd(columns, constants["COLUMNS"])
    arguments = {"source": source, "target": target, "R": rows, "C": columns}
    return KernelCall(transpose_kernel, (programs, 1, 1), arguments, constants, options)


def dequantize_call(q: Quantized, out: torch.Tensor) -> KernelCall:
    """out[R,C] = data * scale."""
    rows, columns = q.data.shape
    tile_rows, tile_columns = 32, 128
    arguments = {"data": q.data, "scale": q.scale, "out": out, "R": rows, "C": columns, "scale_r": q.scale.shape[1]}
    constants = {
        "ROWS": tile_rows,
        "COLUMNS": tile_columns,
        "GROUP_R": q.rows,
        "GROUP_C": q.columns,
    }
    programs = cd(rows, tile_rows) * cd(columns, tile_columns)
    return KernelCall(dequantize_kernel, (programs, 1, 1), arguments, constants, {"num_warps": 4})


def largest(q: Quantized | None) -> float:
    """Largest value of the FP8 type; 0 for what is absent."""
    return torch.finfo(q.data.dtype).max if q else 0.0

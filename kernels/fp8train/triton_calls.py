"""Calls of the quantizers, of their inverse, and of the transposition."""

import torch

from ...shapes.schemes.fp8train import BLOCK, cd
from ..jit.call import Call
from ..jit.quantizing import newton
from .quantize import Quantized
from .triton.dequantize import dequantize_kernel
from .triton.quantize import quantize_kernel, quantize_weight_kernel, transpose_kernel
from .triton_configs import TRANSPOSE


def quantize_call(
    x: torch.Tensor,
    row: Quantized | None,
    col: Quantized | None,
    config: dict[str, int],
    *,
    k_major: bool = False,
    scales_first: bool = False,
) -> Call:
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
    return Call(quantize_kernel, (programs, 1, 1), arguments, constants, options)


def weight_call(
    w: torch.Tensor,
    q: Quantized,
    transposed: torch.Tensor | None,
    config: dict[str, int],
    turned_scale: torch.Tensor | None = None,
) -> Call:
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
    return Call(quantize_weight_kernel, (programs, 1, 1), arguments, constants, options)


def transpose_call(source: torch.Tensor, target: torch.Tensor) -> Call:
    """target[C,R] = source[R,C]^T."""
    rows, columns = source.shape
    options = dict(TRANSPOSE)
    constants = {"ROWS": options.pop("ROWS"), "COLUMNS": options.pop("COLUMNS")}
    programs = cd(rows, constants["ROWS"]) * cd(columns, constants["COLUMNS"])
    arguments = {"source": source, "target": target, "R": rows, "C": columns}
    return Call(transpose_kernel, (programs, 1, 1), arguments, constants, options)


def dequantize_call(q: Quantized, out: torch.Tensor) -> Call:
    """out[R,C] = data * scale."""
    rows, columns = q.data.shape
    tile_rows, tile_columns = 32, 128
    arguments = {"data": q.data, "scale": q.scale, "out": out, "R": rows, "C": columns, "scale_r": q.scale.shape[1]}
    constants = {
        "ROWS": tile_rows,
        "COLUMNS": tile_columns,
        "GROUP_R": 1 if q.kind == "row" else BLOCK,
        "GROUP_C": 1 if q.kind == "col" else BLOCK,
    }
    programs = cd(rows, tile_rows) * cd(columns, tile_columns)
    return Call(dequantize_kernel, (programs, 1, 1), arguments, constants, {"num_warps": 4})


def largest(q: Quantized | None) -> float:
    """Largest value of the FP8 type; 0 for what is absent."""
    return torch.finfo(q.data.dtype).max if q else 0.0

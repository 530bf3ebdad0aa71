"""Calls of the GEMM kernels: which tensor is which operand of which layout, with its strides."""

from dataclasses import dataclass, replace

import torch

from ...shapes.device import Device
from ...shapes.gpu_architectures import architecture
from ...shapes.problem import Pass
from ...shapes.schemes.fp8train import BLOCK, cd
from ..geometry import Tiling, padded
from ..jit.call import Call
from .triton.persistent import nt_persistent_kernel, nt_wide_kernel
from .triton.shared import shared_gemm_kernel
from .triton.specialised import nn_gemm_kernel, nt_gemm_kernel, tn_gemm_kernel
from .triton_configs import Tile, layout_of

KERNELS = {"nt": nt_gemm_kernel, "nn": nn_gemm_kernel, "tn": tn_gemm_kernel}


@dataclass(frozen=True, slots=True)
class Operand:
    """One side of a product.

    data   FP8, row-major: [lines, depth], or [depth, lines] where the layout wants that
    scale  fp32; that of [line, block of depth] is at line * scale_line + block * scale_depth
    """

    data: torch.Tensor
    scale: torch.Tensor
    scale_line: int
    scale_depth: int


def specialised_call(
    product: Pass, a: Operand, b: Operand, out: torch.Tensor, tile: Tile, device: Device, *, k_major: bool
) -> Call:
    """Compute one product with the kernel of its layout.

    fwd    a X[M,K], b W[N,K], out Y[M,N]
    dgrad  a dY[M,N], b W[N,K] (W^T[K,N] when k_major), out dX[M,K]
    wgrad  a X[M,K], b dY[M,N], out dW[N,K], or when k_major a dY^T[N,M], b X^T[K,M]
    """
    layout = layout_of(product, k_major)
    if layout == "tn":
        depth, rows = a.data.shape
        columns = out.shape[0]
    else:
        rows, depth = a.data.shape
        columns = out.shape[1]
    options = dict(tile)
    block_m, block_n, block_k = options.pop("BLOCK_M"), options.pop("BLOCK_N"), options.pop("BLOCK_K")
    constants = {
        "BM": block_m,
        "BN": block_n,
        "BK": block_k,
        "GROUP_M": options.pop("GROUP_M"),
        "XCDS": architecture(device.arch).chiplets,
        "SCALE_2D_B": product is not Pass.WGRAD,
        "EVEN_D": depth % block_k == 0,
        "EVEN_R": rows % block_m == 0,
        "EVEN_C": columns % block_n == 0,
    }
    _require_tile(block_n, block_k)
    arguments = {
        "a": a.data, "b": b.data, "c": out, "a_scale": a.scale, "b_scale": b.scale, "R": rows, "C": columns, "D": depth,
        **_scale_strides(a, b),
    }  # fmt: skip
    tiles = cd(rows, block_m) * cd(columns, block_n)
    tiling = Tiling(block_m, block_n, tiles * padded(depth, block_k))
    if programs := options.pop("PROGRAMS", 0) * device.compute_units:
        shape = {name: constants[name] for name in ("BM", "BN", "BK", "GROUP_M")}
        if options.pop("WIDE", 0):
            if product is Pass.WGRAD or rows % block_m or columns % (2 * block_n):
                raise ValueError(f"WIDE: {rows}x{columns} must be whole tiles, with one scale per 128 columns")
            shape["SCALES_FIRST"] = a.scale_line == 1
            tiling = Tiling(block_m, 2 * block_n, tiles // 2 * padded(depth, block_k))
            return Call(nt_wide_kernel, (min(tiles // 2, programs), 1, 1), arguments, shape, options, tiling)
        shape |= {name: constants[name] for name in ("SCALE_2D_B", "EVEN_R", "EVEN_C")}
        return Call(nt_persistent_kernel, (min(tiles, programs), 1, 1), arguments, shape, options, tiling)
    return Call(KERNELS[layout], (tiles, 1, 1), arguments, constants, options, _stored(tiling, turned=layout == "tn"))


def shared_call(product: Pass, a: Operand, b: Operand, out: torch.Tensor, tile: Tile, device: Device) -> Call:
    """Compute one product with the kernel that all layouts share; operands as `specialised_call`, not k_major."""
    if product is Pass.WGRAD:
        depth, rows = a.data.shape
        columns = out.shape[0]
    else:
        rows, depth = a.data.shape
        columns = out.shape[1]
    strides = {
        Pass.FWD: (depth, 1, depth, 1, columns, 1),
        Pass.DGRAD: (depth, 1, 1, columns, columns, 1),
        Pass.WGRAD: (1, rows, 1, columns, 1, rows),
    }[product]
    options = dict(tile)
    constants = {
        "BM": options.pop("BLOCK_M"),
        "BN": options.pop("BLOCK_N"),
        "BK": options.pop("BLOCK_K"),
        "GROUP_M": options.pop("GROUP_M"),
        "XCDS": architecture(device.arch).chiplets,
        "SCALE_2D_B": product is not Pass.WGRAD,
    }
    _require_tile(constants["BN"], constants["BK"])
    arguments = {
        "a": a.data, "b": b.data, "c": out, "a_scale": a.scale, "b_scale": b.scale, "R": rows, "C": columns, "D": depth,
        **dict(zip(("a_r", "a_d", "b_c", "b_d", "c_r", "c_c"), strides, strict=True)),
        **_scale_strides(a, b),
    }  # fmt: skip
    programs = cd(rows, constants["BM"]) * cd(columns, constants["BN"])
    tiling = Tiling(constants["BM"], constants["BN"], programs * padded(depth, constants["BK"]))
    tiling = _stored(tiling, turned=product is Pass.WGRAD)
    return Call(shared_gemm_kernel, (programs, 1, 1), arguments, constants, options, tiling)


def _stored(tiling: Tiling, *, turned: bool) -> Tiling:
    """Return the tile as it lies in the output, which some kernels store transposed."""
    return replace(tiling, tile_M=tiling.tile_N, tile_N=tiling.tile_M) if turned else tiling


def _scale_strides(a: Operand, b: Operand) -> dict[str, int]:
    return {
        "a_scale_r": a.scale_line,
        "a_scale_d": a.scale_depth,
        "b_scale_c": b.scale_line,
        "b_scale_d": b.scale_depth,
    }


def _require_tile(block_n: int, block_k: int) -> None:
    if block_k != BLOCK or BLOCK % block_n:
        raise ValueError(
            f"BLOCK_K={block_k}, BLOCK_N={block_n}: scales need BLOCK_K = {BLOCK} and BLOCK_N a divisor of it"
        )

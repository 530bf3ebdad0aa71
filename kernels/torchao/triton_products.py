"""Calls of the GEMM kernels: dense, grouped in one launch, or one launch per expert, with casts where they belong."""

from dataclasses import replace

import torch

from ...shapes.schemes.torchao import BLOCK, AoGroupedLinear, AoLinear
from ..geometry import Tiling, padded
from ..jit.call import KernelCall
from ..jit.tiles import compiler_options
from ..provider import Config
from .groups import group_rows
from .linear_inputs import LinearInputs
from .product_inputs import ProductInputs
from .triton.gemm import gemm_kernel, grouped_wgrad_kernel
from .triton.persistent import gemm_persistent_kernel, tile_rows_kernel
from .triton_casts import cast
from .triton_configs import WIDE, wgrad_config

Pair = tuple[torch.Tensor, torch.Tensor]
"""FP8 data and fp32 scales, as they lie in memory."""

_COMPARED = 4096
"""Pairs of a tile and an expert that one program of `tile_rows_kernel` compares."""


def product_calls(
    inputs: ProductInputs, output: torch.Tensor, config: Config, per_expert: bool = False
) -> list[KernelCall]:
    """Y from quantized operands."""
    left, right = (inputs.a, inputs.a_scale), (inputs.b, inputs.b_scale)
    if inputs.by_column:
        return gemm_calls(left, right, output, config, by_column=True)
    return _rows_calls(inputs, left, right, output, config, per_expert)


def linear_calls(
    inputs: LinearInputs, outputs: tuple[torch.Tensor, ...], config: Config, per_expert: bool = False
) -> list[KernelCall]:
    """Casts and products: Y, and in a step dX and dW as well, each cast just before the product that needs it."""
    x, x_scale, cast_x = cast(inputs.x, "act-lhs", inputs.fp8, inputs.device)
    w, w_scale, cast_w = cast(inputs.w, "weight-transposed-rhs", inputs.fp8, inputs.device)
    calls = [cast_x, cast_w]
    calls += _rows_calls(inputs, (x, x_scale), (w, w_scale), outputs[0], config, per_expert)
    if inputs.dy is None:
        return calls
    dy, dy_scale, cast_dy = cast(inputs.dy, "act-lhs", inputs.fp8, inputs.device)
    wt, wt_scale, cast_wt = cast(inputs.w, "weight-rhs", inputs.fp8, inputs.device)
    calls += [cast_dy, cast_wt]
    calls += _rows_calls(inputs, (dy, dy_scale), (wt, wt_scale), outputs[1], config, per_expert)
    dyt, dyt_scale, cast_dyt = cast(inputs.dy, "act-transposed-lhs", inputs.fp8, inputs.device)
    xt, xt_scale, cast_xt = cast(inputs.x, "act-rhs", inputs.fp8, inputs.device)
    left, right = (dyt, dyt_scale), (xt, xt_scale)
    calls += [cast_dyt, cast_xt]
    if isinstance(inputs.scheme, AoLinear):
        return [*calls, *gemm_calls(left, right, outputs[2], config, by_column=True)]
    experts = range(inputs.problem.E)
    spans = [(expert, 1) for expert in experts] if per_expert else [(0, len(experts))]
    rows = [last - first for first, last in group_rows(inputs.ends)]
    for first, count in spans:
        contracted = sum(rows[first : first + count])
        calls.append(wgrad_call(left, right, inputs.offs, outputs[2], config, first, count, contracted))
    return calls


def _rows_calls(
    inputs: ProductInputs | LinearInputs,
    left: Pair,
    right: Pair,
    output: torch.Tensor,
    config: Config,
    per_expert: bool,
) -> list[KernelCall]:
    """Rows of `left` times the weights of their expert."""
    if len(inputs.ends) == 1 and not isinstance(inputs.scheme, AoGroupedLinear):
        return gemm_calls(left, right, output, config)
    if not per_expert:
        return gemm_calls(left, right, output, config, offs=inputs.offs, ends=inputs.ends)
    calls = []
    for e, (first, last) in enumerate(group_rows(inputs.ends)):
        if first < last:
            rows = left[0][first:last], left[1][:, first:last]
            calls += gemm_calls(rows, (right[0][e], right[1][e]), output[first:last], config)
    return calls


def gemm_calls(
    left: Pair,
    right: Pair,
    output: torch.Tensor,
    config: Config,
    *,
    offs: torch.Tensor | None = None,
    ends: tuple[int, ...] = (),
    by_column: bool = False,
) -> list[KernelCall]:
    """left [M,K] times right [N,K] or [E,N,K]: `gemm_kernel`, or the persistent one; grouped when there are `offs`.

    ends  the values of `offs`, which the kernels find on the device
    """
    (m, k), n = left[0].shape, right[0].shape[-2]
    experts = 1 if offs is None else offs.shape[0]
    tiles = -(-m // config["BLOCK_M"]) + (experts if offs is not None else 0)
    powers = 0 if offs is None else max(2, 1 << (experts - 1).bit_length())
    arguments = {
        "a": left[0], "b": right[0], "c": output, "a_scale": left[1], "b_scale": right[1],
        "M": m, "N": n, "K": k, "E": experts, "a_scale_pitch": left[1].stride(0),
    }  # fmt: skip
    constants = {
        "BM": config["BLOCK_M"],
        "BN": config["BLOCK_N"],
        "GROUP_M": config["GROUP_M"],
        "BY_COLUMN": by_column,
    }
    programs = tiles * -(-n // config["BLOCK_N"])
    tiling = _tiling(config["BLOCK_M"], config["BLOCK_N"], ends or (m,), n, k)
    if "PROGRAMS" in config:
        wide = "WIDE_STAGES" in config and n % WIDE == 0 and not by_column
        grid = (min(programs // 2 if wide else programs, config["PROGRAMS"]), 1, 1)
        options = compiler_options(config) | ({"num_stages": int(config["WIDE_STAGES"])} if wide else {})
        where = None if offs is None else torch.empty(4, tiles, dtype=torch.int32, device=offs.device)
        arguments |= {"where": where, "tiles": tiles}
        if wide:
            tiling = _tiling(config["BLOCK_M"], 2 * config["BLOCK_N"], ends or (m,), n, k)
        tiling = replace(tiling, workgroups=min(tiling.workgroups or 0, grid[0]))
        gemm = KernelCall(gemm_persistent_kernel, grid, arguments, constants | {"WIDE": wide}, options, tiling)
        if offs is None or where is None:
            return [gemm]
        return [_tile_rows_call(offs, where, config["BLOCK_M"], powers), gemm]
    arguments |= {"offs": offs}
    constants |= {"EXPERTS": powers, "WHOLE_K": k % BLOCK == 0}
    return [KernelCall(gemm_kernel, (programs, 1, 1), arguments, constants, compiler_options(config), tiling)]


def _tiling(block_m: int, block_n: int, ends: tuple[int, ...], n: int, k: int) -> Tiling:
    """Tiles that have rows, of groups which end at the rows `ends`; each is a workgroup unless that is persistent."""
    row_tiles = sum(-(-(last - first) // block_m) for first, last in group_rows(ends))
    tiles = row_tiles * -(-n // block_n)
    return Tiling(block_m, block_n, tiles * padded(k, BLOCK), BLOCK, workgroups=tiles)


def _tile_rows_call(offs: torch.Tensor, where: torch.Tensor, block_m: int, experts: int) -> KernelCall:
    """Write the rows and the expert of every tile to where[4,tiles]; `experts` is a power of two."""
    tiles = where.shape[1]
    block = max(1, _COMPARED // experts)
    arguments = {"offs": offs, "where": where, "E": offs.shape[0], "tiles": tiles}
    constants = {"BM": block_m, "EXPERTS": experts, "BLOCK": block}
    return KernelCall(
        tile_rows_kernel, (-(-tiles // block), 1, 1), arguments, constants, {"num_warps": 4, "num_stages": 1}
    )


def wgrad_call(
    left: Pair,
    right: Pair,
    offs: torch.Tensor,
    output: torch.Tensor,
    config: Config,
    first: int,
    experts: int,
    contracted: int,
) -> KernelCall:
    """One launch of `grouped_wgrad_kernel` for `experts` experts from `first` on; left [N,M], right [K,M].

    contracted  rows of those experts
    """
    (n, m), k = left[0].shape, right[0].shape[0]
    config = wgrad_config(config)
    arguments = {
        "a": left[0], "b": right[0], "c": output, "a_scale": left[1], "b_scale": right[1], "offs": offs,
        "M": m, "N": n, "K": k, "first_expert": first,
    }  # fmt: skip
    constants = {"BM": config["BLOCK_M"], "BN": config["BLOCK_N"], "GROUP_M": config["GROUP_M"]}
    tiles = -(-n // config["BLOCK_M"]) * -(-k // config["BLOCK_N"])
    tiling = Tiling(config["BLOCK_M"], config["BLOCK_N"], tiles * contracted)
    return KernelCall(grouped_wgrad_kernel, (tiles, experts, 1), arguments, constants, compiler_options(config), tiling)

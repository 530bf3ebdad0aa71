"""Calls of the GEMM kernels: dense, grouped in one launch, or one launch per expert, with casts where they belong."""

from dataclasses import dataclass

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
from .triton_casts import cast

Pair = tuple[torch.Tensor, torch.Tensor]
"""FP8 data and fp32 scales, as they lie in memory."""


def product_calls(
    inputs: ProductInputs, output: torch.Tensor, config: Config, per_expert: bool = False
) -> list[KernelCall]:
    """Y from quantized operands."""
    left, right = (inputs.a, inputs.a_scale), (inputs.b, inputs.b_scale)
    if inputs.by_column:
        return [gemm_call(left, right, output, config, by_column=True)]
    return _rows_calls(inputs, left, right, output, config, per_expert)


@dataclass(frozen=True, slots=True)
class LinearProduct:
    """A product of a linear, left times right^T, and the casts that come first.

    by_column  rows of X and dY are contracted, for dW: in groups, where there are experts
    """

    casts: list[KernelCall]
    left: Pair
    right: Pair
    output: torch.Tensor
    by_column: bool


def linear_products(inputs: LinearInputs, outputs: tuple[torch.Tensor, ...]) -> list[LinearProduct]:
    """Y, and in a step dX and dW as well."""
    products = [(inputs.x, "act-lhs", inputs.w, "weight-transposed-rhs")]
    if inputs.dy is not None:
        products.append((inputs.dy, "act-lhs", inputs.w, "weight-rhs"))
        products.append((inputs.dy, "act-transposed-lhs", inputs.x, "act-rhs"))
    found = []
    for (a, a_kind, b, b_kind), output in zip(products, outputs, strict=True):
        left, left_scale, cast_left = cast(a, a_kind, inputs.fp8, inputs.device)
        right, right_scale, cast_right = cast(b, b_kind, inputs.fp8, inputs.device)
        sides = (left, left_scale), (right, right_scale)
        found.append(LinearProduct([cast_left, cast_right], *sides, output, b_kind == "act-rhs"))
    return found


def linear_calls(
    inputs: LinearInputs, outputs: tuple[torch.Tensor, ...], config: Config, per_expert: bool = False
) -> list[KernelCall]:
    """Casts and products, each cast just before the product that needs it."""
    calls: list[KernelCall] = []
    for one in linear_products(inputs, outputs):
        calls += one.casts
        if not one.by_column:
            calls += _rows_calls(inputs, one.left, one.right, one.output, config, per_expert)
        elif isinstance(inputs.scheme, AoLinear):
            calls.append(gemm_call(one.left, one.right, one.output, config, by_column=True))
        else:
            calls += wgrad_calls(inputs, one, config, per_expert)
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
        return [gemm_call(left, right, output, config)]
    if not per_expert:
        return [gemm_call(left, right, output, config, offs=inputs.offs, ends=inputs.ends)]
    calls = []
    for e, (first, last) in enumerate(group_rows(inputs.ends)):
        if first < last:
            rows = left[0][first:last], left[1][:, first:last]
            calls.append(gemm_call(rows, (right[0][e], right[1][e]), output[first:last], config))
    return calls


def gemm_call(
    left: Pair,
    right: Pair,
    output: torch.Tensor,
    config: Config,
    *,
    offs: torch.Tensor | None = None,
    ends: tuple[int, ...] = (),
    by_column: bool = False,
) -> KernelCall:
    """left [M,K] times right [N,K] or [E,N,K]: `gemm_kernel`; grouped when there are `offs`.

    ends  the values of `offs`, which the kernels find on the device
    """
    (m, k), n = left[0].shape, right[0].shape[-2]
    experts = 1 if offs is None else offs.shape[0]
    tiles = -(-m // config["BLOCK_M"]) + (experts if offs is not None else 0)
    powers = 0 if offs is None else max(2, 1 << (experts - 1).bit_length())
    arguments = {
        "a": left[0], "b": right[0], "c": output, "a_scale": left[1], "b_scale": right[1],
        "M": m, "N": n, "K": k, "E": experts, "a_scale_pitch": left[1].stride(0), "offs": offs,
    }  # fmt: skip
    constants = {
        "BM": config["BLOCK_M"],
        "BN": config["BLOCK_N"],
        "GROUP_M": config["GROUP_M"],
        "BY_COLUMN": by_column,
        "EXPERTS": powers,
        "WHOLE_K": k % BLOCK == 0,
    }
    programs = tiles * -(-n // config["BLOCK_N"])
    tiling = _tiling(config["BLOCK_M"], config["BLOCK_N"], ends or (m,), n, k)
    return KernelCall(gemm_kernel, (programs, 1, 1), arguments, constants, compiler_options(config), tiling)


def _tiling(block_m: int, block_n: int, ends: tuple[int, ...], n: int, k: int) -> Tiling:
    """Tiles that have rows, of groups which end at the rows `ends`; each is a workgroup."""
    row_tiles = sum(-(-(last - first) // block_m) for first, last in group_rows(ends))
    tiles = row_tiles * -(-n // block_n)
    return Tiling(block_m, block_n, tiles * padded(k, BLOCK), BLOCK, workgroups=tiles)


def wgrad_calls(
    inputs: LinearInputs, product: LinearProduct, config: Config, per_expert: bool = False
) -> list[KernelCall]:
    """dW of all experts, in one launch or one each."""
    experts = range(inputs.problem.E)
    spans = [(expert, 1) for expert in experts] if per_expert else [(0, len(experts))]
    rows = [last - first for first, last in group_rows(inputs.ends)]
    return [
        _wgrad_call(product, inputs.offs, config, first, count, sum(rows[first : first + count]))
        for first, count in spans
    ]


def _wgrad_call(
    product: LinearProduct, offs: torch.Tensor, config: Config, first: int, experts: int, contracted: int
) -> KernelCall:
    """One launch of `grouped_wgrad_kernel` for `experts` experts from `first` on; left [N,M], right [K,M].

    contracted  rows of those experts
    """
    left, right = product.left, product.right
    (n, m), k = left[0].shape, right[0].shape[0]
    arguments = {
        "a": left[0], "b": right[0], "c": product.output, "a_scale": left[1], "b_scale": right[1], "offs": offs,
        "M": m, "N": n, "K": k, "first_expert": first,
    }  # fmt: skip
    constants = {"BM": config["BLOCK_M"], "BN": config["BLOCK_N"], "GROUP_M": config["GROUP_M"]}
    tiles = -(-n // config["BLOCK_M"]) * -(-k // config["BLOCK_N"])
    tiling = Tiling(config["BLOCK_M"], config["BLOCK_N"], tiles * contracted)
    return KernelCall(grouped_wgrad_kernel, (tiles, experts, 1), arguments, constants, compiler_options(config), tiling)

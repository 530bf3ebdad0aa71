"""aiter's small-M MX-FP8 GEMMs (ROCm/aiter pull request 3783), through their public wrappers.

`mxfp8_gemv(xq, x_scale, wq, w_scale, out_dtype)` chooses between a GEMV and a kernel on the matrix units, and
`grouped_gemm_mxfp8(a_q, a_scale, w, w_scale, sorted_token_ids, expert_ids, num_tokens_post_padded, num_valid_tokens,
top_k, block_m, out_dtype, a_div, mul_weight_by)` multiplies the routed rows of an MoE layer. They return None for a
problem that they leave to others, and also when a kernel raises: this module distinguishes the two.

Tried with commit c8b3154f (branch pr/m3-mxfp8-decode-kernels) and, for MoE, 7e55911c: the calls against their
signatures. The kernels are HIP, for gfx950, and have not run.
"""

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import torch

from ...shapes.device import Device
from ...shapes.problem import Op, Problem
from ...shapes.schemes.mxfp8 import BLOCK, MxFp8
from ...shapes.schemes.mxfp8_moe import MxFp8Moe
from .. import needs
from ..mxfp8.inputs import MxFp8Inputs
from ..mxfp8_moe.inputs import MoeInputs
from ..mxfp8_moe.routing import align
from ..mxfp8_moe.traffic import fused_bytes
from ..provider import Config, DeclinedError, Launch, Provider, Role, Support
from .observe import watched
from .packages import find_function, support, version

_FILES = ("ops/smallm_gemm_mxfp8.py",)
_ENTRY_POINTS = {"smallm_mxfp8_gemv": ("block_n",), "smallm_mxfp8_mfma": ("n_sub", "k_splits")}
_GEMV_ROWS = (1, 2, 4, 8, 16)
"""Rows that its GEMV is compiled for; others are padded at every call."""

_MOE_KERNEL = "smallm_mxfp8_moe_grouped_gemm"
_BLOCK_M = 64
"""Rows to which its callers pad each expert."""


class AiterMx(Provider[MxFp8, MxFp8Inputs]):
    """The upstream wrapper; `dispatched` says which of its kernels ran."""

    family = "mxfp8"
    op = Op.GEMM
    name = "aiter_mx"
    role = Role.UPSTREAM

    def supports(self, problem: Problem, scheme: MxFp8, device: Device) -> Support:
        """Where aiter with these kernels is installed, on gfx950; which problems it takes shows when it is called."""
        return support(needs.AITER_MX, _FILES, device, ("gfx950",))

    def prepare(self, inputs: MxFp8Inputs, config: Config | None = None) -> Launch:
        """Import aiter and run once: its kernels are built at the first call.

        Raises DeclinedError when it returns None, with what its kernels raised, if they did.
        """
        module, function = find_function("aiter", _FILES, "mxfp8_gemv")

        def call() -> torch.Tensor:
            result: torch.Tensor | None = function(inputs.x, inputs.x_scale, inputs.w, inputs.w_scale, torch.bfloat16)
            if result is None:
                raise DeclinedError(f"aiter's mxfp8_gemv returned None for {inputs.problem}: it leaves it to Triton")
            return result

        return _observed(Launch.returning(call, inputs.empty_output()), module, _ENTRY_POINTS)

    def moved_bytes(self, problem: Problem, scheme: MxFp8, config: Config) -> int | None:
        """Operands and Y once; also the fp32 parts of a divided K, and the padding of rows."""
        total = scheme.compulsory_bytes(problem)
        if config.get("kernel") == "smallm_mxfp8_mfma":
            splits = int(config["k_splits"])
            return total + (2 * 4 * problem.M * problem.N * splits if splits > 1 else 0)
        if config.get("kernel") != "smallm_mxfp8_gemv":
            return None
        rows = next((tile for tile in _GEMV_ROWS if tile >= problem.M), problem.M)
        if rows == problem.M:
            return total
        row = problem.K + problem.K // BLOCK
        # Zeros are written, X is copied over them, the kernel reads all rows; of Y the first M are copied.
        padded_x = rows * row + problem.M * row + rows * row
        padded_y = 2 * problem.N * (rows + problem.M)
        return total + padded_x + padded_y


class AiterMoe(Provider[MxFp8Moe, MoeInputs]):
    """The upstream wrapper; slots are sorted and padded before, as for our fused kernels."""

    family = "mxfp8_moe"
    op = Op.MOE_GEMM
    name = "aiter_moe"
    role = Role.UPSTREAM

    def supports(self, problem: Problem, scheme: MxFp8Moe, device: Device) -> Support:
        """Where aiter with these kernels is installed, on gfx950; which problems it takes shows when it is called."""
        return support(needs.AITER_MX, _FILES, device, ("gfx950",))

    def prepare(self, inputs: MoeInputs, config: Config | None = None) -> Launch:
        """Import aiter and run once, as `AiterMx` does."""
        module, function = find_function("aiter", _FILES, "grouped_gemm_mxfp8")
        problem, weights = inputs.problem, inputs.topk_weights
        slots = align(inputs.topk_ids, _BLOCK_M, problem.E)
        operands = (
            inputs.x,
            inputs.x_scale,
            inputs.w,
            inputs.w_scale,
            slots.sorted_ids,
            slots.expert_ids,
            slots.padded,
        )
        sizes = (slots.numel, problem.top_k, _BLOCK_M, torch.bfloat16, problem.top_k)
        factors = None if weights is None else weights.reshape(-1)

        def call() -> torch.Tensor:
            result: torch.Tensor | None = function(*operands, *sizes, mul_weight_by=factors)
            if result is None:
                raise DeclinedError(f"aiter's grouped_gemm_mxfp8 returned None for {problem}: it leaves it to Triton")
            return result

        return _observed(Launch.returning(call, inputs.empty_output()), module, {_MOE_KERNEL: ()})

    def moved_bytes(self, problem: Problem, scheme: MxFp8Moe, config: Config) -> int:
        """Weights of hit experts once per block of their rows; Y is filled with zeros before it is written."""
        return fused_bytes(problem, scheme, {"BLOCK_M": _BLOCK_M}) + scheme.output_bytes(problem)


def _observed(launch: Launch, module: ModuleType, entry_points: Mapping[str, Sequence[str]]) -> Launch:
    """Run once, and note which kernel ran. Raises DeclinedError for None, with what a kernel raised, if one did."""
    with watched(module, entry_points) as calls:
        try:
            launch()
        except DeclinedError as error:
            if not calls.raised:
                raise
            wrapper = str(error).partition(" returned")[0]
            raise DeclinedError(f"{wrapper} hid an error and returned None: {'; '.join(calls.raised)}") from None
    name, values = calls.made[-1] if calls.made else ("unknown", {})
    launch.config = {"aiter": version("aiter"), "kernel": name, **values}
    launch.kernels = (name,)
    launch.dispatched = " ".join((name, *(f"{key}={value}" for key, value in values.items())))
    return launch


AITER_MX: Provider[Any, Any] = AiterMx()
AITER_MOE: Provider[Any, Any] = AiterMoe()

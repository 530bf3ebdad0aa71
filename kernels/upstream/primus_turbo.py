"""Primus-Turbo's blockwise FP8 GEMM in Triton (AMD-AGI/Primus-Turbo pull request 339), with its quantizers.

What its autograd function does is called here in the same order, without autograd: quantize X by rows (versions with a
fused quantizer: by rows and columns at once) and W, multiply; backward quantize dY both ways (and X by columns, where
the forward pass has not), multiply twice.

Tried with commit db7882da (pull request 339) and its parent 48fd09d4: the calls against their signatures, the GEMM on
prequantized operands on an H200 (docs/case-studies.md). Its quantizers need a ROCm build, and have not run.
"""

from collections.abc import Callable
from typing import Any

import torch

from ...shapes.device import Device
from ...shapes.problem import Op, Pass, Problem
from ...shapes.schemes.fp8train import (
    BLOCK,
    COMPUTES,
    FACTORS,
    SCALE_BYTES,
    Fp8Train,
    line_scales,
    operand_scales,
    operands,
)
from .. import needs
from ..fp8train.inputs import ORIGINS, TrainInputs
from ..provider import Config, Launch, Provider, Role, Support
from ..saved import Saved
from .observe import triton_kernels
from .packages import find_function, support, version

_GEMM = ("triton/gemm/gemm_fp8_kernel.py",)
_QUANTIZERS = ("pytorch/kernels/quantization/quantization_impl.py",)
_LAYOUTS = {
    Pass.FWD: {"trans_a": False, "trans_b": True, "trans_c": False},
    Pass.DGRAD: {"trans_a": False, "trans_b": False, "trans_c": False},
    Pass.WGRAD: {"trans_a": True, "trans_b": False, "trans_c": True},
}
"""Layout of the operands of a product (`FACTORS`), as `gemm_fp8_blockwise_triton_kernel` takes them."""

Scaled = tuple[torch.Tensor, torch.Tensor]
"""FP8 data and fp32 scales."""


class PrimusTurboFp8(Provider[Fp8Train, TrainInputs]):
    """The upstream kernels, with the allocations and scale transposes that they do at every call."""

    family = "fp8train"
    op = Op.GEMM
    name = "primus_turbo_fp8"
    role = Role.UPSTREAM

    def supports(self, problem: Problem, scheme: Fp8Train, device: Device) -> Support:
        """Where Primus-Turbo with this kernel is installed, on its GPUs."""
        return support(needs.PRIMUS_TURBO, _GEMM, device)

    def prepare(self, inputs: TrainInputs, config: Config | None = None) -> Launch:
        """Import Primus-Turbo and run once: every problem is tuned by its own autotuner at the first call."""
        _, gemm = find_function("primus_turbo", _GEMM, "gemm_fp8_blockwise_triton_kernel")
        found: dict[str, Scaled] = {}
        products = COMPUTES[inputs.problem.pass_]
        refresh, quantize, dual = _given(inputs, found) if inputs.scheme.prequantized else _quantizers(inputs, found)

        def multiply(product: Pass) -> torch.Tensor:
            (a, a_scale), (b, b_scale) = (found[name] for name in FACTORS[product])
            result: torch.Tensor = gemm(a, a_scale, b, b_scale, out_dtype=torch.bfloat16, **_LAYOUTS[product])
            return result

        def call() -> tuple[torch.Tensor, ...]:
            refresh()
            results = []
            for product in products:
                quantize(product)
                results.append(multiply(product))
            return tuple(results)

        recorded = {"primus_turbo": version("primus_turbo"), "fused_quantizer": dual}
        launch = Launch.returning(call, inputs.empty_outputs(), recorded, refresh=refresh)
        launch()  # its autotuner launches every candidate
        launch.kernels = triton_kernels(launch.run)
        launch.dispatched = " ".join(dict.fromkeys(launch.kernels))
        return launch

    def moved_bytes(self, problem: Problem, scheme: Fp8Train, config: Config) -> int | None:
        """Of prequantized operands: FP8 and scales per product, outputs, and the scales that a product transposes."""
        if not scheme.prequantized:
            return None  # which forms are written and read again depends on the version's quantizers
        m, n, k = problem.M, problem.N, problem.K
        elements = {"x": m * k, "w": n * k, "dy": m * n}
        total = scheme.output_bytes(problem)
        for product in COMPUTES[problem.pass_]:
            for name in FACTORS[product]:
                total += elements[ORIGINS[name][0]] + SCALE_BYTES * operand_scales(name, problem)
            transposed = {Pass.FWD: line_scales(m, k), Pass.DGRAD: line_scales(m, n) + operand_scales("w", problem)}
            total += 2 * SCALE_BYTES * transposed.get(product, 0)
        return total


Parts = tuple[Callable[[], object], Callable[[Pass], object], bool]
"""What makes saved operands anew when they are out of date, what quantizes before a product, whether X is fused."""


def _given(inputs: TrainInputs, found: dict[str, Scaled]) -> Parts:
    found.update({name: (q.data, q.scale) for name, q in inputs.given.items()})
    return lambda: None, lambda product: None, False


def _quantizers(inputs: TrainInputs, found: dict[str, Scaled]) -> Parts:
    module, lines = find_function("primus_turbo", _QUANTIZERS, "quant_fp8_blockwise_impl")
    _, weight = find_function("primus_turbo", _QUANTIZERS, "quant_fp8_blockwise_for_weight_impl")
    both: Callable[..., Any] | None = getattr(module, "quant_fp8_blockwise_dual_impl", None)
    names = operands(inputs.problem.pass_)
    x, w, dy = (inputs.dense.get(name) for name in ("x", "w", "dy"))
    fused = both is not None and not inputs.scheme.hybrid  # of a hybrid, X is e5m2 in the backward pass

    def one(name: str, tensor: torch.Tensor) -> None:
        axis = 1 if name.endswith("row") else 0
        found[name] = lines(tensor, inputs.operand_dtype(name), axis, BLOCK)

    def two(rows: str, columns: str, tensor: torch.Tensor) -> None:
        assert both is not None
        row, row_scale, column, column_scale = both(tensor, inputs.operand_dtype(rows), BLOCK)
        found[rows], found[columns] = (row, row_scale), (column, column_scale)

    def forward() -> None:
        if x is not None and fused:
            two("x_row", "x_col", x)
        elif x is not None and "x_row" in names:
            one("x_row", x)
        if w is not None:
            found["w"] = weight(w, inputs.operand_dtype("w"), BLOCK)

    def backward() -> None:
        assert dy is not None
        if x is not None and not fused:
            one("x_col", x)
        if both is not None and {"dy_row", "dy_col"} <= set(names):
            two("dy_row", "dy_col", dy)
            return
        for name in ("dy_row", "dy_col"):
            if name in names:
                one(name, dy)

    first_gradient = next((p for p in COMPUTES[inputs.problem.pass_] if p is not Pass.FWD), None)

    def quantize(product: Pass) -> None:
        if product is Pass.FWD:
            forward()
        elif product is first_gradient:
            backward()

    if "x_row" in names:  # the pass begins with the forward product
        return lambda: None, quantize, fused
    saved = Saved([tensor for tensor in (x, w) if tensor is not None], forward)
    return saved.refresh, quantize, fused


PRIMUS_TURBO_FP8: Provider[Any, Any] = PrimusTurboFp8()

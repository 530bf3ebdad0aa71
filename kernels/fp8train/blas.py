"""Library baselines: torch's bf16 GEMM on decoded operands, with and without quantizing and decoding in the call."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from ...shapes.device import Device
from ...shapes.problem import Op, Pass, Problem
from ...shapes.schemes.fp8train import COMPUTES, SCALE_BYTES, Fp8Train, operand_scales, operands
from ..inputs import Tensors
from ..libraries.dense import Decoded, DenseBlas
from ..libraries.rocm_blas import through_libraries
from ..needs import fp8_missing
from ..provider import Config, Role
from ..quantized import Quantized
from ..saved import Saved
from .inputs import ORIGINS, TrainInputs
from .products import output_shapes
from .quantize import AMAX_FLOOR, GROUPS
from .triton_configs import quant_configs

if TYPE_CHECKING:
    from ..jit.call import CompiledCalls  # imports Triton


class BlasBf16(DenseBlas[Fp8Train, TrainInputs]):
    """The bf16 GEMMs alone, on operands that were decoded beforehand: what not quantizing at all costs.

    What is multiplied are the FP8 operands decoded to bf16, not the bf16 operands that they came from. That costs the
    same, and can be judged by the one reference of the problem, which the original operands would fail.
    """

    family = "fp8train"
    op = Op.GEMM
    name = "blas_bf16_fp8"

    def decode(self, inputs: TrainInputs, config: Config) -> Decoded:
        """The operands of the pass."""
        dense = empty_operands(inputs)

        def fill() -> None:
            for name, out in dense.items():
                inputs.quantized(name).dequantize(out)

        return Decoded(dense, fill, tuple(part for name in dense for part in inputs.sources(name)))

    def multiply(self, inputs: TrainInputs, operands: Any, outputs: Tensors, config: Config) -> Callable[[], object]:
        """The products of the pass, one after the other."""
        gemms = gemm_calls(inputs.problem, operands, outputs)

        def run() -> None:
            for gemm in gemms:
                gemm()

        return run

    def moved_bytes(self, problem: Problem, scheme: Fp8Train, config: Config) -> int:
        """Decoded operands of every product, and the outputs."""
        return decoded_bytes(problem)

    def working_set_bytes(self, problem: Problem, scheme: Fp8Train, config: Config) -> int:
        """Distinct memory: a step reads the decoded W twice."""
        return decoded_bytes(problem) - (2 * problem.N * problem.K if problem.pass_ is Pass.STEP else 0)


class DequantBlasFp8(BlasBf16):
    """FP8 without FP8 matrix units: quantize (unless prequantized), decode to bf16, multiply in bf16; all are timed.

    Config: `kernels` is "triton" (quantizers and decoders in Triton; the default where the GPU has FP8) or "torch". W
    found in FP8 by a pass after the forward one (`Fp8Train`) is decoded, not quantized again; X and dY are quantized.
    """

    name = "dequant_blas_fp8"
    role = Role.DEQUANT_BLAS

    def candidates(self, problem: Problem, scheme: Fp8Train, device: Device) -> Sequence[Config]:
        """Triton's quantizers first, where they run."""
        kernels = ("torch",) if fp8_missing(device) else ("triton", "torch")
        return [{"kernels": name} for name in kernels]

    def decode(self, inputs: TrainInputs, config: Config) -> Decoded:
        """The operands of the pass, through their FP8 forms."""
        forms = {name: _form(inputs, name) for name in operands(inputs.problem.pass_)}
        dense = empty_operands(inputs)
        quantized = () if inputs.scheme.prequantized else tuple(forms)
        saved = tuple(name for name in quantized if name == "w" and _finds_weight(inputs.problem))
        timed = tuple(name for name in quantized if name not in saved)
        quantizers = _triton_quantizers if config["kernels"] == "triton" else _torch_quantizers
        keep = Saved([part for name in saved for part in inputs.sources(name)], quantizers(inputs, forms, saved, {})[0])
        work, calls = quantizers(inputs, forms, timed, dense)

        def fill() -> None:
            keep.refresh()
            work()

        if calls is None:
            return Decoded(dense, fill)
        return Decoded(dense, fill, kernels=calls.kernels, artifact=calls.artifact, described=calls.described)

    def moved_bytes(self, problem: Problem, scheme: Fp8Train, config: Config) -> int:
        """Quantizers (bf16 read, FP8 written), decoders (FP8 read, bf16 written), GEMMs."""
        total = decoded_bytes(problem)
        for name in operands(problem.pass_):
            elements, scales = _elements(name, problem), SCALE_BYTES * operand_scales(name, problem)
            total += 3 * elements + scales
            if not scheme.prequantized and not (name == "w" and _finds_weight(problem)):
                total += 3 * elements + scales
        return total

    def working_set_bytes(self, problem: Problem, scheme: Fp8Train, config: Config) -> int:
        """FP8 forms beside the bf16 ones, and the tensors that are quantized."""
        forms = sum(_elements(n, problem) + SCALE_BYTES * operand_scales(n, problem) for n in operands(problem.pass_))
        total = super().working_set_bytes(problem, scheme, config) + forms
        if scheme.prequantized:
            return total
        names = (n for n in operands(problem.pass_) if not (n == "w" and _finds_weight(problem)))
        return total + sum({ORIGINS[name][0]: 2 * _elements(name, problem) for name in names}.values())


def empty_operands(inputs: TrainInputs) -> dict[str, torch.Tensor]:
    """Allocate the operands of a pass in bf16, where `inputs` are."""
    sources = {name: inputs.sources(name)[0] for name in operands(inputs.problem.pass_)}
    return {name: torch.empty(x.shape, dtype=torch.bfloat16, device=x.device) for name, x in sources.items()}


def gemm_calls(
    problem: Problem, operands: Mapping[str, torch.Tensor], outputs: tuple[torch.Tensor, ...]
) -> list[Callable[[], object]]:
    """Return the calls of torch.mm that write the outputs of a pass from bf16 operands."""
    calls = []
    for product, out in zip(COMPUTES[problem.pass_], outputs, strict=True):
        if product is Pass.FWD:
            a, b = operands["x_row"], operands["w"].t()
        elif product is Pass.DGRAD:
            a, b = operands["dy_row"], operands["w"]
        else:
            a, b = operands["dy_col"].t(), operands["x_col"]
        calls.append(_mm(a, b, out))
    return calls


def decoded_bytes(problem: Problem) -> int:
    """Bytes of the bf16 operands of every product of a pass and of its outputs."""
    m, n, k = problem.M, problem.N, problem.K
    factors = {Pass.FWD: m * k + n * k, Pass.DGRAD: m * n + n * k, Pass.WGRAD: m * n + m * k}
    read = sum(factors[product] for product in COMPUTES[problem.pass_])
    return 2 * (read + sum(rows * columns for rows, columns in output_shapes(problem)))


def _mm(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> Callable[[], object]:
    return lambda: torch.mm(a, b, out=out)


def _finds_weight(problem: Problem) -> bool:
    """Tell whether the pass finds W in FP8."""
    return problem.pass_ in (Pass.DGRAD, Pass.BWD)


def _elements(name: str, problem: Problem) -> int:
    m, n, k = problem.M, problem.N, problem.K
    return {"x": m * k, "w": n * k, "dy": m * n}[ORIGINS[name][0]]


def _form(inputs: TrainInputs, name: str) -> Quantized:
    """Return a given operand, or memory for one that the launch quantizes."""
    if inputs.scheme.prequantized:
        return inputs.given[name]
    source, kind = ORIGINS[name]
    x = inputs.dense[source]
    return Quantized.empty((x.shape[0], x.shape[1]), *GROUPS[kind], inputs.operand_dtype(name), x.device)


_Work = tuple[Callable[[], object], "CompiledCalls | None"]
"""A closure that quantizes and decodes, and what it consists of where those are Triton's kernels."""


def _torch_quantizers(
    inputs: TrainInputs, forms: dict[str, Quantized], quantized: tuple[str, ...], dense: dict[str, torch.Tensor]
) -> _Work:
    def work() -> None:
        for name in quantized:
            forms[name].fill(inputs.dense[ORIGINS[name][0]], AMAX_FLOOR)
        for name, out in dense.items():
            forms[name].dequantize(out)

    return work, None


def _triton_quantizers(
    inputs: TrainInputs, forms: dict[str, Quantized], quantized: tuple[str, ...], dense: dict[str, torch.Tensor]
) -> _Work:
    from ..jit.call import compile_calls
    from .triton_calls import dequantize_call, quantize_call, weight_call

    calls = []
    for name in quantized:
        source, kind = ORIGINS[name]
        x, q = inputs.dense[source], forms[name]
        config = quant_configs(kind, inputs.device, *x.shape)[0]
        if kind == "weight":
            calls.append(weight_call(x, q, None, config))
        else:
            calls.append(quantize_call(x, q if kind == "row" else None, q if kind == "col" else None, config))
    calls += [dequantize_call(forms[name], out) for name, out in dense.items()]
    compiled = compile_calls(calls)
    return compiled.run, compiled


BLAS_BF16 = BlasBf16()
BLAS_ROCBLAS, BLAS_HIPBLASLT = through_libraries(BlasBf16, "blas_{}_fp8")
DEQUANT_BLAS = DequantBlasFp8()

"""Library baselines: the BLAS GEMM on dequantized weights, with and without the dequantization in the timed call."""

from collections.abc import Callable, Sequence

import torch

from ...shapes.device import Device
from ...shapes.errors import RooflensError
from ...shapes.problem import Problem
from ...shapes.schemes.fourbit import FourBit
from ...shapes.schemes.w4a16 import W4A16
from ..inputs import Tensors
from ..libraries.blas_forms import default_form, forms, moved_bytes, prepare_gemm, require_full_fp32, weight_dtype
from ..libraries.blas_lt import BestAlgorithm
from ..libraries.dense import Decoded, DenseBlas
from ..libraries.rocm_blas import through_libraries
from ..provider import Config, Role
from .inputs import FourBitInputs
from .quantize import prepare_dequantize


class Blas(DenseBlas[FourBit, FourBitInputs]):
    """The GEMM alone: W is dequantized in `prepare`, so this is what a weight in 16 (or 32) bits costs.

    Config: `gemm` is a name of `blas_forms.FORMS`, `fp32_precision` torch's setting, `threads` those of a CPU.
    """

    family = "fourbit"
    name = "blas"

    def candidates(self, problem: Problem, scheme: FourBit, device: Device) -> Sequence[Config]:
        """The forms of the product, the fastest by rule first."""
        default = default_form(problem, scheme, device.kind)
        return [{"gemm": form} for form in sorted(forms(scheme, device.kind), key=lambda form: form != default)]

    def decode(self, inputs: FourBitInputs, config: Config) -> Decoded:
        """W, once."""
        dtype = weight_dtype(_form(inputs, config), inputs.dtype)
        return Decoded(
            inputs.dequantized(dtype), config={"gemm": _form(inputs, config), "fp32_precision": require_full_fp32()}
        )

    def multiply(
        self, inputs: FourBitInputs, operands: torch.Tensor, outputs: Tensors, config: Config
    ) -> Callable[[], object]:
        """The form that `gemm` names."""
        return prepare_gemm(_form(inputs, config), inputs.x, operands, inputs.bias, outputs[0])

    def moved_bytes(self, problem: Problem, scheme: FourBit, config: Config) -> int | None:
        """Dense W, activations, Y, and the scratch of the form."""
        return moved_bytes(config["gemm"], problem, scheme)

    def working_set_bytes(self, problem: Problem, scheme: FourBit, config: Config) -> int:
        """Dense W, activations and Y; no packed weights."""
        return _dense_bytes(problem, scheme, config) + scheme.activation_bytes(problem) + scheme.output_bytes(problem)


class DequantBlas(Blas):
    """What a framework does without a fused kernel: dequantize W into a buffer, then the BLAS GEMM; both are timed.

    Config: that of `Blas`, and `dequantize`: "cpp" (threaded C++, the default on CPUs with a compiler), "triton" (the
    default on GPUs) or "torch" (gathers of value pairs, chunk by chunk through the caches).
    """

    name = "dequant_blas"
    role = Role.DEQUANT_BLAS

    def decode(self, inputs: FourBitInputs, config: Config) -> Decoded:
        """W, by the dequantizer that `dequantize` names, or that of the device."""
        form, shape = _form(inputs, config), (inputs.problem.N, inputs.problem.K)
        weight = torch.empty(shape, dtype=weight_dtype(form, inputs.dtype), device=inputs.x.device)
        dequantizer, fill = _prepare_dequantize(inputs, weight, config.get("dequantize"))
        settings = {"dequantize": dequantizer, "gemm": form, "fp32_precision": require_full_fp32()}
        return Decoded(weight, fill, config=settings)

    def moved_bytes(self, problem: Problem, scheme: FourBit, config: Config) -> int | None:
        """Packed weights and scales read, dense W written, then the GEMM's.

        Scales in fewer bits than fp32 has, and zero points, are rebuilt in memory but by "triton".
        """
        stored = (1 + scheme.zero_point) if isinstance(scheme, W4A16) else int(scheme.nested)
        arrays = 0 if config.get("dequantize") == "triton" else stored
        rebuilt = arrays * 2 * 4 * -(-problem.B * problem.N * problem.K // scheme.group)
        read = scheme.weight_bytes(problem) + scheme.scale_bytes(problem) + rebuilt
        return read + _dense_bytes(problem, scheme, config) + moved_bytes(config["gemm"], problem, scheme)

    def working_set_bytes(self, problem: Problem, scheme: FourBit, config: Config) -> int:
        """Packed weights and scales beside what the GEMM touches."""
        packed = scheme.weight_bytes(problem) + scheme.scale_bytes(problem)
        return packed + super().working_set_bytes(problem, scheme, config)


class BlasBest(BestAlgorithm[FourBit, FourBitInputs], Blas):
    """`blas`, by the best algorithm."""

    name = "blas_best"


DEQUANT_BLAS = DequantBlas()
BLAS = Blas()
BLAS_BEST = BlasBest()
BLAS_ROCBLAS, BLAS_HIPBLASLT = through_libraries(Blas, "blas_{}")


def _dense_bytes(problem: Problem, scheme: FourBit, config: Config) -> int:
    bytes_each = 4 if config["gemm"].startswith("fp32") else scheme.dtype.bytes
    return problem.B * problem.N * problem.K * bytes_each


def _form(inputs: FourBitInputs, config: Config) -> str:
    chosen: str | None = config.get("gemm")
    return chosen or default_form(inputs.problem, inputs.scheme, inputs.device.kind)


def _prepare_dequantize(
    inputs: FourBitInputs, weight: torch.Tensor, wanted: str | None
) -> tuple[str, Callable[[], object]]:
    """Name and call of the dequantizer that fills `weight`: the device's own kernel, or torch where there is none."""
    name = wanted or ("triton" if inputs.device.is_gpu else "cpp")
    try:
        if name == "cpp":
            from .cpu import prepare_dequantize as prepare_cpp

            # stores that bypass the caches win once nothing of W would still be cached when the GEMM reads it
            streaming = weight.nbytes > 2 * inputs.device.llc_bytes
            return name, prepare_cpp(inputs, weight, {"streaming": streaming})
        if name == "triton":
            from ..jit.call import compile_calls
            from .triton.dequantize import dequantize_call

            return name, compile_calls([dequantize_call(inputs, weight)]).run
    except (RooflensError, ImportError):  # no compiler, no Triton
        if wanted:
            raise
    return "torch", prepare_dequantize(inputs.weight, weight)

"""Library baselines: the batched BLAS GEMM on dense weights, with and without the dequantization in the timed call."""

from collections.abc import Callable, Sequence

import torch

from ...shapes.device import Device
from ...shapes.problem import Problem
from ...shapes.schemes.a16w8 import A16W8
from ..aot import BuildRequest
from ..inputs import Tensors
from ..libraries.blas_forms import prepare_gemm
from ..libraries.blas_lt import BestAlgorithm
from ..libraries.dense import Decoded, DenseBlas
from ..libraries.library_names import onednn_has
from ..libraries.rocm_blas import through_libraries
from ..provider import Config, Role
from . import dequantize
from .inputs import A16W8Inputs, placeholders

_FORMS_ON_CPU = ("bmm", "fp32_bmm")


class Bmm(DenseBlas[A16W8, A16W8Inputs]):
    """torch.bmm (baddbmm with a bias) on W in the type of the activations: what weights in 16 bits cost.

    Config: `gemm` is "bmm", or "fp32_bmm" on a CPU: converted operands, where its library is slow in 16 bits.
    """

    family = "a16w8"
    name = "bmm_bf16_a16w8"

    def candidates(self, problem: Problem, scheme: A16W8, device: Device) -> Sequence[Config]:
        """On a CPU both forms, else there is nothing to choose."""
        if device.is_gpu:
            return [{"gemm": "bmm"}]
        default = "bmm" if onednn_has(scheme.dtype) else "fp32_bmm"
        return [{"gemm": form} for form in sorted(_FORMS_ON_CPU, key=lambda form: form != default)]

    def decode(self, inputs: A16W8Inputs, config: Config) -> Decoded:
        """W, once."""
        return Decoded(inputs.dequantized().float() if config["gemm"] == "fp32_bmm" else inputs.dequantized())

    def multiply(
        self, inputs: A16W8Inputs, operands: torch.Tensor, outputs: Tensors, config: Config
    ) -> Callable[[], object]:
        """The form that `gemm` names."""
        return prepare_gemm(config["gemm"].replace("bmm", "mm"), inputs.x, operands, inputs.bias, outputs[0])

    def moved_bytes(self, problem: Problem, scheme: A16W8, config: Config) -> int:
        """Dense W, X, bias and Y; with a bias Y is filled with it before; "fp32_bmm" writes and reads X and Y wide."""
        filled = 2 * scheme.output_bytes(problem) if scheme.bias else 0
        wide = 2 * 2 if config["gemm"] == "fp32_bmm" else 0
        scratch = wide * (scheme.activation_bytes(problem) + scheme.output_bytes(problem))
        return _dense_bytes(problem, scheme, config) + _rest_bytes(problem, scheme) + filled + scratch

    def working_set_bytes(self, problem: Problem, scheme: A16W8, config: Config) -> int:
        """Dense W, X, bias and Y; no FP8."""
        return _dense_bytes(problem, scheme, config) + _rest_bytes(problem, scheme)


class DequantBmm(Bmm):
    """What a framework does without a fused kernel: dequantize W into a buffer, then `bmm_bf16_a16w8`; both are timed.

    Config: `dequantize` is a name of `dequantize.FORMS`, `gemm` as in `bmm_bf16_a16w8`.
    """

    name = "dequant_bmm_a16w8"
    role = Role.DEQUANT_BLAS

    def candidates(self, problem: Problem, scheme: A16W8, device: Device) -> Sequence[Config]:
        """Those of the GEMM, with the dequantizer of the device."""
        name = dequantize.default_form(device)
        return [{"dequantize": name, **config} for config in super().candidates(problem, scheme, device)]

    def decode(self, inputs: A16W8Inputs, config: Config) -> Decoded:
        """W, by the dequantizer that `dequantize` names."""
        dtype = torch.float32 if config["gemm"] == "fp32_bmm" else inputs.dtype
        return dequantize.prepare(config["dequantize"], inputs, dtype)

    def moved_bytes(self, problem: Problem, scheme: A16W8, config: Config) -> int:
        """FP8 and scales read, dense W written (and, by "torch", read and written again), then the GEMM's."""
        writes = dequantize.passes(config["dequantize"])
        packed = scheme.weight_bytes(problem) + scheme.scale_bytes(problem)
        return packed + writes * _dense_bytes(problem, scheme, config) + super().moved_bytes(problem, scheme, config)

    def working_set_bytes(self, problem: Problem, scheme: A16W8, config: Config) -> int:
        """FP8 and scales beside what the GEMM touches."""
        packed = scheme.weight_bytes(problem) + scheme.scale_bytes(problem)
        return packed + super().working_set_bytes(problem, scheme, config)

    def builds(self, problem: Problem, scheme: A16W8, device: Device, config: Config) -> Sequence[BuildRequest]:
        """The dequantizer, where it is Triton's."""
        if config["dequantize"] != "triton":
            return ()
        from .triton.dequantize import dequantize_call

        inputs = placeholders(problem, scheme, device)
        return [dequantize_call(inputs, torch.empty(inputs.q.shape, dtype=inputs.dtype, device="meta")).request()]


class BmmBest(BestAlgorithm[A16W8, A16W8Inputs], Bmm):
    """`bmm_bf16_a16w8`, by the best algorithm."""

    name = "bmm_best_a16w8"


BMM = Bmm()
BMM_BEST = BmmBest()
BMM_ROCBLAS, BMM_HIPBLASLT = through_libraries(Bmm, "bmm_{}_a16w8")
DEQUANT_BMM = DequantBmm()


def _dense_bytes(problem: Problem, scheme: A16W8, config: Config) -> int:
    bytes_each = 4 if config["gemm"] == "fp32_bmm" else scheme.dtype.bytes
    return problem.B * problem.N * problem.K * bytes_each


def _rest_bytes(problem: Problem, scheme: A16W8) -> int:
    return scheme.activation_bytes(problem) + scheme.bias_bytes(problem) + scheme.output_bytes(problem)

"""Library baselines: the bf16 GEMM on decoded operands, with and without their decoding in the timed call."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from ...shapes.device import Device
from ...shapes.problem import Op, Problem
from ...shapes.schemes.mxfp8 import MxFp8
from ..inputs import Tensors, placeholders
from ..libraries.blas_forms import prepare_gemm
from ..libraries.blas_lt import BestAlgorithm
from ..libraries.dense import Decoded, DenseBlas
from ..libraries.rocm_blas import through_libraries
from ..provider import Config, Role
from .inputs import MxFp8Inputs
from .quantize import BLOCK

if TYPE_CHECKING:
    from ..aot import BuildRequest
    from ..jit.call import KernelCall

BLOCKS = 128
"""Blocks of 32 per program of the decoding kernel."""


def default_form(problem: Problem, device: Device) -> str:
    """Form of the product (`blas_forms.FORMS`): oneDNN does not reach the memory bandwidth at one row."""
    return "native" if device.kind == "cpu" and problem.M == 1 else "mm"


class BlasBf16Mx(DenseBlas[MxFp8, MxFp8Inputs]):
    """The bf16 GEMM alone, on operands that were decoded beforehand: what a layer in 16 bits costs.

    Such a layer has X in bf16. What is multiplied is X as MX-FP8 has it, decoded: the same cost, and one reference.
    """

    family = "mxfp8"
    op = Op.GEMM
    name = "blas_bf16_mx"

    def candidates(self, problem: Problem, scheme: MxFp8, device: Device) -> Sequence[Config]:
        """The forms of the product, the default first."""
        default = default_form(problem, device)
        forms = ("mm", "mm_t") if device.is_gpu else ("mm", "native", "mm_t")
        return [{"gemm": form} for form in sorted(forms, key=lambda form: form != default)]

    def decode(self, inputs: MxFp8Inputs, config: Config) -> Decoded:
        """X and W; a reference decodes W once."""
        x, w = (torch.empty_like(q, dtype=torch.bfloat16) for q in (inputs.x, inputs.w))
        decode_x = prepare_decode(inputs.x, inputs.x_scale, x)
        decode_w = prepare_decode(inputs.w, inputs.w_scale, w)
        if self.role is Role.REFERENCE:
            decode_w()
            return Decoded((x, w), decode_x, inputs.activations)

        def fill() -> None:
            decode_x()
            decode_w()

        return Decoded((x, w), fill)

    def multiply(self, inputs: MxFp8Inputs, operands: Any, outputs: Tensors, config: Config) -> Callable[[], object]:
        """The form that `gemm` names."""
        x, w = operands
        return prepare_gemm(config["gemm"], x, w, None, outputs[0])

    def moved_bytes(self, problem: Problem, scheme: MxFp8, config: Config) -> int:
        """Decoded X, decoded W and Y once; a transposed product is written and read once more."""
        return _product_bytes(problem, config) + _turned_bytes(problem, config)

    def working_set_bytes(self, problem: Problem, scheme: MxFp8, config: Config) -> int:
        """Decoded X, decoded W, Y, and a transposed product."""
        return _product_bytes(problem, config)

    def builds(self, problem: Problem, scheme: MxFp8, device: Device, config: Config) -> "Sequence[BuildRequest]":
        """The kernel that decodes X and W; the GEMM is the library's."""
        if not device.is_gpu:
            return []
        inputs: MxFp8Inputs = placeholders(problem, scheme, device)
        pairs = ((inputs.x, inputs.x_scale), (inputs.w, inputs.w_scale))
        return [decode_call(q, scales, torch.empty_like(q, dtype=torch.bfloat16)).request() for q, scales in pairs]


class DequantBlasMx(BlasBf16Mx):
    """What a framework does without a fused kernel: decode X and W into buffers, then the bf16 GEMM; all is timed."""

    name = "dequant_blas_mx"
    role = Role.DEQUANT_BLAS

    def moved_bytes(self, problem: Problem, scheme: MxFp8, config: Config) -> int:
        """X and W with their scales read and written decoded, beside what the GEMM moves."""
        return _stored_bytes(problem) + _decoded_bytes(problem) + super().moved_bytes(problem, scheme, config)

    def working_set_bytes(self, problem: Problem, scheme: MxFp8, config: Config) -> int:
        """Stored X and W with their scales beside what the GEMM touches."""
        return _stored_bytes(problem) + super().working_set_bytes(problem, scheme, config)


def _stored_bytes(problem: Problem) -> int:
    """Payload and scales of X and W."""
    return (problem.M + problem.N) * (problem.K + problem.K // BLOCK)


def _decoded_bytes(problem: Problem) -> int:
    """X and W in bf16."""
    return 2 * (problem.M + problem.N) * problem.K


def _product_bytes(problem: Problem, config: Config) -> int:
    """Memory of the product alone: decoded operands, Y, and the scratch of its form."""
    return _decoded_bytes(problem) + 2 * problem.M * problem.N + _turned_bytes(problem, config)


def _turned_bytes(problem: Problem, config: Config) -> int:
    """The scratch [N,M] of the transposed form of the product."""
    return 2 * problem.M * problem.N if config["gemm"] == "mm_t" else 0


def prepare_decode(q: torch.Tensor, scales: torch.Tensor, out: torch.Tensor) -> Callable[[], object]:
    """Return the call that overwrites bf16 `out` with payload `q` times `scales`; on a GPU it allocates nothing."""
    if q.device.type == "cpu":
        return prepare_decode_on_cpu(q, scales, out)
    from ..jit.call import compile_calls

    return compile_calls([decode_call(q, scales, out)]).run


def decode_call(q: torch.Tensor, scales: torch.Tensor, out: torch.Tensor) -> "KernelCall":
    """Overwrite bf16 `out` with payload `q` times `scales`."""
    from ..jit.call import KernelCall
    from .triton.quantize import dequantize_mx_kernel

    blocks = scales.numel()
    arguments = {"payload": q.view(torch.uint8), "scales": scales, "out": out, "blocks": blocks}
    constants = {"MASKED": blocks % BLOCKS != 0, "BLOCKS": BLOCKS}
    return KernelCall(dequantize_mx_kernel, (-(-blocks // BLOCKS), 1, 1), arguments, constants, {"num_warps": 4})


def prepare_decode_on_cpu(q: torch.Tensor, scales: torch.Tensor, out: torch.Tensor) -> Callable[[], object]:
    """Return the call that overwrites bf16 `out` [..., K] with payload `q` times `scales` [..., K/32], by torch.

    Exact: a payload has four significant bits, and a scale is a power of two that bf16 has.
    """
    blocks, source = out.view(*scales.shape, BLOCK), q.view(*scales.shape, BLOCK)
    factor = torch.empty((*scales.shape, 1), dtype=torch.bfloat16)
    wide = torch.empty(scales.shape, dtype=torch.int16)

    def run() -> None:
        # An e8m0 byte is the exponent field of bf16; only byte 0 is a subnormal there.
        wide.copy_(scales).mul_(1 << 7).clamp_(min=1 << 6)
        factor.view(torch.int16).copy_(wide[..., None])
        blocks.copy_(source)
        blocks.mul_(factor)

    return run


class BlasBestMx(BestAlgorithm[MxFp8, MxFp8Inputs], BlasBf16Mx):
    """`blas_bf16_mx`, by the best algorithm."""

    name = "blas_best_mx"


BLAS_BF16 = BlasBf16Mx()
BLAS_BEST = BlasBestMx()
BLAS_ROCBLAS, BLAS_HIPBLASLT = through_libraries(BlasBf16Mx, "blas_{}_mx")
DEQUANT_BLAS = DequantBlasMx()

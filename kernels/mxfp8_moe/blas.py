"""Library baselines: one BLAS GEMM per hit expert on bf16 operands, that are dequantized in the timed call or before.

Which slots belong to which expert is read in `prepare`: a framework that loops over experts would have to wait for the
device to learn it, and that is not counted here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from ...shapes.device import Device
from ...shapes.problem import Problem
from ...shapes.schemes.mxfp8 import BLOCK
from ...shapes.schemes.mxfp8_moe import MxFp8Moe
from ..inputs import Tensors
from ..libraries.dense import Decoded, DenseBlas
from ..libraries.rocm_blas import through_libraries
from ..mxfp8.blas import prepare_decode_on_cpu
from ..mxfp8.quantize import dequantize_mx, empty_mx
from ..provider import Config, Role
from .inputs import MoeInputs
from .traffic import hit_elements

if TYPE_CHECKING:
    from ..aot import BuildRequest

_BF16 = 2

Step = Callable[[], object]


@dataclass(frozen=True, slots=True)
class DenseExperts:
    """bf16 x[M,K], bf16 weights [N,K] by expert, and what fills those of an expert before its product, if anything."""

    x: torch.Tensor
    weights: Mapping[int, torch.Tensor]
    before: Mapping[int, Step] = field(default_factory=dict)


class LoopBf16(DenseBlas[MxFp8Moe, MoeInputs]):
    """The GEMMs alone, with the gathering of rows and the scattering of results: a layer in bf16 has its X in bf16.

    X and the weights of the hit experts are dequantized beforehand.
    """

    family = "mxfp8_moe"
    name = "loop_bf16_moe"

    def decode(self, inputs: MoeInputs, config: Config) -> Decoded:
        """X, and the weights of the hit experts, once."""
        weights = {
            expert: dequantize_mx(inputs.w[expert], inputs.w_scale[expert], torch.bfloat16)
            for expert, _ in inputs.groups()
        }
        x, widen = _dense_x(inputs)
        return Decoded(DenseExperts(x, weights), widen, inputs.activations, {"experts": len(weights)})

    def multiply(
        self, inputs: MoeInputs, operands: DenseExperts, outputs: Tensors, config: Config
    ) -> Callable[[], object]:
        """A loop over the hit experts."""
        return loop_products(inputs, operands, outputs[0])

    def moved_bytes(self, problem: Problem, scheme: MxFp8Moe, config: Config) -> int:
        """bf16 weights of the hit experts, bf16 rows read, gathered, read; products written, read, scattered."""
        return _BF16 * hit_elements(problem) + _loop_bytes(problem, scheme)

    def working_set_bytes(self, problem: Problem, scheme: MxFp8Moe, config: Config) -> int:
        """bf16 weights of the hit experts, bf16 X, routing and Y; nothing quantized."""
        dense = _BF16 * (hit_elements(problem) + problem.M * problem.K)
        return dense + scheme.routing_bytes(problem) + scheme.output_bytes(problem)

    def builds(
        self, problem: Problem, scheme: MxFp8Moe, device: Device, config: Config
    ) -> "Sequence[BuildRequest]":  # fmt: skip
        """On a GPU, the dequantizer of X (also where it runs beforehand), and that of the weights inside the call."""
        if not device.is_gpu:
            return ()
        from .triton.dequantize import dequantize_call

        matrices = (empty_mx((rows, problem.K), "meta") for rows in self.dequantized_rows(problem))
        return [
            dequantize_call(payload, scales, torch.empty_like(payload, dtype=torch.bfloat16), device.arch).request()
            for payload, scales in matrices
        ]

    def dequantized_rows(self, problem: Problem) -> tuple[int, ...]:
        """Rows of K elements of each matrix that a launch dequantizes: of X."""
        return (problem.M,)


class DequantLoop(LoopBf16):
    """What can be done without a fused kernel: dequantize X, and each hit expert into one buffer; BLAS; all timed."""

    name = "dequant_loop_moe"
    role = Role.DEQUANT_BLAS

    def decode(self, inputs: MoeInputs, config: Config) -> Decoded:
        """X, and each expert before its product: all of them into one buffer [N,K]."""
        buffer = torch.empty(inputs.w.shape[1:], dtype=torch.bfloat16, device=inputs.x.device)
        steps = {
            expert: dequantizer(inputs, inputs.w[expert], inputs.w_scale[expert], buffer)
            for expert, _ in inputs.groups()
        }
        x, widen = _dense_x(inputs)
        dense = DenseExperts(x, dict.fromkeys(steps, buffer), steps)
        return Decoded(dense, widen, config={"experts": len(steps)})

    def moved_bytes(self, problem: Problem, scheme: MxFp8Moe, config: Config) -> int:
        """X and weights read quantized and written in bf16, beside what `loop_bf16_moe` moves."""
        elements = hit_elements(problem) + problem.M * problem.K
        return elements + elements // BLOCK + _BF16 * elements + super().moved_bytes(problem, scheme, config)

    def dequantized_rows(self, problem: Problem) -> tuple[int, ...]:
        """Of X, and of one expert."""
        return problem.M, problem.N

    def working_set_bytes(self, problem: Problem, scheme: MxFp8Moe, config: Config) -> int:
        """Quantized weights of the hit experts, one bf16 buffer, X with its bf16 copy, and Y."""
        return scheme.compulsory_bytes(problem) + _BF16 * (problem.N + problem.M) * problem.K


def _dense_x(inputs: MoeInputs) -> tuple[torch.Tensor, Step]:
    """Memory for X[M,K] in bf16, and the call that fills it."""
    x = torch.empty(inputs.x.shape, dtype=torch.bfloat16, device=inputs.x.device)
    return x, dequantizer(inputs, inputs.x, inputs.x_scale, x)


def loop_products(inputs: MoeInputs, dense: DenseExperts, output: torch.Tensor) -> Step:
    """Return the loop over hit experts: gather rows of X, multiply, weight, scatter."""
    problem, device = inputs.problem, inputs.x.device
    groups = inputs.groups()
    most = max(slots.numel() for _, slots in groups)
    rows = torch.empty(most, problem.K, dtype=torch.bfloat16, device=device)
    products = torch.empty(most, problem.N, dtype=torch.bfloat16, device=device)
    factors = inputs.topk_weights.reshape(-1, 1) if inputs.topk_weights is not None else None
    plan = [
        (
            dense.before.get(expert),
            dense.weights[expert].t(),
            slots,
            slots // problem.top_k,
            rows[: slots.numel()],
            products[: slots.numel()],
            factors[slots] if factors is not None else None,
        )
        for expert, slots in groups
    ]

    def run() -> None:
        for step, weight, slots, tokens, gathered, product, factor in plan:
            if step is not None:
                step()
            torch.index_select(dense.x, 0, tokens, out=gathered)
            torch.mm(gathered, weight, out=product)
            if factor is not None:
                product.mul_(factor)
            output.index_copy_(0, slots, product)

    return run


def dequantizer(inputs: MoeInputs, payload: torch.Tensor, scales: torch.Tensor, out: torch.Tensor) -> Step:
    """Return the call that writes `out` [..., K] in bf16: one Triton kernel on a GPU, torch on the CPU."""
    if inputs.device.is_gpu:
        from ..jit.call import compile_calls
        from .triton.dequantize import dequantize_call

        return compile_calls([dequantize_call(payload, scales, out, inputs.device.arch)]).run
    return prepare_decode_on_cpu(payload, scales, out)


def _loop_bytes(problem: Problem, scheme: MxFp8Moe) -> int:
    """Bytes of all but the weights: bf16 X, gathered rows, products (weighted in place), Y, and routing."""
    products = problem.rows * problem.N * (2 if scheme.weighted else 1)
    copies = _BF16 * (problem.M * problem.K + 2 * problem.rows * problem.K + 2 * products)
    return copies + scheme.output_bytes(problem) + scheme.routing_bytes(problem)


LOOP_BF16 = LoopBf16()
LOOP_ROCBLAS, LOOP_HIPBLASLT = through_libraries(LoopBf16, "loop_{}_moe")
DEQUANT_LOOP = DequantLoop()

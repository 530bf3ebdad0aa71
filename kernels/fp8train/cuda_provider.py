"""cuda_fp8: products in FP8, in CUDA C++ for sm90."""

from collections.abc import Sequence

import torch

from ...shapes.device import Device
from ...shapes.problem import Op, Pass, Problem
from ...shapes.schemes.fp8train import COMPUTES, FACTORS, Fp8Train
from ..aot import BuildRequest
from ..cuda import matmul_fp8
from ..cuda.provider import CudaProvider, Part
from ..inputs import Tensors, placeholders
from ..jit.call import requests
from ..needs import WRITTEN_FOR_SM90
from ..provider import Config, Launch, Support
from ..quantized import ScaledOperand
from .inputs import TrainInputs
from .plans import SPECIALISED_QUANT, Forms, Plan, prepare_saved, traffic
from .providers import SPECIALISED

_Product = tuple[Pass, ScaledOperand, ScaledOperand, torch.Tensor]


class CudaFp8(CudaProvider[Fp8Train, TrainInputs]):
    """While one partial sum is scaled and added, the next product runs.

    Quantizers and transpositions are those of `specialised_fp8`.
    """

    name = "cuda_fp8"
    family = "fp8train"
    op = Op.GEMM
    sources = matmul_fp8.SOURCES
    headers = matmul_fp8.HEADERS
    kernel = matmul_fp8.KERNEL

    def supports(self, problem: Problem, scheme: Fp8Train, device: Device) -> Support:
        """On sm90, N and K in multiples of 16, and M where it is contracted."""
        if device.arch != "sm90":
            return Support.no(WRITTEN_FOR_SM90)
        if problem.N % 16 or problem.K % 16:
            return Support.no(f"N={problem.N} and K={problem.K} must be multiples of 16")
        if Pass.WGRAD in COMPUTES[problem.pass_] and problem.M % 16:
            return Support.no(f"M={problem.M} must be a multiple of 16 where dW is computed")
        return SPECIALISED.fits(problem)

    def candidates(self, problem: Problem, scheme: Fp8Train, device: Device) -> Sequence[Config]:
        """One block per SM, with as many stages as fit."""
        return [matmul_fp8.default_config(device)]

    def prepare(self, inputs: TrainInputs, config: Config | None = None) -> Launch:
        """Allocate outputs, FP8 forms and scales, compile, fill what the forward pass saves, and launch once."""
        config, outputs = config or self.default_config(inputs), inputs.empty_outputs()
        plan, products = _planned(inputs, outputs)
        parts: list[Part] = [plan.timed]
        for product, a, b, out in products:
            launch = matmul_fp8.launch_plan(a, b, out, config, by_row=product is Pass.WGRAD)
            parts.append((launch, matmul_fp8.geometry(launch, [len(out)], out.shape[1], a.data.shape[1])))
        return self.prepared(parts, outputs, config, prepare_saved(plan))

    def moved_bytes(self, problem: Problem, scheme: Fp8Train, config: Config) -> int:
        """Operands of the quantizers and transpositions once per launch, those of the products, and the results."""
        return self._traffic(problem, scheme)[0]

    def working_set_bytes(self, problem: Problem, scheme: Fp8Train, config: Config) -> int:
        """Distinct memory of all of them."""
        return self._traffic(problem, scheme)[1]

    def _traffic(self, problem: Problem, scheme: Fp8Train) -> tuple[int, int]:
        inputs: TrainInputs = placeholders(problem, scheme, Device("cuda", 0, "", "", "sm90", 1, 1, 1, 1))
        plan, products = _planned(inputs, inputs.empty_outputs())
        return traffic(plan, (side for _, *sides, _ in products for side in sides), scheme.output_bytes(problem))

    def builds(self, problem: Problem, scheme: Fp8Train, device: Device, config: Config) -> Sequence[BuildRequest]:
        """What Triton compiles: all but the products in CUDA C++."""
        inputs: TrainInputs = placeholders(problem, scheme, device)
        plan, _ = _planned(inputs, inputs.empty_outputs())
        return requests((*plan.timed, *plan.saved))


def _planned(inputs: TrainInputs, outputs: Tensors) -> tuple[Plan, list[_Product]]:
    """The Triton kernels of a launch, and the products that follow them."""
    plan, products, pass_ = Plan(), [], inputs.problem.pass_
    forms = Forms(inputs, plan, k_major=True, scales_first=True)
    forms.quantize(SPECIALISED_QUANT[pass_])
    for product, out in zip(COMPUTES[pass_], outputs, strict=True):
        a, b = (forms.side(name, product) for name in FACTORS[product])
        products.append((product, *((b, a) if product is Pass.WGRAD else (a, b)), out))
    return plan, products


CUDA_FP8 = CudaFp8()

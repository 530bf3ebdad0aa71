"""torch's own scaled matrix product with blockwise scales (cuBLAS), where this torch and this GPU have it.

Operands are contiguous along the contracted dimension. Scales of 1 x 128 are [lines, blocks] with stride (1, lines);
those of 128 x 128 are [blocks along K, blocks of lines] with stride (1, L4), L4 = blocks along K rounded up to 4.
"""

from collections.abc import Callable
from typing import Any

import torch

from ...shapes.device import Device
from ...shapes.errors import RooflensError
from ...shapes.problem import Op, Pass, Problem
from ...shapes.schemes.fp8train import BLOCK, COMPUTES, FACTORS, Fp8Train
from ..geometry import combined
from ..inputs import placeholders
from ..jit.call import compile_calls
from ..needs import ONLY_SM90
from ..provider import Config, Launch, Provider, Role, Support
from ..quantized import ScaledOperand
from .inputs import TrainInputs
from .plans import SPECIALISED_QUANT, Forms, Plan, prepare_saved, traffic, transposed_scale

_OLDEST_CUDA = (12, 9)
_SCALE_PAD = 4


class TorchScaledMm(Provider[Fp8Train, TrainInputs]):
    """torch.nn.functional.scaled_mm with scales of 1 x 128 and 128 x 128, or 1 x 128 twice (wgrad).

    Quantizers, and transpositions of operands that a product contracts along their other dimension, are those of
    `specialised_fp8`, so that the products are what differs; the one of W writes its scales as cuBLAS wants them. torch
    allocates the results.
    """

    family = "fp8train"
    op = Op.GEMM
    name = "torch_scaled_mm_fp8"
    role = Role.UPSTREAM

    def supports(self, problem: Problem, scheme: Fp8Train, device: Device) -> Support:
        """On sm90, with a torch that has it and CUDA 12.9 or newer; whole blocks; e4m3 only."""
        if missing := _missing(device):
            return Support.no(missing)
        if scheme.hybrid and problem.pass_ is not Pass.FWD:
            return Support.no(
                "cuBLAS multiplies e4m3 only under blockwise scales; a hybrid scheme has gradients in e5m2"
            )
        whole = (problem.N, problem.K) if problem.pass_ is Pass.FWD else (problem.M, problem.N, problem.K)
        if any(size % BLOCK for size in whole) or problem.M % _SCALE_PAD:
            return Support.no("N and K (beyond the forward pass M as well) must be multiples of 128, M of 4")
        return Support.yes()

    def prepare(self, inputs: TrainInputs, config: Config | None = None) -> Launch:
        """Allocate FP8 forms and scales, compile the quantizers, and ask torch for each product once."""
        outputs = inputs.empty_outputs()
        plan, pairs = _plan(inputs)
        refresh, calls = prepare_saved(plan), compile_calls(plan.timed)
        products = [_product(product, a, b) for product, a, b in pairs]
        _try(products)

        def run() -> tuple[torch.Tensor, ...]:
            refresh()
            calls.run()
            return tuple(product() for product in products)

        kernels = (*calls.kernels, *("scaled_mm" for _ in products))
        return Launch.returning(run, outputs, kernels=kernels, refresh=refresh, geometry=combined([], calls.described))

    def moved_bytes(self, problem: Problem, scheme: Fp8Train, config: Config) -> int:
        """Operands of the quantizers and transpositions once per launch, those of the products, and the results."""
        return self._traffic(problem, scheme)[0]

    def working_set_bytes(self, problem: Problem, scheme: Fp8Train, config: Config) -> int:
        """Distinct memory of all of them."""
        return self._traffic(problem, scheme)[1]

    def _traffic(self, problem: Problem, scheme: Fp8Train) -> tuple[int, int]:
        inputs: TrainInputs = placeholders(problem, scheme, Device("cuda", 0, "", "", "sm90", 1, 1, 1, 1))
        plan, pairs = _plan(inputs)
        return traffic(plan, (side for _, *sides in pairs for side in sides), scheme.output_bytes(problem))


def _plan(inputs: TrainInputs) -> tuple[Plan, list[tuple[Pass, ScaledOperand, ScaledOperand]]]:
    """Quantizers and transpositions of one launch, and each product with its operands."""
    plan = Plan()
    forms = Forms(inputs, plan, k_major=True, scales_first=True, scale_pad=_SCALE_PAD)
    forms.quantize(SPECIALISED_QUANT[inputs.problem.pass_])
    return plan, [(product, *_sides(forms, plan, product)) for product in COMPUTES[inputs.problem.pass_]]


def _sides(forms: Forms, plan: Plan, product: Pass) -> tuple[ScaledOperand, ScaledOperand]:
    """Operands of a product; the scales of W are [blocks of lines, blocks of depth, filled up]."""
    first, second = FACTORS[product]
    if product is Pass.WGRAD:
        return forms.side(second, product), forms.side(first, product)
    a = forms.side(first, product)
    if a.scale_line != 1:  # given row by row
        a = transposed_scale(plan, a)
    scale = forms.padded_scale(product)
    return a, ScaledOperand(forms.side(second, product).data, scale, scale.stride(0), 1)


def _product(product: Pass, a: ScaledOperand, b: ScaledOperand) -> Callable[[], torch.Tensor]:
    """Return a call of scaled_mm that computes a[R,D] b[C,D]^T into a new tensor."""
    from torch.nn.functional import ScalingType, scaled_mm

    turned = b.data.t()
    lines = ScalingType.BlockWise1x128
    a_scale = a.scale.t()
    b_scale, kind = b.scale.t(), lines if product is Pass.WGRAD else ScalingType.BlockWise128x128
    return lambda: scaled_mm(a.data, turned, a_scale, lines, b_scale, kind, output_dtype=torch.bfloat16)


def _try(products: list[Callable[[], torch.Tensor]]) -> None:
    """Raise RooflensError where torch refuses a product."""
    try:
        for product in products:
            product()
    except (RuntimeError, ValueError) as error:
        raise RooflensError(f"scaled_mm: {str(error).splitlines()[0]}") from error


def _missing(device: Device) -> str:
    """Say why this torch on this device has no blockwise scaled product; empty when it has one."""
    if not device.is_gpu or device.arch != "sm90":
        return ONLY_SM90
    functional: Any = torch.nn.functional
    if not hasattr(functional, "scaled_mm") or not hasattr(functional, "ScalingType"):
        return f"torch {torch.__version__} has no torch.nn.functional.scaled_mm: install a newer one"
    version = tuple(int(part) for part in (torch.version.cuda or "0").split(".")[:2])
    if version < _OLDEST_CUDA:
        return f"blockwise scales need CUDA 12.9 or newer, this torch has {torch.version.cuda or 'none'}"
    return ""


TORCH_SCALED_MM = TorchScaledMm()

"""torch's own scaled matrix product with blockwise scales (cuBLAS), where this torch and this GPU have it.

Operands are contiguous along the contracted dimension. Scales of 1 x 128 are [lines, blocks] with stride (1, lines);
those of 128 x 128 are [blocks along K, blocks of lines] with stride (1, L4), L4 = blocks along K rounded up to 4.
"""

from collections.abc import Callable
from typing import Any

import torch

from ...shapes.device import Device
from ...shapes.errors import RooflensError
from ...shapes.problem import Pass, Problem
from ...shapes.scheme import Scheme
from ...shapes.schemes.fp8train import BLOCK, COMPUTES, Fp8Train
from ..provider import Config, Launch, Provider, Role, Support
from .blas import NO_GEMM
from .inputs import TrainInputs
from .plans import FACTORS, SPECIALISED_QUANT, Forms, Plan, transposed_scale
from .saved import Saved
from .triton_calls import compile_calls
from .triton_gemm_calls import Operand

_OLDEST_CUDA = (12, 9)
_SCALE_PAD = 4


class TorchScaledMm(Provider[Scheme, TrainInputs]):
    """torch.nn.functional.scaled_mm with scales of 1 x 128 and 128 x 128, or 1 x 128 twice (wgrad).

    Quantizers, and transpositions of operands that a product contracts along their other dimension, are those of
    `specialised_fp8`, so that the products are what differs. torch allocates the results.
    """

    family = "fp8train"
    name = "torch_scaled_mm_fp8"
    role = Role.UPSTREAM

    def supports(self, problem: Problem, scheme: Scheme, device: Device) -> Support:
        """On sm90, with a torch that has it and CUDA 12.9 or newer; whole blocks; e4m3 only."""
        if not isinstance(scheme, Fp8Train):
            return Support.no(NO_GEMM)
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
        plan = Plan()
        forms = Forms(inputs, plan, k_major=True, scales_first=True)
        forms.quantize(SPECIALISED_QUANT[inputs.problem.pass_])
        pairs = [(product, *_sides(forms, plan, product)) for product in COMPUTES[inputs.problem.pass_]]
        saved = Saved(plan.saved_from, compile_calls(plan.saved)) if plan.saved else None
        calls = compile_calls(plan.timed)
        products = [_product(product, a, b) for product, a, b in pairs]
        launch = Launch(lambda: None, outputs, kernels=(*calls.kernels, *("scaled_mm" for _ in products)))

        def run() -> None:
            if saved is not None:
                saved.refresh()
            calls()
            launch.output = tuple(product() for product in products)

        launch.run = run
        return launch


def _sides(forms: Forms, plan: Plan, product: Pass) -> tuple[Operand, Operand]:
    first, second = FACTORS[product]
    if product is Pass.WGRAD:
        return forms.side(second, product), forms.side(first, product)
    a = forms.side(first, product)
    if a.scale_line != 1:  # given row by row
        a = transposed_scale(plan, forms.operand(first))
    return a, forms.side(second, product)


def _product(product: Pass, a: Operand, b: Operand) -> Callable[[], torch.Tensor]:
    """Return a call of scaled_mm that computes a[R,D] b[C,D]^T into a new tensor."""
    from torch.nn.functional import ScalingType, scaled_mm

    turned = b.data.t()
    lines = ScalingType.BlockWise1x128
    a_scale = a.scale.t()
    if product is Pass.WGRAD:
        b_scale = b.scale.t()
        return lambda: scaled_mm(a.data, turned, a_scale, lines, b_scale, lines, output_dtype=torch.bfloat16)
    blocks = ScalingType.BlockWise128x128
    source = b.scale.t() if b.scale_line == 1 else b.scale  # [blocks of lines, blocks of depth]
    depth = source.shape[1]
    if source.is_contiguous() and depth % _SCALE_PAD == 0:
        whole = source.t()
        return lambda: scaled_mm(a.data, turned, a_scale, lines, whole, blocks, output_dtype=torch.bfloat16)
    padded = torch.zeros(source.shape[0], depth + -depth % _SCALE_PAD, device=source.device)

    def run() -> torch.Tensor:
        padded[:, :depth].copy_(source)
        return scaled_mm(a.data, turned, a_scale, lines, padded.t(), blocks, output_dtype=torch.bfloat16)

    try:
        run()
    except (RuntimeError, ValueError) as error:
        raise RooflensError(f"scaled_mm: {str(error).splitlines()[0]}") from error
    return run


def _missing(device: Device) -> str:
    """Say why this torch on this device has no blockwise scaled product; empty when it has one."""
    if not device.is_gpu or device.arch != "sm90":
        return "torch multiplies with blockwise FP8 scales on sm90 only (cuBLAS)"
    functional: Any = torch.nn.functional
    if not hasattr(functional, "scaled_mm") or not hasattr(functional, "ScalingType"):
        return f"torch {torch.__version__} has no torch.nn.functional.scaled_mm: install a newer one"
    version = tuple(int(part) for part in (torch.version.cuda or "0").split(".")[:2])
    if version < _OLDEST_CUDA:
        return f"blockwise scales need CUDA 12.9 or newer, this torch has {torch.version.cuda or 'none'}"
    return ""


TORCH_SCALED_MM = TorchScaledMm()

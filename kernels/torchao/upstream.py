"""torchao itself, where it is installed: its quantizers, its two GEMMs, its linear and its grouped product.

Read against torchao 0.18.0 (`torchao.prototype.blockwise_fp8_training`, `.moe_training.blockwise_fp8`). All of it
allocates its results, so that the launch's output is what the last call returned. Its GEMM kernels read scales beyond
the matrices when the last tile is partial, and keep the tiles found at the first M for every other M.
"""

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ...shapes.device import Device
from ...shapes.errors import RooflensError
from ...shapes.problem import Pass, Problem
from ...shapes.scheme import DType
from ...shapes.schemes.torchao import BLOCK, AoGemm, AoGrouped, AoGroupedLinear, AoLinear, AoQuant, Torchao
from .. import needs
from ..inputs import TORCH_DTYPES
from ..provider import Config, Launch, Provider, Role, Support
from .inputs import QuantInputsAo
from .linear_inputs import LinearInputs
from .product_inputs import ProductInputs

_TRAINING = "torchao.prototype.blockwise_fp8_training"
_GROUPED = "torchao.prototype.moe_training.blockwise_fp8"

Call = Callable[[], torch.Tensor | tuple[torch.Tensor, ...]]


class Upstream(Provider[Torchao, Any]):
    """`dispatched` names the function that multiplied: torchao chooses among its own kernels, torch's and DeepGEMM's.

    Config `use_triton` (the linear): its Triton GEMMs instead of torch's scaled_mm, which is its default.
    """

    family = "torchao"
    name = "torchao_ao"
    role = Role.UPSTREAM

    def supports(self, problem: Problem, scheme: Torchao, device: Device) -> Support:
        """Installed, a GPU with FP8, and sizes that its assertions let through."""
        if missing := needs.TORCHAO.missing():
            return Support.no(missing)
        if missing := needs.fp8_missing(device):
            return Support.no(missing)
        if isinstance(scheme, AoQuant):
            return Support.yes()
        if isinstance(scheme, AoGrouped) and not isinstance(scheme, AoGroupedLinear):
            return Support.no("torchao's grouped product casts inside: ask for ao-grouped-linear")
        if not isinstance(scheme, AoGemm) and scheme.dtype is not DType.BF16:
            return Support.no(f"torchao's linear takes bf16, not {scheme.dtype}")
        wanted = ("K",) if isinstance(scheme, AoGemm) else ("N", "K")
        for size in wanted:
            if getattr(problem, size) % BLOCK:
                return Support.no(f"torchao needs {size} to be a multiple of {BLOCK}")
        return Support.yes()

    def candidates(self, problem: Problem, scheme: Torchao, device: Device) -> Sequence[Config]:
        """Both ways that its linear can multiply, its default first."""
        return [{"use_triton": False}, {"use_triton": True}] if isinstance(scheme, AoLinear) else ()

    def prepare(self, inputs: QuantInputsAo | ProductInputs | LinearInputs, config: Config | None = None) -> Launch:
        """Import torchao, arrange its arguments, and call it once: its kernels tune themselves on the first call."""
        version = getattr(_module("torchao"), "__version__", "")
        chosen: dict[str, Any] = {}
        if isinstance(inputs, QuantInputsAo):
            function, call = _quantizer(inputs)
        elif isinstance(inputs, ProductInputs):
            function, call = _gemm(inputs)
        elif isinstance(inputs.scheme, AoGroupedLinear):
            function, call = _grouped(inputs)
        else:
            chosen = {"use_triton": bool((config or {}).get("use_triton", False))}
            function, call = _linear(inputs, chosen["use_triton"])

        outputs = inputs.empty_outputs()
        output = outputs if len(outputs) > 1 else outputs[0]
        launch = Launch.returning(call, output, {"torchao": version, **chosen}, dispatched=function)
        launch()
        return launch

    def moved_bytes(self, problem: Problem, scheme: Torchao, config: Config) -> int | None:
        """Known where it is one kernel."""
        return scheme.compulsory_bytes(problem) if isinstance(scheme, AoQuant | AoGemm) else None


def _quantizer(inputs: QuantInputsAo) -> tuple[str, Call]:
    name = f"triton_fp8_blockwise_{inputs.scheme.kind.replace('-', '_').replace('_', '_quant_', 1)}"
    quantize = _attribute(f"{_TRAINING}.kernels", name)
    return name, lambda: tuple(quantize(inputs.x, block_size=BLOCK, dtype=inputs.fp8))


def _gemm(inputs: ProductInputs) -> tuple[str, Call]:
    name = f"triton_fp8_gemm_1x128_{inputs.scheme.right}" if isinstance(inputs.scheme, AoGemm) else ""
    gemm = _attribute(f"{_TRAINING}.kernels", name)
    b, b_scale = inputs.b[0].t(), inputs.b_scale[0]
    arguments = (inputs.a, b, inputs.a_scale.t(), b_scale if inputs.by_column else b_scale.t())
    dtype = TORCH_DTYPES[inputs.scheme.dtype]
    return name, lambda: gemm(*arguments, block_size=BLOCK, out_dtype=dtype)


def _linear(inputs: LinearInputs, use_triton: bool) -> tuple[str, Call]:
    apply = _attribute(f"{_TRAINING}.linear", "fp8_blockwise_mm").apply
    call = _with_gradients(inputs, inputs.w[0], lambda x, w: apply(x, w, BLOCK, x.dtype, use_triton))
    return "triton_fp8_gemm" if use_triton else "scaled_mm", call


def _grouped(inputs: LinearInputs) -> tuple[str, Call]:
    product = _attribute(f"{_GROUPED}.grouped_mm", "_to_fp8_blockwise_then_scaled_grouped_mm")
    backend = f"{_GROUPED}.grouped_mm_backend"
    deepgemm = _attribute(backend, "can_use_deepgemm_grouped_training")(inputs.x, inputs.x.dtype, BLOCK)

    def multiply(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        # groups are multiples of 128 rows: nothing to pad
        out: torch.Tensor = product(
            x, w.transpose(1, 2), inputs.offs, out_dtype=x.dtype, float8_dtype=inputs.fp8, block_size=BLOCK,
            pad_token_groups_for_grouped_mm=False,
        )  # fmt: skip
        return out

    return "deepgemm" if deepgemm else "emulated", _with_gradients(inputs, inputs.w, multiply)


def _with_gradients(
    inputs: LinearInputs, weight: torch.Tensor, multiply: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
) -> Call:
    """Y alone, or with dX and dW through autograd; the gradients are returned, never accumulated."""
    if inputs.problem.pass_ is Pass.FWD:

        def forward() -> torch.Tensor:
            with torch.no_grad():
                return multiply(inputs.x, weight)

        return forward
    x, w = inputs.x.detach().requires_grad_(), weight.detach().requires_grad_()

    def step() -> tuple[torch.Tensor, ...]:
        y = multiply(x, w)
        return (y.detach(), *torch.autograd.grad(y, (x, w), inputs.dy))

    return step


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except Exception as error:  # an extension that does not fit this torch raises what it likes
        raise RooflensError(f"{name} cannot be imported: {type(error).__name__}: {error}") from error


def _attribute(module: str, name: str) -> Any:
    found = getattr(_module(module), name, None)
    if found is None:
        raise RooflensError(f"{module} has no {name}: this version of torchao is another than 0.18")
    return found


TORCHAO = Upstream()

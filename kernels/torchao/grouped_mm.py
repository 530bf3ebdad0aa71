"""torch's own grouped product of dense operands: all experts in one call."""

from functools import cache
from typing import Any

import torch

from ...shapes.device import Device
from ...shapes.problem import Op, Problem
from ...shapes.scheme import DType
from ...shapes.schemes.torchao import Torchao
from ..provider import Config, Launch, Support
from .blas import BlasAo, dense_weight
from .linear_inputs import LinearInputs
from .product_inputs import ProductInputs

_ALIGNMENT = 8
"""Elements of bf16 in 16 bytes, of which every row must have whole ones."""


class GroupedMM(BlasAo):
    """`torch.nn.functional.grouped_mm` (`torch._grouped_mm` before it was public) on dequantized bf16 operands.

    It allocates its results, so that the launch's output is what the last call returned.
    """

    name = "grouped_mm_bf16_ao"
    op = Op.GROUPED_GEMM

    def supports(self, problem: Problem, scheme: Torchao, device: Device) -> Support:
        """bf16 with aligned rows, where torch has a kernel of its own for it."""
        if _function() is None:
            return Support.no(f"torch {torch.__version__} has no grouped_mm: needs 2.8 or newer")
        if scheme.dtype is not DType.BF16:
            return Support.no(f"torch's grouped_mm takes bf16, not {scheme.dtype}: use loop_bf16_ao")
        if problem.N % _ALIGNMENT or problem.K % _ALIGNMENT:
            return Support.no(f"torch's grouped_mm needs N and K to be multiples of {_ALIGNMENT}: use loop_bf16_ao")
        if device.arch.startswith("sm") and int(device.arch[2:]) < 90:
            return Support.no(f"torch's grouped_mm is a loop on {device.arch}: use loop_bf16_ao")
        if not device.is_gpu and not _runs_on_cpu():
            return Support.no(f"grouped_mm of torch {torch.__version__} needs a GPU: use loop_bf16_ao")
        return Support.yes()

    def prepare(self, inputs: ProductInputs | LinearInputs, config: Config | None = None) -> Launch:
        """Dequantize W once."""
        weight, grouped, offs = dense_weight(inputs), _function(), inputs.offs
        x, *gradients = inputs.dense

        def call() -> Any:
            y = grouped(x, weight.transpose(1, 2), offs=offs)
            if not gradients:
                return y
            dy, x_columns, dy_columns = gradients
            return y, grouped(dy, weight, offs=offs), grouped(dy_columns.t(), x_columns, offs=offs)

        outputs = inputs.empty_outputs()
        output = outputs if len(outputs) > 1 else outputs[0]
        return Launch.returning(call, output, {"function": grouped.__name__})


def _function() -> Any:
    return getattr(torch.nn.functional, "grouped_mm", None) or getattr(torch, "_grouped_mm", None)


@cache
def _runs_on_cpu() -> bool:
    """Ask with the smallest product that there is: only some versions have a CPU kernel."""
    left, right = (torch.zeros(shape, dtype=torch.bfloat16) for shape in ((_ALIGNMENT,) * 2, (1, *(_ALIGNMENT,) * 2)))
    try:
        _function()(left, right.transpose(1, 2), offs=torch.tensor([_ALIGNMENT], dtype=torch.int32))
    except (RuntimeError, NotImplementedError):
        return False
    return True


GROUPED_MM = GroupedMM()

"""The quantizers as providers: in Triton, one launch each, and in plain torch."""

from collections.abc import Sequence

import torch

from ...shapes.device import Device
from ...shapes.problem import Op, Problem
from ...shapes.schemes.fp8train import Fp8Quant
from ..jit.call import KernelCall
from ..jit.provider import TritonProvider
from ..needs import fp8_missing
from ..provider import Config, Launch, Provider, Support
from ..quantized import Quantized
from .inputs import QuantInputsFp8
from .quantize import AMAX_FLOOR, GROUPS
from .triton_calls import quantize_call, weight_call
from .triton_configs import quant_configs

_MOST_LINE = 1 << 23
"""Elements of a row: 128 rows of a tile are reached by 32-bit offsets."""


class TritonQuant(TritonProvider[Fp8Quant, QuantInputsFp8]):
    """The family's Triton quantizers; "rowcol" reads X once and writes both forms."""

    family = "fp8train"
    op = Op.QUANTIZE
    name = "triton_quant_fp8"

    def supports(self, problem: Problem, scheme: Fp8Quant, device: Device) -> Support:
        """Any sizes, on GPUs with FP8."""
        if missing := fp8_missing(device):
            return Support.no(missing)
        if problem.K > _MOST_LINE:
            return Support.no(f"K is limited to {_MOST_LINE} (32-bit offsets inside a tile)")
        return Support.yes()

    def candidates(self, problem: Problem, scheme: Fp8Quant, device: Device) -> Sequence[Config]:
        """Tile sizes and warps."""
        return quant_configs(scheme.kind, device, problem.M, problem.K)

    def calls(self, inputs: QuantInputsFp8, outputs: tuple[torch.Tensor, ...], config: Config) -> Sequence[KernelCall]:
        """One kernel."""
        results = dict(zip(inputs.forms, _results(inputs, outputs), strict=True))
        if inputs.scheme.kind == "weight":
            return [weight_call(inputs.x, results["weight"], None, dict(config))]
        return [quantize_call(inputs.x, results.get("row"), results.get("col"), dict(config))]


class TorchQuant(Provider[Fp8Quant, QuantInputsFp8]):
    """The plain torch quantizer, operation by operation: what a framework does without a kernel for it."""

    family = "fp8train"
    op = Op.QUANTIZE
    name = "torch_quant_fp8"

    def prepare(self, inputs: QuantInputsFp8, config: Config | None = None) -> Launch:
        """Allocate the outputs; torch allocates what is in between."""
        outputs = inputs.empty_outputs()
        results = _results(inputs, outputs)

        def run() -> None:
            for result in results:
                result.fill(inputs.x, AMAX_FLOOR)

        return Launch(run, outputs, {} if inputs.device.is_gpu else {"threads": torch.get_num_threads()})


def _results(inputs: QuantInputsFp8, outputs: tuple[torch.Tensor, ...]) -> list[Quantized]:
    """Outputs in pairs of data and scale."""
    return [Quantized(outputs[2 * i], outputs[2 * i + 1], *GROUPS[kind]) for i, kind in enumerate(inputs.forms)]


TRITON_QUANT = TritonQuant()
TORCH_QUANT = TorchQuant()

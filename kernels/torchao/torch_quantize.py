"""The plain torch quantizer as a provider: several passes over memory, the layout made by a copy."""

from ...shapes.device import Device
from ...shapes.problem import Op, Problem
from ...shapes.schemes.torchao import AoQuant
from ..provider import Config, Launch, Provider, Support
from .inputs import QuantInputs
from .quantize import quantized_layout
from .support import other_op


class TorchQuantize(Provider[AoQuant, QuantInputs]):
    """The specification itself, eager; runs anywhere."""

    family = "torchao"
    name = "torch_quant_ao"

    def supports(self, problem: Problem, scheme: AoQuant, device: Device) -> Support:
        """Any quantizer, anywhere."""
        return other_op(Op.QUANTIZE, problem) or Support.yes()

    def prepare(self, inputs: QuantInputs, config: Config | None = None) -> Launch:
        """Nothing to prepare: data and scales are allocated by every call."""

        def run() -> None:
            launch.output = quantized_layout(inputs.x, inputs.scheme.kind, inputs.fp8)

        launch = Launch(run, inputs.empty_outputs())
        return launch


TORCH_QUANTIZE = TorchQuantize()

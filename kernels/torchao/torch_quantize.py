"""The plain torch quantizer as a provider: several passes over memory, the layout made by a copy."""

from ...shapes.problem import Op
from ...shapes.schemes.torchao import AoQuant
from ..provider import Config, Launch, Provider
from .inputs import QuantInputsAo
from .quantize import quantized_layout


class TorchQuantize(Provider[AoQuant, QuantInputsAo]):
    """The specification itself, eager; runs anywhere."""

    family = "torchao"
    op = Op.QUANTIZE
    name = "torch_quant_ao"

    def prepare(self, inputs: QuantInputsAo, config: Config | None = None) -> Launch:
        """Nothing to prepare: data and scales are allocated by every call."""
        kind, outputs = inputs.scheme.kind, inputs.empty_outputs()
        return Launch.returning(lambda: quantized_layout(inputs.x, kind, inputs.fp8), outputs)


TORCH_QUANTIZE = TorchQuantize()

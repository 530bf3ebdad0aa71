"""The base of the baselines that multiply decoded operands with the vendor's GEMM."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from ...shapes.device import Device
from ...shapes.problem import Problem
from ..geometry import Geometry, combined
from ..inputs import Tensors
from ..provider import Config, InputsT, Launch, Provider, Role, SchemeT
from ..saved import Saved
from .library_names import library_of


@dataclass(frozen=True, slots=True)
class Decoded:
    """Dense operands of a launch.

    fill     decodes them, again at every call; None: they stay as they are
    sources  what `fill` reads that changes between measurements
    config   what was chosen for decoding; kernels, artifact  as in `Launch`
    described  the kernels of `fill`, where they are known
    """

    operands: Any
    fill: Callable[[], object] | None = None
    sources: Tensors = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    kernels: tuple[str, ...] = ()
    artifact: str = ""
    described: tuple[Geometry, ...] = ()


class DenseBlas(Provider[SchemeT, InputsT]):
    """What a layer in 16 bits costs: operands are decoded before the timed call, and when they were overwritten.

    With the role DEQUANT_BLAS, what a framework does without a fused kernel: they are decoded in the timed call.
    """

    role = Role.REFERENCE

    @abstractmethod
    def decode(self, inputs: InputsT, config: Config) -> Decoded:
        """Allocate dense operands; compile what decodes them."""

    @abstractmethod
    def multiply(self, inputs: InputsT, operands: Any, outputs: Tensors, config: Config) -> Callable[[], object]:
        """Return the call that writes the outputs from dense operands; its scratch is allocated here."""

    def prepare(self, inputs: InputsT, config: Config | None = None) -> Launch:
        """Allocate, decode once, and choose the form of the product."""
        config = config or self.default_config(inputs)
        outputs = inputs.empty_outputs()
        decoded = self.decode(inputs, config)
        multiply = self.multiply(inputs, decoded.operands, outputs, config)
        fill = decoded.fill
        refresh = Saved(decoded.sources, fill).refresh if fill and self.role is Role.REFERENCE else None
        fill = refresh or fill

        def run() -> None:
            if fill:
                fill()
            multiply()

        launched = run if fill else multiply
        chosen = getattr(multiply, "config", {})  # of a product that searches
        library = library_of(inputs.device, launched, inputs.scheme.dtype, str(config.get("gemm")))
        ran = {**config, **decoded.config, "library": library, **chosen, **cpu_threads(inputs.device)}
        output = outputs if len(outputs) > 1 else outputs[0]
        geometry = combined((), () if refresh else decoded.described)
        return Launch(
            launched, output, ran, decoded.kernels, artifact=decoded.artifact, geometry=geometry, refresh=refresh
        )

    def math_dtype(self, problem: Problem, scheme: SchemeT, device: Device) -> str:
        """Nothing is multiplied in the format of the weights."""
        return scheme.dtype.value


def cpu_threads(device: Device) -> dict[str, int]:
    """Threads of a product on the CPU, as they are recorded."""
    return {} if device.is_gpu else {"threads": torch.get_num_threads()}

"""What a quantizer reads, and the bits that it must write."""

from dataclasses import dataclass, replace

import torch

from ...shapes.device import Device
from ...shapes.problem import Problem
from ...shapes.schemes.torchao import QUANTIZERS, AoQuant
from ..draw import draw, with_extremes
from ..fp8 import e4m3, negate_widened_
from ..inputs import TORCH_DTYPES, Inputs, Tensors, poison
from .quantize import empty_layout, quantized_layout

_EXTREMES = (-50, -37), (10, 21)
"""Exponents of extreme groups: on both sides of the least amax, 1e-12, and up to 10^6."""

_EXTREMES_FP16 = (-20, -14), (8, 13)
"""The same in fp16, from subnormals to almost 65504."""


@dataclass(frozen=True, slots=True)
class QuantInputs(Inputs):
    """x[M,K], row-major in the scheme's dtype."""

    problem: Problem
    scheme: AoQuant
    device: Device
    seed: int
    x: torch.Tensor

    @classmethod
    def empty(
        cls, problem: Problem, scheme: AoQuant, device: Device, seed: int, place: str | None = None
    ) -> "QuantInputs":
        """Allocate on the device, or on another torch device `place` ("meta")."""
        shape = (problem.M, problem.K)
        x = torch.empty(shape, dtype=TORCH_DTYPES[scheme.dtype], device=place or device.torch_name)
        return cls(problem, scheme, device, seed, x)

    @property
    def activations(self) -> Tensors:
        """x."""
        return (self.x,)

    @property
    def weights(self) -> Tensors:
        """None: all that is read is drawn anew."""
        return ()

    @property
    def fp8(self) -> torch.dtype:
        """Element type of the data."""
        return e4m3(self.device)

    def empty_outputs(self) -> Tensors:
        """Data and scales, laid out as the scheme says (`quantize.empty_layout`)."""
        layout = empty_layout(self.problem.M, self.problem.K, self.scheme.kind, self.fp8, self.x.device)
        return tuple(poison(tensor) for tensor in layout)

    def copy(self) -> "QuantInputs":
        """Return the same values in memory of their own."""
        return replace(self, x=self.x.clone())

    def refresh_activations(self, seed: int) -> None:
        """Overwrite x with new random values; some groups are zero, others very small or large."""
        generator = torch.Generator(self.x.device).manual_seed(seed)
        rows, columns, _ = QUANTIZERS[self.scheme.kind]
        factors = with_extremes(*(_EXTREMES_FP16 if self.x.dtype is torch.float16 else _EXTREMES))
        draw(self.x, generator, rows, columns, factors)

    def negate(self) -> None:
        """Turn x into -x."""
        self.x.neg_()

    def reference(self) -> Tensors:
        """Data and scales of the plain torch quantizer, in fp64."""
        data, scale = quantized_layout(self.x, self.scheme.kind, self.fp8)
        return data.double(), scale.double()

    def negate_reference(self, truth: Tensors) -> None:
        """Signs of the data change, scales do not."""
        negate_widened_(truth[0], self.fp8)

"""Operands of the torchao family, drawn and quantized on the device, and their exact results.

A dense problem is a grouped one with a single group, so that both share all of this.
"""

from typing import Any

import torch

from ...shapes.device import Device
from ...shapes.problem import Problem
from ...shapes.schemes.torchao import (
    BLOCK,
    QUANTIZERS,
    AoGemm,
    AoGrouped,
    AoGroupedLinear,
    AoLinear,
    AoQuant,
    Torchao,
    blocks,
    by_column,
)
from ..draw import draw, with_extremes
from ..fp8 import e4m3, negate_widened_
from ..inputs import TORCH_DTYPES, Inputs, QuantizerInputs, Tensors, poison
from .linear_inputs import LinearInputs
from .product_inputs import ProductInputs
from .quantize import empty_layout, quantize, quantized_layout

_EXTREMES = (-50, -37), (10, 21)
"""Exponents of extreme groups: on both sides of the least amax, 1e-12, and up to 10^6."""

_EXTREMES_FP16 = (-20, -14), (8, 13)
"""The same in fp16, from subnormals to almost 65504."""


class QuantInputsAo(QuantizerInputs):
    """x[M,K], row-major in the scheme's dtype."""

    __slots__ = ()

    scheme: AoQuant

    @property
    def fp8(self) -> torch.dtype:
        """Element type of the data."""
        return e4m3(self.device)

    def empty_outputs(self) -> Tensors:
        """Data and scales, laid out as the scheme says (`quantize.empty_layout`)."""
        layout = empty_layout(self.problem.M, self.problem.K, self.scheme.kind, self.fp8, self.x.device)
        return tuple(poison(tensor) for tensor in layout)

    def refresh_activations(self, seed: int) -> None:
        """Overwrite x with new random values; some groups are zero, others very small or large."""
        generator = torch.Generator(self.x.device).manual_seed(seed)
        rows, columns, _ = QUANTIZERS[self.scheme.kind]
        factors = with_extremes(*(_EXTREMES_FP16 if self.x.dtype is torch.float16 else _EXTREMES))
        draw(self.x, generator, rows, columns, factors)

    def reference(self) -> Tensors:
        """Data and scales of the plain torch quantizer, in fp64."""
        data, scale = quantized_layout(self.x, self.scheme.kind, self.fp8)
        return data.double(), scale.double()

    def negate_reference(self, truth: Tensors) -> None:
        """Signs of the data change, scales do not."""
        negate_widened_(truth[0], self.fp8)


def make_weight(problem: Problem, scheme: Torchao, device: Device, seed: int) -> Any:
    """Draw the weights of all experts (`draw`, in the groups that share a scale); quantize them where the scheme does.

    fp8 [E,N,K] with fp32 scales [E,cd(N,128),cd(K,128)] (128x128) or [E,cd(K,128),N] (128x1), the scheme's dtype
    [E,N,K] of a linear, None of a quantizer.
    """
    if isinstance(scheme, AoQuant):
        return None
    generator = torch.Generator(device.torch_name).manual_seed(seed)
    weight = _empty_weight(problem, scheme, device, device.torch_name)
    if isinstance(weight, torch.Tensor):
        for expert in weight:
            draw(expert, generator, BLOCK, BLOCK)
        return weight
    rows = 1 if by_column(scheme) else BLOCK  # b is W transposed: its 128x1 groups lie along the rows of W
    for data, scale in zip(*weight, strict=True):
        dense = torch.empty(data.shape, dtype=TORCH_DTYPES[scheme.dtype], device=data.device)
        quantized = quantize(draw(dense, generator, rows, BLOCK), rows, BLOCK, data.dtype)
        data.copy_(quantized.data)
        scale.copy_(quantized.scale.t() if by_column(scheme) else quantized.scale)
    return weight


def make_inputs(problem: Problem, scheme: Torchao, device: Device, seed: int, weight: Any) -> Inputs:
    """Make the operands of one problem."""
    inputs = _empty(problem, scheme, device, seed, weight, device.torch_name)
    inputs.refresh_activations(seed + problem.M)
    return inputs


def placeholders(problem: Problem, scheme: Torchao, device: Device) -> Inputs:
    """Operands without memory."""
    return _empty(problem, scheme, device, 0, _empty_weight(problem, scheme, device, "meta"), "meta")


def _empty(problem: Problem, scheme: Torchao, device: Device, seed: int, weight: Any, place: str) -> Inputs:
    """Allocate activations beside a weight."""
    if isinstance(scheme, AoQuant):
        x = torch.empty(problem.M, problem.K, dtype=TORCH_DTYPES[scheme.dtype], device=place)
        return QuantInputsAo(problem, scheme, device, seed, x)
    if isinstance(scheme, AoLinear | AoGroupedLinear):
        return LinearInputs.empty(problem, scheme, device, seed, weight)
    assert isinstance(scheme, AoGemm | AoGrouped)
    return ProductInputs.empty(problem, scheme, device, seed, weight)


def _empty_weight(problem: Problem, scheme: Torchao, device: Device, place: str) -> Any:
    """Allocate what `make_weight` returns."""
    shape = (problem.E, problem.N, problem.K)
    if isinstance(scheme, AoLinear | AoGroupedLinear):
        return torch.empty(shape, dtype=TORCH_DTYPES[scheme.dtype], device=place)
    depth = blocks(problem.K)
    scales = (problem.E, depth, problem.N) if by_column(scheme) else (problem.E, blocks(problem.N), depth)
    return (
        torch.empty(shape, dtype=e4m3(device), device=place),
        torch.empty(scales, dtype=torch.float32, device=place),
    )

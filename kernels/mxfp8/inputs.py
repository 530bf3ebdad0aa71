"""Operands of a product of two MX-FP8 matrices, and of a quantization to MX-FP8; their results in fp64."""

from dataclasses import dataclass, replace
from typing import Any

import torch

from ...shapes.device import Device
from ...shapes.problem import Problem
from ...shapes.schemes.mxfp8 import BLOCK, MxFp8, MxFp8Quant
from ..draw import draw, with_extremes
from ..inputs import TORCH_DTYPES, Inputs, QuantizerInputs, Tensors, chunks, decoding, empty_output
from .draw import draw_operand
from .quantize import dequantize_mx, empty_mx, quantize_mx

_CHUNK_ELEMENTS = 1 << 22
"""Elements expanded to fp64 at once (32 MiB)."""

_SIGN = 0x80

_SMALL, _LARGE = (-126, -112), (7, 121)
"""Exponents of extreme blocks that a quantizer reads: on both sides of the byte 0, and nearly to the largest bf16."""

_USUAL = (-6, 7)
"""Exponents of its other blocks."""

_WEIGHT_SEED = 1 << 30
"""Keeps weights from being drawn with a seed of the activations: equal rows would correlate."""


@dataclass(frozen=True, slots=True)
class MxFp8Inputs(Inputs):
    """X[M,K] and W[N,K], both quantized, on one device.

    x         float8_e4m3fn [M, K]; x_scale  uint8 [M, K/32], e8m0
    w         float8_e4m3fn [N, K]; w_scale  uint8 [N, K/32], e8m0
    All are contiguous.
    """

    problem: Problem
    scheme: MxFp8
    device: Device
    seed: int
    x: torch.Tensor
    x_scale: torch.Tensor
    w: torch.Tensor
    w_scale: torch.Tensor

    @property
    def activations(self) -> Tensors:
        """X and its scales."""
        return (self.x, self.x_scale)

    @property
    def weights(self) -> Tensors:
        """W and its scales."""
        return (self.w, self.w_scale)

    @decoding
    def dequantized(self, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
        """W[N,K], payload times scale; exact in bf16 where the scales lie between 2^-124 and 2^119.

        Subnormal results (blocks with the byte 0) are rounded.
        """
        return dequantize_mx(self.w, self.w_scale, dtype)

    def empty_outputs(self) -> Tensors:
        """Y[M,N] in bf16."""
        return (empty_output((self.problem.M, self.problem.N), TORCH_DTYPES[self.scheme.dtype], self.x.device),)

    def refresh_activations(self, seed: int) -> None:
        """Draw new activations and quantize them, in place."""
        generator = torch.Generator(self.x.device).manual_seed(seed)
        x, scale = draw_operand(self.x.shape, self.scheme.rule, generator, self.x.device)
        self.x.copy_(x)
        self.x_scale.copy_(scale)

    def reference(self) -> Tensors:
        """Y[M,N] in fp64; W is expanded some rows at a time, which takes about 64 MiB beyond Y and X."""
        rows, columns, depth = self.problem.M, self.problem.N, self.problem.K
        x = dequantize_mx(self.x, self.x_scale, torch.float64)
        result = torch.empty(rows, columns, dtype=torch.float64, device=x.device)
        for part in chunks(columns, depth, _CHUNK_ELEMENTS):
            result[:, part] = x @ dequantize_mx(self.w[part], self.w_scale[part], torch.float64).t()
        return (result,)

    @property
    def column_unit(self) -> int:
        """Any row of W."""
        return 1

    def columns(self, part: slice) -> "MxFp8Inputs":
        """Rows of W."""
        problem = replace(self.problem, N=part.stop - part.start)
        return replace(self, problem=problem, w=self.w[part], w_scale=self.w_scale[part])


class MxFp8QuantInputs(QuantizerInputs):
    """bf16 X[M,K] that is to be quantized. Results are bytes, so that comparing them compares bits:

    payload uint8 [M, K], the bits of float8_e4m3fn; scales uint8 [M, K/32], e8m0
    """

    __slots__ = ()

    scheme: MxFp8Quant

    def empty_outputs(self) -> Tensors:
        """Payload and scales, poisoned with 255, which is NaN in both formats."""
        m, k = self.x.shape
        device = self.x.device
        return empty_output((m, k), torch.uint8, device), empty_output((m, k // BLOCK), torch.uint8, device)

    def refresh_activations(self, seed: int) -> None:
        """Overwrite `x` in place with new random values; some blocks are zero, others very small or large."""
        generator = torch.Generator(self.x.device).manual_seed(seed)
        draw(self.x, generator, 1, BLOCK, with_extremes(_SMALL, _LARGE, _USUAL))

    def reference(self) -> Tensors:
        """Payload and scale bytes as fp64 numbers, quantized some rows at a time."""
        payload, scales = (
            torch.empty(out.shape, dtype=torch.float64, device=out.device) for out in self.empty_outputs()
        )
        for part in chunks(self.problem.M, self.problem.K, _CHUNK_ELEMENTS):
            q, scale = quantize_mx(self.x[part], self.scheme.rule)
            payload[part] = q.view(torch.uint8).double()
            scales[part] = scale.double()
        return payload, scales

    def negate_reference(self, truth: Tensors) -> None:
        """The sign bit of every payload flips; the scales stay."""
        truth[0].add_(_SIGN).remainder_(2 * _SIGN)


def make_weight(problem: Problem, scheme: MxFp8 | MxFp8Quant, device: Device, seed: int) -> Any:
    """Draw W[N,K] (`draw.draw_operand`): payload and scales. None for a quantization."""
    if isinstance(scheme, MxFp8Quant):
        return None
    generator = torch.Generator(device.torch_name).manual_seed(seed + _WEIGHT_SEED)
    return draw_operand((problem.N, problem.K), scheme.rule, generator, device.torch_name)


def make_inputs(problem: Problem, scheme: MxFp8 | MxFp8Quant, device: Device, seed: int, weight: Any) -> Any:
    """Make the operands of one problem."""
    shape = (problem.M, problem.K)
    if isinstance(scheme, MxFp8Quant):
        dense = torch.empty(shape, dtype=TORCH_DTYPES[scheme.dtype], device=device.torch_name)
        quant = MxFp8QuantInputs(problem, scheme, device, seed, dense)
        quant.refresh_activations(seed + problem.M)
        return quant
    generator = torch.Generator(device.torch_name).manual_seed(seed + problem.M)
    x, x_scale = draw_operand(shape, scheme.rule, generator, device.torch_name)
    return MxFp8Inputs(problem, scheme, device, seed, x, x_scale, *weight)


def placeholders(problem: Problem, scheme: MxFp8 | MxFp8Quant, device: Device) -> MxFp8Inputs | MxFp8QuantInputs:
    """Operands without memory."""
    rows, columns, depth = problem.M, problem.N, problem.K
    if isinstance(scheme, MxFp8Quant):
        dense = torch.empty(rows, depth, dtype=TORCH_DTYPES[scheme.dtype], device="meta")
        return MxFp8QuantInputs(problem, scheme, device, 0, dense)
    return MxFp8Inputs(
        problem, scheme, device, 0, *empty_mx((rows, depth), "meta"), *empty_mx((columns, depth), "meta")
    )

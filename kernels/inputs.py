"""Operands of one problem, quantized once and handed bit-identical to every provider."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from ..shapes.device import Device
from ..shapes.problem import Problem
from ..shapes.scheme import DType, Scheme
from .fourbit.quantize import NestedAbsmax, QuantizedWeight, code_table, dequantize, quantize

TORCH_DTYPES = {DType.BF16: torch.bfloat16, DType.FP16: torch.float16, DType.FP32: torch.float32}
"""torch dtype of each activation type."""


@dataclass(frozen=True, slots=True)
class FourBitInputs:
    """X[M,K] in the scheme's dtype and W[N,K] in 4 bits, on one device.

    packed  uint8 [(N*K+1)//2], element 2j of the flattened weight in the HIGH nibble of byte j
    absmax  fp32 [cd(N*K, group)], the effective scales (already rebuilt when the scheme is nested)
    nested  8-bit absmax, its scales, code and offset when the scheme is nested, else None: a fused kernel reads this
    code    fp32 [16], value of each nibble
    bias    [N] in the scheme's dtype, or None
    """

    problem: Problem
    scheme: Scheme
    device: Device
    seed: int
    x: torch.Tensor
    weight: QuantizedWeight
    bias: torch.Tensor | None

    @property
    def packed(self) -> torch.Tensor:
        """Packed nibbles, uint8 [(N*K+1)//2]."""
        return self.weight.packed

    @property
    def absmax(self) -> torch.Tensor:
        """Effective block scales, fp32 [cd(N*K, group)]."""
        return self.weight.absmax

    @property
    def nested(self) -> NestedAbsmax | None:
        """Second-level quantization of absmax, None when the scheme is not nested."""
        return self.weight.nested

    @property
    def code(self) -> torch.Tensor:
        """Value of each nibble, fp32 [16]."""
        return code_table(self.scheme.weight, self.x.device)

    @property
    def dtype(self) -> torch.dtype:
        """Activation and output type."""
        return self.x.dtype

    def dequantized(self, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Return W[N,K] as `dtype` (the scheme's by default): fp32 code times absmax, rounded once."""
        return dequantize(self.weight, dtype or self.dtype).view(self.problem.N, self.problem.K)

    def empty_output(self) -> torch.Tensor:
        """Allocate Y[M,N], poisoned with NaN so that an element which is never written cannot pass."""
        shape = (self.problem.M, self.problem.N)
        return torch.full(shape, torch.nan, dtype=self.dtype, device=self.x.device)

    def copy(self) -> "FourBitInputs":
        """Return the same values in memory of their own, for rotation among copies."""
        bias = self.bias.clone() if self.bias is not None else None
        return replace(self, x=self.x.clone(), weight=self.weight.copy(), bias=bias)

    def refresh_activations(self, seed: int) -> None:
        """Overwrite `x` in place with new random values."""
        generator = torch.Generator(self.x.device).manual_seed(seed)
        self.x.copy_(_normal(self.x.shape, generator, self.x.device))


def make_weight(problem: Problem, scheme: Scheme, device: Device, seed: int) -> QuantizedWeight:
    """Draw W[N,K] from a standard normal on the device and quantize it. Shared by all M of one shape."""
    generator = torch.Generator(device.torch_name).manual_seed(seed)
    dense = _normal((problem.N * problem.K,), generator, device.torch_name)
    return quantize(dense, scheme.weight, scheme.group, nested=scheme.nested)


def make_inputs(
    problem: Problem, scheme: Scheme, device: Device, seed: int, weight: QuantizedWeight | None = None
) -> FourBitInputs:
    """Make the operands of one problem. `weight` reuses an already quantized weight of the same shape and seed."""
    weight = weight if weight is not None else make_weight(problem, scheme, device, seed)
    generator = torch.Generator(device.torch_name).manual_seed(seed + problem.M)
    dtype = TORCH_DTYPES[scheme.dtype]
    x = _normal((problem.M, problem.K), generator, device.torch_name).to(dtype)
    bias = _normal((problem.N,), generator, device.torch_name).to(dtype) if scheme.bias else None
    return FourBitInputs(problem, scheme, device, seed, x, weight, bias)


def _normal(shape: Sequence[int], generator: torch.Generator, device: torch.device | str) -> torch.Tensor:
    """Draw fp32 whatever torch's default type is: a provider may have changed it."""
    return torch.randn(tuple(shape), generator=generator, dtype=torch.float32, device=device)

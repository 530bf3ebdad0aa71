"""Operands of a GEMM with 4-bit weights, and its product in fp64."""

import math
from dataclasses import dataclass, replace

import torch

from ...shapes.device import Device
from ...shapes.problem import Problem
from ...shapes.schemes.fourbit import NESTED_BLOCK_SIZE, FourBit
from ...shapes.schemes.w4a16 import W4A16
from ..draw import LINES, multiply_groups_, rms, spread
from ..inputs import TORCH_DTYPES, Inputs, Tensors, chunks, decoding, empty_output, normal
from .groups import GroupScales, quantize_int4, quantize_mxfp4, quantize_nvfp4
from .quantize import NestedAbsmax, QuantizedWeight, code_table, dequantize, dequantize_range, quantize

_CHUNK_ELEMENTS = 1 << 22
"""Weight elements expanded to fp64 at once (32 MiB)."""


@dataclass(frozen=True, slots=True)
class FourBitInputs(Inputs):
    """X[M,K] in the scheme's dtype and W[N,K] in 4 bits, on one device.

    packed  uint8 [(N*K+1)//2], element 2j of the flattened weight in the HIGH nibble of byte j
    absmax  fp32 [cd(N*K, group)], the effective scales (already rebuilt from `nested` or `groups`)
    nested  8-bit absmax, its scales, code and offset when the scheme is nested, else None: a fused kernel reads this
    groups  scales and zero points as they are stored, of INT4, MXFP4 and NVFP4, else None: a fused kernel reads this
    code    fp32 [16], value of each nibble; that of INT4 is nibble - 8, from which its zero point less 8 is subtracted
    bias    [N] in the scheme's dtype, or None
    """

    problem: Problem
    scheme: FourBit
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
    def groups(self) -> GroupScales | None:
        """Scales and zero points of INT4, MXFP4 and NVFP4, None for the formats of bitsandbytes."""
        return self.weight.groups

    @property
    def code(self) -> torch.Tensor:
        """Value of each nibble, fp32 [16], in memory of its own: the reference uses the table."""
        return code_table(self.scheme.weight, self.x.device).clone()

    @property
    def dtype(self) -> torch.dtype:
        """Activation and output type."""
        return self.x.dtype

    @decoding
    def dequantized(self, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Return W[N,K] as `dtype` (the scheme's by default): fp32 code times absmax, rounded once."""
        return dequantize(self.weight, dtype or self.dtype).view(self.problem.N, self.problem.K)

    @property
    def activations(self) -> Tensors:
        """X[M,K]."""
        return (self.x,)

    @property
    def weights(self) -> Tensors:
        """Packed weights, absmax, and how scales are stored where that is not in fp32."""
        nested = (self.nested.q, self.nested.scale) if self.nested else ()
        groups = (self.groups.scale, self.groups.zero, self.groups.total) if self.groups else ()
        return (self.packed, self.absmax, *nested, *(one for one in groups if one is not None))

    def empty_outputs(self) -> Tensors:
        """Y[M,N]."""
        return (empty_output((self.problem.M, self.problem.N), self.dtype, self.x.device),)

    def refresh_activations(self, seed: int) -> None:
        """Overwrite `x` in place with new random values."""
        generator = torch.Generator(self.x.device).manual_seed(seed)
        self.x.copy_(normal(self.x.shape, generator, self.x.device))

    def reference(self) -> Tensors:
        """Return Y[M,N] = X W^T + bias in fp64: the weight is code * absmax in fp32, not rounded to the type of X.

        W is expanded some rows at a time; beyond the result and X in fp64 this takes about 64 MiB.
        """
        rows, columns, depth = self.problem.M, self.problem.N, self.problem.K
        x = self.x.double()
        result = torch.empty(rows, columns, dtype=torch.float64, device=x.device)
        for part in chunks(columns, depth, _CHUNK_ELEMENTS):
            weight = dequantize_range(self.weight, part.start * depth, part.stop * depth).view(-1, depth)
            result[:, part] = x @ weight.double().t()
        if self.bias is not None:
            result += self.bias.double()
        return (result,)

    @property
    def column_unit(self) -> int:
        """Rows of W that end with a group and a byte."""
        unit = math.lcm(self.scheme.group, 2)
        return unit // math.gcd(unit, self.problem.K)

    def columns(self, part: slice) -> "FourBitInputs":
        """Rows of W, without the quantization of their scales."""
        whole, group = self.weight, self.scheme.group
        first, last = part.start * self.problem.K, part.stop * self.problem.K
        blocks = slice(first // group, -(-last // group))
        weight = QuantizedWeight(
            packed=whole.packed[first // 2 : -(-last // 2)],
            absmax=whole.absmax[blocks],
            nested=None,
            numel=last - first,
            group=group,
            kind=whole.kind,
            zero=None if whole.zero is None else whole.zero[blocks],
        )
        problem = replace(self.problem, N=part.stop - part.start)
        return replace(self, problem=problem, weight=weight, bias=self.bias if self.bias is None else self.bias[part])

    def negate_reference(self, truth: Tensors) -> None:
        """Y(-X) = 2 bias - Y(X)."""
        super(FourBitInputs, self).negate_reference(truth)
        if self.bias is not None:
            truth[0].add_(self.bias.double(), alpha=2)


def make_weight(problem: Problem, scheme: FourBit, device: Device, seed: int) -> QuantizedWeight:
    """Draw W[N,K] on the device and quantize it; shared by all M of one shape.

    Values are normal, those of each block times a power of two (`spread`): the nibbles do not depend on it.
    """
    generator = torch.Generator(device.torch_name).manual_seed(seed)
    dense = normal((problem.N * problem.K,), generator, device.torch_name)
    blocks = -(-dense.numel() // scheme.group)
    factors = spread(LINES)((1, blocks), generator, dense.device)
    if not isinstance(scheme, W4A16):
        multiply_groups_(dense[None], 1, scheme.group, factors)
        return quantize(dense, scheme.weight, scheme.group, nested=scheme.nested)
    if scheme.zero_point:  # a mean of each group's own: zero points of normal values would all be 7 or 8
        dense.view(-1, scheme.group).add_(normal((blocks, 1), generator, dense.device))
    multiply_groups_(dense[None], 1, scheme.group, factors)
    if scheme.weight == "int4":
        packed, groups = quantize_int4(dense, scheme.group, scheme.zero_point, TORCH_DTYPES[scheme.dtype])
    else:
        packed, groups = (quantize_mxfp4 if scheme.weight == "mxfp4" else quantize_nvfp4)(dense)
    absmax, zero = groups.rebuild()
    return QuantizedWeight(packed, absmax, None, dense.numel(), scheme.group, scheme.weight, groups, zero)


def make_inputs(problem: Problem, scheme: FourBit, device: Device, seed: int, weight: QuantizedWeight) -> FourBitInputs:
    """Make the operands of one problem."""
    generator = torch.Generator(device.torch_name).manual_seed(seed + problem.M)
    dtype = TORCH_DTYPES[scheme.dtype]
    x = normal((problem.M, problem.K), generator, device.torch_name).to(dtype)
    bias = None
    if scheme.bias:
        # As large as the product it is added to, so that none, or another column's, is an error that counts.
        size = problem.K**0.5 * rms(LINES)
        bias = normal((problem.N,), generator, device.torch_name).mul_(size).to(dtype)
    return FourBitInputs(problem, scheme, device, seed, x, weight, bias)


def placeholders(problem: Problem, scheme: FourBit, device: Device) -> FourBitInputs:
    """Operands without memory."""
    numel, dtype = problem.N * problem.K, TORCH_DTYPES[scheme.dtype]
    blocks = -(-numel // scheme.group)
    absmax = torch.empty(blocks, device="meta")
    second = None
    if scheme.nested:
        scale = torch.empty(-(-blocks // NESTED_BLOCK_SIZE), device="meta")
        code, offset = torch.empty(256, device="meta"), torch.empty((), device="meta")
        second = NestedAbsmax(torch.empty(blocks, dtype=torch.uint8, device="meta"), scale, code, offset)
    packed = torch.empty((numel + 1) // 2, dtype=torch.uint8, device="meta")
    groups = _empty_scales(scheme, blocks) if isinstance(scheme, W4A16) else None
    weight = QuantizedWeight(packed, absmax, second, numel, scheme.group, scheme.weight, groups)
    x = torch.empty(problem.M, problem.K, dtype=dtype, device="meta")
    bias = torch.empty(problem.N, dtype=dtype, device="meta") if scheme.bias else None
    return FourBitInputs(problem, scheme, device, 0, x, weight, bias)


def _empty_scales(scheme: W4A16, groups: int) -> GroupScales:
    """Scales without memory."""
    kinds = {"int4": TORCH_DTYPES[scheme.dtype], "mxfp4": torch.float8_e8m0fnu, "nvfp4": torch.float8_e4m3fn}
    zero = torch.empty((groups + 1) // 2, dtype=torch.uint8, device="meta") if scheme.zero_point else None
    total = torch.empty(1, device="meta") if scheme.weight == "nvfp4" else None
    return GroupScales(torch.empty(groups, dtype=kinds[scheme.weight], device="meta"), zero, total)

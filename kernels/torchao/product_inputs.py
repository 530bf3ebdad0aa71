"""Quantized operands of a GEMM, dense or grouped over experts, and its product in fp64."""

from dataclasses import dataclass, replace

import torch

from ...shapes.device import Device
from ...shapes.problem import Problem
from ...shapes.schemes.torchao import BLOCK, AoGemm, AoGrouped, blocks, by_column
from ..draw import draw
from ..inputs import TORCH_DTYPES, Inputs, Tensors, empty_output
from ..quantized import Quantized, exact_product
from .groups import group_ends, group_rows, offsets
from .quantize import quantize


@dataclass(frozen=True, slots=True)
class ProductInputs(Inputs):
    """a[M,K] in 1x128 groups and b of every expert, both in FP8, as they lie in memory.

    a        [M,K], a_scale [cd(K,128),M]: what torchao calls a[M,K] with a_s[M,K/128] of stride (1,M)
    a_dense  [M,K] of the output type, the same values rounded: for providers that multiply without scales
    b        [E,N,K], b_scale [E,cd(N,128),cd(K,128)] (128x128) or [E,cd(K,128),N] (128x1): torchao's b[K,N], whose K is
             contiguous
    offs     int32 [E], the inclusive end row of each group on the device; ends are the same numbers on the host
    """

    problem: Problem
    scheme: AoGemm | AoGrouped
    device: Device
    seed: int
    a: torch.Tensor
    a_scale: torch.Tensor
    a_dense: torch.Tensor
    b: torch.Tensor
    b_scale: torch.Tensor
    offs: torch.Tensor
    ends: tuple[int, ...]

    @classmethod
    def empty(
        cls,
        problem: Problem,
        scheme: AoGemm | AoGrouped,
        device: Device,
        seed: int,
        weight: tuple[torch.Tensor, torch.Tensor],
    ) -> "ProductInputs":
        """Allocate the activations beside the weights: `b` and `b_scale`."""
        b, b_scale = weight
        rows, depth = problem.M, problem.K
        a = torch.empty(rows, depth, dtype=b.dtype, device=b.device)
        a_scale = torch.empty(blocks(depth), rows, dtype=torch.float32, device=b.device)
        a_dense = torch.empty(rows, depth, dtype=TORCH_DTYPES[scheme.dtype], device=b.device)
        ends = group_ends(problem, scheme, seed)
        return cls(problem, scheme, device, seed, a, a_scale, a_dense, b, b_scale, offsets(ends, b.device), ends)

    @property
    def by_column(self) -> bool:
        """b has 128x1 groups."""
        return by_column(self.scheme)

    @property
    def activations(self) -> Tensors:
        """Data, scales, and the dense copy of a."""
        return self.a, self.a_scale, self.a_dense

    @property
    def dense(self) -> Tensors:
        """The dense copy of a."""
        return (self.a_dense,)

    def dequantize_activations(self, out: Tensors) -> None:
        """Overwrite a copy of `dense`."""
        self.left().dequantize(out[0])

    def empty_weight(self) -> torch.Tensor:
        """Allocate W [E,N,K] in the type of the output."""
        return torch.empty(self.b.shape, dtype=self.a_dense.dtype, device=self.b.device)

    def dequantize_weight(self, out: torch.Tensor) -> None:
        """Overwrite W [E,N,K] with the values of b, rounded once."""
        for expert, one in enumerate(out):
            self.right(expert).dequantize(one)

    @property
    def signed(self) -> Tensors:
        """Data, and the dense copy of a: their signs change together."""
        return self.a, self.a_dense

    @property
    def weights(self) -> Tensors:
        """Data and scales of b, and the ends of the groups."""
        return self.b, self.b_scale, self.offs

    def left(self) -> Quantized:
        """a as [M,K]."""
        return Quantized(self.a, self.a_scale.t(), 1, BLOCK)

    def right(self, expert: int) -> Quantized:
        """b of one expert as it lies in memory, [N,K]."""
        if self.by_column:
            return Quantized(self.b[expert], self.b_scale[expert].t(), 1, BLOCK)
        return Quantized(self.b[expert], self.b_scale[expert], BLOCK, BLOCK)

    def empty_outputs(self) -> Tensors:
        """Y[M,N]."""
        shape = (self.problem.M, self.problem.N)
        return (empty_output(shape, TORCH_DTYPES[self.scheme.dtype], self.a.device),)

    def refresh_activations(self, seed: int) -> None:
        """Draw new rows and quantize them."""
        draw(self.a_dense, torch.Generator(self.a.device).manual_seed(seed), 1, BLOCK)
        quantized = quantize(self.a_dense, 1, BLOCK, self.a.dtype)
        self.a.copy_(quantized.data)
        self.a_scale.copy_(quantized.scale.t())
        self.dequantize_activations(self.dense)

    def reference(self) -> Tensors:
        """Y of the same bits, in fp64."""
        result = torch.empty(self.problem.M, self.problem.N, dtype=torch.float64, device=self.a.device)
        for expert, (first, last) in enumerate(group_rows(self.ends)):
            exact_product(self.left().part(first, last), self.right(expert), result[first:last])
        return (result,)

    @property
    def column_unit(self) -> int:
        """Rows of b as it lies in memory that share scales."""
        return 1 if self.by_column else BLOCK

    def columns(self, part: slice) -> "ProductInputs":
        """Rows of b as it lies in memory, of every expert."""
        scales = slice(part.start // BLOCK, blocks(part.stop))
        scale = self.b_scale[..., part] if self.by_column else self.b_scale[:, scales]
        problem = replace(self.problem, N=part.stop - part.start)
        return replace(self, problem=problem, b=self.b[:, part], b_scale=scale)

"""Operands of a linear that casts inside, dense or grouped over experts, with its results from the quantized values."""

from dataclasses import dataclass, replace

import torch

from ...shapes.device import Device
from ...shapes.problem import Pass, Problem
from ...shapes.schemes.torchao import BLOCK, AoGroupedLinear, AoLinear
from ..draw import draw
from ..fp8 import e4m3
from ..inputs import Inputs, Tensors, empty_output
from ..quantized import Quantized, exact_product
from .groups import group_ends, group_rows, offsets
from .quantize import quantize


@dataclass(frozen=True, slots=True)
class LinearInputs(Inputs):
    """X[M,K], W[E,N,K] and, in a step, dY[M,N], row-major in the scheme's dtype.

    dense  what the casts of X and dY leave, as values of that dtype, for providers that multiply without casting: X and
           dY in 1x128 groups, then (step) X and dY in 128x1 groups; row-major like X and dY
    offs   int32 [E], the inclusive end row of each group on the device; ends are the same numbers on the host
    """

    problem: Problem
    scheme: AoLinear | AoGroupedLinear
    device: Device
    seed: int
    x: torch.Tensor
    dy: torch.Tensor | None
    w: torch.Tensor
    dense: Tensors
    offs: torch.Tensor
    ends: tuple[int, ...]

    @classmethod
    def empty(
        cls, problem: Problem, scheme: AoLinear | AoGroupedLinear, device: Device, seed: int, w: torch.Tensor
    ) -> "LinearInputs":
        """Allocate the activations beside the weights `w`."""
        x = torch.empty(problem.M, problem.K, dtype=w.dtype, device=w.device)
        dy = torch.empty(problem.M, problem.N, dtype=w.dtype, device=w.device) if problem.pass_ is Pass.STEP else None
        casts = [x] if dy is None else [x, dy, x, dy]
        dense, ends = tuple(torch.empty_like(source) for source in casts), group_ends(problem, scheme, seed)
        return cls(problem, scheme, device, seed, x, dy, w, dense, offsets(ends, w.device), ends)

    @property
    def fp8(self) -> torch.dtype:
        """Type that is multiplied."""
        return e4m3(self.device)

    @property
    def activations(self) -> Tensors:
        """X, dY in a step, and what their casts leave."""
        return (self.x, *(() if self.dy is None else (self.dy,)), *self.dense)

    @property
    def weights(self) -> Tensors:
        """W and the ends of the groups."""
        return self.w, self.offs

    def empty_outputs(self) -> Tensors:
        """Y[M,N], and in a step dX[M,K] and dW[E,N,K] ([N,K] of a dense linear), poisoned."""
        rows, columns, depth = self.problem.M, self.problem.N, self.problem.K
        gradient = self.w.shape if isinstance(self.scheme, AoGroupedLinear) else self.w.shape[1:]
        shapes = [(rows, columns)] if self.dy is None else [(rows, columns), (rows, depth), tuple(gradient)]
        return tuple(empty_output(shape, self.w.dtype, self.w.device) for shape in shapes)

    def refresh_activations(self, seed: int) -> None:
        """Overwrite X, dY and what their casts leave."""
        generator = torch.Generator(self.x.device).manual_seed(seed)
        rows = 1 if self.dy is None else BLOCK  # a step casts X and dY in 1x128 and in 128x1 groups: blocks hold both
        draw(self.x, generator, rows, BLOCK)
        if self.dy is not None:
            draw(self.dy, generator, rows, BLOCK)
        self.dequantize_activations(self.dense)

    def dequantize_activations(self, out: Tensors) -> None:
        """Overwrite a copy of `dense`: cast and dequantize X and dY."""
        sources = (self.x,) if self.dy is None else (self.x, self.dy, self.x, self.dy)
        for source, groups, one in zip(sources, (1, 1, BLOCK, BLOCK), out, strict=False):
            _cast(source, groups, self.fp8).dequantize(one)

    def empty_weight(self) -> torch.Tensor:
        """Allocate W [E,N,K]."""
        return torch.empty_like(self.w)

    def dequantize_weight(self, out: torch.Tensor) -> None:
        """Overwrite W [E,N,K] with what the cast of W leaves, rounded once."""
        for expert, one in zip(self.w, out, strict=True):
            quantize(expert, BLOCK, BLOCK, self.fp8).dequantize(one)

    def negate(self) -> None:
        """Turn X into -X; in a step the first half of X and the second half of dY, so that all three results change.

        A group keeps its scale: only signs change. dW sums dY^T X over rows of which either factor has changed.
        """
        half = self._half()
        for tensor in (self.x, *self.dense[::2]):
            tensor[:half].neg_()
        if self.dy is not None:
            for tensor in (self.dy, *self.dense[1::2]):
                tensor[half:].neg_()

    def _half(self) -> int:
        return self.problem.M if self.dy is None else (self.problem.M + 1) // 2

    def reference(self) -> Tensors:
        """Results in fp64 from what the casts leave in FP8."""
        rows, columns, depth = self.problem.M, self.problem.N, self.problem.K
        like = {"dtype": torch.float64, "device": self.x.device}
        weights = [quantize(expert, BLOCK, BLOCK, self.fp8) for expert in self.w]
        groups = list(enumerate(group_rows(self.ends)))
        y, x = torch.empty(rows, columns, **like), _cast(self.x, 1, self.fp8)
        for expert, (first, last) in groups:
            exact_product(x.part(first, last), weights[expert], y[first:last])
        if self.dy is None:
            return (y,)
        dx, dy = torch.empty(rows, depth, **like), _cast(self.dy, 1, self.fp8)
        for expert, (first, last) in groups:
            exact_product(dy.part(first, last), weights[expert].transposed(), dx[first:last])
        dw, x, dy = torch.empty(self.w.shape, **like), *(_cast(tensor, BLOCK, self.fp8) for tensor in (self.x, self.dy))
        for expert, (first, last) in groups:
            exact_product(dy.part(first, last).transposed(), x.part(first, last).transposed(), dw[expert])
        return y, dx, dw if isinstance(self.scheme, AoGroupedLinear) else dw[0]

    @property
    def column_unit(self) -> int:
        """Rows of W that are quantized together, where Y is the only result."""
        return BLOCK if self.dy is None else 0

    def columns(self, part: slice) -> "LinearInputs":
        """Rows of W."""
        return replace(self, problem=replace(self.problem, N=part.stop - part.start), w=self.w[:, part])

    def negate_reference(self, truth: Tensors) -> None:
        """Rows whose X or dY has changed its sign; all of dW."""
        half = self._half()
        truth[0][:half].neg_()
        if self.dy is not None:
            truth[1][half:].neg_()
            truth[2].neg_()


def _cast(x: torch.Tensor, rows: int, dtype: torch.dtype) -> Quantized:
    return quantize(x, rows, BLOCK if rows == 1 else 1, dtype)

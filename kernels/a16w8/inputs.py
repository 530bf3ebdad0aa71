"""Operands of a batched GEMM with block-scaled FP8 weights, and its product in fp64."""

from dataclasses import dataclass, replace

import torch

from ...shapes.device import Device
from ...shapes.problem import Problem
from ...shapes.schemes.a16w8 import A16W8, SCALE_BLOCK
from ..draw import BLOCKS, Exponents, multiply_groups_, rms, spread
from ..fp8 import e4m3
from ..inputs import TORCH_DTYPES, Inputs, Tensors, chunks, decoding, empty_output, normal
from .quantize import dequantize, quantize

_CHUNK_ELEMENTS = 1 << 26
"""Elements drawn in fp32 (256 MiB) or widened to fp64 (512 MiB) at once, but at least one matrix of the batch."""


_PREQUANT = (-1, 1)
"""Exponents by which groups of X differ where a kernel quantizes them. At K = 128 a row of X is one group, and the
noise of FP8 in the largest rows and columns must stay within what the accuracy check allows a single element."""


@dataclass(frozen=True, slots=True)
class A16W8Inputs(Inputs):
    """X[B,M,K] and bias[B,N] (or None) in the scheme's dtype, and W[B,N,K] in FP8, on one device.

    q      weights, [B,N,K]: e4m3fnuz on gfx942, else e4m3fn
    scale  fp32 [B, cd(N,128), cd(K,128)]
    """

    problem: Problem
    scheme: A16W8
    device: Device
    seed: int
    x: torch.Tensor
    q: torch.Tensor
    scale: torch.Tensor
    bias: torch.Tensor | None

    @property
    def dtype(self) -> torch.dtype:
        """Activation and output type."""
        return self.x.dtype

    @decoding
    def dequantized(self) -> torch.Tensor:
        """Return W[B,N,K] in the type of the activations: q * scale in fp32, rounded once."""
        dense = torch.empty(self.q.shape, dtype=self.dtype, device=self.q.device)
        for part in chunks(self.problem.B, self.problem.N * self.problem.K, _CHUNK_ELEMENTS):
            dense[part] = dequantize(self.q[part], self.scale[part], self.dtype)
        return dense

    @property
    def activations(self) -> Tensors:
        """X[B,M,K]."""
        return (self.x,)

    @property
    def weights(self) -> Tensors:
        """FP8 weights and their scales."""
        return (self.q, self.scale)

    def empty_outputs(self) -> Tensors:
        """Y[B,M,N]."""
        shape = (self.problem.B, self.problem.M, self.problem.N)
        return (empty_output(shape, self.dtype, self.x.device),)

    def refresh_activations(self, seed: int) -> None:
        """Overwrite `x` in place with new random values."""
        _fill(self.x, torch.Generator(self.x.device).manual_seed(seed), self.scheme.prequant)

    def reference(self) -> Tensors:
        """Return Y[B,M,N] = X W^T + bias in fp64, with W = q * scale in fp64 and X as it is: NOT prequantized.

        Beyond the result this takes some batches of X and W in fp64: at M = N = K = 8192 about 2 GiB.
        """
        batch, rows, columns, depth = self.problem.B, self.problem.M, self.problem.N, self.problem.K
        result = torch.empty(batch, rows, columns, dtype=torch.float64, device=self.x.device)
        for part in chunks(batch, max(columns, rows) * depth, _CHUNK_ELEMENTS):
            weight = dequantize(self.q[part], self.scale[part], torch.float64)
            torch.bmm(self.x[part].double(), weight.transpose(1, 2), out=result[part])
        if self.bias is not None:
            result += self.bias.double().unsqueeze(1)
        return (result,)

    @property
    def column_unit(self) -> int:
        """Rows of W that share scales."""
        return SCALE_BLOCK

    def columns(self, part: slice) -> "A16W8Inputs":
        """Rows of W."""
        scales = slice(part.start // SCALE_BLOCK, -(-part.stop // SCALE_BLOCK))
        return replace(
            self,
            problem=replace(self.problem, N=part.stop - part.start),
            q=self.q[:, part],
            scale=self.scale[:, scales],
            bias=self.bias if self.bias is None else self.bias[:, part],
        )

    def negate_reference(self, truth: Tensors) -> None:
        """Y(-X) = 2 bias - Y(X)."""
        super(A16W8Inputs, self).negate_reference(truth)
        if self.bias is not None:
            truth[0].add_(self.bias.double().unsqueeze(1), alpha=2)


def make_weight(problem: Problem, scheme: A16W8, device: Device, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw W[B,N,K] on the device, batch by batch, and quantize it: normal, blocks times powers of two (`spread`)."""
    generator = torch.Generator(device.torch_name).manual_seed(seed)
    parts = []
    for part in chunks(problem.B, problem.N * problem.K, _CHUNK_ELEMENTS):
        dense = normal((part.stop - part.start, problem.N, problem.K), generator, device.torch_name)
        _spread_groups(dense, SCALE_BLOCK, generator, BLOCKS)
        parts.append(quantize(dense, e4m3(device)))
    q, scale = (torch.cat(pieces) for pieces in zip(*parts, strict=True))
    return q, scale


def make_inputs(
    problem: Problem, scheme: A16W8, device: Device, seed: int, weight: tuple[torch.Tensor, torch.Tensor]
) -> A16W8Inputs:
    """Make the operands of one problem."""
    generator = torch.Generator(device.torch_name).manual_seed(seed + problem.M)
    dtype = TORCH_DTYPES[scheme.dtype]
    x = torch.empty((problem.B, problem.M, problem.K), dtype=dtype, device=device.torch_name)
    _fill(x, generator, scheme.prequant)
    bias = None
    if scheme.bias:
        # As large as the product it is added to, so that none, or another column's, is an error that counts.
        size = problem.K**0.5 * rms(BLOCKS) * (rms(_PREQUANT) if scheme.prequant else 1.0)
        bias = normal((problem.B, problem.N), generator, device.torch_name).mul_(size).to(dtype)
    return A16W8Inputs(problem, scheme, device, seed, x, *weight, bias)


def _fill(x: torch.Tensor, generator: torch.Generator, prequant: bool) -> None:
    for part in chunks(x.shape[0], x[0].numel(), _CHUNK_ELEMENTS):
        values = normal(x[part].shape, generator, x.device)
        if prequant:
            _spread_groups(values, 1, generator, _PREQUANT)
        x[part] = values


def _spread_groups(values: torch.Tensor, rows: int, generator: torch.Generator, exponents: Exponents) -> None:
    """Multiply values[B,R,C] by a random power of two for each group of rows x 128."""
    batch, height, width = values.shape
    grid = (batch, -(-height // rows), -(-width // SCALE_BLOCK))
    multiply_groups_(values, rows, SCALE_BLOCK, spread(exponents)(grid, generator, values.device))


def placeholders(problem: Problem, scheme: A16W8, device: Device) -> A16W8Inputs:
    """Operands without memory."""
    batch, dtype = problem.B, TORCH_DTYPES[scheme.dtype]
    blocks = (batch, -(-problem.N // SCALE_BLOCK), -(-problem.K // SCALE_BLOCK))
    q = torch.empty(batch, problem.N, problem.K, dtype=e4m3(device), device="meta")
    scale = torch.empty(blocks, device="meta")
    x = torch.empty(batch, problem.M, problem.K, dtype=dtype, device="meta")
    bias = torch.empty(batch, problem.N, dtype=dtype, device="meta") if scheme.bias else None
    return A16W8Inputs(problem, scheme, device, 0, x, q, scale, bias)

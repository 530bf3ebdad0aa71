"""Operands of an MX-FP8 MoE product, the routing of its rows, and its result in fp64."""

from dataclasses import dataclass, replace

import torch

from ...shapes.device import Device
from ...shapes.problem import Problem
from ...shapes.schemes.mxfp8_moe import MxFp8Moe
from ..inputs import TORCH_DTYPES, Inputs, Tensors, chunks, empty_output
from ..mxfp8.draw import draw_operand
from ..mxfp8.quantize import dequantize_mx, empty_mx
from .routing import route

_CHUNK_ELEMENTS = 1 << 22
"""Weight elements expanded to fp64 at once (32 MiB)."""


@dataclass(frozen=True, slots=True)
class MoeInputs(Inputs):
    """X[M,K], W[E,N,K] and which token goes where, on one device.

    x             float8_e4m3fn [M, K]; x_scale  uint8 [M, K/32], e8m0
    w             float8_e4m3fn [E, N, K]; w_scale  uint8 [E, N, K/32], e8m0, of experts without a row as well
    topk_ids      int32 [M, top_k], distinct experts of each token, uniform; the same on every device. It stays when the
                  activations are refreshed
    topk_weights  fp32 [M, top_k], uniform in [0, 1), or None where the scheme is not weighted
    """

    problem: Problem
    scheme: MxFp8Moe
    device: Device
    seed: int
    x: torch.Tensor
    x_scale: torch.Tensor
    w: torch.Tensor
    w_scale: torch.Tensor
    topk_ids: torch.Tensor
    topk_weights: torch.Tensor | None

    @property
    def activations(self) -> Tensors:
        """X and its scales."""
        return (self.x, self.x_scale)

    @property
    def weights(self) -> Tensors:
        """Expert weights and scales, routing, and routing weights."""
        routing_weights = (self.topk_weights,) if self.topk_weights is not None else ()
        return (self.w, self.w_scale, self.topk_ids, *routing_weights)

    def groups(self) -> list[tuple[int, torch.Tensor]]:
        """Each expert that is hit, with its slots (token * top_k + choice), int64 rising. Waits for the device."""
        experts = self.topk_ids.reshape(-1).long()
        order = experts.argsort(stable=True)
        counts = torch.bincount(experts, minlength=self.problem.E).tolist()
        return [
            (expert, slots)
            for expert, slots in enumerate(order.split(counts))
            if slots.numel()
        ]  # fmt: skip

    def empty_outputs(self) -> Tensors:
        """Y [M * top_k, N] in bf16."""
        shape = (self.problem.rows, self.problem.N)
        return (empty_output(shape, TORCH_DTYPES[self.scheme.dtype], self.x.device),)

    def refresh_activations(self, seed: int) -> None:
        """Draw new activations and quantize them, in place. The routing stays."""
        generator = torch.Generator(self.x.device).manual_seed(seed)
        x, scale = draw_operand(self.x.shape, self.scheme.rule, generator, self.x.device)
        self.x.copy_(x)
        self.x_scale.copy_(scale)

    def reference(self) -> Tensors:
        """Y [M * top_k, N] in fp64; weights are expanded some rows at a time (about 64 MiB beyond Y and X)."""
        columns, depth, top_k = self.problem.N, self.problem.K, self.problem.top_k
        x = dequantize_mx(self.x, self.x_scale, torch.float64)
        result = torch.empty(self.problem.rows, columns, dtype=torch.float64, device=x.device)
        for expert, slots in self.groups():
            rows = x[slots // top_k]
            for part in chunks(columns, depth, _CHUNK_ELEMENTS):
                w = dequantize_mx(self.w[expert, part], self.w_scale[expert, part], torch.float64)
                result[slots, part] = rows @ w.t()
        if self.topk_weights is not None:
            result *= self.topk_weights.reshape(-1, 1).double()
        return (result,)

    @property
    def column_unit(self) -> int:
        """Any row of W."""
        return 1

    def columns(self, part: slice) -> "MoeInputs":
        """Rows of the weights of every expert."""
        problem = replace(self.problem, N=part.stop - part.start)
        return replace(self, problem=problem, w=self.w[:, part], w_scale=self.w_scale[:, part])


def make_weight(problem: Problem, scheme: MxFp8Moe, device: Device, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw W[E,N,K] (`mxfp8.draw`) expert by expert: E = 256 would not fit in fp32."""
    generator = torch.Generator(device.torch_name).manual_seed(seed)
    w, w_scale = empty_mx((problem.E, problem.N, problem.K), device.torch_name)
    for expert in range(problem.E):
        payload, scale = draw_operand((problem.N, problem.K), scheme.rule, generator, device.torch_name)
        w[expert].copy_(payload)
        w_scale[expert].copy_(scale)
    return w, w_scale


def make_inputs(
    problem: Problem, scheme: MxFp8Moe, device: Device, seed: int, weight: tuple[torch.Tensor, torch.Tensor]
) -> MoeInputs:
    """Make the operands of one problem."""
    generator = torch.Generator(device.torch_name).manual_seed(seed + problem.M)
    x, x_scale = draw_operand((problem.M, problem.K), scheme.rule, generator, device.torch_name)
    drawn = torch.Generator("cpu").manual_seed(seed + problem.M)
    topk_ids = route(problem.M, problem.E, problem.top_k, drawn)
    topk_weights = None
    if scheme.weighted:
        topk_weights = torch.rand(topk_ids.shape, generator=drawn, dtype=torch.float32).to(device.torch_name)
    return MoeInputs(
        problem, scheme, device, seed, x, x_scale, *weight, topk_ids.to(device.torch_name), topk_weights
    )  # fmt: skip


def placeholders(problem: Problem, scheme: MxFp8Moe, device: Device) -> MoeInputs:
    """Operands without memory."""
    x, x_scale = empty_mx((problem.M, problem.K), "meta")
    w, w_scale = empty_mx((problem.E, problem.N, problem.K), "meta")
    topk_ids = torch.empty(problem.M, problem.top_k, dtype=torch.int32, device="meta")
    topk_weights = torch.empty(topk_ids.shape, device="meta") if scheme.weighted else None
    return MoeInputs(problem, scheme, device, 0, x, x_scale, w, w_scale, topk_ids, topk_weights)

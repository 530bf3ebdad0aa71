"""torch's own INT4 product: tinygemm's kernel on CUDA, torch's vectorized one on the CPU.

Weights are repacked in `prepare` by torch's converters, from codes [N,K] in int32 (CPU) or in pairs, [N, K/2] in uint8
(CUDA), the first one in the high nibble. A weight is (q - 8) * scale + offset; scale and offset in the type of the
activations lie next to each other, [K/group, N, 2]. So a zero point z becomes the offset (8 - z) * scale, rounded to
that type. What this machine's torch does not take, it says when it is called once.
"""

from collections.abc import Sequence
from typing import Any

import torch

from ...shapes.device import Device
from ...shapes.problem import Problem
from ...shapes.scheme import DType
from ...shapes.schemes.fourbit import FourBit
from ...shapes.schemes.w4a16 import W4A16
from ..libraries.dense import cpu_threads
from ..provider import Config, DeclinedError, Launch, Provider, Role, Support
from .groups import unpack
from .inputs import FourBitInputs

_CPU_ROWS, _GPU_ROWS = 16, 8
"""Multiples that N must be of: what the CPU's converter takes (torch 2.13), and the tiles that CUDA's packs (2.11)."""

_K_TILES = (8, 4, 2)
"""Tiles of 16 columns that the CUDA kernel reads together, K a multiple of them."""


class TorchInt4(Provider[FourBit, FourBitInputs]):
    """`torch.ops.aten._weight_int4pack_mm`, on the CPU `_weight_int4pack_mm_for_cpu`; they allocate their result."""

    name = "torch_int4"
    family = "fourbit"
    role = Role.UPSTREAM

    def supports(self, problem: Problem, scheme: FourBit, device: Device) -> Support:
        """INT4, on a GPU with bf16 alone; N in multiples of 16 on the CPU, of 8 on a GPU."""
        if not isinstance(scheme, W4A16) or scheme.weight != "int4":
            return Support.no(f"torch's kernel takes INT4, not {scheme.name}")
        if device.is_gpu and scheme.dtype is not DType.BF16:
            return Support.no(f"torch's kernel for GPUs takes bf16, not {scheme.dtype}")
        rows = _GPU_ROWS if device.is_gpu else _CPU_ROWS
        if problem.N % rows:
            return Support.no(
                f"torch's kernel for {'GPUs' if device.is_gpu else 'the CPU'} needs N in multiples of {rows}"
            )
        return Support.yes()

    def candidates(self, problem: Problem, scheme: FourBit, device: Device) -> Sequence[Config]:
        """On a GPU, the tiles of K that the weights are packed for."""
        if not device.is_gpu:
            return ()
        return [{"inner_k_tiles": tiles} for tiles in _K_TILES if problem.K % (16 * tiles) == 0]

    def prepare(self, inputs: FourBitInputs, config: Config | None = None) -> Launch:
        """Repack, and call it once. Raises DeclinedError with torch's reason."""
        config = dict(config or self.default_config(inputs))
        problem, x, group = inputs.problem, inputs.x, inputs.scheme.group
        ops: Any = torch.ops.aten
        scale, zero = (one if one is None else one.view(problem.N, -1).t() for one in inputs.weight.rebuild())
        assert scale is not None
        offset = torch.zeros_like(scale) if zero is None else -zero * scale
        scales = torch.stack((scale, offset), dim=2).to(x.dtype).contiguous()
        try:
            if inputs.device.is_gpu:
                packed = inputs.packed.view(problem.N, -1)
                weight = ops._convert_weight_to_int4pack(packed, int(config["inner_k_tiles"]))
                multiply = ops._weight_int4pack_mm.default
            else:
                codes = unpack(inputs.packed, problem.N * problem.K).view(problem.N, problem.K).int()
                weight = ops._convert_weight_to_int4pack_for_cpu(codes, 1)
                multiply = ops._weight_int4pack_mm_for_cpu.default
            multiply(x, weight, group, scales)
        except (AttributeError, RuntimeError) as error:  # an older torch, or none of its kernels for this device
            raise DeclinedError(f"torch declines: {str(error).splitlines()[0]}") from error
        config |= {"torch": torch.__version__, **cpu_threads(inputs.device)}
        return Launch.returning(lambda: multiply(x, weight, group, scales), inputs.empty_output(), config)

    def moved_bytes(self, problem: Problem, scheme: FourBit, config: Config) -> int:
        """W once, and a scale and an offset of each group."""
        groups = problem.N * problem.K // scheme.group
        offsets = 2 * scheme.dtype.bytes * groups
        dense = scheme.activation_bytes(problem) + scheme.output_bytes(problem)
        return scheme.weight_bytes(problem) + offsets + dense


TORCH_INT4 = TorchInt4()

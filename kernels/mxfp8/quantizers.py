"""Quantizers to MX-FP8 as providers: the Triton kernel, and plain torch."""

from collections.abc import Sequence
from typing import Any

import torch

from ...shapes.device import Device
from ...shapes.problem import Op, Problem
from ...shapes.schemes.mxfp8 import MxFp8Quant
from ..aot import Request, kernel_path, large_operands
from ..arch import NOT_ON_CPU
from ..provider import Config, Launch, Provider, Support
from ..triton_launch import compile_launch
from .inputs import MxFp8QuantInputs
from .quantize import BLOCK, LARGEST_MANTISSA, quantize_mx
from .triton_configs import group
from .triton_quantize import quantize_mx_kernel


class TritonQuantMx(Provider[MxFp8Quant, MxFp8QuantInputs]):
    """One launch that reads X once and writes payload and scales once."""

    family = "mxfp8"
    name = "triton_quant_mx"

    def supports(self, problem: Problem, scheme: MxFp8Quant, device: Device) -> Support:
        """Any rows of whole blocks on a GPU; where it has no FP8, the payload is rounded by integer arithmetic."""
        if problem.op is not Op.QUANTIZE:
            return Support.no(f"quantizes; this is a {problem.op}")
        return Support.yes() if device.is_gpu else Support.no(NOT_ON_CPU)

    def candidates(self, problem: Problem, scheme: MxFp8Quant, device: Device) -> Sequence[Config]:
        """Blocks of 32 per program: 128 are 8 KiB of X."""
        return [{"BLOCKS": blocks, "num_warps": 4} for blocks in (128, 64, 256)]

    def prepare(self, inputs: MxFp8QuantInputs, config: Config | None = None) -> Launch:
        """Allocate payload and scales, compile and warm up."""
        config = config or self.candidates(inputs.problem, inputs.scheme, inputs.device)[0]
        payload, scales = inputs.empty_outputs()
        arguments = {"x": inputs.x, "payload": payload, "scales": scales, "blocks": scales.numel()}
        grid = (-(-scales.numel() // config["BLOCKS"]), 1, 1)
        constants = _constants(inputs.problem, inputs.scheme, inputs.device, config)
        launch = compile_launch(quantize_mx_kernel, grid, arguments, constants, {"num_warps": config["num_warps"]})
        outputs, ran = (payload, scales), dict(config)
        return Launch(launch.run, outputs, ran, (launch.kernel,), artifact=launch.artifact, geometry=launch.geometry())

    def moved_bytes(self, problem: Problem, scheme: MxFp8Quant, config: Config) -> int:
        """X, payload and scales, once each."""
        return scheme.compulsory_bytes(problem)

    def builds(self, problem: Problem, scheme: MxFp8Quant, device: Device, config: Config) -> Sequence[Request]:
        """The one kernel."""
        elements = problem.M * problem.K
        return [
            Request(
                kernel_path(quantize_mx_kernel),
                {"x": "*bf16", "payload": "*u8", "scales": "*u8", "blocks": elements // BLOCK},
                _constants(problem, scheme, device, config),
                {"num_warps": config["num_warps"]},
                large_operands({"x": 2 * elements, "payload": elements}),
            )
        ]


class TorchQuantMx(Provider[MxFp8Quant, MxFp8QuantInputs]):
    """`quantize.quantize_mx`, operation by operation, on any device."""

    family = "mxfp8"
    name = "torch_quant_mx"

    def supports(self, problem: Problem, scheme: MxFp8Quant, device: Device) -> Support:
        """Any rows of whole blocks."""
        return Support.yes() if problem.op is Op.QUANTIZE else Support.no(f"quantizes; this is a {problem.op}")

    def prepare(self, inputs: MxFp8QuantInputs, config: Config | None = None) -> Launch:
        """Allocate the outputs; every call allocates its intermediates."""
        payload, scales = inputs.empty_outputs()

        def run() -> None:
            q, scale = quantize_mx(inputs.x, inputs.scheme.rule)
            payload.copy_(q.view(torch.uint8))
            scales.copy_(scale)

        return Launch(run, (payload, scales))


def _constants(problem: Problem, scheme: MxFp8Quant, device: Device, config: Config) -> dict[str, Any]:
    return {
        "LARGEST_MANTISSA": LARGEST_MANTISSA[scheme.rule],
        "NATIVE": group(device.arch) in ("fp8", "sm100", "cdna4") and device.is_gpu,
        "MASKED": problem.M * problem.K // BLOCK % config["BLOCKS"] != 0,
        "BLOCKS": config["BLOCKS"],
    }


TRITON_QUANT = TritonQuantMx()
TORCH_QUANT = TorchQuantMx()

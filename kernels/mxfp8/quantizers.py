"""Quantizers to MX-FP8 as providers: the Triton kernel, and plain torch."""

from collections.abc import Sequence

import torch

from ...shapes.device import Device
from ...shapes.gpu_architectures import Architecture, architecture
from ...shapes.problem import Op, Problem
from ...shapes.schemes.mxfp8 import MxFp8Quant
from ..jit.call import KernelCall
from ..jit.provider import TritonProvider
from ..needs import NOT_ON_CPU
from ..provider import Config, Launch, Provider, Support
from .inputs import MxFp8QuantInputs
from .quantize import LARGEST_MANTISSA, quantize_mx
from .triton.quantize import quantize_mx_kernel


class TritonQuantMx(TritonProvider[MxFp8Quant, MxFp8QuantInputs]):
    """One launch that reads X once and writes payload and scales once."""

    family = "mxfp8"
    op = Op.QUANTIZE
    name = "triton_quant_mx"

    def supports(self, problem: Problem, scheme: MxFp8Quant, device: Device) -> Support:
        """Any rows of whole blocks on a GPU; where it has no FP8, the payload is rounded by integer arithmetic."""
        return Support.yes() if device.is_gpu else Support.no(NOT_ON_CPU)

    def candidates(self, problem: Problem, scheme: MxFp8Quant, device: Device) -> Sequence[Config]:
        """Blocks of 32 per program: 128 are 8 KiB of X."""
        return [{"BLOCKS": blocks, "num_warps": 4} for blocks in (128, 64, 256)]

    def calls(
        self, inputs: MxFp8QuantInputs, outputs: tuple[torch.Tensor, ...], config: Config
    ) -> Sequence[KernelCall]:
        """The one kernel."""
        payload, scales = outputs
        blocks = scales.numel()
        arguments = {"x": inputs.x, "payload": payload, "scales": scales, "blocks": blocks}
        constants = {
            "LARGEST_MANTISSA": LARGEST_MANTISSA[inputs.scheme.rule],
            "NATIVE": inputs.device.is_gpu and _converts_e4m3(architecture(inputs.device.arch)),
            "MASKED": blocks % config["BLOCKS"] != 0,
            "BLOCKS": config["BLOCKS"],
        }
        grid = (-(-blocks // config["BLOCKS"]), 1, 1)
        return [KernelCall(quantize_mx_kernel, grid, arguments, constants, {"num_warps": config["num_warps"]})]


class TorchQuantMx(Provider[MxFp8Quant, MxFp8QuantInputs]):
    """`quantize.quantize_mx`, operation by operation, on any device."""

    family = "mxfp8"
    op = Op.QUANTIZE
    name = "torch_quant_mx"

    def prepare(self, inputs: MxFp8QuantInputs, config: Config | None = None) -> Launch:
        """Allocate the outputs; every call allocates its intermediates."""
        payload, scales = inputs.empty_outputs()

        def run() -> None:
            q, scale = quantize_mx(inputs.x, inputs.scheme.rule)
            payload.copy_(q.view(torch.uint8))
            scales.copy_(scale)

        return Launch(run, (payload, scales))


def _converts_e4m3(arch: Architecture) -> bool:
    """Whether the hardware narrows to OCP's e4m3, saturating."""
    return arch.multiplies_fp8 and not arch.fnuz and arch.family != "rdna"


TRITON_QUANT = TritonQuantMx()
TORCH_QUANT = TorchQuantMx()

"""Three ways to fill a buffer with the dequantized weights, for the baseline that pays for it at every call."""

import torch

from ...shapes.device import Device
from ...shapes.gpu_architectures import architecture
from ...shapes.schemes.a16w8 import SCALE_BLOCK
from ..inputs import chunks
from ..libraries.dense import Decoded
from .inputs import A16W8Inputs

FORMS = {
    "triton": "one pass of a Triton kernel",
    "torch": "torch's conversion, then a product in place",
    "bits": "the bits of FP8 moved to where fp16 has them, so many at a time that they stay in the caches",
}
"""Name -> what it does; `config["dequantize"]` holds the name."""

_CHUNK_ELEMENTS = 1 << 18
"""Weights that "bits" handles at once: 6 bytes of scratch each, 1.5 MiB."""

_REBIAS = 256.0
"""2^(15 - 7): the bits of e4m3fn, read as fp16, are 2^-8 of the value. Exact in fp32, subnormal values included."""


def default_form(device: Device) -> str:
    """Triton where it knows FP8. On CPUs "bits": torch 2.13 converts e4m3 one by one, some 20 times slower."""
    if not device.is_gpu:
        return "bits"
    return "triton" if architecture(device.arch).converts_fp8 else "torch"


def passes(form: str) -> int:
    """How often the dense weights pass through memory while they are made."""
    return 3 if form == "torch" else 1


def prepare(form: str, inputs: A16W8Inputs, dtype: torch.dtype) -> Decoded:
    """Allocate the weights as `dtype`, and scratch; compile what is to be compiled. Rows may be padded."""
    if form == "triton":
        from ..jit.call import compile_calls
        from .triton.dequantize import dequantize_call

        weight = torch.empty(inputs.q.shape, dtype=dtype, device=inputs.q.device)
        launch = compile_calls([dequantize_call(inputs, weight)])
        return Decoded(weight, launch.run, kernels=launch.kernels, artifact=launch.artifact, described=launch.described)
    return _prepare_bits(inputs, dtype) if form == "bits" else _prepare_torch(inputs, dtype)


def _prepare_torch(inputs: A16W8Inputs, dtype: torch.dtype) -> Decoded:
    weight, blocks = _padded(inputs, inputs.problem.B, dtype)
    scale = inputs.scale[:, :, None, :, None]

    def run() -> None:
        weight.copy_(inputs.q)  # exact
        blocks.mul_(scale)  # in fp32, rounded once

    return Decoded(weight, run)


def _prepare_bits(inputs: A16W8Inputs, dtype: torch.dtype) -> Decoded:
    if inputs.q.dtype is not torch.float8_e4m3fn:
        return _prepare_torch(inputs, dtype)
    weight = torch.empty(inputs.q.shape, dtype=dtype, device=inputs.q.device)
    parts = list(chunks(inputs.problem.B, weight[0].numel(), _CHUNK_ELEMENTS))
    largest = parts[0].stop
    bits = torch.empty((largest, *inputs.q.shape[1:]), dtype=torch.int16, device=inputs.q.device)
    wide, blocks = _padded(inputs, largest, torch.float32)
    octets = inputs.q.view(torch.int8)
    scale = inputs.scale[:, :, None, :, None] * _REBIAS

    def run() -> None:
        for part in parts:
            count = part.stop - part.start
            some = bits[:count]
            some.copy_(octets[part])  # the sign fills the upper bits
            some.bitwise_left_shift_(7).bitwise_and_(-0x4001)  # bit 14 belongs to the exponent of fp16: 0
            wide[:count].copy_(some.view(torch.float16))
            blocks[:count].mul_(scale[part])
            weight[part].copy_(wide[:count])

    return Decoded(weight, run)


def _padded(inputs: A16W8Inputs, count: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Allocate `count` matrices [N,K] with rows and columns for whole blocks; also as [count, cd, 128, cd, 128]."""
    _, rows, columns = inputs.q.shape
    row_groups, column_groups = inputs.scale.shape[1:]
    shape = (count, row_groups * SCALE_BLOCK, column_groups * SCALE_BLOCK)
    buffer = torch.zeros(shape, dtype=dtype, device=inputs.q.device)
    return buffer[:, :rows, :columns], buffer.view(count, row_groups, SCALE_BLOCK, column_groups, SCALE_BLOCK)

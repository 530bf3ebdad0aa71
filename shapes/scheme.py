"""A scheme: how the operands of a GEMM are stored, what that costs in bytes, and how exact the output must be."""

import re
from dataclasses import dataclass
from enum import StrEnum

from .errors import UsageError
from .problem import Problem

BLOCK_SIZES_4BIT = (32, 64, 128, 256, 512, 1024, 2048, 4096)
"""Block sizes of the bitsandbytes 4-bit formats, in elements of the flattened weight."""

NESTED_BLOCK_SIZE = 256
"""absmax values per second-level block when absmax itself is quantized to 8 bits (bitsandbytes double quantization)."""


class DType(StrEnum):
    """Activation and output type of a GEMM."""

    BF16 = "bf16"
    FP16 = "fp16"
    FP32 = "fp32"

    @property
    def bytes(self) -> int:
        """Bytes per element."""
        return 4 if self is DType.FP32 else 2

    @classmethod
    def parse(cls, text: str) -> "DType":
        """Read "bf16", "fp16" or "fp32"; raise UsageError for anything else."""
        try:
            return cls(text)
        except ValueError:
            raise UsageError(f"unknown dtype {text!r}: known: {', '.join(cls)}") from None


SNR_FLOOR_DB = {DType.BF16: 40.0, DType.FP16: 55.0, DType.FP32: 100.0}
"""Least signal-to-noise ratio against the fp64 product of the SAME quantized bits.

Rounding the weights and the output to the activation type alone gives about 53 dB in bf16, 71 dB in fp16 and 150 dB in
fp32; a wrong element per row or a TF32 product (about 65 dB) falls below the floor of its type.
"""


@dataclass(frozen=True, slots=True)
class Scheme:
    """4-bit weights in blocks with fp32 absmax, optionally nested, and activations and output of `dtype`.

    `weight` is "nf4" or "fp4" (the bitsandbytes FP4, not OCP e2m1); `group` counts elements of the flattened W[N,K],
    so that a block straddles rows when K % group != 0. `nested` stores absmax in 8 bits (double quantization).
    """

    weight: str
    group: int
    dtype: DType
    nested: bool = False
    bias: bool = False

    def __post_init__(self) -> None:
        if self.weight not in ("nf4", "fp4"):
            raise UsageError(f"unknown weight format {self.weight!r}: known: nf4, fp4")
        if self.group not in BLOCK_SIZES_4BIT:
            sizes = ", ".join(map(str, BLOCK_SIZES_4BIT))
            raise UsageError(f"block size {self.group} of {self.weight} does not exist: known: {sizes}")

    @classmethod
    def parse(cls, name: str, dtype: DType) -> "Scheme":
        """Read a name such as "nf4-g64", "fp4-g128-nested" or "nf4-g64-bias"; raise UsageError otherwise."""
        match = re.fullmatch(r"(nf4|fp4)-g(\d+)(-nested)?(-bias)?", name)
        if not match:
            raise UsageError(
                f"unknown scheme {name!r}: write nf4-g64 or fp4-g64 (any block size from 32 to 4096), "
                "then -nested and -bias if wanted"
            )
        weight, group, nested, bias = match.groups()
        return cls(weight=weight, group=int(group), dtype=dtype, nested=bool(nested), bias=bool(bias))

    @property
    def name(self) -> str:
        """The name that `parse` reads; dtype is a column of its own."""
        return f"{self.weight}-g{self.group}" + "-nested" * self.nested + "-bias" * self.bias

    @property
    def snr_floor_db(self) -> float:
        """A provider below this signal-to-noise ratio (dB) is incorrect."""
        return SNR_FLOOR_DB[self.dtype]

    def weight_bytes(self, problem: Problem) -> int:
        """Bytes of the packed weights: two elements per byte over the flattened tensor."""
        return problem.B * ((problem.N * problem.K + 1) // 2)

    def scale_bytes(self, problem: Problem) -> int:
        """Bytes of absmax: fp32 per block, or 8 bits per block + fp32 per 256 blocks + the 256-entry code + offset."""
        blocks = -(-problem.N * problem.K // self.group)
        if not self.nested:
            return problem.B * 4 * blocks
        return problem.B * (blocks + 4 * -(-blocks // NESTED_BLOCK_SIZE) + 4 * 256 + 4)

    def activation_bytes(self, problem: Problem) -> int:
        """Bytes of X[M,K]."""
        return problem.B * problem.M * problem.K * self.dtype.bytes

    def output_bytes(self, problem: Problem) -> int:
        """Bytes of Y[M,N]."""
        return problem.B * problem.M * problem.N * self.dtype.bytes

    def bias_bytes(self, problem: Problem) -> int:
        """Bytes of bias[N], 0 without one."""
        return problem.B * problem.N * self.dtype.bytes if self.bias else 0

    def compulsory_bytes(self, problem: Problem) -> int:
        """Least traffic: every operand and its scales read once, the output written once."""
        return (
            self.weight_bytes(problem)
            + self.scale_bytes(problem)
            + self.activation_bytes(problem)
            + self.bias_bytes(problem)
            + self.output_bytes(problem)
        )

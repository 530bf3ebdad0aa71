"""4-bit weights of bitsandbytes: NF4 and FP4 in blocks with fp32 or nested 8-bit absmax."""

import re
from dataclasses import dataclass
from typing import ClassVar

from ..errors import UsageError, quote
from ..problem import Problem
from ..scheme import DType, Scheme

BLOCK_SIZES_4BIT = (32, 64, 128, 256, 512, 1024, 2048, 4096)
"""Block sizes of the bitsandbytes 4-bit formats, in elements of the flattened weight."""

NESTED_BLOCK_SIZE = 256
"""absmax values per second-level block when absmax itself is quantized to 8 bits (bitsandbytes double quantization)."""


@dataclass(frozen=True, slots=True)
class FourBit(Scheme):
    """4-bit weights in blocks with fp32 absmax, optionally nested, and activations and output of `dtype`.

    `weight` is "nf4" or "fp4" (the bitsandbytes FP4, not OCP e2m1); `group` counts elements of the flattened W[N,K],
    so that a block straddles rows when K % group != 0. `nested` stores absmax in 8 bits (double quantization).
    """

    weight: str
    group: int
    dtype: DType
    nested: bool = False
    bias: bool = False

    family: ClassVar[str] = "fourbit"
    grammar: ClassVar[str] = "nf4-g64 or fp4-g64 (any block size from 32 to 4096), then -nested and -bias if wanted"

    def __post_init__(self) -> None:
        if self.weight not in ("nf4", "fp4"):
            raise UsageError(f"unknown weight format {quote(self.weight)}: known: nf4, fp4")
        if self.group not in BLOCK_SIZES_4BIT:
            sizes = ", ".join(map(str, BLOCK_SIZES_4BIT))
            raise UsageError(f"block size {self.group} of {self.weight} does not exist: known: {sizes}")

    @classmethod
    def read(cls, name: str, dtype: DType) -> "FourBit | None":
        """Read a name such as "nf4-g64", "fp4-g128-nested" or "nf4-g64-bias"."""
        match = re.fullmatch(r"(nf4|fp4)-g(\d+)(-nested)?(-bias)?", name)
        if not match:
            return None
        weight, group, nested, bias = match.groups()
        return cls(weight, int(group), dtype, bool(nested), bool(bias))

    @property
    def name(self) -> str:
        """The name that `read` reads; dtype is a column of its own."""
        return f"{self.weight}-g{self.group}" + "-nested" * self.nested + "-bias" * self.bias

    def weight_bytes(self, problem: Problem) -> int:
        """Bytes of the packed weights: two elements per byte over the flattened tensor."""
        return (problem.N * problem.K + 1) // 2

    def scale_bytes(self, problem: Problem) -> int:
        """Bytes of absmax: fp32 per block, or 8 bits per block + fp32 per 256 blocks + the 256-entry code + offset."""
        blocks = -(-problem.N * problem.K // self.group)
        if not self.nested:
            return 4 * blocks
        return blocks + 4 * -(-blocks // NESTED_BLOCK_SIZE) + 4 * 256 + 4

    def bias_bytes(self, problem: Problem) -> int:
        """Bytes of bias[N], 0 without one."""
        return problem.N * self.dtype.bytes if self.bias else 0

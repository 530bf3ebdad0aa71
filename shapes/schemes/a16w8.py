"""16-bit activations times FP8 weights with a scale per 128 x 128 block, in batches."""

from dataclasses import dataclass, replace
from typing import ClassVar

from ..errors import UsageError
from ..problem import Problem
from ..scheme import SNR_FLOOR_DB, DType, Scheme

SCALE_BLOCK = 128
"""Rows (N) and columns (K) of W[N,K] that share one fp32 scale."""

PREQUANT_SNR_DB = 28.0
"""Floor where a kernel rounds the activations to FP8; the reference is the product of the UNQUANTIZED activations.

e4m3 keeps 3 bits of the mantissa: rounding normal values with one scale per row and 128 columns leaves 31.8 dB of them,
29.5 dB of the worst row of 128 among thousands, and as much of their product, whatever K is. Below the floor fall
activations with 2 bits of mantissa (25.8 dB), a scale that is off by 3.5 %, one of 1000 steps of K omitted.
"""


@dataclass(frozen=True, slots=True)
class A16W8(Scheme):
    """X[B,M,K] in `dtype`, W[B,N,K] in FP8 e4m3 with fp32 scales [B, cd(N,128), cd(K,128)], Y[B,M,N] in `dtype`.

    `prequant` lets a kernel quantize X per row and per 128 columns to FP8 while it computes: both operands of the
    product are FP8 then. A provider that does not is more exact, not wrong. `bias` is [B,N] in `dtype`.
    """

    dtype: DType
    prequant: bool = False
    bias: bool = False

    family: ClassVar[str] = "a16w8"
    grammar: ClassVar[str] = "a16w8-128x128, then -prequant and -bias if wanted"
    prefix: ClassVar[str] = "a16w8"
    stem: ClassVar[str] = "a16w8-128x128"
    flags: ClassVar[tuple[str, ...]] = ("prequant", "bias")

    def __post_init__(self) -> None:
        if self.dtype is DType.FP32:
            raise UsageError(f"scheme {self.name}: activations have 16 bits: dtype bf16 or fp16")

    @property
    def snr_floor_db(self) -> float:
        """The floor of the dtype; with activations in FP8 that of their rounding, whatever the dtype."""
        return PREQUANT_SNR_DB if self.prequant else SNR_FLOOR_DB[self.dtype]

    @property
    def math_dtype(self) -> str:
        """FP8 where both operands are, else the type of the activations, to which the weights are widened."""
        return "fp8" if self.prequant else self.dtype.value

    def check(self, problem: Problem) -> None:
        """Raise UsageError for another operation or pass than a forward GEMM; batches and any N and K are fine."""
        # Not super(): dataclass(slots=True) makes a new class, which the cell of super() does not know.
        Scheme.check(self, replace(problem, B=1))

    def weight_bytes(self, problem: Problem) -> int:
        """One byte per element."""
        return problem.B * problem.N * problem.K

    def scale_bytes(self, problem: Problem) -> int:
        """fp32 per block of 128 x 128, partial blocks included."""
        return 4 * problem.B * -(-problem.N // SCALE_BLOCK) * -(-problem.K // SCALE_BLOCK)

    def bias_bytes(self, problem: Problem) -> int:
        """Bytes of bias[B,N], 0 without one."""
        return problem.B * problem.N * self.dtype.bytes if self.bias else 0

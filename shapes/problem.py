"""A problem: the operation and its sizes, which is all that its useful FLOPs depend on."""

from dataclasses import dataclass
from enum import StrEnum

from .errors import UsageError

LARGEST_FLOPS = 1 << 60
"""No device finishes more in a day; below it, every stored count fits into 64 bits."""


class Op(StrEnum):
    """Operations that a suite can ask for."""

    GEMM = "gemm"


class Pass(StrEnum):
    """Which part of a training step is computed; inference is `fwd`."""

    FWD = "fwd"


@dataclass(frozen=True, slots=True)
class Problem:
    """Y[M,N] = X[M,K] W[N,K]^T (+ bias[N]), B times over when batched.

    Sizes are elements. Raises UsageError when a size is not a positive integer.
    """

    M: int
    N: int
    K: int
    B: int = 1
    op: Op = Op.GEMM
    pass_: Pass = Pass.FWD

    def __post_init__(self) -> None:
        for name in ("M", "N", "K", "B"):
            size = getattr(self, name)
            if not isinstance(size, int) or isinstance(size, bool) or size < 1:
                raise UsageError(f"{name}={size!r} is not a size: give a positive whole number")
        if self.flops >= LARGEST_FLOPS:
            raise UsageError(f"{self} is too large: no device computes {self.flops:.0e} FLOP; give smaller sizes")

    @property
    def flops(self) -> int:
        """Useful FLOPs, 2 B M N K: never dequantization, scales or padding."""
        return 2 * self.B * self.M * self.N * self.K

    def __str__(self) -> str:
        batch = f"B={self.B} " if self.B != 1 else ""
        return f"{batch}M={self.M} N={self.N} K={self.K}"

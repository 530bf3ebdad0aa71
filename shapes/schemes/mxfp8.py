"""MX-FP8 (OCP microscaling): e4m3fn payload and one e8m0 scale per 32 elements of a row."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from ..errors import UsageError, quote
from ..problem import Op, Problem
from ..scheme import EXACT_SNR_DB, DType, Scheme

BLOCK = 32
"""Consecutive elements along K that share one scale byte."""

RULES = ("floor", "ceil", "even", "rceil")
"""How the scale exponent follows from the largest magnitude of a block; `kernels.mxfp8.quantize` defines them."""


@dataclass(frozen=True, slots=True)
class MxScheme(Scheme):
    """A scheme of this format, quantized by `rule`. Raises UsageError for an unknown rule, and for other types."""

    rule: str
    dtype: DType

    choices: ClassVar[Mapping[str, Iterable[str]]] = {"rule": RULES}

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise UsageError(f"unknown scale rule {quote(self.rule)} of MX-FP8: known: {', '.join(RULES)}")
        if self.dtype is not DType.BF16:
            raise UsageError(f"scheme {self.name} starts from and ends in bf16, not {self.dtype}: use --dtype bf16")

    def check(self, problem: Problem) -> None:
        """K must be whole blocks of 32."""
        Scheme.check(self, problem)
        if problem.K % BLOCK:
            raise UsageError(f"scheme {self.name}: K={problem.K} is not a multiple of its block of {BLOCK} elements")


@dataclass(frozen=True, slots=True)
class MxProduct(MxScheme):
    """A product of two operands in MX-FP8, quantized before the call; output bf16."""

    @property
    def math_dtype(self) -> str:
        """Matrix units that take the scales with the operands multiply in this type."""
        return "mxfp8"

    def activation_bytes(self, problem: Problem) -> int:
        """One byte per element of X: a row is read once, whatever number of experts it goes to."""
        return problem.M * problem.K


@dataclass(frozen=True, slots=True)
class MxFp8(MxProduct):
    """Y[M,N] = X[M,K] W[N,K]^T: both operands MX-FP8, quantized by `rule` before the call; output bf16."""

    family: ClassVar[str] = "mxfp8"
    grammar: ClassVar[str] = "mxfp8-rceil (or -floor, -ceil, -even)"
    stem: ClassVar[str] = "mxfp8-{rule}"

    @property
    def snr_floor_db(self) -> float:
        """46 dB, 9 below what rounding the output to bf16 costs.

        Products of two e4m3 values times a power of two are exact in fp32, so that only accumulation and the rounding
        of the output are left: ulp^2 / 12 against a square that is log-uniform within its binade is 55.6 dB. Sums of
        32 products that keep 14 bits (FP8 matrix units of sm90) still have about 70 dB. One row whose scales are all
        off by one step costs the square of the row itself: 18 dB among 64 rows.
        """
        return 46.0

    def weight_bytes(self, problem: Problem) -> int:
        """One byte per element of W."""
        return problem.N * problem.K

    def scale_bytes(self, problem: Problem) -> int:
        """One byte per 32 elements of X and of W."""
        return (problem.M + problem.N) * (problem.K // BLOCK)


@dataclass(frozen=True, slots=True)
class MxFp8Quant(MxScheme):
    """bf16 X[M,K] to MX-FP8: payload [M,K] and scales [M,K/32], by `rule`."""

    family: ClassVar[str] = "mxfp8"
    ops: ClassVar[tuple[Op, ...]] = (Op.QUANTIZE,)
    grammar: ClassVar[str] = "mxfp8-quant-rceil (or -floor, -ceil, -even)"
    stem: ClassVar[str] = "mxfp8-quant-{rule}"

    @property
    def snr_floor_db(self) -> float:
        """Bits must be equal: payload and scales are compared as bytes."""
        return EXACT_SNR_DB

    def weight_bytes(self, problem: Problem) -> int:
        """A quantization of activations reads no weights."""
        return 0

    def scale_bytes(self, problem: Problem) -> int:
        """One byte written per 32 elements."""
        return problem.M * (problem.K // BLOCK)

    def output_bytes(self, problem: Problem) -> int:
        """The payload, one byte per element; the scales count as scales."""
        return problem.M * problem.K

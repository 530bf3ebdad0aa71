"""torchao-style blockwise FP8: five quantizers, two GEMMs, a training linear, and both grouped over experts.

Blocks have 128 elements (1x128, 128x1, 128x128), scales are fp32 reciprocals, the element type is the device's e4m3.
M counts the TOTAL rows of all groups.
"""

from abc import ABC
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from ..errors import UsageError
from ..problem import Op, Pass, Problem
from ..scheme import EXACT_SNR_DB, DType, Scheme

BLOCK = 128
"""Elements of a scaling group along each blocked dimension."""

FP8_SNR_FLOOR_DB = {DType.BF16: 40.0, DType.FP16: 50.0, DType.FP32: 50.0}
"""Least signal-to-noise ratio against the fp64 product of the SAME quantized bits.

Rounding dequantized operands and output to bf16 leaves about 53 dB. The FP8 units of sm90 add products of one step with
about 14 bits (DeepSeek-V3 technical report, section 3.3.2), near 60 dB whatever the output type, so that fp16 and fp32
outputs share a floor below that. Products without scales, or without one block of K in 100, are below 20 dB.
"""

QUANTIZERS = {
    "act-lhs": (1, BLOCK, (False, True)),
    "act-rhs": (BLOCK, 1, (False, True)),
    "act-transposed-lhs": (BLOCK, 1, (True, False)),
    "weight-rhs": (BLOCK, BLOCK, (True, True)),
    "weight-transposed-rhs": (BLOCK, BLOCK, (True, True)),
}
"""kind -> rows and columns of a scaling group of x[M,K], and which of M and K must be a multiple of 128."""


def blocks(elements: int) -> int:
    """Return the scaling groups that `elements` elements need, the last one perhaps partial."""
    return -(-elements // BLOCK)


class Torchao(Scheme, ABC):
    """What the schemes of this family share."""

    __slots__ = ()

    family: ClassVar[str] = "torchao"
    grammar: ClassVar[str] = (
        "ao-act-lhs, ao-act-rhs, ao-act-transposed-lhs, ao-weight-rhs, ao-weight-transposed-rhs, ao-1x128-128x128, "
        "ao-1x128-128x1, ao-linear, or ao-grouped, ao-grouped-linear, -balanced if wanted"
    )

    @property
    def snr_floor_db(self) -> float:
        """See `FP8_SNR_FLOOR_DB`."""
        return FP8_SNR_FLOOR_DB[self.dtype]

    @property
    def math_dtype(self) -> str:
        """FP8, whatever comes out."""
        return "fp8"


@dataclass(frozen=True, slots=True)
class AoQuant(Torchao):
    """x[M,K] of `dtype` to FP8 data and scales in the layout that `kind` names (`QUANTIZERS`)."""

    kind: str
    dtype: DType

    ops: ClassVar[tuple[Op, ...]] = (Op.QUANTIZE,)
    stem: ClassVar[str] = "ao-{kind}"
    choices: ClassVar[Mapping[str, Iterable[str]]] = {"kind": QUANTIZERS}

    @property
    def snr_floor_db(self) -> float:
        """Bits must be equal, as torchao's own tests ask; a cast keeps the sign of a zero."""
        return EXACT_SNR_DB

    def check(self, problem: Problem) -> None:
        """Raise UsageError where torchao defines no such layout."""
        Torchao.check(self, problem)
        rows, columns = QUANTIZERS[self.kind][2]
        if rows:
            _multiple(self, problem, "M", BLOCK)
        if columns:
            _multiple(self, problem, "K", BLOCK)

    def weight_bytes(self, problem: Problem) -> int:
        """Nothing is left of a weight between calls: it is what a call reads."""
        return 0

    def scale_bytes(self, problem: Problem) -> int:
        """fp32 per group."""
        rows, columns, _ = QUANTIZERS[self.kind]
        return 4 * -(-problem.M // rows) * -(-problem.K // columns)

    def output_bytes(self, problem: Problem) -> int:
        """FP8 data."""
        return problem.M * problem.K


@dataclass(frozen=True, slots=True)
class AoGemm(Torchao):
    """Y[M,N] = a[M,K] b[K,N] of quantized operands: a in 1x128 groups, b in `right` groups ("128x128" or "128x1")."""

    right: str
    dtype: DType

    stem: ClassVar[str] = "ao-1x128-{right}"
    choices: ClassVar[Mapping[str, Iterable[str]]] = {"right": ("128x128", "128x1")}

    def weight_bytes(self, problem: Problem) -> int:
        """b in FP8."""
        return problem.N * problem.K

    def scale_bytes(self, problem: Problem) -> int:
        """fp32 of both operands."""
        depth = blocks(problem.K)
        return 4 * depth * (problem.M + (blocks(problem.N) if self.right == "128x128" else problem.N))

    def activation_bytes(self, problem: Problem) -> int:
        """a in FP8."""
        return problem.M * problem.K


@dataclass(frozen=True, slots=True)
class AoLinear(Torchao):
    """Y[M,N] = x[M,K] W[N,K]^T, operands and results in `dtype`, multiplied in FP8: casts are part of the call.

    fwd casts x and W; step casts both once more, and dY twice (six in all), for dX and dW.
    """

    dtype: DType

    passes: ClassVar[tuple[Pass, ...]] = (Pass.FWD, Pass.STEP)
    stem: ClassVar[str] = "ao-linear"

    def check(self, problem: Problem) -> None:
        """A step groups 128 rows."""
        Torchao.check(self, problem)
        if problem.pass_ is Pass.STEP:
            _multiple(self, problem, "M", BLOCK)

    def weight_bytes(self, problem: Problem) -> int:
        """W as it is given."""
        return problem.N * problem.K * self.dtype.bytes

    def scale_bytes(self, problem: Problem) -> int:
        """None comes in or goes out."""
        return 0

    def activation_bytes(self, problem: Problem) -> int:
        """X, and dY in a step."""
        return _training_rows_bytes(self, problem)

    def output_bytes(self, problem: Problem) -> int:
        """Y; dX and dW as well in a step."""
        return _training_output_bytes(self, problem)


@dataclass(frozen=True, slots=True)
class AoGrouped(Torchao):
    """Rows of a[M,K] belong to E groups with weights b[E,K,N]: quantized operands, 1x128 and 128x128.

    Groups are random, each with a multiple of 16 rows and none empty as long as there are 16 rows for each; `balanced`
    makes them equal.
    """

    dtype: DType
    balanced: bool = False

    ops: ClassVar[tuple[Op, ...]] = (Op.GROUPED_GEMM,)
    unit: ClassVar[int] = 16
    """Rows of every group are a multiple of this."""
    stem: ClassVar[str] = "ao-grouped"
    flags: ClassVar[tuple[str, ...]] = ("balanced",)

    def check(self, problem: Problem) -> None:
        """Raise UsageError when M cannot be divided into such groups."""
        Torchao.check(self, problem)
        _multiple(self, problem, "M", self.unit * (problem.E if self.balanced else 1))

    def experts_with_rows(self, problem: Problem) -> int:
        """Groups that are not empty: all of them while there is a unit of rows for each."""
        return min(problem.E, problem.M // self.unit)

    def weight_bytes(self, problem: Problem) -> int:
        """FP8 of the groups with rows."""
        return self.experts_with_rows(problem) * problem.N * problem.K

    def scale_bytes(self, problem: Problem) -> int:
        """fp32 of a and of the groups with rows, and the int32 end of each group."""
        weights = self.experts_with_rows(problem) * blocks(problem.N)
        return 4 * blocks(problem.K) * (problem.M + weights) + 4 * problem.E

    def activation_bytes(self, problem: Problem) -> int:
        """a in FP8."""
        return problem.M * problem.K


@dataclass(frozen=True, slots=True)
class AoGroupedLinear(AoGrouped):
    """As `AoGrouped` with operands and results in `dtype` and the casts inside.

    Every group has a multiple of 128 rows, so that no scaling group of dW straddles two experts.
    """

    passes: ClassVar[tuple[Pass, ...]] = (Pass.FWD, Pass.STEP)
    unit: ClassVar[int] = BLOCK
    stem: ClassVar[str] = "ao-grouped-linear"

    def weight_bytes(self, problem: Problem) -> int:
        """W of the groups with rows, as it is given."""
        return self.experts_with_rows(problem) * problem.N * problem.K * self.dtype.bytes

    def scale_bytes(self, problem: Problem) -> int:
        """The int32 end of each group."""
        return 4 * problem.E

    def activation_bytes(self, problem: Problem) -> int:
        """X, and dY in a step."""
        return _training_rows_bytes(self, problem)

    def output_bytes(self, problem: Problem) -> int:
        """Y; dX and the dW of all groups as well in a step."""
        return _training_output_bytes(self, problem)


def by_column(scheme: Torchao) -> bool:
    """Whether b has a scale per column, not per 128."""
    return isinstance(scheme, AoGemm) and scheme.right == "128x1"


def _multiple(scheme: Scheme, problem: Problem, size: str, unit: int) -> None:
    value = getattr(problem, size)
    if value % unit:
        raise UsageError(f"scheme {scheme.name}: {size}={value} must be a multiple of {unit}")


def _training_rows_bytes(scheme: Scheme, problem: Problem) -> int:
    gradient = problem.N if problem.pass_ is Pass.STEP else 0
    return problem.M * (problem.K + gradient) * scheme.dtype.bytes


def _training_output_bytes(scheme: Scheme, problem: Problem) -> int:
    elements = problem.M * problem.N
    if problem.pass_ is Pass.STEP:
        elements += problem.M * problem.K + problem.E * problem.N * problem.K
    return elements * scheme.dtype.bytes

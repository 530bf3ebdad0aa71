"""A scheme: how the operands of an operation are stored, what that costs in bytes, and how exact the output must be.

`Scheme` is what all families of formats have in common; one module of `shapes.schemes` per family says the rest.
"""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import ClassVar, Self

from .errors import UsageError, quote
from .problem import Op, Pass, Problem


class DType(StrEnum):
    """Activation and output type of an operation."""

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
            raise UsageError(f"unknown dtype {quote(text)}: known: {', '.join(cls)}") from None


SNR_FLOOR_DB = {DType.BF16: 40.0, DType.FP16: 55.0, DType.FP32: 100.0}
"""Least signal-to-noise ratio against the fp64 product of the SAME quantized bits.

Rounding the weights and the output to the activation type alone gives about 53 dB in bf16, 71 dB in fp16 and 150 dB in
fp32; a wrong element per row or a TF32 product (about 65 dB) falls below the floor of its type.
"""

EXACT_SNR_DB = math.inf
"""Floor where every bit is specified, as of a quantizer, the sign of a zero included: one that differs is an error."""


class Scheme(ABC):
    """Storage of the operands; `dtype` is the type of the activations before quantization, and of the output.

    Subclasses are frozen dataclasses, so that equal storage is equal. `family` names the folder of `kernels` that
    computes with it, `ops` and `passes` what can be requested.
    """

    __slots__ = ()

    dtype: DType

    family: ClassVar[str]
    ops: ClassVar[tuple[Op, ...]] = (Op.GEMM,)
    passes: ClassVar[tuple[Pass, ...]] = (Pass.FWD,)
    grammar: ClassVar[str]
    """How names of this family are written, for error messages: "nf4-g64"."""
    stem: ClassVar[str] = ""
    """How a name begins: "mxfp8-{rule}" with a field that is one of its `choices`."""
    choices: ClassVar[Mapping[str, Iterable[str]]] = {}
    flags: ClassVar[tuple[str, ...]] = ()
    """Fields that are True where their own name follows, in this order: "-prequant-bias"."""
    prefix: ClassVar[str | None] = None
    """Names that begin so are of no other family."""

    @classmethod
    def read(cls, name: str, dtype: DType) -> Self | None:
        """Read a name of this family; None when it is another's. Raises UsageError for one that is nearly right."""
        fields = {field: f"(?P<{field}>{'|'.join(values)})" for field, values in cls.choices.items()}
        pattern = cls.stem.format_map(fields) + "".join(f"(?P<{flag}>-{flag})?" for flag in cls.flags)
        if not (match := re.fullmatch(pattern, name)):
            if cls.prefix and name.startswith(cls.prefix):
                raise UsageError(f"unknown scheme {quote(name)}: write {cls.grammar}")
            return None
        make: Callable[..., Self] = cls
        return make(dtype=dtype, **match.groupdict() | {flag: bool(match[flag]) for flag in cls.flags})

    @property
    def name(self) -> str:
        """The name that `read` reads; dtype is a column of its own."""
        fields = {field: getattr(self, field) for field in self.choices}
        return self.stem.format_map(fields) + "".join(f"-{flag}" for flag in self.flags if getattr(self, flag))

    @property
    def snr_floor_db(self) -> float:
        """A provider below this signal-to-noise ratio (dB) is incorrect."""
        return SNR_FLOOR_DB[self.dtype]

    @property
    def math_dtype(self) -> str:
        """Type that the matrix units multiply in, where the format has a say: "bf16", "fp8", ...: which peak limits."""
        return self.dtype.value

    def check(self, problem: Problem) -> None:
        """Raise UsageError for a problem whose operands this scheme cannot store."""
        if problem.op not in self.ops:
            raise UsageError(f"scheme {self.name} has no {problem.op}: it has {', '.join(self.ops)}")
        if problem.pass_ not in self.passes:
            raise UsageError(f"scheme {self.name} has no pass {problem.pass_}: it has {', '.join(self.passes)}")
        if problem.B != 1:
            raise UsageError(f"scheme {self.name}: B={problem.B}, but it has no batch: write 1")

    @abstractmethod
    def weight_bytes(self, problem: Problem) -> int:
        """Bytes of the stored weights, without scales: what does not change from call to call."""

    @abstractmethod
    def scale_bytes(self, problem: Problem) -> int:
        """Bytes of the scales of all stored operands."""

    def activation_bytes(self, problem: Problem) -> int:
        """Bytes of the activations that a call reads."""
        return problem.B * problem.M * problem.K * self.dtype.bytes

    def output_bytes(self, problem: Problem) -> int:
        """Bytes of all that a call writes."""
        return problem.rows * problem.N * self.dtype.bytes

    def bias_bytes(self, problem: Problem) -> int:
        """Bytes of the bias, 0 without one."""
        return 0

    def compulsory_bytes(self, problem: Problem) -> int:
        """Least traffic: every operand and its scales read once, the output written once."""
        return (
            self.weight_bytes(problem)
            + self.scale_bytes(problem)
            + self.activation_bytes(problem)
            + self.bias_bytes(problem)
            + self.output_bytes(problem)
        )

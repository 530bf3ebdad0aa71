"""4-bit weights in groups along K, 16-bit activations: INT4 as AWQ and GPTQ store it, MXFP4 and NVFP4."""

import re
from dataclasses import dataclass
from typing import ClassVar

from ..errors import UsageError, quote
from ..problem import Problem
from ..scheme import DType, Scheme
from .fourbit import FourBit

INT4_GROUPS = (32, 64, 128)
"""Columns of INT4 weights that share a scale."""

FP4_GROUPS = {"mxfp4": 32, "nvfp4": 16}
"""The same of each FP4 format (OCP Microscaling 1.0; NVIDIA's cuBLAS documentation, "1D block scaling")."""


@dataclass(frozen=True, slots=True)
class W4A16(FourBit):
    """Y[M,N] = X[M,K] W[N,K]^T with X and Y in `dtype`; `group` columns of a row of W share a scale.

    int4   q - 8, or q - z with `zero_point`, times a scale in `dtype`: q and z are 0 .. 15, z has 4 bits per group
    mxfp4  e2m1 times e8m0, one byte per 32 columns
    nvfp4  e2m1 times e4m3, one byte per 16 columns, times one fp32 for all of W
    """

    zero_point: bool = False

    grammar: ClassVar[str] = "int4-g128 or int4-g128-zp (groups of 32, 64 or 128), mxfp4, nvfp4"

    def __post_init__(self) -> None:
        known = INT4_GROUPS if self.weight == "int4" else (FP4_GROUPS[self.weight],)
        if self.group not in known:
            groups = ", ".join(map(str, known))
            raise UsageError(f"group {self.group} of {self.weight} does not exist: known: {groups}")
        if self.dtype is DType.FP32:
            raise UsageError(f"scheme {self.name}: activations have 16 bits: dtype bf16 or fp16")

    @classmethod
    def read(cls, name: str, dtype: DType) -> "W4A16 | None":
        """Read "int4-g128", "int4-g128-zp", "mxfp4" or "nvfp4"."""
        if name in FP4_GROUPS:
            return cls(name, FP4_GROUPS[name], dtype)
        match = re.fullmatch(r"int4-g(\d+)(-zp)?", name)
        if match:
            return cls("int4", int(match[1]), dtype, zero_point=bool(match[2]))
        if re.search(r"act[-_]?order|desc[-_]?act", name):
            raise UsageError(
                f"scheme {quote(name)}: act-order (desc_act) spreads the columns of a group over all of K, so that no "
                f"kernel here can read one scale per group: quantize without it"
            )
        if name.startswith(("int4", *FP4_GROUPS)):
            raise UsageError(f"unknown scheme {quote(name)}: write {cls.grammar}")
        return None

    @property
    def name(self) -> str:
        """The name that `read` reads; dtype is a column of its own."""
        return f"int4-g{self.group}" + "-zp" * self.zero_point if self.weight == "int4" else self.weight

    def check(self, problem: Problem) -> None:
        """A row of W consists of whole groups."""
        Scheme.check(self, problem)
        if problem.K % self.group:
            raise UsageError(f"scheme {self.name}: K={problem.K} is not a multiple of its group of {self.group}")

    def scale_bytes(self, problem: Problem) -> int:
        """16 bits per group, and 4 for its zero point; a byte per group of FP4, and 4 for the scale of all of NVFP4."""
        groups = problem.N * problem.K // self.group
        if self.weight == "int4":
            return 2 * groups + ((groups + 1) // 2 if self.zero_point else 0)
        return groups + (4 if self.weight == "nvfp4" else 0)

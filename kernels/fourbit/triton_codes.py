"""Code tables cut into byte planes, the form in which `triton.decode` looks codes up with byte permutes."""

import struct
from dataclasses import dataclass
from functools import cache

import torch

from ...shapes.scheme import DType
from .quantize import code_table

FP4_UNIT = 12
"""bitsandbytes FP4 codes times 12 are 0, 1/16, 2, 3, 4, 6, 8, 12 and their negatives: exact in fp16."""


@dataclass(frozen=True, slots=True)
class CodePlanes:
    """A table of 16 codes: byte i of the 128-bit integer `planes[p]` is byte p of the pattern of code i.

    planes  least significant first; the upper two are 0 when the patterns are fp16, else the patterns are fp32
    scale   a weight is table value times absmax times `scale`
    """

    planes: tuple[int, int, int, int]
    scale: float

    def constants(self) -> dict[str, int | float]:
        """Return the constexpr arguments P0..P3 and SCALE of the kernels."""
        return {**{f"P{p}": plane for p, plane in enumerate(self.planes)}, "SCALE": self.scale}

    def values(self) -> tuple[float, ...]:
        """Return the 16 table values that the kernels decode to, before `scale`."""
        patterns = [bytes((plane >> (8 * i)) & 255 for plane in self.planes) for i in range(16)]
        if self.planes[2] == self.planes[3] == 0:
            return tuple(struct.unpack("<e", pattern[:2])[0] for pattern in patterns)
        return tuple(struct.unpack("<f", pattern)[0] for pattern in patterns)


@cache
def half_planes(kind: str) -> CodePlanes:
    """Table of a kind in fp16: two planes for NF4; one for the others, exact, for "fp4" after multiplication by 12.

    An NF4 code loses up to 2^-11.6 relative, where rounding a weight to fp16 loses up to 2^-11, and to bf16 2^-8.
    """
    unit = FP4_UNIT if kind == "fp4" else 1
    return _cut([struct.pack("<e", code * unit) for code in _codes(kind)], 1 / unit)


@cache
def exact_planes(kind: str) -> CodePlanes:
    """Table of a kind of `quantize.code_table` in fp32: four planes, bit-identical to the code table."""
    return _cut([struct.pack("<f", code) for code in _codes(kind)], 1.0)


def gemm_planes(kind: str, dtype: DType) -> CodePlanes:
    """Return the cheapest table that is exact enough for activations and outputs of `dtype`."""
    return exact_planes(kind) if dtype is DType.FP32 and kind == "nf4" else half_planes(kind)


def _codes(kind: str) -> list[float]:
    return [float(code) for code in code_table(kind, torch.device("cpu")).tolist()]


def _cut(patterns: list[bytes], scale: float) -> CodePlanes:
    width = len(patterns[0])
    planes = [sum(pattern[p] << (8 * i) for i, pattern in enumerate(patterns)) for p in range(width)]
    return CodePlanes((planes[0], planes[1], *(planes[2:] or (0, 0))), scale)

"""MX-FP8 mixture of experts: the grouped product of routed rows, with the formats of `schemes.mxfp8`."""

from dataclasses import dataclass
from typing import ClassVar

from ..problem import Op, Problem
from ..scheme import Scheme
from .mxfp8 import BLOCK, MxProduct

ID_BYTES = 4
"""Bytes of a slot number, of an expert number and of a routing weight."""


def expected_hits(tokens: int, experts: int, top_k: int) -> float:
    """Experts with at least one row when each token draws `top_k` distinct ones uniformly: E (1 - (1 - k/E)^M)."""
    return float(experts * (1.0 - (1.0 - top_k / experts) ** tokens))


def hit_experts(tokens: int, experts: int, top_k: int) -> int:
    """Experts with at least one row in every draw: the whole number next to the expected one.

    The routing is drawn again until it hits so many (`kernels.mxfp8_moe.routing.route`), so that bytes which follow
    from the sizes are those of the operands, whatever the seed.
    """
    return round(expected_hits(tokens, experts, top_k))


@dataclass(frozen=True, slots=True)
class MxFp8Moe(MxProduct):
    """Y[slot] = X[slot // top_k] W[expert of slot]^T for the M * top_k slots of M tokens; output bf16 [M * top_k, N].

    X[M,K] and W[E,N,K] are quantized by `rule` before the call. `weighted` multiplies each row by its fp32 routing
    weight, as the second GEMM of an MoE layer may (its rows are routed already: top_k = 1 there).

    Which experts are hit depends on the draw, how many (`hit_experts`) does not: bytes count those.
    """

    weighted: bool = False

    family: ClassVar[str] = "mxfp8_moe"
    ops: ClassVar[tuple[Op, ...]] = (Op.MOE_GEMM,)
    grammar: ClassVar[str] = "mxfp8-moe-rceil (or -floor, -ceil, -even), then -weighted if wanted"
    stem: ClassVar[str] = "mxfp8-moe-{rule}"
    flags: ClassVar[tuple[str, ...]] = ("weighted",)

    @property
    def snr_floor_db(self) -> float:
        """46 dB, as the dense product (`MxFp8.snr_floor_db`): rounding the output to bf16 leaves 55 dB.

        Rounding a product to bf16 once more before its routing weight is applied leaves 52 dB. A routed row that got
        the weights of another expert costs twice the square of the row: 15 dB among 64 rows.
        """
        return 46.0

    def weight_bytes(self, problem: Problem) -> int:
        """One byte per element of the experts that are hit."""
        return hit_experts(problem.M, problem.E, problem.top_k) * problem.N * problem.K

    def scale_bytes(self, problem: Problem) -> int:
        """One byte per 32 elements of X and of the experts that are hit."""
        return (problem.M * problem.K + self.weight_bytes(problem)) // BLOCK

    def routing_bytes(self, problem: Problem) -> int:
        """Slot numbers, the expert of each hit expert's rows, and the routing weights."""
        per_row = ID_BYTES * (2 if self.weighted else 1)
        return per_row * problem.rows + ID_BYTES * hit_experts(problem.M, problem.E, problem.top_k)

    def compulsory_bytes(self, problem: Problem) -> int:
        """Least traffic: the weights of hit experts, X, routing and scales read once, the output written once."""
        return Scheme.compulsory_bytes(self, problem) + self.routing_bytes(problem)

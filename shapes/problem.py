"""A problem: the operation and its sizes, which is all that its useful FLOPs depend on."""

from dataclasses import dataclass
from enum import StrEnum

from .errors import UsageError, quote

LARGEST_FLOPS = 1 << 60
"""No device finishes more in a day; below it, every stored count fits into 64 bits."""


class Op(StrEnum):
    """Operations that a suite can request.

    gemm          Y[M,N] = X[M,K] W[N,K]^T, B times over when batched
    grouped_gemm  the rows of X belong to E groups with a weight of their own each: Y[m] = X[m] W[group of m]^T
    moe_gemm      as grouped_gemm, but rows are routed: each of M tokens goes to top_k of E experts
    quantize      X[M,K] to a format with scales; no FLOPs that count
    """

    GEMM = "gemm"
    GROUPED_GEMM = "grouped_gemm"
    MOE_GEMM = "moe_gemm"
    QUANTIZE = "quantize"


class Pass(StrEnum):
    """Which part of a training step is computed; inference is `fwd`.

    fwd Y[M,N] = X W^T, dgrad dX[M,K] = dY W, wgrad dW[N,K] = dY^T X; bwd is both gradients, step all three products.
    """

    FWD = "fwd"
    DGRAD = "dgrad"
    WGRAD = "wgrad"
    BWD = "bwd"
    STEP = "step"

    @property
    def products(self) -> int:
        """Number of products of 2 M N K FLOPs each."""
        return {Pass.BWD: 2, Pass.STEP: 3}.get(self, 1)


SIZES = ("M", "N", "K", "B", "E", "top_k")


@dataclass(frozen=True, slots=True)
class Problem:
    """One operation on operands of given sizes, in elements.

    M      rows of the activations: of each batch entry (B), of all groups together (grouped_gemm), tokens (moe_gemm)
    N, K   output features, and input features, which are contracted; of a quantization, N is 1 and K the row length
    B      independent GEMMs of a batch
    E      groups or experts, each with a weight W[N,K] of its own
    top_k  experts that each token is routed to (moe_gemm); 1 where rows are routed already

    Raises UsageError when a size is not a positive integer, or does not go with the operation.
    """

    M: int
    N: int
    K: int
    B: int = 1
    op: Op = Op.GEMM
    pass_: Pass = Pass.FWD
    E: int = 1
    top_k: int = 1

    def __post_init__(self) -> None:
        for name in SIZES:
            size = getattr(self, name)
            if not isinstance(size, int) or isinstance(size, bool) or size < 1:
                raise UsageError(f"{name}={quote(size)} is not a size: give a positive whole number")
        if self.E > 1 and self.op not in (Op.GROUPED_GEMM, Op.MOE_GEMM):
            raise UsageError(f"E={self.E}: a {self.op} has no experts; use {Op.GROUPED_GEMM} or {Op.MOE_GEMM}")
        if self.top_k > 1 and self.op is not Op.MOE_GEMM:
            raise UsageError(f"top_k={self.top_k}: only a {Op.MOE_GEMM} routes tokens")
        if self.top_k > self.E:
            raise UsageError(f"top_k={self.top_k} of E={self.E} experts: a token goes to different ones")
        if 2 * self.rows * self.N * self.K * self.pass_.products >= LARGEST_FLOPS:
            raise UsageError(f"{self} is too large: no device computes it in a day; give smaller sizes")

    @property
    def rows(self) -> int:
        """Rows that are multiplied, of all batch entries and experts together: B M top_k (the column M_total)."""
        return self.B * self.M * self.top_k

    @property
    def weights(self) -> int:
        """Distinct weight matrices W[N,K]: B E."""
        return self.B * self.E

    @property
    def flops(self) -> int:
        """Useful FLOPs: 2 N K per row and product, never dequantization, scales or padding; 0 of a quantization."""
        return 0 if self.op is Op.QUANTIZE else 2 * self.rows * self.N * self.K * self.pass_.products

    def __str__(self) -> str:
        more = " ".join(f"{name}={getattr(self, name)}" for name in ("B", "E", "top_k") if getattr(self, name) != 1)
        what = "" if self.pass_ is Pass.FWD else f" {self.pass_}"
        n = "" if self.op is Op.QUANTIZE else f" N={self.N}"
        return f"{more} M={self.M}{n} K={self.K}{what}".strip()

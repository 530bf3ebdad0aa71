"""A problem of ordinary size for each operation of each family: it shows which providers run at all."""

from ..problem import Op, Pass, Problem
from ..scheme import DType, Scheme
from . import parse_scheme

PROBES: tuple[tuple[str, Problem], ...] = (
    ("nf4-g64", Problem(1, 4096, 4096)),
    ("int4-g128", Problem(1, 4096, 4096)),
    ("fp8-blockwise", Problem(4096, 4096, 4096)),
    ("fp8-blockwise-prequantized", Problem(4096, 4096, 4096, pass_=Pass.STEP)),
    ("fp8-quant-row", Problem(4096, 1, 4096, op=Op.QUANTIZE)),
    ("ao-1x128-128x128", Problem(4096, 4096, 4096)),
    ("ao-linear", Problem(4096, 4096, 4096)),
    ("ao-act-lhs", Problem(4096, 1, 4096, op=Op.QUANTIZE)),
    ("ao-grouped", Problem(4096, 4096, 4096, op=Op.GROUPED_GEMM, E=8)),
    ("ao-grouped-linear", Problem(4096, 4096, 4096, op=Op.GROUPED_GEMM, E=8)),
    ("mxfp8-rceil", Problem(1, 4096, 4096)),
    ("mxfp8-rceil", Problem(32, 4096, 4096)),
    ("mxfp8-quant-rceil", Problem(4096, 1, 4096, op=Op.QUANTIZE)),
    ("mxfp8-moe-rceil", Problem(4, 4096, 4096, op=Op.MOE_GEMM, E=32, top_k=4)),
    ("a16w8-128x128", Problem(1, 4096, 4096, B=2)),
)
"""(scheme, problem)"""


def probes(family: str) -> tuple[tuple[Scheme, Problem], ...]:
    """Those of one family, in bf16; of every family for ""."""
    found = ((parse_scheme(name, DType.BF16), problem) for name, problem in PROBES)
    return tuple((scheme, problem) for scheme, problem in found if family in ("", scheme.family))

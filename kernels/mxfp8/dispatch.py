"""dispatch_mx: which kernel multiplies: a table of measurements, then a rule, then the stock kernel.

The rule is that of aiter's small-M MX-FP8 kernels (pull request 3783): a GEMV up to 16 rows; from there on the stock
kernel, which fused kernels that were not measured may lose to. The table that comes with rooflens is of an H200
(`docs/results/h200-mxfp8-decode`). There is none of an AMD GPU, because none was available: there the rule alone
decides.
"""

from pathlib import Path

from ...shapes.device import Device
from ...shapes.problem import Op, Problem
from ...shapes.schemes.mxfp8 import MxFp8
from ..dispatcher import Dispatcher
from ..provider import AnyProvider
from .cuda_provider import CUDA_MX
from .inputs import MxFp8Inputs
from .providers import GEMV, MMA
from .stock import SMALL_TILE, STOCK_TRITON

GEMV_LARGEST_M = 16


class DispatchMx(Dispatcher[MxFp8, MxFp8Inputs]):
    """One of the kernels for MX-FP8 by a table, else by the rule."""

    family = "mxfp8"
    op = Op.GEMM
    name = "dispatch_mx"
    kernels = (CUDA_MX, GEMV, MMA, SMALL_TILE, STOCK_TRITON)
    tables = Path(__file__).parent / "data"
    sources = ("data/dispatch_sm90.csv",)

    def rule(self, problem: Problem, scheme: MxFp8, device: Device) -> tuple[AnyProvider, str]:
        """The GEMV up to 16 rows, whose reasons decide where it does not take the problem."""
        if problem.M <= GEMV_LARGEST_M:
            return GEMV, "by rule: no row of the table"
        return STOCK_TRITON, f"M={problem.M} is above {GEMV_LARGEST_M} and has no row of the table"


DISPATCH = DispatchMx()

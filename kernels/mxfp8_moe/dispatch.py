"""dispatch_moe: the kernel that a table of measurements names, else one for known shapes, else the stock kernel.

The rule is that of aiter's small-M MX-FP8 MoE kernel (pull request 3783): an envelope of (N, K, a_div, has_weight) with
a bound on routed rows that depends on the number of experts, measured there on an MI355X. Its kernel for gfx950 is
replaced by `guarded_moe`, which has the same limit of 2 GiB. The table that comes with rooflens is of an H200
(`docs/results/h200-mxfp8-moe`). There is none of an AMD GPU, because none was available.
"""

from pathlib import Path

from ...shapes.device import Device
from ...shapes.problem import Problem
from ...shapes.schemes.mxfp8_moe import MxFp8Moe
from ..dispatcher import Dispatcher
from ..provider import AnyProvider
from .inputs import MoeInputs
from .providers import GEMV, GROUPED, GUARDED
from .stock import STOCK_TRITON

GEMM1_ROWS = 16
"""Routed rows up to which the first GEMM (a_div > 1) engages, whatever the number of experts."""

GEMM1_ROWS_MANY = 64
"""The same from MANY_EXPERTS experts on: more experts, more padding in blocks of 64 rows."""

MANY_EXPERTS = 128

GEMM2_ROWS = 8
"""Routed rows up to which the second GEMM (a_div = 1) engages."""

ENVELOPE = {
    (1536, 6144, 4, False): GEMM1_ROWS,
    (768, 6144, 4, False): GEMM1_ROWS,
    (6144, 768, 1, True): GEMM2_ROWS,
    (6144, 768, 1, False): GEMM2_ROWS,
}
"""(N, K, a_div, has_weight) -> routed rows with few experts. It holds for any E, and so for any expert parallelism."""


def refusal(problem: Problem, scheme: MxFp8Moe) -> str:
    """Return why a problem is outside the envelope, "" when it is inside."""
    n, k, a_div, rows = problem.N, problem.K, problem.top_k, problem.rows
    if k % 1024 and k != 768:
        return f"K={k} is neither a multiple of 1024 nor 768"
    bound = ENVELOPE.get((n, k, a_div, scheme.weighted))
    if bound is None:
        return f"N={n} K={k} a_div={a_div} weighted={scheme.weighted} is not in the table"
    if a_div > 1 and problem.E >= MANY_EXPERTS:
        bound = GEMM1_ROWS_MANY
    return f"{rows} routed rows are above {bound}" if rows > bound else ""


class DispatchMoe(Dispatcher[MxFp8Moe, MoeInputs]):
    """One of the MoE kernels by a table; else `guarded_moe` inside the envelope, `stock_triton_moe` outside."""

    family = "mxfp8_moe"
    name = "dispatch_moe"
    kernels = (GUARDED, GEMV, GROUPED, STOCK_TRITON)
    tables = Path(__file__).parent / "data"
    sources = ("data/dispatch_sm90.csv",)

    def rule(self, problem: Problem, scheme: MxFp8Moe, device: Device) -> tuple[AnyProvider, str]:
        """Stay inside the envelope."""
        why = refusal(problem, scheme)
        return (STOCK_TRITON if why else GUARDED), why


DISPATCH = DispatchMoe()

"""dispatch_moe: a kernel for the shapes that it was tuned for, the stock kernel for all others.

The rule is that of aiter's small-M MX-FP8 MoE kernel (pull request 3783): an envelope of (N, K, a_div, has_weight) with
a bound on routed rows that depends on the number of experts. Its kernel for gfx950 is replaced by `guarded_moe`, which
has the same limit of 2 GiB.
"""

from collections.abc import Sequence

from ...shapes.device import Device
from ...shapes.problem import Problem
from ...shapes.schemes.mxfp8_moe import MxFp8Moe
from ..dispatcher import Choice, Dispatcher
from ..provider import AnyProvider, Config
from .inputs import MoeInputs
from .providers import GUARDED
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


class Dispatch(Dispatcher[MxFp8Moe, MoeInputs]):
    """`guarded_moe` inside the envelope, `stock_triton_moe` outside; which one ran is recorded."""

    family = "mxfp8_moe"
    name = "dispatch_moe"

    def choose(self, problem: Problem, scheme: MxFp8Moe, device: Device) -> Choice:
        """Return the kernel with its default: a dispatch rule does not search."""
        why = refusal(problem, scheme)
        if not why and device.is_gpu:
            why = GUARDED.supports(problem, scheme, device).reason
        chosen = STOCK_TRITON if why else GUARDED
        return Choice(chosen, chosen.candidates(problem, scheme, device)[0], why)

    def provider_of(self, config: Config) -> AnyProvider:
        """Either kernel reads the weights of a hit expert once per block of its rows."""
        return GUARDED

    def candidates(self, problem: Problem, scheme: MxFp8Moe, device: Device) -> Sequence[Config]:
        """The configuration of the chosen kernel."""
        return [self.choose(problem, scheme, device).config]


DISPATCH = Dispatch()

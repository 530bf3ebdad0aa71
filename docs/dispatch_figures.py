"""What policies of `rooflens dispatch` lose in a stored run."""

from collections.abc import Iterator

import numpy as np
from rooflens.analysis.dispatch.study import study
from rooflens.analysis.frames.load import load_run
from stored_runs import RESULTS, taken


def of_dispatch() -> Iterator[str]:
    """Yield the extra time over the best kernel of each GEMM."""
    taken.add(("h200-4bit", ""))
    found = study(load_run(RESULTS / "h200-4bit"))
    yield f"Dispatch on the H200 ({len(found.timings.cases)} GEMMs"
    always, threshold, table = (found.of(name) for name in ("always dequant_blas", "threshold", "table"))
    scores = (always.in_sample, threshold.in_sample, table.in_sample, table.held_out["shape"])
    costs = [100 * np.expm1(score.mean) for score in scores if score]
    yield (
        f"always `dequant_blas` costs {costs[0]:.1f} % over the best kernel, one threshold in M {costs[1]:.1f} %, "
        f"the table {costs[2]:.2f} % ({costs[3]:.1f} % on shapes that it has not seen)"
    )

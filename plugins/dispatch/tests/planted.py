"""Runs whose truth is planted, as the frames that `summarize` and `round_medians` make of a run folder.

frames = plant(lambda case, arm: 1e-5 * case["M"] if arm == "new" else 1e-4, Ms=(1, 4, 16))
table = plant_timings(seconds, arms=("old", "new"), rounds=5, noise=0.01)
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from rooflens.plugins.dispatch.policy import Policy
from rooflens.plugins.dispatch.timings import Timings, timings

from tests.analysis.synthetic import COORDINATES

Seconds = Callable[[Mapping[str, Any], str], float]

SHAPES = tuple(("m", f"l{index}", 512 * (1 + index), 1024 * (1 + index % 4)) for index in range(8))
"""(model, layer, N, K) of eight weights."""


def plant(
    seconds: Seconds,
    *,
    arms: Sequence[str] = ("old", "new"),
    shapes: Sequence[tuple[str, str, int, int]] = SHAPES,
    Ms: Sequence[int] = (1, 2, 4, 8, 16, 32, 64),
    dtypes: Sequence[str] = ("bf16",),
    batches: Sequence[int] = (1,),
    rounds: int = 5,
    noise: float = 0.0,
    drift: Sequence[float] = (),
    seed: int = 0,
    columns: Callable[[Mapping[str, Any], str], Mapping[str, Any]] = lambda case, arm: {},
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return (summary, round medians). `noise` is the standard deviation of ln time per cell and round.

    An arm whose `seconds` are NaN does not take the problem.
    """
    rng = np.random.default_rng(seed)
    cells, medians = [], []
    factors = list(drift) or [1.0] * rounds
    for (model, layer, n, k), dtype, batch, m, arm in product(shapes, dtypes, batches, Ms, arms):
        named = {"model": model, "layer": layer, "B": batch, "M": m, "N": n, "K": k, "dtype": dtype}
        case = COORDINATES | named
        true = seconds(case, arm)
        times = true * np.array(factors) * np.exp(noise * rng.standard_normal(len(factors)))
        name = f"cell{len(cells)}"
        row = case | {
            "cell_id": name, "provider": arm, "role": "candidate", "resolution_s": np.nan, "timer": "event",
            "verdict": "unsupported" if np.isnan(true) else "passed", "time_s": float(np.median(times)),
            "cold_by": "flush", "dispatched": "", "config": "{}", "flops": 2 * batch * m * n * k,
            "compulsory_bytes": n * k // 2, "impossible": False, "refined": False,
        }  # fmt: skip
        cells.append(row | dict(columns(case, arm)))
        if not np.isnan(true):
            medians += [
                {"cell_id": name, "round": round_, "median_s": float(time)} for round_, time in enumerate(times)
            ]
    return pd.DataFrame(cells), pd.DataFrame(medians)


def plant_timings(seconds: Seconds, *, arms: Sequence[str] = ("old", "new"), **options: Any) -> Timings:
    """The same as `Timings`, the first arm the incumbent."""
    return timings(*plant(seconds, arms=arms, **options), arms, "cold")


def choose(
    policy: Policy, arch: str, dtype: str, scheme: str, M: int, N: int, K: int, B: int = 1, E: int = 1, top_k: int = 1,
    op: str = "gemm", pass_: str = "fwd",
) -> str:  # fmt: skip
    """Name the arm that a policy runs, as the function that `emit_python` writes does."""
    entry = policy.entry((op, pass_, dtype, scheme), (B, E, top_k, N, K), M) if arch == policy.arch else None
    return entry.arm if entry else policy.incumbent


def from_array(log_ratio: Any, Ms: Sequence[int] = ()) -> Timings:
    """Timings whose ln(t_arm / t_old) [C, A, R] are given, one shape per case unless `Ms` [C] share one."""
    ratios = np.asarray(log_ratio, dtype=np.float64)
    count, arms, rounds = ratios.shape
    names = ("old", *(f"arm{index}" for index in range(1, arms)))
    shapes = [("m", f"l{index}", 64 * (index + 1), 64) for index in range(1 if Ms else count)]
    table = plant_timings(lambda case, arm: 1e-5, arms=names, shapes=shapes, Ms=Ms or (1,), rounds=rounds)
    assert len(table.cases) == count
    table.log_ratio[:] = ratios
    table.log_ratio[:, 0] = 0
    table.time_s[:] = 1e-5 * np.exp(table.mean)
    return table

"""One number for many cases: the geometric mean of head over base, with its interval over the rounds."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from ..statistics.arrays import Floats
from .effects import Effects, Order

MOST = 0.5
"""A round counts when more than this share of the cases has it."""


@dataclass(frozen=True, slots=True)
class SuiteChange:
    """Geometric mean of time of head / time of base. The interval is of 95 %; None where it cannot be had.

    cases   how many entered: those with all rounds that most cases have; `left_out` were compared, but lack one
    base_flops_per_s, head_flops_per_s  geometric means of the rates of the same cases; NaN where FLOPs do not count
    rounds  interval over the rounds: would this suite, measured again, come out the same way? That of its effect where
            it is a single case
    unproven  the interval over the rounds includes no change, or the verdicts of the cases are withheld
    """

    ratio: float
    cases: int
    left_out: int
    base_flops_per_s: float
    head_flops_per_s: float
    rounds: tuple[float, float] | None
    unproven: bool

    @property
    def log_rounds(self) -> tuple[float, float] | tuple[None, None]:
        """Logarithms of the ends of `rounds`."""
        return (math.log(self.rounds[0]), math.log(self.rounds[1])) if self.rounds else (None, None)


def suite_change(effects: Effects, rows: "pd.Series[bool] | None" = None) -> SuiteChange | None:
    """Geometric mean over the compared cases, or over `rows` of them; None when nothing is compared."""
    cases = effects.cases
    wanted = cases["effect"].notna()
    if rows is not None:
        wanted &= rows
    chosen = np.flatnonzero(wanted.to_numpy())
    if not len(chosen):
        return None
    used, values = chosen, cases["effect"].to_numpy()[chosen, None]
    if effects.order is Order.INTERLEAVED:
        there = np.isfinite(effects.differences[chosen])
        rounds = there.mean(axis=0) > MOST  # one that was cut short would cost the others their cases
        whole = there[:, rounds].all(axis=1)
        if rounds.any() and whole.any():
            used, values = chosen[whole], effects.differences[chosen[whole]][:, rounds]
    rated = cases[["flops", "base_gmean_s", "head_gmean_s"]].iloc[used]
    base, head = (_rate(rated, side) for side in ("base", "head"))
    center = float(values.mean())
    rounds = _interval(values.mean(axis=0)) if len(used) > 1 else _of_case(cases.iloc[used[0]])
    withheld = bool((cases["withheld"].iloc[used] != "").any())
    return SuiteChange(
        ratio=math.exp(center),
        cases=len(values),
        left_out=len(chosen) - len(used),
        base_flops_per_s=base,
        head_flops_per_s=head,
        rounds=rounds,
        unproven=withheld or (rounds is not None and rounds[0] <= 1 <= rounds[1]),
    )


def by_pass(effects: Effects) -> dict[str, SuiteChange]:
    """The same for each pass separately: passes share no mean."""
    passes = ((name, effects.cases["pass"] == name) for name in effects.cases["pass"].unique())
    return {str(name): change for name, rows in passes if (change := suite_change(effects, rows)) is not None}


def _rate(cases: pd.DataFrame, side: str) -> float:
    """Geometric mean of FLOP/s over cases; NaN where one has no FLOPs that count."""
    flops = cases["flops"].where(cases["flops"] > 0).to_numpy(dtype=np.float64)
    return math.exp(float(np.log(flops / cases[f"{side}_gmean_s"].to_numpy(dtype=np.float64)).mean()))


def _of_case(case: "pd.Series[Any]") -> tuple[float, float] | None:
    low, high = float(case["low"]), float(case["high"])
    return None if math.isnan(low) else (_ratio(low), _ratio(high))


def _ratio(effect: float) -> float:
    """exp within the range of floats: of two rounds a bound may be anywhere."""
    return math.exp(max(-700.0, min(700.0, effect)))


def _interval(values: Floats) -> tuple[float, float] | None:
    """95 % interval of the mean by Student's t, as ratios."""
    if len(values) < 2:
        return None
    half = float(stdtrit(len(values) - 1, 0.975)) * float(values.std(ddof=1)) / math.sqrt(len(values))
    center = float(values.mean())
    return _ratio(center - half), _ratio(center + half)

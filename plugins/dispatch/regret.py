"""What a choice costs: regret = ln(t_chosen / t_best) of each case, and what that comes to.

The best of several noisy times is flattered by its luck. So the zero of every figure is the same, the best mean over
all rounds, and how far it is flattered is measured: the oracle that chooses on the other rounds and is timed on the
round held out (`by_round`) loses that much although it knows every case. Held out are

round   each round (of more than ten, a tenth of them) is timed by policies that were fitted on the others
shape   shapes (SHAPE: all M and types of it) are excluded of the fit, a tenth of them at a time, and predicted
model   so are all shapes of a model, or of a tenth of many models; a shape that other models have too is no exception
"""

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...analysis.statistics.arrays import Flags, Floats, Ints
from .fit import fit, oracle
from .policy import choices
from .timings import Timings

NEAR = math.log(1.03)
"""Regret up to which a choice counts as good as the best."""


@dataclass(frozen=True, slots=True)
class Score:
    """Regret over cases by their weights, in ln time; `near` is the share of weight within 3 % of the best.

    gain    mean ln(t_incumbent / t_chosen)
    worst   the largest regret of a case with weight, at case `worst_case`
    cases   with a regret
    """

    mean: float
    p95: float
    worst: float
    worst_case: int
    near: float
    gain: float
    cases: int


def best(timings: Timings) -> Floats:
    """ln(t_best / t_incumbent) [C], by the mean over all rounds."""
    return np.asarray(np.nanmin(timings.mean, axis=1), dtype=np.float64)


def relative_time(timings: Timings, chosen: Ints) -> Floats:
    """ln(t_chosen / t_incumbent) [C]; where the chosen arm has no time, the incumbent runs."""
    return np.nan_to_num(timings.mean[np.arange(len(chosen)), chosen])


def score(relative: Floats, best_: Floats, weights: Floats) -> Score | None:
    """Score ln(t_chosen / t_incumbent) [C] against `best` [C]; None where no case with weight has one."""
    known = np.isfinite(relative) & (weights > 0)
    if not known.any():
        return None
    regret = np.where(known, relative - best_, 0.0)
    share = np.where(known, weights, 0.0) / weights[known].sum()
    worst = int(np.where(known, regret, -np.inf).argmax())
    return Score(
        mean=float(share @ regret),
        p95=_quantile(regret[known], share[known], 0.95),
        worst=float(regret[worst]),
        worst_case=worst,
        near=round(float(share[regret <= NEAR].sum()), 12),  # all of them is 1, whatever their sum is
        gain=float(-(share @ np.where(known, relative, 0.0))),
        cases=int(known.sum()),
    )


def _quantile(values: Floats, shares: Floats, probability: float) -> float:
    """Smallest value that `probability` of the weight is at or below."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(shares[order])
    return float(values[order[min(int(np.searchsorted(reached, probability - 1e-12)), len(order) - 1)]])


ROUND, SHAPES, MODEL = "round", "shape", "model"
HOLDOUTS = (SHAPES, MODEL, ROUND)
"""The one that says most about a policy that is shipped first."""

FEWEST_ROUNDS = 3
"""Two to fit on, because one round has no interval, and one to score on."""

MOST_FOLDS = 10

ORACLE = "oracle"


@dataclass(frozen=True, slots=True, eq=False)
class HeldOut:
    """ln(t_chosen / t_incumbent) of each case [C] by name of the policy, NaN where a case was never held out.

    `folds` is how often was fitted; `reason` says why it could not be done, "" when it was.
    """

    relative: dict[str, Floats]
    folds: int
    reason: str = ""


def hold_out(timings: Timings, arch: str, margin: float) -> dict[str, HeldOut]:
    """Hold out in every way that the run allows."""
    return {
        SHAPES: by_shape(timings, arch, margin),
        MODEL: by_model(timings, arch, margin),
        ROUND: by_round(timings, arch, margin),
    }


def by_round(timings: Timings, arch: str, margin: float) -> HeldOut:
    """Leave rounds out; the oracle too chooses on the others."""
    if timings.rounds < FEWEST_ROUNDS:
        have = "1 round" if timings.rounds == 1 else f"{timings.rounds} rounds"
        return HeldOut({}, 0, f"{have}: it takes {FEWEST_ROUNDS}; measure with --rounds {FEWEST_ROUNDS} or more")
    folds = min(timings.rounds, MOST_FOLDS)
    fold_of = np.arange(timings.rounds) % folds

    def split(fold: int) -> _Fold:
        others, now = (timings.of_rounds(np.flatnonzero(part)) for part in (fold_of != fold, fold_of == fold))
        cases = np.isfinite(now.mean[:, 0]) & np.isfinite(others.mean[:, 0])
        return _Fold(others, others.of_cases(cases), now.of_cases(cases), cases)

    return _held_out(timings, map(split, range(folds)), arch, margin)


def by_shape(timings: Timings, arch: str, margin: float) -> HeldOut:
    """Hold shapes out, each of them separately when there are few."""
    return _by_group(timings, [(code,) for code in timings.cases["shape"]], "one shape", arch, margin)


def by_model(timings: Timings, arch: str, margin: float) -> HeldOut:
    """Leave models out, with every shape that they have."""
    models = timings.cases["models"].tolist()
    return _by_group(timings, models, f"one model ({', '.join(models[0])})", arch, margin)


def _by_group(timings: Timings, groups: Sequence[Sequence[Hashable]], alone: str, arch: str, margin: float) -> HeldOut:
    """Hold out the cases of one fold of groups after the other; `groups` has those of each case [C]."""
    names = list(dict.fromkeys(name for of_case in groups for name in of_case))
    if len(names) < 2:
        return HeldOut({}, 0, f"{alone}: nothing is left to fit on")
    folds = min(len(names), MOST_FOLDS)
    fold_of = {name: index % folds for index, name in enumerate(names)}
    codes = timings.cases["shape"].to_numpy(dtype=np.int64)
    found = []
    for fold in range(folds):
        cases = np.array([fold in {fold_of[name] for name in of_case} for of_case in groups])
        others = ~np.isin(codes, codes[cases])  # no shape of those that are held out
        if others.any():
            held = timings.of_cases(cases)
            found.append(_Fold(timings.of_cases(others), held, held, cases))
    if not found:
        return HeldOut({}, 0, "every model has all shapes: nothing is left to fit on")
    return _held_out(timings, found, arch, margin)


class _Fold(NamedTuple):
    """Policies are fitted on `learned`; they choose by `seen`, and are timed by `timed`, both of the cases `cases`."""

    learned: Timings
    seen: Timings
    timed: Timings
    cases: Flags


def _held_out(timings: Timings, folds: Iterable[_Fold], arch: str, margin: float) -> HeldOut:
    sums: dict[str, Floats] = {}
    counts: dict[str, Floats] = {}
    done = 0
    for fold in folds:
        done += 1
        policies = fit(fold.learned, arch, margin)
        chosen = {policy.name: choices(policy, fold.seen) for policy in policies} | {ORACLE: oracle(fold.seen)}
        for name, arms in chosen.items():
            sums.setdefault(name, np.zeros(len(timings.cases)))[fold.cases] += relative_time(fold.timed, arms)
            counts.setdefault(name, np.zeros(len(timings.cases)))[fold.cases] += 1
    relative = {
        name: np.asarray(np.where(count > 0, sums[name] / np.maximum(count, 1), np.nan))
        for name, count in counts.items()
    }
    return HeldOut(relative, done)

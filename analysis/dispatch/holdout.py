"""Policies on what their fit has not seen: rounds, shapes, models.

round   each round (of more than ten, a tenth of them) is timed by policies that were fitted on the others
shape   shapes (SHAPE: all M and types of it) are left out of the fit, a tenth of them at a time, and predicted
model   so are all shapes of a model, or of a tenth of many models; a shape that other models have too is no exception

The zero is the same as in the sample: the best mean over all rounds (`regret.best`).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..statistics.intervals import Floats
from .fit import Options, fit, oracle
from .policy import choices
from .regret import relative_time
from .timings import Bools, Timings

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


def hold_out(timings: Timings, arch: str, options: Options) -> dict[str, HeldOut]:
    """Hold out in every way that the run allows."""
    return {
        SHAPES: by_shape(timings, arch, options),
        MODEL: by_model(timings, arch, options),
        ROUND: by_round(timings, arch, options),
    }


def by_round(timings: Timings, arch: str, options: Options) -> HeldOut:
    """Leave rounds out; the oracle too chooses on the others."""
    if timings.rounds < FEWEST_ROUNDS:
        have = "1 round" if timings.rounds == 1 else f"{timings.rounds} rounds"
        return HeldOut({}, 0, f"{have}: it takes {FEWEST_ROUNDS}; measure with --rounds {FEWEST_ROUNDS} or more")
    sums: dict[str, Floats] = {}
    counts: dict[str, Floats] = {}
    folds = min(timings.rounds, MOST_FOLDS)
    fold_of = np.arange(timings.rounds) % folds
    for fold in range(folds):
        others = timings.of_rounds(np.flatnonzero(fold_of != fold))
        now = timings.of_rounds(np.flatnonzero(fold_of == fold))
        there = np.isfinite(now.mean[:, 0]) & np.isfinite(others.mean[:, 0])
        chosen = {policy.name: choices(policy, others) for policy in fit(others, arch, options)}
        chosen[ORACLE] = oracle(others)
        for name, arms in chosen.items():
            sums[name] = sums.get(name, np.zeros(len(there))) + np.where(there, relative_time(now, arms), 0.0)
            counts[name] = counts.get(name, np.zeros(len(there))) + there
    return HeldOut(_means(sums, counts), folds)


def by_shape(timings: Timings, arch: str, options: Options) -> HeldOut:
    """Leave shapes out: each of them by itself when there are few."""
    codes = timings.cases["shape"].to_numpy(dtype=np.int64)
    distinct = int(codes.max()) + 1
    if distinct < 2:
        return HeldOut({}, 0, "one shape: nothing is left to fit on")
    folds = min(distinct, MOST_FOLDS)
    return _by_cases(timings, arch, options, ((codes % folds == fold, codes % folds != fold) for fold in range(folds)))


def by_model(timings: Timings, arch: str, options: Options) -> HeldOut:
    """Leave models out, with every shape that they have."""
    models = list(dict.fromkeys(name for names in timings.cases["models"] for name in names))
    if len(models) < 2:
        return HeldOut({}, 0, f"one model ({', '.join(models)}): nothing is left to fit on")
    codes = timings.cases["shape"].to_numpy(dtype=np.int64)
    folds = min(len(models), MOST_FOLDS)
    fold_of = {name: index % folds for index, name in enumerate(models)}
    held = np.array([[fold in {fold_of[name] for name in names} for fold in range(folds)]
                     for names in timings.cases["models"]])  # fmt: skip
    pairs = [(held[:, fold], ~np.isin(codes, codes[held[:, fold]])) for fold in range(folds)]
    left = [(test, train) for test, train in pairs if train.any()]
    if not left:
        return HeldOut({}, 0, "every model has all shapes: nothing is left to fit on")
    return _by_cases(timings, arch, options, iter(left))


def _by_cases(timings: Timings, arch: str, options: Options, folds: Iterator[tuple[Bools, Bools]]) -> HeldOut:
    """Fit on the second mask of each fold and choose for the first, which has no shape of the second."""
    sums: dict[str, Floats] = {}
    counts: dict[str, Floats] = {}
    count = 0
    for test, train in folds:
        count += 1
        learned = fit(timings.of_cases(train), arch, options, with_rows=False)
        held = timings.of_cases(test)
        chosen = {policy.name: choices(policy, held) for policy in learned}
        chosen[ORACLE] = oracle(held)
        for name, arms in chosen.items():
            sums.setdefault(name, np.zeros(len(test)))[test] += relative_time(held, arms)
            counts.setdefault(name, np.zeros(len(test)))[test] += 1
    return HeldOut(_means(sums, counts), count)


def _means(sums: dict[str, Floats], counts: dict[str, Floats]) -> dict[str, Floats]:
    return {
        name: np.asarray(np.where(counts[name] > 0, total / np.maximum(counts[name], 1), np.nan))
        for name, total in sums.items()
    }

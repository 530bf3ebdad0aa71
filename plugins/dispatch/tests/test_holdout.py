"""Regret on what the fit has not seen."""

import math

import numpy as np
import pytest
from rooflens.plugins.dispatch.evidence import MARGIN
from rooflens.plugins.dispatch.fit import fit
from rooflens.plugins.dispatch.policy import choices
from rooflens.plugins.dispatch.regret import (
    MODEL,
    ORACLE,
    ROUND,
    SHAPES,
    best,
    by_model,
    by_round,
    hold_out,
    relative_time,
    score,
)

from .planted import plant_timings

EAGER = -5.0
"""A margin that every arm clears: policies take whatever looks best."""


def near_tie(case, arm):
    """Three kernels within 2 % of each other, the incumbent the best: whatever looks better is noise."""
    return 1e-5 * {"old": 1.0, "new": 1.02, "odd": 1.02}[arm]


def mean(relative, table):
    return score(relative, best(table), table.weights).mean


def overfitted(seed=0):
    return plant_timings(near_tie, arms=("old", "new", "odd"), noise=0.05, rounds=4, seed=seed)


@pytest.mark.parametrize("seed", range(5))
def test_a_table_that_is_fitted_to_noise_is_found_out_on_other_rounds(seed):
    table = overfitted(seed)
    (rows,) = (one for one in fit(table, "x", EAGER) if one.name == "table")
    in_sample = mean(relative_time(table, choices(rows, table)), table)
    unseen = by_round(table, "x", EAGER)
    assert in_sample == pytest.approx(0, abs=1e-12)
    assert mean(unseen.relative["table"], table) > 0.01  # 56 cells of three arms at 5 % noise: about 2 % of luck
    assert mean(unseen.relative["always old"], table) < mean(unseen.relative["table"], table)
    cautious = by_round(table, "x", MARGIN)
    assert mean(cautious.relative["table"], table) == mean(unseen.relative["always old"], table)


def test_the_luck_of_the_best_is_what_the_oracle_loses_on_other_rounds():
    """Two equal arms with noise sd s in R rounds: E min of two means is s / sqrt(pi R) below the truth."""
    table = plant_timings(lambda case, arm: 1e-5, shapes=[("m", f"l{i}", 64 + i, 64) for i in range(300)], noise=0.05)
    unseen = by_round(table, "x", MARGIN)
    expected = 0.05 / math.sqrt(math.pi * table.rounds)
    # the pick of the other rounds is itself timed on the round left out: its expectation is the truth
    assert mean(unseen.relative[ORACLE], table) == pytest.approx(expected, rel=0.1)


def test_the_same_gemm_of_another_model_does_not_leak():
    """Each model has the same shapes, whose best kernel no rule can guess from the others."""
    rng = np.random.default_rng(2)
    lucky = {n: rng.random() < 0.5 for n in range(512, 4608, 512)}

    def seconds(case, arm):
        return 1e-5 * (0.5 if (arm == "new") == lucky[case["N"]] else 1.0)

    both = [(model, "q", 512 * (1 + index), 1024) for model in "ab" for index in range(8)]
    assert by_model(plant_timings(seconds, shapes=both), "x", MARGIN).reason.startswith("every model has all shapes")
    table = plant_timings(seconds, shapes=[*both, *(("c", "q", n, 2048) for n in (512, 1024, 2048))])
    unseen = by_model(table, "x", MARGIN)
    assert unseen.folds == 3
    of_a = np.array(["a" in names for names in table.cases["models"]])
    # those of a were predicted from c alone, and of c from a and b
    assert np.isfinite(unseen.relative["threshold"]).all()
    assert (unseen.relative["table"][of_a] == 0).all()


def test_what_cannot_be_held_out_says_why():
    few = plant_timings(lambda case, arm: 1e-5, shapes=(("m", "l", 64, 64),), rounds=2)
    reasons = {name: one.reason for name, one in hold_out(few, "x", MARGIN).items()}
    assert reasons[ROUND] == "2 rounds: it takes 3; measure with --rounds 3 or more"
    assert reasons[SHAPES] == "one shape: nothing is left to fit on"
    assert reasons[MODEL] == "one model (m): nothing is left to fit on"


def test_a_missing_round_leaves_its_cases_out_of_that_round_only():
    table = overfitted()
    table.log_ratio[:3, :, 1] = np.nan
    unseen = by_round(table, "x", MARGIN)
    assert np.isfinite(unseen.relative["always new"]).all()
    expected = np.nanmean(table.log_ratio[:3, 1], axis=1)
    assert unseen.relative["always new"][:3].tolist() == pytest.approx(expected.tolist())


def test_many_rounds_and_shapes_are_left_out_a_tenth_at_a_time():
    shapes = [("m", f"l{index}", 64 * (index + 1), 64) for index in range(23)]
    table = plant_timings(near_tie, arms=("old", "new"), shapes=shapes, rounds=25, noise=0.01, Ms=(1, 8))
    found = hold_out(table, "x", MARGIN)
    assert (found[ROUND].folds, found[SHAPES].folds) == (10, 10)
    assert all(np.isfinite(one.relative["threshold"]).all() for one in (found[ROUND], found[SHAPES]))

"""Suite numbers: geometric means with two intervals, unique GEMMs, distribution, models, movers and controls."""

import math

import numpy as np
import pytest
from rooflens.analysis.comparison.breakdown import compared, controls, distribution, other_choices
from rooflens.analysis.comparison.effects import Order, measure_effects
from rooflens.analysis.comparison.suite import suite_change
from scipy import stats

from ..compared import versions


def noise(cases, rounds=8, sd=0.002, seed=3):
    return np.random.default_rng(seed).normal(0, sd, (cases, rounds))


def test_the_geometric_mean_and_its_interval_over_rounds():
    differences = noise(20) + 0.02
    change = suite_change(measure_effects(versions(differences)))
    per_round = differences.mean(axis=0)
    truth = stats.t.interval(0.95, 7, per_round.mean(), stats.sem(per_round))
    assert change.ratio == pytest.approx(math.exp(differences.mean()))
    assert np.log(change.rounds) == pytest.approx(truth)


def test_a_shift_of_one_round_widens_the_interval_over_rounds_not_that_over_cases():
    """What all cases of a round share does not average out over cases: resampling cells would not see it."""
    shifted = noise(50)
    shifted[:, 3] += 0.05
    change = suite_change(measure_effects(versions(shifted)))
    widths = [high - low for low, high in (change.rounds, change.spread)]
    assert widths[0] > 10 * widths[1]


def test_a_gemm_that_three_models_share_counts_once():
    differences = np.vstack([np.full((3, 8), 0.12), np.zeros((1, 8))]) + noise(4, sd=1e-6)
    effects = measure_effects(versions(differences, N=[1, 1, 1, 2], model=["a", "b", "c", "a"]))
    assert suite_change(effects).ratio == pytest.approx(math.exp(0.09), rel=1e-4)
    unique = suite_change(effects, unique=True)
    assert unique.ratio == pytest.approx(math.exp(0.06), rel=1e-4)
    assert unique.cases == 2


def test_cases_that_lack_a_round_are_left_out_and_counted():
    differences = noise(5)
    differences[2, 4] = math.nan
    change = suite_change(measure_effects(versions(differences)))
    assert (change.cases, change.left_out) == (4, 1)
    kept = np.delete(differences, 2, axis=0)
    assert change.ratio == pytest.approx(math.exp(kept.mean()))


@pytest.mark.parametrize("measured", [0, 2])
def test_a_round_that_was_cut_short_costs_itself_and_no_case(measured):
    differences = noise(20)
    differences[measured:, 7] = math.nan
    change = suite_change(measure_effects(versions(differences)))
    assert (change.cases, change.left_out) == (20, 0)
    assert change.ratio == pytest.approx(math.exp(differences[:, :7].mean()))
    assert change.rounds is not None


def test_nothing_compared_has_no_mean():
    effects = measure_effects(versions(noise(2), head_verdict="incorrect"))
    assert suite_change(effects) is None
    assert distribution(compared(effects)) is None
    assert controls(effects) is None


def test_sequential_suites_have_no_interval_over_rounds():
    change = suite_change(measure_effects(versions(noise(5) + 0.1, order=Order.SEQUENTIAL)))
    assert change.rounds is None
    assert change.ratio == pytest.approx(math.exp(0.1), rel=0.01)


def test_counts_are_those_of_the_changes_and_of_the_verdicts():
    means = np.array([-0.06, -0.02, 0.0, 0.004, 0.012, 0.03, 0.08])
    effects = measure_effects(versions(means[:, None] + noise(7, sd=0.0005)))
    found = distribution(compared(effects))
    assert {count.step: count.seen for count in found.counts} == {0.01: 3, -0.01: 2, 0.05: 1, -0.05: 1}
    assert {count.step: count.verified for count in found.counts} == {0.01: 3, -0.01: 2, 0.05: 1, -0.05: 1}
    assert found.median == pytest.approx(math.expm1(0.004), abs=0.001)
    assert found.least == pytest.approx(math.expm1(-0.06), abs=0.001)


def test_without_a_change_as_many_are_seen_as_expected():
    """1,000 cases with a standard error of 1 %: by chance alone 1 in 6 looks slower by 1 % or more."""
    quiet = versions(noise(1000, sd=0.01 * math.sqrt(8)))
    count = distribution(compared(measure_effects(quiet))).counts[0]
    assert count.expected == pytest.approx(1000 * stats.norm.sf(math.log(1.01) / 0.01), rel=0.06)
    assert count.seen == pytest.approx(count.expected, rel=0.2)
    assert count.verified == 0


def test_negative_controls_are_cases_with_the_same_code_and_configuration():
    effects = measure_effects(
        versions(
            noise(4), base_artifact=["a", "a", "a", ""], head_artifact=["a", "a", "b", ""],
            base_config=["{}", "{}", "{}", "{}"], head_config=["{}", '{"BM": 1}', "{}", "{}"],
        )
    )  # fmt: skip
    found = controls(effects)
    assert (found.cases, found.called) == (1, 0)
    assert found.largest == pytest.approx(abs(noise(4)[0].mean()))
    assert math.isnan(found.spread)


def test_other_choices_lists_what_was_chosen_otherwise():
    effects = measure_effects(
        versions(
            noise(3), base_config=["{}", "1", "{}"], head_config=["{}", "2", "{}"], head_dispatched=["", "", "gemv"]
        )
    )
    assert other_choices(effects)["layer"].tolist() == ["layer 1", "layer 2"]


def test_by_chance_as_many_look_faster_as_slower_but_for_the_logarithm():
    quiet = measure_effects(versions(noise(1000, sd=0.01 * math.sqrt(8))))
    expected = {count.step: count.expected for count in distribution(compared(quiet)).counts}
    for step, found in expected.items():
        assert found == pytest.approx(1000 * stats.norm.sf(abs(math.log1p(step)) / 0.01), rel=0.1, abs=0.01)


def test_a_case_that_ran_several_configurations_is_no_control():
    """Mixed on both sides is not known to be the same."""
    mixed = {"base_artifact": "a", "head_artifact": "a", "base_config": "mixed", "head_config": "mixed"}
    assert controls(measure_effects(versions(noise(2), **mixed))) is None

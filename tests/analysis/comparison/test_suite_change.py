"""Suite numbers: geometric means with their interval, rates, distribution and controls."""

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


def test_a_shift_of_one_round_widens_the_interval_over_rounds():
    """What all cases of a round share does not average out over cases: resampling cells would not see it."""
    shifted = noise(50)
    shifted[:, 3] += 0.05
    found = [suite_change(measure_effects(versions(differences))).rounds for differences in (shifted, noise(50))]
    widths = [high - low for low, high in found]
    assert widths[0] > 10 * widths[1]


def test_rates_are_geometric_means_of_the_same_cases():
    planted = versions(noise(2, sd=1e-6), times=[1e-3, 4e-3], N=[1, 2], flops=2e12)
    change = suite_change(measure_effects(planted))
    assert change.base_flops_per_s == pytest.approx(math.sqrt(2e15 * 0.5e15))
    assert change.head_flops_per_s / change.base_flops_per_s == pytest.approx(1 / change.ratio)
    planted.cases["flops"] = [0.0, 2e12]
    uncounted = suite_change(measure_effects(planted))
    assert np.isnan([uncounted.base_flops_per_s, uncounted.head_flops_per_s]).all()


@pytest.mark.parametrize(
    ("missing", "cases", "rounds"),
    [
        ((2, 4), [0, 1, 3, *range(4, 20)], range(8)),  # a case that lacks a round is left out and counted
        ((slice(None), 7), range(20), range(7)),  # a round that was cut short costs itself and no case
        ((slice(2, None), 7), range(20), range(7)),
    ],
)
def test_missing_rounds(missing, cases, rounds):
    differences = noise(20)
    kept = differences[np.ix_(cases, rounds)]
    differences[missing] = math.nan
    change = suite_change(measure_effects(versions(differences)))
    assert (change.cases, change.left_out) == (len(kept), 20 - len(kept))
    assert change.ratio == pytest.approx(math.exp(kept.mean()))
    assert change.rounds is not None
    assert suite_change(measure_effects(versions(differences, order=Order.SEQUENTIAL))).rounds is None


def test_nothing_compared_has_no_mean():
    effects = measure_effects(versions(noise(2), head_verdict="incorrect"))
    assert suite_change(effects) is None
    assert distribution(compared(effects)) is None
    assert controls(effects) is None


def test_counts_are_those_of_the_changes_and_of_the_verdicts():
    means = np.array([-0.06, -0.02, 0.0, 0.004, 0.012, 0.03, 0.08])
    effects = measure_effects(versions(means[:, None] + noise(7, sd=0.0005)))
    found = distribution(compared(effects))
    on_a_line = [[math.log1p(change)] * 2 for change in (-0.06, -0.05, -0.01, -0.009, 0.009, 0.01, 0.05, 0.06)]
    exact = distribution(compared(measure_effects(versions(on_a_line))))
    assert {count.step: count.seen for count in exact.counts} == {0.01: 3, -0.01: 3, 0.05: 2, -0.05: 2}
    assert {count.step: count.seen for count in found.counts} == {0.01: 3, -0.01: 2, 0.05: 1, -0.05: 1}
    assert {count.step: count.verified for count in found.counts} == {0.01: 3, -0.01: 2, 0.05: 1, -0.05: 1}
    assert found.median == pytest.approx(math.expm1(0.004), abs=0.001)
    assert found.least == pytest.approx(math.expm1(-0.06), abs=0.001)


def test_negative_controls_are_cases_with_the_same_code_and_configuration():
    effects = measure_effects(
        versions(
            noise(5), base_artifact=["a", "a", "a", "", "a"], head_artifact=["a", "a", "b", "", "a"],
            base_config=["{}", "{}", "{}", "{}", "mixed"],  # mixed on both sides is not known to be the same
            head_config=["{}", '{"BM": 1}', "{}", "{}", "mixed"],
        )
    )  # fmt: skip
    found = controls(effects)
    assert (found.cases, found.called) == (1, 0)
    assert found.largest == pytest.approx(abs(noise(5)[0].mean()))
    assert math.isnan(found.spread)


def test_other_choices_lists_what_was_chosen_otherwise():
    effects = measure_effects(
        versions(
            noise(3), base_config=["{}", "1", "{}"], head_config=["{}", "2", "{}"], head_dispatched=["", "", "gemv"]
        )
    )
    assert other_choices(effects)["layer"].tolist() == ["layer 1", "layer 2"]

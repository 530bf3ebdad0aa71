"""What is engaged: never more than 5 % of A/A suites, nearly always where the truth clears the margin."""

import math

import numpy as np
import pytest
from rooflens.plugins.dispatch.evidence import region_gain, weigh_evidence
from rooflens.plugins.dispatch.fit import fit
from rooflens.plugins.dispatch.policy import EntryStatus
from scipy import stats

from .planted import SHAPES, from_array, plant_timings

SUITES = 250


BASE = plant_timings(
    lambda case, arm: 1e-5,
    arms=("old", "arm1", "arm2"),
    shapes=SHAPES[:6],
    rounds=5,
    Ms=[2**index for index in range(8)],
)


def noisy(seed, effect=0.0, noise=0.01, rounds=3, common=0.0):
    """48 GEMMs (6 shapes of 8 M) of three arms; `effect` is the true ln ratio of both challengers."""
    rng = np.random.default_rng(seed)
    table = BASE.of_rounds(np.arange(rounds))
    ratios = effect + noise * rng.standard_normal((48, 2, rounds)) * math.sqrt(2)
    table.log_ratio[:, 1:] = ratios + common * rng.standard_normal((1, 2, rounds))  # what all cells of a round share
    return table


def test_a_gain_at_the_margin_is_not_engaged_and_one_well_above_it_is():
    at_margin, above = (
        [weigh_evidence(noisy(seed, gain, rounds=5)).engaged for seed in range(40)] for gain in (-0.03, -0.1)
    )
    assert np.mean(at_margin) * 3 / 2 <= 0.01  # one arm in three is the incumbent
    assert np.mean(above) * 3 / 2 >= 0.95


def test_an_entry_below_its_bound_is_not_engaged_among_many_that_are():
    """One-sided p of 0.035: enough for q beside cells without doubt, too much for a two-sided interval of 95 %."""
    rng = np.random.default_rng(3)
    ratios = np.zeros((40, 2, 4))
    noise = rng.standard_normal((40, 4))
    noise -= noise.mean(axis=1, keepdims=True)
    noise *= 0.02 / noise.std(axis=1, ddof=1, keepdims=True)
    ratios[:, 1] = noise - 0.5
    before = weigh_evidence(from_array(ratios), 0.03)
    se = math.sqrt(before.variance[7, 1] / 4)
    ratios[7, 1] += 0.5 - (0.03 + stats.t.isf(0.035, before.freedom[7, 1]) * se)
    evidence = weigh_evidence(from_array(ratios), 0.03)
    assert evidence.engaged[:, 1].sum() == 39
    assert not evidence.engaged[7, 1]
    assert evidence.q[7, 1] <= 0.05
    assert evidence.low[7, 1] < 0.03 < evidence.gain[7, 1]


@pytest.mark.slow
@pytest.mark.parametrize("noise, common", [(0.01, 0.0), (0.05, 0.0), (0.3, 0.0), (0.02, 0.03)])
def test_no_more_than_5_percent_of_suites_without_a_difference_engage_anything(noise, common):
    """Noise is per cell and round; 0.3 is far beyond the margin of 3 %, so that the statistics alone protect."""
    engaged = dict.fromkeys(("threshold", "table"), 0)
    for seed in range(SUITES):
        for policy in fit(noisy(seed, noise=noise, common=common), "x"):
            if policy.name in engaged:
                engaged[policy.name] += any(entry.status == EntryStatus.ENGAGED for entry in policy.entries)
    assert max(engaged.values()) <= 0.05 * SUITES, engaged


def test_the_interval_and_p_are_those_of_student_where_cells_are_too_few_to_share_a_variance():
    rng = np.random.default_rng(3)
    ratios = -0.2 + 0.02 * rng.standard_normal((3, 2, 5))
    evidence = weigh_evidence(from_array(ratios))
    for case in range(3):
        rounds = -ratios[case, 1]
        low, high = stats.t.interval(0.95, 4, rounds.mean(), stats.sem(rounds))
        assert (evidence.low[case, 1], evidence.high[case, 1]) == pytest.approx((low, high))
    p = [stats.ttest_1samp(-ratios[case, 1], 0.03, alternative="greater").pvalue for case in range(3)]
    assert evidence.q[:, 1].tolist() == pytest.approx(stats.false_discovery_control(p).tolist())


def test_errors_that_all_cells_share_count_in_a_region():
    """Cells alone would promise sqrt(48) times the precision that the rounds have."""
    table = noisy(1, effect=-0.05, noise=0.001, rounds=4, common=0.05)
    gain, low, _ = region_gain(table, weigh_evidence(table), np.arange(48), 1, 1)
    rounds = -table.log_ratio[:, 1].mean(axis=0)
    assert gain == pytest.approx(rounds.mean())
    assert gain - low >= 1.9 * stats.sem(rounds)


def test_the_margin_is_the_one_that_was_asked_for():
    table = from_array(np.full((4, 2, 3), -0.05))
    assert weigh_evidence(table, 0.04).engaged[:, 1].all()
    assert not weigh_evidence(table, 0.06).engaged.any()
    statuses = {entry.status for policy in fit(table, "x", margin=0.06) for entry in policy.entries}
    assert EntryStatus.ENGAGED not in statuses


def test_the_step_of_a_coarse_timer_widens_the_interval():
    ratios = np.zeros((40, 2, 4))
    ratios[:, 1] = -0.1 + 0.001 * np.random.default_rng(5).standard_normal((40, 4))
    table = from_array(ratios)
    fine = weigh_evidence(table, 0.03)
    assert fine.engaged[:, 1].all()
    table.step[:] = 0.08  # a gain of 10 % may be one of 2 %
    coarse = weigh_evidence(table, 0.03)
    assert not coarse.engaged.any()
    assert (fine.low - coarse.low)[:, 1] == pytest.approx(0.08)
    assert (coarse.q[:, 1] > 0.5).all()
    cases = np.arange(40)
    assert region_gain(table, coarse, cases, 1, 1)[1] == pytest.approx(
        region_gain(from_array(ratios), fine, cases, 1, 1)[1] - 0.08
    )


@pytest.mark.parametrize("slower, status", [(0.01, EntryStatus.PARITY), (0.10, EntryStatus.INCUMBENT)])
def test_slower_is_proven_beyond_the_margin_only(slower, status):
    ratios = np.zeros((8, 2, 4))
    ratios[:, 1] = slower + 0.0005 * np.random.default_rng(6).standard_normal((8, 4))
    (table,) = (one for one in fit(from_array(ratios), "x", margin=0.03) if one.name == "table")
    assert {entry.status for entry in table.entries} == {status}


def test_one_round_engages_nothing_and_an_absent_arm_neither():
    assert not weigh_evidence(from_array(np.full((4, 2, 1), -1.0))).engaged.any()
    ratios = np.full((4, 3, 3), -0.4)
    ratios[2:, 2] = np.nan
    table = from_array(ratios)
    evidence = weigh_evidence(table)
    assert evidence.engaged.tolist() == [[False, True, True]] * 2 + [[False, True, False]] * 2
    assert region_gain(table, evidence, np.arange(4), 2, 2)[0] == pytest.approx(0.2)

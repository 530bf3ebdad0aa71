"""What is engaged: never more than 5 % of A/A suites, nearly always where the truth clears the margin."""

import math

import numpy as np
import pytest
from rooflens.analysis.dispatch.evidence import region_gain, weigh_evidence
from rooflens.analysis.dispatch.fit import fit
from rooflens.analysis.dispatch.policy import EntryStatus
from scipy import stats

from .planted import from_array

SUITES = 250


def noisy(seed, effect=0.0, noise=0.01, cases=48, rounds=3, common=0.0):
    """48 GEMMs (6 shapes of 8 M) of three arms; `effect` is the true ln ratio of both challengers."""
    rng = np.random.default_rng(seed)
    ratios = effect + noise * rng.standard_normal((cases, 3, rounds)) * math.sqrt(2)
    ratios += common * rng.standard_normal((1, 3, rounds))  # what all cells of a round have in common
    table = BASE.of_rounds(np.arange(rounds))
    table.log_ratio[:, 1:] = ratios[:, 1:]
    return table


def _base():
    ratios = np.zeros((8, 3, 8))
    table = from_array(ratios, tuple(2**index for index in range(8)))
    whole = table.of_cases(np.repeat(True, 8))
    frames = []
    for shape in range(6):
        frames.append(whole.cases.assign(N=64 * (shape + 1), shape=shape))
    import dataclasses

    import pandas as pd

    return dataclasses.replace(
        table,
        cases=pd.concat(frames, ignore_index=True),
        log_ratio=np.zeros((48, 3, 8)),
        step=np.zeros((48, 3)),
        time_s=np.full((48, 3), 1e-5),
        weights=np.full(48, 1 / 48),
        first_cells=np.tile(table.first_cells, (6, 1)),
    )


BASE = _base()


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


def test_a_gain_at_the_margin_is_not_engaged_and_one_well_above_it_is():
    at_margin, above, entries = 0, 0, 0
    for seed in range(40):
        at_margin += int(weigh_evidence(noisy(seed, effect=-0.03, rounds=5)).engaged.sum())
        above += int(weigh_evidence(noisy(seed, effect=-0.10, rounds=5)).engaged.sum())
        entries += 2 * 48
    assert at_margin <= 0.01 * entries
    assert above >= 0.95 * entries


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


def test_one_round_engages_nothing_and_an_absent_arm_neither():
    assert not weigh_evidence(from_array(np.full((4, 2, 1), -1.0))).engaged.any()
    ratios = np.full((4, 3, 3), -1.0)
    ratios[:, 2] = np.nan
    engaged = weigh_evidence(from_array(ratios)).engaged
    assert engaged[:, 1].all()
    assert not engaged[:, 2].any()
    assert not engaged[:, 0].any()


def test_errors_that_all_cells_share_count_in_a_region():
    """Cells alone would promise sqrt(48) times the precision that the rounds have."""
    table = noisy(1, effect=-0.05, noise=0.001, rounds=4, common=0.05)
    gain = region_gain(table, weigh_evidence(table), np.arange(48), 1, 1)
    rounds = -table.log_ratio[:, 1].mean(axis=0)
    assert gain.value == pytest.approx(rounds.mean())
    assert gain.value - gain.low >= 1.9 * stats.sem(rounds)


def test_an_arm_that_is_absent_gains_nothing_there():
    ratios = np.full((4, 2, 3), -0.4)
    ratios[2:, 1] = np.nan
    table = from_array(ratios)
    gain = region_gain(table, weigh_evidence(table), np.arange(4), 1, 1)
    assert gain.value == pytest.approx(0.2)


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
    assert region_gain(table, coarse, cases, 1, 1).low == pytest.approx(
        region_gain(from_array(ratios), fine, cases, 1, 1).low - 0.08
    )


@pytest.mark.parametrize("slower, status", [(0.01, EntryStatus.PARITY), (0.10, EntryStatus.INCUMBENT)])
def test_slower_is_proven_beyond_the_margin_only(slower, status):
    ratios = np.zeros((8, 2, 4))
    ratios[:, 1] = slower + 0.0005 * np.random.default_rng(6).standard_normal((8, 4))
    (table,) = (one for one in fit(from_array(ratios), "x", margin=0.03) if one.name == "table")
    assert {entry.status for entry in table.entries} == {status}

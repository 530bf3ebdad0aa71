"""Periods of planted series: how often something is seen in nothing, and how small a resonance is found."""

from itertools import permutations as every_order

import numpy as np
import pytest
from rooflens.plugins.camping.resonance import PeriodScan, SizeSet, candidates, centred, detrended, strata
from rooflens.plugins.camping.sawtooth import without_steps
from scipy.stats import binomtest, kstest

SIZES = np.arange(1024, 8193, 64)
UNKNOWN = np.full(len(SIZES), np.nan)


def ln_time(sizes, step=0):
    """Time over expected time of a kernel that streams weights; with a `step`, in whole tiles of that many columns."""
    columns = np.ceil(sizes / step) * step if step else sizes
    return np.log(3e-6 + columns * 1.15e-9) - np.log(2.5e-6 + sizes * 0.55e-9)


def score(e, sizes=SIZES):
    sets = candidates(sizes, np.zeros(len(sizes), dtype=bool))
    cleaned = without_steps(e, sizes, sets)
    unknown = np.full(len(sizes), np.nan)
    return PeriodScan(detrended(cleaned.e, sizes), strata(unknown, unknown)[0], sets).score()


@pytest.mark.slow
def test_nothing_is_seen_in_noise():
    rng = np.random.default_rng(11)
    p = np.array([score(ln_time(SIZES) + rng.normal(0, 0.01, len(SIZES))).p for _ in range(300)])
    assert (p <= 0.05).mean() <= 0.05
    assert kstest(p, "uniform").pvalue > 0.05


def test_no_p_value_is_below_what_its_permutations_can_tell():
    sure = score(ln_time(SIZES) + 0.5 * (SIZES % 1024 == 0))
    assert (sure.p, sure.best.period) == (1 / 2000, 1024)


@pytest.mark.slow
def test_heavy_tails_are_no_resonance():
    rng = np.random.default_rng(12)
    p = np.array([score(ln_time(SIZES) + 0.01 * rng.standard_t(2, len(SIZES))).p for _ in range(200)])
    # The level is 5 % exactly here: not above it beyond the chance of 200 scans.
    assert binomtest(int((p <= 0.05).sum()), len(p), 0.05, alternative="greater").pvalue > 0.01
    assert kstest(p, "uniform").pvalue > 0.01


@pytest.mark.parametrize("amplitude", [0.10, 0.20, 0.50])
@pytest.mark.parametrize("period", [256, 1024, 1536])
def test_power_with_two_percent_of_noise(amplitude, period):
    rng = np.random.default_rng(13)
    right = 0
    for _ in range(20):
        noise = rng.normal(0, 0.02, len(SIZES))
        found = score(ln_time(SIZES) + noise + np.log1p(amplitude) * (SIZES % period == 0))
        right += found.p <= 0.05 and found.best.period == period
    assert right >= 19


@pytest.mark.parametrize("step", [128, 160, 192, 256, 320, 384, 512, 640, 1024, 1056, 2048, 2112, 4224])
def test_tiles_and_waves_of_unknown_width_are_no_resonance(step):
    rng = np.random.default_rng(step)
    p = [score(ln_time(SIZES, step) + rng.normal(0, 0.01, len(SIZES))).p for _ in range(40)]
    assert np.mean(np.array(p) <= 0.05) <= 0.05


def test_a_resonance_is_found_among_steps():
    rng = np.random.default_rng(14)
    for _ in range(10):
        e = ln_time(SIZES, 768) + 0.1 * (SIZES % 1024 == 0) + rng.normal(0, 0.01, len(SIZES))
        found = score(e)
        assert (found.p <= 0.01, found.best.period) == (True, 1024)


def test_steps_are_taken_out_and_named():
    sets = candidates(SIZES, np.zeros(len(SIZES), dtype=bool))
    noise = np.random.default_rng(1).normal(0, 0.005, len(SIZES))
    assert without_steps(ln_time(SIZES, 768) + noise, SIZES, sets).widths == (768,)
    assert without_steps(ln_time(SIZES) + noise, SIZES, sets).widths == ()


def test_fast_multiples_are_no_resonance():
    rng = np.random.default_rng(15)
    p = [score(ln_time(SIZES) + rng.normal(0, 0.01, len(SIZES)) - 0.2 * (SIZES % 1024 == 0)).p for _ in range(20)]
    assert min(p) > 0.05


def test_spread_of_a_score_is_that_of_all_orders():
    """Every one of the 720 orders of six sizes, and of 24 of four: independent of the closed form."""
    rng = np.random.default_rng(3)
    values, stratum = rng.normal(0, 1, 10), np.array([0] * 6 + [1] * 4)
    members = np.array([1, 0, 0, 1, 0, 0, 0, 1, 0, 0], dtype=bool)
    own = centred(values, stratum)
    variance = 0.0
    for part in (stratum == 0, stratum == 1):
        sums = [np.sum(np.array(order) * members[part]) for order in every_order(own[part])]
        variance += np.var(sums)
    scored = PeriodScan(values, stratum, [SizeSet(3, members)]).score()
    assert scored.z == pytest.approx(np.sum(own[members]) / np.sqrt(variance))


def test_candidates_are_powers_of_two_and_three_times_those():
    periods = [one.period for one in candidates(SIZES, np.zeros(len(SIZES), dtype=bool))]
    assert periods == [192, 256, 384, 512, 768, 1024, 1536, 2048]
    grid = SIZES % 1024 == 0
    assert 0 in [one.period for one in candidates(SIZES, grid)]
    same = PeriodScan(np.random.default_rng(0).normal(0, 1, len(SIZES)) + 5 * grid, np.zeros(len(SIZES), dtype=int),
                candidates(SIZES, grid)).score()  # fmt: skip
    assert {same.best.period, *same.also} == {0, 1024}


def test_strata_keep_to_equal_workgroups_or_waves():
    workgroups = np.repeat(np.arange(10.0), 12)
    number, within = strata(workgroups, workgroups * 0 + 1)
    assert within == "equal workgroups"
    assert all(len(set(workgroups[number == one])) == 1 for one in set(number))
    number, within = strata(np.arange(120.0), np.repeat(np.arange(4.0), 30))
    assert within == "equal waves"
    assert max(np.bincount(number)) <= 16
    assert strata(UNKNOWN, UNKNOWN)[1] == "neighbours"

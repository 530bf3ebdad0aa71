"""Intervals over few rounds, by simulation: how often they hold the truth, over cells that are not equally noisy."""

import math

import numpy as np
import pandas as pd
import pytest
from rooflens.analysis.statistics.intervals import expected_half_width, mean_interval
from scipy import stats

NOISES = {
    "of one size": lambda generator, cells: np.full(cells, 0.01),
    "log-normal": lambda generator, cells: 0.01 * np.exp(generator.normal(0, 0.7, cells)),
    "over three decades": lambda generator, cells: 0.005 * np.exp(generator.normal(0, 1.3, cells)),
    "of two kinds": lambda generator, cells: np.where(generator.random(cells) < 0.8, 0.003, 0.05),
    "heavy-tailed": lambda generator, cells: 0.01 * np.sqrt(4 / generator.chisquare(4, cells)),
}
"""Standard deviation from round to round, by cell."""


def frame(values):
    """Values [cells, rounds] as the columns that `mean_interval` takes."""
    cells, rounds = values.shape
    return pd.Series(values.ravel()), pd.Series(np.repeat([f"c{index}" for index in range(cells)], rounds))


@pytest.mark.parametrize("rounds", range(2, 9))
@pytest.mark.parametrize("noise", NOISES)
def test_of_95_percent_intervals_93_to_97_hold_the_truth(noise, rounds):
    generator = np.random.default_rng(rounds)
    covered = []
    for _ in range(40):
        sd = NOISES[noise](generator, 100)
        found = mean_interval(*frame(generator.normal(0, 1, (100, rounds)) * sd[:, None]))
        covered.append((found["low"] <= 0) & (found["high"] >= 0))
    assert 0.93 <= np.mean(covered) <= 0.97


def test_a_cell_that_is_far_noisier_than_the_others_keeps_a_wide_interval():
    generator = np.random.default_rng(5)
    values = generator.normal(0, 0.002, (60, 3))
    values[7] = (-0.2, 0.0, 0.25)
    found = mean_interval(*frame(values)).loc["c7"]
    own = stats.sem(values[7])
    assert found["se"] == pytest.approx(own)
    assert found["low"] < -0.2 + 0.05 < 0.25 - 0.05 < found["high"]


def test_few_cells_borrow_nothing_and_pools_nothing_from_each_other():
    generator = np.random.default_rng(6)
    values = generator.normal(0, 0.01, (9, 3))
    truth = stats.ttest_1samp(values, 0, axis=1).confidence_interval(0.95)
    found = mean_interval(*frame(values))
    assert found["low"].tolist() == pytest.approx(truth.low.tolist())
    assert found["high"].tolist() == pytest.approx(truth.high.tolist())
    many = np.vstack([values, generator.normal(0, 0.01, (40, 3))])
    every, keys = frame(many)
    apart = mean_interval(every, keys, pd.Series(np.where(np.arange(len(every)) < 27, "a", "b")))
    assert apart["low"][:9].tolist() == pytest.approx(truth.low.tolist())
    assert apart["low"][9:].tolist() == pytest.approx(mean_interval(*frame(many[9:]))["low"].tolist())


def test_neighbours_with_many_rounds_give_none_to_a_cell_with_one():
    generator = np.random.default_rng(7)
    values, keys = frame(generator.normal(0, 0.01, (20, 5)))
    values, keys = pd.concat([values, pd.Series([1.0])]), pd.concat([keys, pd.Series(["alone"])])
    found = mean_interval(values.reset_index(drop=True), keys.reset_index(drop=True)).loc["alone"]
    assert (found["mean"], found["count"]) == (1.0, 1)
    assert found[["se", "low", "high"]].isna().all()


@pytest.mark.parametrize("rounds", (2, 3, 8, 30))
@pytest.mark.parametrize("cells", (4, 9, 10, 100))
def test_the_precision_that_is_forecast_is_that_of_the_intervals(rounds, cells):
    """Of simulated ratios of two times that scatter by 2 %, `cells` at a time: the median half-width."""
    generator = np.random.default_rng(rounds * cells)
    times = generator.normal(0, 0.02, (2, 4000 // cells * cells, rounds))
    values, keys = frame(times[0] - times[1])
    found = mean_interval(values, keys, values.index.to_series() // (cells * rounds))
    halves = (found["high"] - found["low"]) / 2
    usual = np.log1p(expected_half_width(rounds, cells, 0.02))
    assert np.median(halves) == pytest.approx(usual, rel=0.1)


def test_what_no_round_tells():
    assert expected_half_width(1, 50, 0.01) == math.inf

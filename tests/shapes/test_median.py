"""The order-statistic interval against scipy's binomial quantile test and simulated coverage."""

import random

import pytest
from rooflens.shapes.median import interval, interval_ranks
from scipy import stats


@pytest.mark.parametrize("count", [6, 7, 10, 25, 100, 333])
def test_ranks_agree_with_the_binomial_distribution(count):
    low, high = interval_ranks(count)
    assert stats.binom.cdf(low, count, 0.5) <= 0.025 < stats.binom.cdf(low + 1, count, 0.5)
    assert high == count - 1 - low


def test_too_few_values_have_no_interval():
    assert interval([1.0] * 5) is None
    assert interval([3.0, 1.0, 2.0, 5.0, 4.0, 6.0]) == (1.0, 6.0)


def test_large_counts_are_conservative():
    low, _ = interval_ranks(5000)
    assert stats.binom.cdf(low, 5000, 0.5) <= 0.025


def test_coverage():
    rng = random.Random(1)
    hits = 0
    for _ in range(2000):
        bounds = interval([rng.expovariate(1.0) for _ in range(20)])
        hits += bounds[0] <= 0.6931471805599453 <= bounds[1]
    assert 0.94 <= hits / 2000 <= 0.98  # 20 values: the exact coverage of ranks 5..14 is 95.9 %

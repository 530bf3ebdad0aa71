"""Shrunken variances: against the distribution they are defined by, closed forms, and the limits of the method."""

import math

import numpy as np
import pytest
from rooflens.analysis.statistics.moderation import NO_PRIOR, fit_prior, shrink
from scipy.special import polygamma
from scipy.stats import f as f_distribution


@pytest.mark.parametrize(("freedom", "prior"), [(7, 4.0), (7, 20.0), (3, 10.0)])
def test_the_prior_of_many_cells_is_recovered(freedom, prior):
    variances = 2.5e-4 * f_distribution.rvs(freedom, prior, size=40_000, random_state=3)
    found = fit_prior(variances, np.full(len(variances), float(freedom)))
    assert found[0] == pytest.approx(2.5e-4, rel=0.05)
    assert found[1] == pytest.approx(prior, rel=0.15)


def test_cells_that_differ_by_chance_only_share_one_variance():
    generator = np.random.default_rng(1)
    variances = 1e-4 * generator.chisquare(7, 60) / 7
    found = fit_prior(np.concatenate([variances, variances * 1.0001]), np.full(120, 7.0))
    assert found[1] > 50 or math.isinf(found[1])
    assert found[0] == pytest.approx(1e-4, rel=0.15)


def test_the_spread_of_logarithms_is_what_the_fit_reproduces():
    """The fit makes trigamma(d0/2) equal to the variance of ln s^2 beyond what df degrees of freedom explain."""
    logs = np.linspace(-2, 2, 41)
    found = fit_prior(np.exp(logs), np.full(41, 9.0))
    assert polygamma(1, found[1] / 2) == pytest.approx(logs.var(ddof=1) - polygamma(1, 4.5), rel=1e-6)


def test_few_cells_keep_their_own_variances():
    variances, freedom = np.array([1.0, 4.0, 9.0]), np.full(3, 7.0)
    assert fit_prior(variances, freedom) == NO_PRIOR
    same, degrees = shrink(variances, freedom, NO_PRIOR)
    assert same.tolist() == variances.tolist()
    assert degrees.tolist() == freedom.tolist()


def test_variances_are_drawn_to_the_prior_by_their_degrees_of_freedom():
    found, degrees = shrink(np.array([1.0, 5.0]), np.array([7.0, 7.0]), (2.0, 3.0))
    assert found.tolist() == [(3 * 2.0 + 7 * 1.0) / 10, (3 * 2.0 + 7 * 5.0) / 10]
    assert degrees.tolist() == [10.0, 10.0]
    everything, unlimited = shrink(np.array([1.0, 5.0]), np.array([7.0, 7.0]), (2.0, math.inf))
    assert everything.tolist() == [2.0, 2.0]
    assert np.isinf(unlimited).all()


def test_zero_and_unknown_variances_do_not_enter_the_fit():
    variances = np.concatenate([np.full(20, 1e-4) * np.linspace(0.5, 2, 20), [0.0, np.nan]])
    freedom = np.full(22, 7.0)
    assert fit_prior(variances, freedom) == fit_prior(variances[:20], freedom[:20])


def test_times_that_are_equal_but_for_their_rounding_say_nothing_of_the_others():
    """Rounds that tie differ by 1e-15 in the logarithm or not at all, depending on who is divided by whom."""
    variances = 1e-4 * np.random.default_rng(2).chisquare(2, 40) / 2
    alone = fit_prior(variances, np.full(40, 2.0))
    for tied in (0.0, 1e-32, 1e-29):
        assert fit_prior(np.r_[variances, [tied] * 9], np.full(49, 2.0)) == alone

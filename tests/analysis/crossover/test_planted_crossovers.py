"""Crossovers with planted truth under noise and censoring: the median, its interval, and what refining is worth."""

from functools import cache

import numpy as np
import pytest
from planted_crossovers import MS, Noise, Shape, outcome, population, suite

SUITES = 300


@cache
def outcomes(rounds):
    generator = np.random.default_rng(rounds)
    return [outcome(suite(generator, Noise(rounds), censored=0.4), 0.4) for _ in range(SUITES)]


@pytest.fixture(params=[3, 5])
def censored(request):
    """Outcomes of suites of which 40 % of the shapes cross beyond the last M."""
    return outcomes(request.param)


def test_the_planted_population_is_censored_as_it_says():
    generator = np.random.default_rng(0)
    octaves = generator.normal(population(0.4), 3.0, 100_000)
    assert abs(np.mean(octaves > 11) - 0.4) < 0.01


@pytest.mark.slow
def test_the_median_is_within_a_tenth_of_an_octave_at_40_percent_censoring(censored):
    errors = np.array([one.error for one in censored])
    known = errors[~np.isnan(errors)]
    assert len(known) > 0.8 * SUITES
    assert np.mean(np.abs(known) < 0.1) >= 0.98
    assert abs(np.mean(known[np.isfinite(known)])) < 0.01
    assert np.mean([one.dropped for one in censored]) > 1  # what leaving censored shapes out would do


@pytest.mark.slow
def test_its_interval_covers_the_median_of_the_population_in_95_percent(censored):
    assert 0.93 <= np.mean([one.covered for one in censored]) <= 0.97


@pytest.mark.slow
def test_the_interval_of_a_shape_holds_its_crossover_and_no_change_is_made_up(censored):
    assert np.mean([one.held for one in censored]) >= 0.95
    assert np.mean([one.several for one in censored]) <= 0.001


def brackets(tile, count=150, rounds=5):
    """(before, after, number of further M, truth, low, high) of shapes that cross between M=64 and 1024."""
    generator = np.random.default_rng(11)
    for octave in generator.uniform(6, 10, count):
        shape = Shape(generator, octave, Noise(rounds), tile)
        shape.measure(*MS)
        first = shape.crossing()
        if not first.changes:
            continue
        added = shape.refine()
        last = shape.crossing()
        yield first.high_M / first.low_M, last.high_M / last.low_M, len(added), shape.true_M, last.low_M, last.high_M


@pytest.mark.parametrize("tile", [0, 16, 64])
def test_refining_narrows_the_bracket_and_keeps_the_truth_in_it(tile):
    before, after, added, truth, low, high = map(np.array, zip(*brackets(tile), strict=True))
    assert np.all(after <= before)
    assert np.median(np.log(after)) < np.median(np.log(before)) / 2
    assert np.max(added) <= 6
    assert np.mean((low <= truth) & (truth <= high)) >= 0.95
    if tile == 64:  # a step that is wide enough to be verified is found to the row
        assert np.mean((low == truth) & (high == truth + 1)) > 0.4

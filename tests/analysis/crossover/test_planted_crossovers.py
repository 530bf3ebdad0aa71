"""Crossovers with planted truth: brackets, the median and its interval, refining, and the figures of the page."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from planted_crossovers import (
    CURVES,
    MS,
    Noise,
    Shape,
    curve_rows,
    median_rows,
    outcome,
    population,
    refined_rows,
    spread_rows,
    suite,
)

SUITES = 300
PAGE = (Path(__file__).parents[3] / "docs" / "crossover.md").read_text("utf-8")


@cache
def outcomes(rounds):
    generator, middle = np.random.default_rng(rounds), population(0.4)
    return [outcome(suite(generator, Noise(rounds), middle), middle) for _ in range(SUITES)]


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
def test_its_interval_covers_the_median_of_the_population_in_95_percent_at_least(censored):
    assert np.mean([one.covered for one in censored]) >= 0.95
    assert 0.93 <= np.mean([one.estimated for one in censored]) <= 0.97  # on lines, estimates would do


@pytest.mark.slow
def test_the_bracket_of_a_shape_holds_its_crossover_and_no_change_is_made_up(censored):
    assert np.mean([one.held for one in censored]) >= 0.95
    assert np.mean([one.several for one in censored]) <= 0.001


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize("sizes", [MS, MS[::2]], ids=["doubling", "fourfold"])
def test_the_bracket_holds_whatever_the_curve_does_between_the_measured_M(curve, sizes):
    generator = np.random.default_rng(2)
    shapes = [Shape(generator, octave, Noise(), curve=curve) for octave in generator.uniform(6.1, 9.9, 100)]
    for shape in shapes:
        shape.measure(*sizes)
    assert np.mean([shape.is_held_by(shape.crossing().regions) for shape in shapes]) >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "count"), [(curve_rows, 600), (spread_rows, 300), (median_rows, 300), (refined_rows, 600)]
)
def test_the_page_has_the_figures_of_the_benchmark(rows, count):
    assert [row for row in rows(count) if row not in PAGE] == []


def brackets(tile, count=150, rounds=5):
    """(before, after, number of further M, truth, low, high) of shapes that cross between M=64 and 1024."""
    generator = np.random.default_rng(11)
    for octave in generator.uniform(6, 10, count):
        shape = Shape(generator, octave, Noise(rounds), tile)
        shape.measure(*MS)
        first = shape.crossing()
        if first.crossover_M is None:
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

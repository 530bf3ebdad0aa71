"""Verdicts on suites whose truth is known, against the targets: few false ones, changes found, honest intervals."""

import numpy as np
import pytest
from planted_suites import Noise, benchstat, planted
from rooflens.analysis.comparison.decide import MARGIN, Word, decide

KINDS = {
    "independent": Noise(),
    "cells differ": Noise(spread=0.4),
    "autocorrelated": Noise(rho=0.5),
    "two modes": Noise(process=0.004, modes=0.3, mode_shift=0.01),
    "drifting": Noise(drift=0.05),
}


def decided(suite):
    differences = suite.differences
    cells, rounds = differences.shape
    return decide(
        differences.mean(axis=1),
        differences.var(axis=1, ddof=1),
        np.full(cells, rounds - 1.0),
        np.full(cells, float(rounds)),
        np.full(cells, MARGIN),
    )


def called(suite):
    return np.isin(decided(suite).words, [Word.FASTER.value, Word.SLOWER.value])


@pytest.mark.parametrize("kind", KINDS)
def test_identical_code_is_not_called_different(kind):
    generator = np.random.default_rng(11)
    suites = [planted(generator, KINDS[kind]) for _ in range(200)]
    assert np.mean([called(suite).any() for suite in suites]) <= 0.05
    inside = np.mean([((found := decided(suite)).low <= 0) & (found.high >= 0) for suite in suites])
    assert 0.93 <= inside <= 0.98


@pytest.mark.parametrize(("size", "power"), [(0.03, 0.75), (0.05, 0.95)])
@pytest.mark.parametrize("kind", ["independent", "two modes", "drifting"])
def test_real_changes_are_found_and_others_are_not(kind, size, power):
    generator = np.random.default_rng(12)
    suites = [planted(generator, KINDS[kind], changed=8, size=size) for _ in range(60)]
    words = [(called(suite), suite.truth > 0) for suite in suites]
    found = sum((call & real).sum() for call, real in words)
    false = sum((call & ~real).sum() for call, real in words)
    assert found / (8 * len(suites)) >= power
    assert false / max(1, found + false) <= 0.05


def test_scatter_is_as_planted():
    suite = planted(np.random.default_rng(1), Noise(), cells=4000)
    assert suite.differences.std() == pytest.approx(0.01, rel=0.05)


def test_pooled_samples_call_identical_code_different():
    """The rule that verdicts are meant to replace: the suites are hard enough to tell them apart."""
    suites = [planted(np.random.default_rng(seed), Noise()) for seed in range(5)]
    assert all(benchstat(suite).any() for suite in suites)

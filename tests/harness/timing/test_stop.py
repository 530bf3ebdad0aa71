"""The stop rule: converged when the median is known, budget when time is up, never on zero-width ties alone."""

import random
from statistics import median

import pytest
from rooflens.harness.timing.stop import BUDGET_OVERRUN, FEWEST, StopRule
from rooflens.shapes.median import interval

RULE = StopRule(min_samples=10, target_ci=0.01, budget_s=1.0, resolution_s=0.0)


NARROW, COARSE = [1e-3 * (1 + 1e-4 * i) for i in range(10)], StopRule(10, 0.01, 1.0, resolution_s=1e-6)


@pytest.mark.parametrize(
    ("rule", "times", "elapsed_s", "decided"),
    [
        (RULE, NARROW[:9], 0.1, ""),
        (RULE, NARROW, 0.1, "converged"),
        (RULE, [1e-3, 2e-3] * 20, 0.99, ""),
        (RULE, [1e-3, 2e-3] * 20, 1.0, "budget"),
        (COARSE, [5e-6, 7e-6] * 25, 0.1, ""),
        (COARSE, [5e-6] * 50, 0.1, "resolution"),  # 1 us on 5 us: known to a step, and no better ever
        (COARSE, [5e-6, 6e-6] * 25, 0.1, "resolution"),
        (COARSE, [500e-6] * 50, 0.1, "converged"),
        (RULE, [0.3, 0.6] * 2, 1.8, ""),  # past the budget, but fewer than 10 samples
        (RULE, [0.3, 0.6] * 5, 3.9, "budget"),
        (RULE, [5.0, 7.0], 12.0, ""),
        (RULE, [5.0, 7.0, 5.0], 17.0, "budget"),  # past four budgets: three samples must do
    ],
)
def test_what_is_decided(rule, times, elapsed_s, decided):
    assert rule.decide(times, elapsed_s) == decided


def test_samples_that_do_not_count_still_spend_the_budget():
    """All of 40 samples discarded: the rule ends at its budget, and does not wait for ten that count."""
    assert RULE.decide([], 0.9, taken=40) == ""
    assert RULE.decide([], 1.0, taken=40) == "budget"
    assert RULE.decide([1e-3], BUDGET_OVERRUN * 1.0, taken=FEWEST - 1) == ""


@pytest.mark.parametrize("spread", [0.04, 0.06, 0.1])
def test_the_samples_that_are_foreseen_do_reach_the_target(spread):
    """From 30 normal samples the number is foreseen; with 1.5 times as many, the interval is mostly narrow.

    Truth: the standard error of a median is 1.253 s / sqrt(n), so the half width 1.96 of it reaches 1 % at
    n = (1.96 x 1.253 x spread / 0.01)^2.
    """
    truth = (1.96 * 1.253 * spread / 0.01) ** 2
    foreseen, narrow = [], 0
    for seed in range(40):
        draw = random.Random(seed)
        times = [1e-3 * (1 + draw.gauss(0, spread)) for _ in range(30)]
        foreseen.append(RULE.samples_for_target(times))
        times += [1e-3 * (1 + draw.gauss(0, spread)) for _ in range(int(1.5 * foreseen[-1]))]
        narrow += RULE.is_narrow(times)
    assert median(foreseen) == pytest.approx(truth, rel=0.5)
    assert narrow >= 30


def test_where_nothing_is_lacking_the_least_samples_are_enough():
    assert RULE.samples_for_target([1e-3] * 10) == 10
    assert RULE.samples_for_target([]) == 10


def test_the_interval_that_decides_is_the_one_of_the_analysis():
    draw = random.Random(3)
    times = [1e-3 * (1 + draw.gauss(0, 0.02)) for _ in range(50)]
    low, high = interval(times)
    half = (high - low) / 2 / median(times)
    assert StopRule(10, half * 1.001, 1.0, 0.0).decide(times, 0.0) == "converged"
    assert StopRule(10, half * 0.999, 1.0, 0.0).decide(times, 0.0) == ""

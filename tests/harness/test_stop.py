"""The stop rule: converged when the median is known, budget when time is up, never on zero-width ties alone."""

from rooflens.harness.stop import StopRule

RULE = StopRule(min_samples=10, target_ci=0.01, budget_s=1.0, resolution_s=0.0)


def test_narrow_interval_converges_at_the_least_count():
    times = [1e-3 * (1 + 1e-4 * i) for i in range(10)]
    assert RULE.decide(times[:9], 0.1) == ""
    assert RULE.decide(times, 0.1) == "converged"


def test_wide_interval_goes_on_until_the_budget():
    times = [1e-3, 2e-3] * 20
    assert RULE.decide(times, 0.99) == ""
    assert RULE.decide(times, 1.0) == "budget"


def test_ties_of_a_coarse_timer_do_not_converge():
    coarse = StopRule(10, 0.01, 1.0, resolution_s=1e-6)
    assert coarse.decide([5e-6] * 50, 0.1) == ""  # 1 us of resolution on 5 us
    assert coarse.decide([500e-6] * 50, 0.1) == "converged"


def test_slow_launches_get_their_least_samples_within_a_bounded_overrun():
    slow = [0.3, 0.6]
    assert RULE.decide(slow * 2, 1.8) == ""  # past the budget, but fewer than 10 samples
    assert RULE.decide(slow * 5, 3.9) == "budget"
    assert RULE.decide([5.0, 7.0], 12.0) == ""
    assert RULE.decide([5.0, 7.0, 5.0], 17.0) == "budget"  # past four budgets: three samples must do

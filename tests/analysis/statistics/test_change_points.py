"""Changes of level in series whose truth is planted: false ones, power, place, size."""

import numpy as np
import pytest
from rooflens.analysis.statistics.change_points import find_changes

NOISE = 0.01
MARGIN = 0.01


def quiet(generator, kind, series, runs):
    """ln(time) [series, runs] of code that never changes."""
    shape = (series, runs)
    if kind == "normal":
        return NOISE * generator.normal(size=shape)
    if kind == "heavy tails":
        return NOISE * generator.standard_t(5, size=shape) / np.sqrt(5 / 3)
    if kind == "unequal":
        return NOISE * generator.normal(size=shape) * np.exp(0.5 * generator.normal(size=(series, 1)))
    if kind == "common":  # half of the variance is the whole run's
        return NOISE * np.sqrt(0.5) * (generator.normal(size=shape) + generator.normal(size=(1, runs)))
    if kind == "odd runs":
        return NOISE / 2 * generator.normal(size=shape) + 0.1 * (generator.random(shape) < 0.01)
    assert kind == "wandering"  # first-order autoregression, correlation 0.3
    values = generator.normal(size=(series, runs + 30))
    for run in range(1, runs + 30):
        values[:, run] += 0.3 * values[:, run - 1]
    return NOISE * np.sqrt(1 - 0.3**2) * values[:, 30:]


def found(values, margin=MARGIN, **options):
    return find_changes(list(values), [margin] * len(values), **options)


def stepped(generator, before, after, size, series=1, noise=NOISE):
    values = noise * generator.normal(size=(series, before + after))
    values[:, before:] += np.log1p(size)
    return values


@pytest.mark.slow
@pytest.mark.parametrize("series, runs", [(1, 10), (12, 5), (12, 12), (12, 25)])
def test_of_quiet_suites_at_most_five_percent_hold_a_proposal(series, runs):
    generator = np.random.default_rng(series + runs)
    suites = [quiet(generator, "normal", series, runs) for _ in range(200)]
    assert sum(any(found(suite)) for suite in suites) <= 10


@pytest.mark.parametrize("kind", ["heavy tails", "unequal", "common", "odd runs", "wandering"])
def test_noise_that_is_not_normal_makes_no_proposals_either(kind):
    generator = np.random.default_rng(5)
    suites = [quiet(generator, kind, 30, 15) for _ in range(40)]
    assert sum(any(found(suite)) for suite in suites) <= 2


@pytest.mark.parametrize(
    "before, after, size, power", [(10, 10, 0.05, 0.95), (10, 10, 0.03, 0.7), (10, 10, -0.05, 0.95), (20, 4, 0.05, 0.9)]
)
def test_steps_are_found_at_their_place_among_quiet_series(before, after, size, power):
    """6 of 60 series step; what is proposed elsewhere stays below 5 % of all that is proposed."""
    generator = np.random.default_rng(11)
    true, wrong, suites = 0, 0, 10
    for _ in range(suites):
        values = quiet(generator, "normal", 60, before + after)
        values[:6, before:] += np.log1p(size)
        for index, changes in enumerate(found(values)):
            right = [change for change in changes if index < 6 and abs(change.at - before) <= 1]
            true, wrong = true + len(right), wrong + len(changes) - len(right)
    assert true >= power * 6 * suites
    assert wrong <= 0.05 * (true + wrong)


def test_intervals_and_places_hold_the_truth():
    """Of 5 % steps, which are found nearly always, so that choosing them does not bias what is known of them."""
    values = stepped(np.random.default_rng(3), 10, 10, 0.05, series=400)
    changes = [found([one])[0] for one in values]
    single = [one[0] for one in changes if len(one) == 1]
    assert len(single) >= 380
    effect_held = np.mean([change.low <= np.log1p(0.05) <= change.high for change in single])
    assert 0.93 <= effect_held <= 1
    assert np.mean([change.first <= 10 <= change.last for change in single]) >= 0.95


def test_several_levels_are_all_found():
    values = 0.005 * np.random.default_rng(4).normal(size=50)
    for at, size in ((10, 0.04), (22, 0.05), (37, -0.07)):
        values[at:] += size
    (changes,) = found([values])
    assert [change.at for change in changes] == [10, 22, 37]
    assert [change.effect for change in changes] == pytest.approx([0.04, 0.05, -0.07], abs=0.01)
    assert changes[0].first <= 10 <= changes[0].last
    generator = np.random.default_rng(9)
    assert found(stepped(generator, 19, 1, 0.2)) == [[]], "one run of a new level is not enough, two are"
    (changes,) = found(stepped(generator, 18, 2, 0.2))
    assert [change.at for change in changes] == [18]
    (changes,) = found(stepped(np.random.default_rng(8), 40, 40, 0.015))
    (small,) = changes
    assert small.first <= 40 <= small.last
    assert small.first < small.last, "the place of a small step is a range"


@pytest.mark.parametrize("odd", [[7], [0], [19], [7, 8], [3, 12]])
def test_odd_runs_are_no_change(odd):
    values = 0.005 * np.random.default_rng(6).normal(size=20)
    values[odd] += 0.2
    assert found([values]) == [[]]


def test_changes_within_the_margin_are_of_no_interest():
    generator = np.random.default_rng(1)
    assert found(stepped(generator, 30, 30, 0.007, noise=0.0005)) == [[]]
    assert found(stepped(generator, 30, 30, 0.02, noise=0.0005), margin=0.03) == [[]]
    assert found(stepped(generator, 30, 30, 0.02, noise=0.0005)) != [[]]


def test_exact_series():
    step = np.array([0.0] * 5 + [0.05] * 5)
    (changes,) = found([step])
    assert [(change.at, change.first, change.last) for change in changes] == [(5, 5, 5)]
    assert changes[0].effect == pytest.approx(0.05)
    assert found([np.zeros(10)]) == [[]]
    for runs in range(4):
        assert found([np.linspace(0, 1, runs)]) == [[]], "fewer than four runs say nothing"
    assert find_changes([], []) == []


def test_one_step_of_a_coarse_timer_is_no_change():
    """Ties hide the noise, the step of the timer tells it: one step of 2 % is two of its standard errors at most."""
    values = np.array([0.0] * 3 + [0.02] * 3)
    assert found([values]) != [[]]
    assert found([values], floors=[0.02 / np.sqrt(12)]) == [[]]


def test_many_quiet_neighbours_lend_strength_to_a_short_series():
    """Two runs on each side do not show their own noise; thirty series with the same noise do."""
    generator = np.random.default_rng(12)
    alone = together = 0
    for _ in range(40):
        step = stepped(generator, 3, 3, 0.06)
        others = quiet(generator, "normal", 30, 6)
        alone += bool(found(step)[0])
        together += bool(found(np.concatenate([step, others]))[0])
    assert together > alone
    assert together >= 24

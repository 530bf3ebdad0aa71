"""A sweep within a time budget: least rounds first, further ones as they fit."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rooflens.harness.sweep.deadline import Deadline
from rooflens.harness.sweep.time_budget import IN_HAND, MOST_ROUNDS, SHORTEST_S, TaskCost, TimeBudget


def cost(wall_s=2.0, prepared_s=1.0, sampled_s=0.5, units=10, rounds=2):
    return TaskCost(wall_s, prepared_s, sampled_s, units, rounds)


def spent(*costs, planned=10, **more):
    """A budget of which tasks have taken these costs."""
    budget = TimeBudget(**more)
    for one in costs:
        budget.took(one, planned=planned)
    return budget


def test_nothing_is_known_before_the_first_task_so_that_time_is_divided_evenly():
    assert TimeBudget().sampling_s(100.0, 1000, 1.0) == pytest.approx(0.1 * (1 - IN_HAND))
    assert Deadline(time.monotonic() + 100.0).left_s == pytest.approx(100.0, abs=1.0)
    assert Deadline(time.monotonic() - 1.0).left_s == 0.0
    assert TimeBudget().sampling_s(100.0, 10, 1.0) == 1.0  # no more than the protocol asks for


def test_what_units_take_beside_sampling_is_not_promised_to_them():
    budget = spent(*(cost(wall_s=wall_s) for wall_s in (30.0, 2.0, 2.0)))  # the first one compiled
    assert budget.sampling_s(100.0, 100, 1.0) == pytest.approx(0.85 - 0.15)


def test_units_that_are_declined_take_nothing():
    budget = spent(*[cost(units=5, wall_s=0.5)] * 2, planned=20)
    assert budget.sampling_s(100.0, 400, 1.0) == pytest.approx(0.85)


def test_a_later_pass_has_no_cells_that_cannot_run_and_keeps_what_units_take():
    budget = spent(*[cost(units=5, wall_s=1.0)] * 2, planned=20)
    budget.begin_pass()
    assert budget.sampling_s(100.0, 100, 1.0) == pytest.approx(0.85 - 0.1)


@given(st.floats(0, 100), st.integers(1, 10**6))
def test_a_unit_always_has_some_time_and_never_more_than_its_own(left_s, units):
    assert SHORTEST_S <= spent(cost()).sampling_s(left_s, units, 0.5) <= 0.5


@pytest.mark.parametrize(
    ("left_s", "fit"), [(0.0, 0), (1.9, 0), (2.1, 1), (7.2, 1), (13.0, 4), (1000.0, MOST_ROUNDS - 2)]
)
def test_rounds_fit_after_one_more_preparation(left_s, fit):
    """Four tasks of 2 s with two rounds: 4 s of preparation, and 2 s for each further round of all of them."""
    budget = spent(*[cost()] * 4)
    assert budget.rounds_that_fit(left_s / (1 - IN_HAND), 2, tasks=4) == fit


def test_no_more_rounds_than_the_user_allows():
    budget = spent(cost(), most_rounds=3)
    assert (budget.rounds_that_fit(1000.0, 2, 1), budget.rounds_that_fit(1000.0, 3, 1)) == (1, 0)


def test_a_resumed_run_of_which_little_was_missing_says_the_pace_of_all():
    """Two of 24 tasks had something to do: a further round of all takes twelve times as long as of those two."""
    budget = spent(*[cost()] * 2)
    assert budget.rounds_that_fit(62.0, 2, tasks=24) == 2
    assert budget.rounds_that_fit(62.0, 2, tasks=2) > 20


def test_where_all_is_stored_one_round_shows_the_pace():
    assert TimeBudget().rounds_that_fit(10.0, 5, tasks=4) == 1
    assert TimeBudget(most_rounds=5).rounds_that_fit(10.0, 5, tasks=4) == 0
    assert TimeBudget().rounds_that_fit(0.0, 5, tasks=4) == 0
    assert TimeBudget().rounds_that_fit(10.0, 5, tasks=0) == 0  # nothing can have one
    assert spent(cost(units=0)).rounds_that_fit(10.0, 2, tasks=4) == 0

"""Regret: by hand, and what holds for any times."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rooflens.plugins.dispatch.fit import fit, oracle
from rooflens.plugins.dispatch.policy import choices
from rooflens.plugins.dispatch.regret import best, relative_time, score

from .planted import from_array, plant_timings

TIMES = {"a": (4.0, 2.0, 1.0), "b": (1.0, 1.9, 3.0)}
"""Seconds of each arm at M = 1, 2, 3."""


@pytest.fixture
def table():
    shape = ("m", "l", 64, 64)
    return plant_timings(lambda case, arm: TIMES[arm][case["M"] - 1], shapes=(shape,), Ms=(1, 2, 3), arms=("a", "b"))


def test_by_hand(table):
    zero = best(table)
    always_a = score(relative_time(table, np.array([0, 0, 0])), zero, table.weights)
    logs = [math.log(4), math.log(2 / 1.9), 0]
    assert always_a.mean == pytest.approx(sum(logs) / 3)
    assert (always_a.worst, always_a.worst_case) == (pytest.approx(math.log(4)), 0)
    assert always_a.p95 == pytest.approx(math.log(4))
    assert always_a.near == pytest.approx(1 / 3)
    assert always_a.gain == 0
    always_b = score(relative_time(table, np.array([1, 1, 1])), zero, table.weights)
    assert always_b.mean == pytest.approx(math.log(3) / 3)
    assert always_b.gain == pytest.approx((math.log(4) + math.log(2 / 1.9) - math.log(3)) / 3)
    table.log_ratio[1, 1] = np.nan  # where the chosen arm has no time the incumbent runs
    assert relative_time(table, np.array([1, 1, 1])).tolist() == pytest.approx([-math.log(4), 0, math.log(3)])
    assert best(table).tolist() == pytest.approx([-math.log(4), 0, 0])


def test_weights_move_every_figure(table):
    chosen = relative_time(table, np.array([0, 0, 0]))
    found = score(chosen, best(table), np.array([0.0, 0.04, 0.96]))
    assert found.mean == pytest.approx(0.04 * math.log(2 / 1.9))
    assert (found.p95, found.worst_case, found.cases) == (0, 1, 2)
    assert found.near == pytest.approx(0.96)
    assert score(chosen, best(table), np.zeros(3)) is None


@pytest.mark.parametrize("count", [3, 7, 120, 192])
def test_all_within_three_percent_is_a_share_of_one_and_none_of_zero(count):
    weights = np.full(count, 1 / count)  # 120 of these do not add up to 1
    assert score(np.zeros(count), np.zeros(count), weights).near == 1.0
    assert score(np.ones(count), np.zeros(count), weights).near == 0.0


logs = st.floats(-2, 2).filter(lambda value: value == 0 or abs(value) > 1e-9)
tables = (
    st.integers(2, 4)
    .flatmap(
        lambda arms: st.lists(
            st.lists(st.lists(logs, min_size=3, max_size=3), min_size=arms, max_size=arms), min_size=2, max_size=8
        )
    )
    .map(lambda values: from_array(values, tuple(2**index for index in range(len(values)))))
)


@settings(max_examples=settings().max_examples * 2 // 5)
@given(table=tables)
def test_regret_is_never_negative_and_the_oracle_has_none(table):
    zero = best(table)
    for policy in fit(table, "x"):
        found = score(relative_time(table, choices(policy, table)), zero, table.weights)
        assert found.mean >= -1e-12
        assert 0 <= found.near <= 1 + 1e-12
        assert found.mean <= found.worst + 1e-12
        assert -1e-12 <= found.p95 <= found.worst + 1e-12
    perfect = score(relative_time(table, oracle(table)), zero, table.weights)
    assert (perfect.mean, perfect.worst, perfect.near) == (0, 0, pytest.approx(1))

"""The search for a threshold in M: planted ones, and every place against brute force."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rooflens.plugins.dispatch.evidence import MARGIN
from rooflens.plugins.dispatch.fit import fit
from rooflens.plugins.dispatch.policy import EntryStatus, ranges
from rooflens.plugins.dispatch.weights import weigh

from .planted import from_array, plant_timings


def threshold(table, margin=MARGIN):
    (policy,) = (one for one in fit(table, "x", margin) if one.name == "threshold")
    ((rows,),) = (rule.values() for rule in policy.rules.values())
    return rows


def arms(rows):
    return [(size, entry.arm) for size, entry in rows]


def up_to_8(case, arm):
    return 1e-5 * (1 if arm == "old" else 0.5 if case["M"] <= 8 else 2.0)


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_a_planted_threshold_is_found(noise):
    rows = threshold(plant_timings(up_to_8, noise=noise))
    assert arms(rows) == [(8, "new"), (64, "old")]
    assert [entry.status for _, entry in rows] == [EntryStatus.ENGAGED, EntryStatus.INCUMBENT]
    assert rows[0][1].gain == pytest.approx(math.log(2), abs=0.01)


def test_a_threshold_that_hardly_saves_anything_is_not_made():
    def hardly(case, arm):  # 0.05 % on average: not worth a line
        return 1e-5 * (1.001 if (arm == "new") == (case["M"] <= 8) else 1.0)

    assert len(threshold(plant_timings(hardly), margin=1e-9)) == 1


def test_a_side_that_is_not_proven_runs_the_incumbent_and_the_threshold_is_taken_back():
    def barely(case, arm):  # 2 % is below the margin of 3 %
        return 1e-5 * (0.98 if arm == "new" and case["M"] <= 8 else 1.0)

    ((size, entry),) = threshold(plant_timings(barely, noise=0.002))
    assert (size, entry.arm, entry.status) == (64, "old", EntryStatus.PARITY)


def test_weights_move_the_threshold():
    def seconds(case, arm):  # new wins a little at 1, loses a little at 2, wins a lot at 4
        return 1e-5 * (1 if arm == "old" else {1: 0.8, 2: 1.2, 4: 0.5}[case["M"]])

    table = plant_timings(seconds, Ms=(1, 2, 4))
    assert arms(threshold(weigh(table, {1: 10.0, 2: 10.0, 4: 1.0}))) == [(1, "new"), (4, "old")]
    assert arms(threshold(weigh(table, {1: 1.0, 2: 1.0, 4: 10.0}))) == [(4, "new")]


def test_a_setting_that_was_measured_up_to_a_smaller_M_is_not_decided_beyond_it():
    def seconds(case, arm):
        return math.nan if case["dtype"] == "fp16" and case["M"] > 4 else up_to_8(case, arm)

    table = plant_timings(seconds, dtypes=("bf16", "fp16"))
    for name in ("threshold", "thresholds"):
        (policy,) = (one for one in fit(table, "x") if one.name == name)
        by_dtype = {setting[2]: arms(rule[None]) for setting, rule in policy.rules.items()}
        assert by_dtype == {"bf16": [(8, "new"), (64, "old")], "fp16": [(4, "new")]}


@settings(max_examples=settings().max_examples * 3 // 5)
@given(values=st.lists(st.tuples(*[st.sampled_from((-0.5, -0.2, 0.0, 0.1, 0.4))] * 2), min_size=2, max_size=9))
def test_a_threshold_is_the_best_of_all_by_brute_force(values):
    Ms = tuple(2**index for index in range(len(values)))
    ratios = np.array([[(0.0,), (a,), (b,)] for a, b in values])
    table = from_array(np.repeat(ratios, 2, axis=2), Ms)
    rows = threshold(table, margin=1e-9)
    costs = table.mean
    candidates = [costs.mean(axis=0).min()]
    candidates += [
        (costs[:cut].sum(axis=0).min() + costs[cut:].sum(axis=0).min()) / len(costs) for cut in range(1, len(costs))
    ]
    chosen = [next(entry.arm for limit, entry in rows if size <= limit) for size in Ms]
    taken = [costs[index, table.arms.index(arm)] for index, arm in enumerate(chosen)]
    assert np.mean(taken) == pytest.approx(min(candidates), abs=1.1e-3)  # one below its worth is not made


def test_the_same_data_give_the_same_threshold_and_ties_go_to_the_incumbent():
    assert ranges(threshold(plant_timings(lambda case, arm: 1e-5)), "old") == []
    first, second = (threshold(plant_timings(up_to_8, noise=0.05, seed=5)) for _ in range(2))
    assert first == second

"""Rounds of a run as one array: pairing, duplicates, what is left out."""

import math

import numpy as np
import pytest
from rooflens.plugins.dispatch.timings import timings
from rooflens.shapes.errors import UsageError

from .planted import plant, plant_timings

HALF = {"old": 2e-5, "new": 1e-5}


def half(case, arm):
    return HALF[arm]


def test_ratios_are_paired_by_round_so_that_drift_cancels():
    table = plant_timings(half, drift=(1.0, 3.0, 0.2))
    assert table.log_ratio.shape == (8 * 7, 2, 3)
    assert np.allclose(table.log_ratio[:, 0], 0)
    assert np.allclose(table.log_ratio[:, 1], -math.log(2), atol=1e-12)
    assert table.weights.sum() == pytest.approx(1)


def test_one_gemm_under_two_models_is_one_case_with_the_mean_of_both():
    shapes = (("a", "q", 512, 1024), ("b", "q", 512, 1024), ("b", "v", 256, 1024))

    def seconds(case, arm):
        return 1e-5 * (1 if arm == "old" else 4 if case["model"] == "a" else 2)

    table = plant_timings(seconds, shapes=shapes, Ms=(1,))
    assert table.cases["models"].tolist() == [("a", "b"), ("b",)]
    assert table.cases["shape"].tolist() == [0, 1]
    assert table.mean[:, 1].tolist() == pytest.approx([math.log(8) / 2, math.log(2)])
    assert table.time_s[0].tolist() == pytest.approx([1e-5, 1e-5 * math.sqrt(8)])


def test_another_timer_is_left_out_and_told():
    def columns(case, arm):
        return {"timer": "mixed"} if case["M"] == 1 else {"timer": "graph"} if arm == "new" and case["M"] == 2 else {}

    table = plant_timings(half, Ms=(1, 2, 4), columns=columns, arms=("old", "new"))
    assert sorted(table.cases["M"].unique()) == [4]
    assert table.notes[0].startswith("excluded, because they were timed in another way than the incumbent's: 24 cells")
    assert "excluded, because old alone has a time: 8 of 24 problems" in table.notes


def test_a_coarse_timer_counts_half_a_step_on_both_sides():
    def columns(case, arm):
        return {"resolution_s": 1e-6 if arm == "old" else 2e-6}

    table = plant_timings(half, Ms=(1,), columns=columns)
    # steps of 1 in 20 and of 2 in 10 us: 5 % and 20 %, of which half is the most that a time is off
    assert table.step[0] == pytest.approx([0.05, 0.125])


def test_times_without_a_round_in_common_are_no_comparison():
    summary, rounds = plant(half, Ms=(1, 2), rounds=4)
    cells = summary.set_index("cell_id")
    odd = (cells["M"] == 2) & (cells["layer"] == "l0")
    where = rounds["cell_id"].map(odd)
    early = rounds["cell_id"].map(cells["provider"] == "new") & (rounds["round"] < 2)
    late = rounds["cell_id"].map(cells["provider"] == "old") & (rounds["round"] >= 2)
    table = timings(summary, rounds.loc[~where | early | late], ("old", "new"), "cold")
    assert len(table.cases) == 15
    assert np.isfinite(table.mean).all()
    assert table.notes == (
        "excluded, because they have no round in common with the incumbent: 1 cells",
        "excluded, because old alone has a time: 1 of 16 problems",
    )


def test_what_the_incumbent_does_not_take_is_left_out_and_told():
    def seconds(case, arm):
        return math.nan if (arm, case["M"]) in {("old", 16), ("odd", 8)} else 1e-5

    table = plant_timings(seconds, arms=("old", "new", "odd"), Ms=(1, 8, 16))
    assert set(table.cases["M"]) == {1, 8}
    assert table.notes == ("excluded, because old has no time: 8 of 24 problems",)
    unknown = np.isnan(table.mean)  # an arm that does not take a problem is unknown there
    assert unknown[:, 2].tolist() == (table.cases["M"] == 8).tolist()
    assert not unknown[:, :2].any()


@pytest.mark.parametrize(
    "arms, cache, words",
    [
        (("old", "nwe"), "cold", "did you mean new"),
        (("old",), "cold", "nothing to choose from"),
        (("old", "old"), "cold", "nothing to choose from"),
        (("old", "new"), "warm", "old has no warm time"),
    ],
)
def test_what_cannot_be_arranged_is_a_usage_error(arms, cache, words):
    with pytest.raises(UsageError, match=words):
        timings(*plant(half), arms, cache)

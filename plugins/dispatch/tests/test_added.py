"""M that a refinement added: they count no more than the range of M that they stand for, and need all arms."""

import math

import numpy as np
import pytest
from rooflens.plugins.dispatch.timings import shared_weights, timings

from .planted import SHAPES, plant

ADDED = (24, 32, 48)


def seconds(case, arm):
    return 1e-5 * (0.5 if arm == "new" and case["M"] <= 32 else 1.0)


def columns(case, arm):
    return {"refined": case["M"] in ADDED}


def refined(arms=("old", "new"), at=SHAPES[:2], unasked=()):
    """Two rounds of eight shapes at M = 1, 16, 64, of which those in `at` were refined, but not for `unasked`."""
    summary, rounds = plant(seconds, arms=arms, Ms=(1, 16, *ADDED, 64), columns=columns)
    is_there = ~summary["refined"] | summary["layer"].isin([layer for _, layer, _, _ in at])
    is_there &= ~(summary["refined"] & summary["provider"].isin(unasked))
    return summary.loc[is_there], rounds


def test_every_shape_weighs_the_same_wherever_it_was_refined():
    table = timings(*refined(), ("old", "new"), "cold")
    assert len(table.cases) == 8 * 3 + 2 * 3
    totals = np.bincount(table.cases["shape"], table.weights)
    assert totals == pytest.approx(1 / 8)
    assert "6 of 30 GEMMs were added by a refinement" in table.notes[-1]


def test_an_added_m_takes_its_width_from_the_next_swept_one():
    table = timings(*refined(), ("old", "new"), "cold")
    one = table.cases["shape"] == 0
    weights = dict(zip(table.cases["M"][one], 24 * table.weights[one], strict=True))
    assert weights[1] == pytest.approx(1)
    assert weights[16] == pytest.approx(1)
    octaves = {24: math.log2(24 / 16), 32: math.log2(32 / 24), 48: math.log2(48 / 32), 64: math.log2(64 / 48)}
    for size, width in octaves.items():
        assert weights[size] == pytest.approx(width / 2)


def test_added_m_without_a_swept_one_above_share_with_the_last():
    weights = shared_weights(np.array([8, 1, 4]), np.array([True, False, False]), [np.arange(3)])  # in any order
    assert weights.tolist() == pytest.approx([1 / 3 / 2, 1 / 2, 2 / 3 / 2])  # (1, 4] is two octaves, (4, 8] one
    alone = shared_weights(np.array([4, 8]), np.array([True, True]), [np.arange(2)])
    assert alone.tolist() == pytest.approx([1 / 2, 1 / 2])


def test_an_added_m_that_an_arm_was_not_asked_for_is_left_out_and_told():
    arms = ("old", "new", "third")
    table = timings(*refined(arms, unasked=("third",)), arms, "cold")
    assert set(table.cases["M"]) == {1, 16, 64}
    assert table.notes == ("excluded, because a refinement added them without all of these: 6 of 30 problems",)
    pair = timings(*refined(arms, unasked=("third",)), ("old", "new"), "cold")
    assert set(table.cases["M"]) < set(pair.cases["M"]) == {1, 16, *ADDED, 64}
    summary, rounds = refined(arms)
    summary.loc[(summary["provider"] == "third") & summary["refined"], ["verdict", "time_s"]] = "oom", math.nan
    assert set(timings(summary, rounds, arms, "cold").cases["M"]) == {1, 16, *ADDED, 64}, "it was asked, and failed"

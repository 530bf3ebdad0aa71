"""Rules that providers bring along, scored as policies."""

import math

import pandas as pd
import pytest
from rooflens.analysis.statistics.arrays import moments
from rooflens.plugins.dispatch.regret import best, score
from rooflens.plugins.dispatch.study import rule_names
from rooflens.plugins.dispatch.timings import timings

from .planted import plant


def frames():
    """A library that takes the faster of its two kernels up to M = 8, and one too many at 16."""

    def seconds(case, arm):
        small, large = 1e-5 * case["M"], 1e-4
        return {"large": large, "small": small, "library": small if case["M"] <= 16 else large}[arm]

    def columns(case, arm):
        said = "small: by its rule" if case["M"] <= 16 else "large: by its rule"
        return {"dispatched": said if arm == "library" else ""}

    return plant(seconds, arms=("large", "small", "library"), Ms=(4, 8, 16, 32), columns=columns)


def test_a_rule_costs_what_its_worst_decision_does():
    summary, rounds = frames()
    assert rule_names(summary) == ("library",)
    table = timings(summary, rounds, ("large", "small"), "cold", rules=("library",))
    ratios, words = table.rules["library"]
    assert words[:4] == (*["small: by its rule"] * 3, "large: by its rule")
    own = score(moments(ratios).mean, best(table), table.weights)
    assert own.mean == pytest.approx(math.log(1.6) / 4)
    assert table.cases["M"][own.worst_case] == 16


def test_a_provider_that_says_nothing_is_no_rule():
    assert rule_names(pd.DataFrame({"provider": ["a", "b"], "dispatched": ["", float("nan")]})) == ()

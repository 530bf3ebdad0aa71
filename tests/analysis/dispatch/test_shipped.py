"""Rules that providers bring along, scored as policies."""

import math

import pandas as pd
import pytest
from rooflens.analysis.dispatch.regret import best, score
from rooflens.analysis.dispatch.study import decisions, refuse_unused, rule_names, word_of
from rooflens.analysis.dispatch.timings import timings
from rooflens.analysis.statistics.arrays import moments
from rooflens.shapes.errors import UsageError

from .planted import plant


def test_a_word_is_the_choice_without_its_reason():
    assert word_of("gemv_mx: by its row of the table") == "gemv_mx"
    assert word_of("simt") == "simt"


def test_words_stand_for_the_arm_of_their_name_or_for_a_stand_in():
    arms = ("old", "gemv_mx", "mma_4bit")
    assert decisions(["gemv_mx: by rule", "old"], arms, {}).tolist() == [1, 0]
    assert decisions(["mma", "old"], arms, {"mma": "mma_4bit"}).tolist() == [2, 0]
    assert decisions(["mma", "old"], arms, {}) is None
    assert decisions(["old", ""], arms, {}) is None
    assert decisions([], arms, {}) is None
    with pytest.raises(UsageError, match="unknown arm of --stand-in 'mma_4bits': did you mean mma_4bit"):
        decisions(["mma"], arms, {"mma": "mma_4bits"})
    with pytest.raises(UsageError, match="--stand-in mna: no provider here dispatched to it; known: mma, simt"):
        refuse_unused({"mna": "mma_4bit"}, ["mma", "", "simt", "mma"])


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
    own = score(moments(ratios).mean, best(table), table.weights)
    assert own.mean == pytest.approx(math.log(1.6) / 4)
    assert table.cases["M"][own.worst_case] == 16
    chosen = decisions(words, table.arms, {})
    assert [table.arms[arm] for arm in chosen[:4]] == ["small", "small", "small", "large"]


def test_a_provider_that_says_nothing_is_no_rule():
    assert rule_names(pd.DataFrame({"provider": ["a", "b"], "dispatched": ["", float("nan")]})) == ()

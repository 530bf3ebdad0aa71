"""Comparisons of one value per case rank nothing that rounding, margin or equal GEMMs could explain."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rooflens.analysis.comparison.decide import Word
from rooflens.analysis.comparison.effects import Order, measure_effects
from rooflens.analysis.comparison.unverified import rank_unverified, rounded_mean
from rooflens.analysis.comparison.versions import pair
from rooflens.analysis.imports.table import parse
from rooflens.analysis.imports.tidy import read as read_tidy
from rooflens.shapes.errors import UsageError


def table(*rows):
    """Rows of (model, M, text of ms)."""
    lines = [f"{model},{M},4096,4096,{time}" for model, M, time in rows]
    return read_tidy(parse("\n".join(["model,M,N,K,time_ms", *lines, ""]).encode(), "table"), {})


def compare(base, head):
    return rank_unverified(measure_effects(pair(table(*base), table(*head))))


def test_one_value_per_case_is_never_a_verdict():
    result = compare([("a", 1, "1.00"), ("b", 2, "2.00")], [("a", 1, "1.50"), ("b", 2, "1.00")])
    assert result.cases["word"].tolist() == [Word.UNVERIFIED] * 2
    assert result.cases["ranked"].tolist() == [True, True]
    assert result.cases[["se", "p", "q"]].isna().all().all()
    assert result.ranked["model"].tolist() == ["b", "a"]  # halved is more than half again as long
    assert result.duplicates is None
    assert "of which the tables have none" in result.explanation()


@given(st.integers(1, 2000), st.sampled_from([-1, 1]))
def test_a_change_of_one_step_is_never_ranked(steps, sign):
    base, head = steps, steps + sign
    if head < 1:
        return
    result = compare([("a", 1, f"{base / 100:.2f}")], [("a", 1, f"{head / 100:.2f}")])
    assert not result.cases["ranked"].any()


@pytest.mark.parametrize(
    "head, ranked", [("0.29", False), ("0.30", False), ("0.31", True), ("0.26", False), ("0.25", True)]
)
def test_more_than_two_steps_are_needed(head, ranked):
    result = compare([("a", 1, "0.28")], [("a", 1, head)])
    assert result.cases["ranked"].tolist() == [ranked]
    assert result.cases["bound"].tolist() == ["resolution"]


@pytest.mark.parametrize(
    ("base", "below", "above", "threshold"),
    [("100.00", "103.00", "103.10", 0.03), ("0.009000", "0.009800", "0.009900", 0.09)],  # ln 1.030 is below 0.03
)
def test_three_margins_are_needed(base, below, above, threshold):
    result = compare([("a", 1, base), ("b", 2, base)], [("a", 1, below), ("b", 2, above)])
    assert result.cases["bound"].tolist() == ["margin"] * 2
    assert result.cases["threshold"].tolist() == pytest.approx([threshold] * 2)
    assert result.cases["ranked"].tolist() == [False, True]


def test_equal_gemms_show_the_noise():
    """One GEMM under three models changes by +6.9 to +18.3 %: up to that spread anything may be chance."""
    base = [(name, 8192, "1000.00") for name in "abc"] + [("a", 16, "1000.00"), ("a", 32, "1000.00")]
    times = ["1068.50", "1075.10", "1182.90", "1100.00", "1120.00"]
    head = [(model, M, time) for (model, M, _), time in zip(base, times, strict=True)]
    result = compare(base, head)
    spread = math.log(1182.9 / 1068.5)
    assert result.duplicates.gemms == 1
    assert result.duplicates.rows == 3
    assert result.duplicates.spread == pytest.approx(spread)
    assert set(result.cases["bound"]) == {"duplicates"}
    assert result.cases["threshold"].tolist() == pytest.approx([spread] * 5)
    assert result.cases["ranked"].tolist() == [False, False, True, False, True]
    assert "M=8192, 4096x4096 (fwd) change by +6.85% to +18.29% of time" in result.explanation()


def test_a_mean_is_what_rounding_lets_it_be():
    base = [("a", 1, "1.00"), ("b", 1, "1.00"), ("a", 2, "1.00")]
    result = compare(base, [("a", 1, "1.20"), ("b", 1, "1.20"), ("a", 2, "1.00")])
    low = ((1.195 / 1.005) ** 2 * (0.995 / 1.005)) ** (1 / 3)
    high = ((1.205 / 0.995) ** 2 * (1.005 / 0.995)) ** (1 / 3)
    assert rounded_mean(result.cases) == pytest.approx((low, high))


def test_rounding_interval_holds_the_truth():
    """True times of full precision, rounded to two decimals: true ratios and their gmean lie in the intervals."""
    generator = np.random.default_rng(3)
    base = generator.lognormal(0, 1, 200)
    head = base * generator.lognormal(0, 0.05, 200)
    texts = [[("a", number + 1, f"{time:.2f}") for number, time in enumerate(side)] for side in (base, head)]
    result = compare(*texts)
    truth = np.log(head / base)
    assert ((result.cases["low"] <= truth) & (truth <= result.cases["high"])).all()
    low, high = rounded_mean(result.cases)
    assert low <= math.exp(truth.mean()) <= high
    assert result.cases["low"].le(result.cases["effect"]).all()


def test_failures_and_absent_rows_stay_out():
    base = [("a", 1, "1.00"), ("a", 2, "OOM"), ("a", 3, "1.00")]
    head = [("a", 1, "1.00"), ("a", 2, "1.00"), ("a", 4, "1.00")]
    effects = measure_effects(pair(table(*base), table(*head)))
    assert effects.order is Order.IMPORTED
    assert effects.cases["status"].tolist() == ["compared", "fixed", "removed", "new"]
    result = rank_unverified(effects)
    assert len(result.cases) == 1
    nothing = compare([("a", 1, "ERROR"), ("a", 2, "1.00")], [("a", 1, "1.00"), ("a", 2, "ERROR")])
    assert nothing.ranked.empty
    assert nothing.duplicates is None
    assert "0 of 0 cases" in nothing.explanation()


def test_nothing_in_common_names_the_column():
    with pytest.raises(UsageError, match="model is a in the base and b in the head; map it: --column model=COLUMN"):
        pair(table(("a", 1, "1.00")), table(("b", 1, "1.00")))
    with pytest.raises(UsageError, match="no row has all of them"):
        pair(table(("a", 1, "1.0"), ("b", 2, "1.0")), table(("a", 2, "1.0"), ("b", 1, "1.0")))

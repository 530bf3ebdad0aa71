"""Verdicts of cells: closed forms by hand, the margin, unknowns, and the smallest change that would be found."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rooflens.analysis.comparison.decide import Word, decide, margins, vetoed
from scipy import stats


def decided(effect, sd, rounds=8, margin=0.01):
    effect = np.atleast_1d(np.asarray(effect, dtype=float))
    full = np.full_like
    return decide(
        effect,
        full(effect, sd**2),
        full(effect, rounds - 1.0),
        full(effect, float(rounds)),
        full(effect, margin),
    )


def test_p_value_and_interval_are_those_of_students_t():
    found = decided(0.03, 0.01)
    se = 0.01 / np.sqrt(8)
    assert found.p[0] == pytest.approx(stats.t.sf(0.02 / se, 7) + stats.t.sf(0.04 / se, 7))
    assert found.low[0] == pytest.approx(0.03 - stats.t.ppf(0.975, 7) * se)
    assert found.high[0] == pytest.approx(0.03 + stats.t.ppf(0.975, 7) * se)


@pytest.mark.parametrize(
    ("effect", "sd", "word"),
    [
        (0.05, 0.01, Word.SLOWER),
        (-0.05, 0.01, Word.FASTER),
        (0.0, 0.002, Word.SAME),
        (0.005, 0.002, Word.SAME),
        (0.011, 0.0001, Word.SLOWER),
        (0.009, 0.0001, Word.SAME),
        (0.012, 0.0, Word.SLOWER),  # without scatter only the margin is left
        (0.008, 0.0, Word.SAME),
        (0.01, 0.0, Word.INCONCLUSIVE),
        (0.0, 0.05, Word.INCONCLUSIVE),
        (0.02, 0.02, Word.INCONCLUSIVE),
    ],
)
def test_words(effect, sd, word):
    assert decided(effect, sd).words.tolist() == [word]
    assert margins(np.array([9.9e-6, 10.1e-6])).tolist() == [0.03, 0.01], "short launches have a wider margin"


def test_false_discoveries_are_counted_over_all_cells():
    """One p of 0.01 is called among 2 cells, and is not among 100 that show nothing."""
    se = 0.01 / np.sqrt(8)
    effect = 0.01 + stats.t.isf(0.01, 7) * se
    assert decided([effect, 0.0], 0.01).words[0] == Word.SLOWER
    few = np.full(9, 7.0)
    quiet = decide(np.r_[effect, np.zeros(8)], np.full(9, 1e-4), few, few + 1, np.full(9, 0.01))  # nine cells: no prior
    assert quiet.q[0] == pytest.approx(9 * quiet.p[0])
    assert quiet.words[0] == Word.INCONCLUSIVE


def test_a_cell_with_one_round_is_inconclusive_and_has_no_interval():
    found = decide(
        np.array([0.5, 0.0]), np.array([np.nan, 1e-6]), np.array([0.0, 7.0]), np.array([1.0, 8.0]), np.full(2, 0.01)
    )
    assert found.words.tolist() == [Word.INCONCLUSIVE, Word.SAME]
    assert np.isnan(found.low[0])
    assert np.isnan(found.smallest[0])


@pytest.mark.parametrize(("reach", "word"), [(0.999, Word.SAME), (1.001, Word.INCONCLUSIVE)])
def test_same_is_what_the_90_percent_interval_leaves_within_the_margin(reach, word):
    """Two one-sided tests of 5 % each, as the definition of equivalence has it."""
    half = stats.t.ppf(0.95, 7) * 0.002 / np.sqrt(8)
    assert decided(reach * 0.01 - half, 0.002).words.tolist() == [word]
    assert decided(half - reach * 0.01, 0.002).words.tolist() == [word]


@pytest.mark.parametrize("cells", [1, 9])
def test_where_nothing_is_called_the_smallest_change_is_what_the_best_cell_would_have_needed(cells):
    """Among n cells without an effect a cell is called from p = 5 % / n on: the power there is 80 %, by scipy."""
    found = decided(np.zeros(cells), 0.01)
    se = 0.01 / np.sqrt(8)
    critical = stats.t.isf(0.05 / cells, 7)
    assert found.smallest.std() < 1e-12
    assert stats.nct.sf(critical, 7, (found.smallest[0] - 0.01) / se) == pytest.approx(0.8, abs=1e-4)


def test_beside_cells_that_are_called_a_change_need_not_be_as_large():
    """Of k called cells, the one asked about among them, the largest p is 5 % * k / n: the power there is 80 %."""
    few = np.full(9, 7.0)
    found = decide(np.r_[0.0, 0.0, np.full(7, 0.5)], np.full(9, 1e-4), few, few + 1, np.full(9, 0.01))
    for cell, rank in ((0, 8), (2, 7)):
        critical, shift = stats.t.isf(0.05 * rank / 9, 7), (found.smallest[cell] - 0.01) * np.sqrt(8) / 0.01
        assert stats.nct.sf(critical, 7, shift) == pytest.approx(0.8, abs=1e-4)


@given(
    effects=st.lists(st.floats(-0.2, 0.2), min_size=1, max_size=30),
    sd=st.floats(1e-4, 0.05),
)
def test_swapping_the_versions_swaps_the_words(effects, sd):
    there, back = decided(effects, sd), decided([-effect for effect in effects], sd)
    swapped = {Word.FASTER: Word.SLOWER, Word.SLOWER: Word.FASTER}
    assert [swapped.get(word, word) for word in back.words] == there.words.tolist()
    assert there.p == pytest.approx(back.p)
    assert ((there.low <= there.effect) & (there.effect <= there.high)).all()
    assert (there.low[there.words == Word.SLOWER] > 0).all()
    assert (np.abs(there.effect[there.words == Word.SAME]) < 0.01).all()


def test_a_cell_that_scatters_more_than_others_is_judged_by_its_own_scatter():
    sd = np.r_[np.full(30, 0.002), 0.05]
    found = decide(np.full(31, 0.03), sd**2, np.full(31, 7.0), np.full(31, 8.0), np.full(31, 0.01))
    assert found.words[:30].tolist() == [Word.SLOWER] * 30
    assert found.words[30] == Word.INCONCLUSIVE
    assert found.se[30] == pytest.approx(0.05 / np.sqrt(8))


UP, DOWN = math.log(1.12), math.log(0.88)


@pytest.mark.parametrize(
    ("word", "low", "high", "moved", "gone"),
    [
        ("slower", 0.57, 1.87, [UP], False),
        ("slower", 0.08, 0.12, [UP], True),
        ("slower", 0.14, 0.20, [UP], True),  # the device, and what is of no interest
        ("slower", 0.16, 0.20, [UP], False),
        ("slower", 0.08, 0.12, [DOWN], False),  # a faster device hides a part of it
        ("slower", 0.08, 0.12, [DOWN, UP], True),
        ("slower", 0.04, 0.05, [math.log(1.025)], False),  # no more than a steady device moves
        ("faster", -0.12, -0.08, [DOWN], True),
        ("faster", -0.12, -0.08, [UP], False),
        ("faster", -0.70, -0.60, [DOWN], False),
        ("same", -0.01, 0.01, [UP], True),
        ("same", -0.01, 0.01, [DOWN], True),
        ("same", 0.001, 0.01, [math.log(1.09)], False),  # a CPU moves by up to 10 %
        ("inconclusive", -0.5, 0.5, [UP], False),
        ("slower", 0.08, 0.12, [], False),
    ],
)
def test_a_device_that_changed_vetoes_what_that_could_explain(word, low, high, moved, gone):
    """Ends of intervals are shares of the time."""
    ends = np.log1p([low, high])
    one = dict(zip(("word", "low", "high", "margin"), (word, *ends, math.log(1.03)), strict=True))
    assert bool(vetoed(one, moved, is_cpu=True)) is gone
    several = pd.DataFrame([one, one | {"word": "inconclusive"}, one | {"word": ""}])
    assert vetoed(several, moved, is_cpu=True).to_list() == [gone, False, False]

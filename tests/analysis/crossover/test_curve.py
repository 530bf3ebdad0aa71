"""The crossover of one shape: every status planted, points against closed forms."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rooflens.analysis.crossover.curve import Crossing, CrossoverStatus, WinnerChange, locate

MS = (1, 2, 4, 8, 16, 32, 64, 128)


def crossing(y, Ms=MS, half=0.001, se=0.0005, delta=0.01) -> Crossing:
    """Locate with the interval y +- half; half=None: one round, no interval."""
    y = np.asarray(y, dtype=float)
    missing = np.full(len(y), math.nan)
    low, high = (missing, missing) if half is None else (y - half, y + half)
    errors = missing if half is None else np.broadcast_to(np.asarray(se, dtype=float), y.shape)
    return locate(Ms[: len(y)], y, low, high, errors, delta)


def test_single_is_interpolated_in_log2_M():
    found = crossing([-3, -2, -1, -0.25, 0.75, 1, 2, 3])
    assert found.status is CrossoverStatus.SINGLE
    assert found.crossover_M == pytest.approx(2 ** (3 + 0.25))  # a quarter of the way from 8 to 16
    assert (found.low_M, found.high_M) == (8, 16)
    assert found.challenger_wins == "below"
    assert found.verified
    assert found.changes == (WinnerChange(8, 16, "incumbent"),)
    assert found.warnings == ()


def test_undecided_points_widen_the_interval():
    found = crossing([-1, -0.5, -0.05, 0.02, 0.04, 0.5, 1, 2], half=0.1)
    assert found.status is CrossoverStatus.SINGLE
    assert (found.low_M, found.high_M) == (2, 32)
    assert found.crossover_M == pytest.approx(2 ** (2 + 0.05 / 0.07))


def test_differences_within_the_margin_decide_nothing_however_certain():
    certain = {"half": 1e-6, "se": 1e-6}
    y = [-1, -0.5, -0.3, 0.009, -0.009, 0.3, 0.5, 1]
    assert crossing(y, **certain).status is CrossoverStatus.SINGLE
    assert crossing(y, **certain, delta=0.001).status is CrossoverStatus.MULTIPLE


def test_multiple_lists_its_changes_and_takes_the_first_crossover():
    found = crossing([-1, -0.5, 0.5, 1, -0.2, -0.4, 0.2, 0.4])
    assert found.status is CrossoverStatus.MULTIPLE
    assert found.changes == (
        WinnerChange(2, 4, "incumbent"),
        WinnerChange(8, 16, "challenger"),
        WinnerChange(32, 64, "incumbent"),
    )
    assert found.crossover_M == pytest.approx(2**1.5)
    assert (found.low_M, found.high_M) == (2, 4)
    assert found.warnings[0].startswith("the winner changes 3 times")


def test_multiple_that_starts_with_the_incumbent_takes_the_first_change_to_it():
    found = crossing([0.5, 0.5, -0.5, -1, -1, -0.25, 0.75, 1])
    assert found.status is CrossoverStatus.MULTIPLE
    assert [change.winner for change in found.changes] == ["challenger", "incumbent"]
    assert found.crossover_M == pytest.approx(2 ** (5 + 0.25))


def test_a_challenger_that_wins_above_is_said_to():
    found = crossing([3, 2, 1, 0.25, -0.75, -1, -2, -3])
    assert found.status is CrossoverStatus.SINGLE
    assert found.challenger_wins == "above"
    assert found.crossover_M == pytest.approx(2 ** (3 + 0.25))
    assert found.changes == (WinnerChange(8, 16, "challenger"),)
    assert found.warnings == ("the challenger wins above the crossover, not below it",)


def test_always_needs_a_lead_that_does_not_shrink():
    steady = crossing([-1, -0.8, -0.6, -0.5, -0.5, -0.5, -0.5, -0.495])
    assert steady.status is CrossoverStatus.ALWAYS
    assert (steady.crossover_M, steady.low_M, steady.high_M, steady.verified) == (None, 128, math.inf, True)
    shrinking = crossing([-3, -2.6, -2.2, -1.8, -1.4, -1.0, -0.6, -0.2])
    assert shrinking.status is CrossoverStatus.RIGHT_CENSORED
    assert (shrinking.crossover_M, shrinking.low_M, shrinking.high_M, shrinking.verified) == (None, 128, math.inf, True)


def test_a_lead_that_is_not_verified_everywhere_is_censored():
    found = crossing([-1, -1, -0.05, -1, -1, -1, -1, -1], half=0.1)
    assert found.status is CrossoverStatus.RIGHT_CENSORED
    assert not found.verified


def test_a_range_of_less_than_two_octaves_cannot_tell_always():
    assert crossing([-1, -1]).status is CrossoverStatus.RIGHT_CENSORED
    assert crossing([-1, -1, -1]).status is CrossoverStatus.ALWAYS


def test_never():
    found = crossing([0.1, 0.5, 1, 2, 3, 4, 5, 6])
    assert found.status is CrossoverStatus.NEVER
    assert (found.crossover_M, found.low_M, found.high_M, found.verified) == (None, 0, 1, True)


def test_parity_is_an_octave_within_the_margin():
    found = crossing([0.004, -0.006, 0.002, -0.008, 0.001, 0.003, -0.002, 0.009], half=0.02)
    assert found.status is CrossoverStatus.PARITY
    assert found.crossover_M is None
    assert (
        crossing([0.02, -0.006, 0.02, -0.008, 0.02, 0.003, 0.02, 0.009], half=0.1).status is not CrossoverStatus.PARITY
    )
    # ahead, then a tie to the end: nothing to choose there, rather than a crossover beyond the range
    assert crossing([-1, -0.8, -0.6, -0.3, -0.1, 0.002, -0.003, 0.004], half=0.02).status is CrossoverStatus.PARITY


def test_a_plateau_inside_a_verified_crossover_is_a_warning():
    found = crossing([-1, -0.5, -0.3, 0.002, -0.003, 0.3, 0.5, 1])
    assert found.status is CrossoverStatus.SINGLE
    assert (found.low_M, found.high_M) == (4, 32)
    assert found.warnings == ("parity within 1% over an octave between M=4 and 32",)


def test_a_crossing_that_only_the_fit_shows_is_single_and_not_verified():
    found = crossing([-1, -0.8, -0.6, -0.4, -0.3, -0.2, -0.1, 0.03], half=0.05)
    assert found.status is CrossoverStatus.SINGLE
    assert not found.verified
    assert 64 < found.crossover_M < 128
    assert (found.low_M, found.high_M) == (64, math.inf)
    assert found.warnings == ("the incumbent is verified faster at no M: measure more rounds",)


@pytest.mark.parametrize(
    ("y", "status"),
    [
        ([-3, -2, -1, -0.25, 0.75, 1, 2, 3], CrossoverStatus.SINGLE),
        ([-3, -2, -1, -0.9, -0.8, -0.7, -0.6, -0.5], CrossoverStatus.RIGHT_CENSORED),
        ([1, 2, 3, 4, 5, 6, 7, 8], CrossoverStatus.NEVER),
        ([0.0] * 8, CrossoverStatus.PARITY),
    ],
)
def test_one_round_gives_the_point_and_verifies_nothing(y, status):
    found = crossing(y, half=None)
    assert found.status is status
    assert not found.verified
    assert (found.low_M, found.high_M) == (0, math.inf) or status is CrossoverStatus.NEVER
    if status is CrossoverStatus.SINGLE:
        assert found.crossover_M == pytest.approx(2**3.25)
    if status is not CrossoverStatus.PARITY:
        assert found.warnings[-1].startswith("neither is verified faster")


def test_one_M_and_none():
    for only in ([-1], [1], [0.001]):
        found = crossing(only)
        assert (found.status, found.crossover_M, found.verified) == (CrossoverStatus.ONE_M, None, False)
        assert (found.low_M, found.high_M) == (0, math.inf)  # one M says nothing of either side
    assert not CrossoverStatus.ONE_M.is_informative
    assert not CrossoverStatus.ONE_M.is_beyond
    assert crossing([]) == Crossing(CrossoverStatus.UNMEASURED, None, 0.0, math.inf, "", False, (), ())


def test_a_noisy_first_point_cannot_contradict_a_verified_win():
    found = crossing([3, -0.1, -0.1, -0.1], half=np.array([9, 0.01, 0.01, 0.01]), se=1.0)
    assert found.status is CrossoverStatus.RIGHT_CENSORED
    assert found.low_M == 8


def test_the_fit_is_weighted_by_the_standard_error():
    # The middle pair violates the order. Equal weights pool it to (0.5 - 0.5) / 2 = 0, a plateau from 2 to 4 ...
    y = [-1, 0.5, -0.5, 1]
    assert crossing(y, half=9).crossover_M == pytest.approx(2**1.5)
    # ... and weights 1 and 1/3 to (0.5 - 0.5/3) / (4/3) = 0.25: zero at 1/1.25 of the way from 1 to 2.
    assert crossing(y, half=9, se=[1, 1, math.sqrt(3), 1]).crossover_M == pytest.approx(2**0.8)
    # A standard error below the median one is luck, and gets no more weight than the median.
    assert crossing(y, half=9, se=[1, 1e-9, 1, 1]).crossover_M == pytest.approx(2**1.5)


def min_max_fit(y):
    """Isotonic regression in closed form (Barlow et al. 1972): fit_i = max_{a<=i} min_{b>=i} mean y[a..b]."""
    n = len(y)
    return [max(min(np.mean(y[a : b + 1]) for b in range(i, n)) for a in range(i + 1)) for i in range(n)]


@given(st.lists(st.floats(-2, 2).map(lambda value: round(value, 3)), min_size=2, max_size=8))
def test_the_point_is_the_zero_of_the_isotonic_fit(y):
    found = crossing(y, half=None, delta=1e-9)
    fit = np.asarray(min_max_fit(y))
    if (np.abs(fit) < 1e-9).any() or found.status is CrossoverStatus.PARITY:
        return  # a plateau at zero: tested above
    if fit[-1] < 0:
        assert found.status is CrossoverStatus.RIGHT_CENSORED
    elif fit[0] > 0:
        assert found.status is CrossoverStatus.NEVER
    else:
        left = int(np.flatnonzero(fit < 0)[-1])
        log_m = left - fit[left] / (fit[left + 1] - fit[left])  # MS are the powers of two
        assert found.crossover_M == pytest.approx(2**log_m, rel=1e-9)


@given(
    st.lists(st.floats(-1, 1).map(lambda value: round(value, 2)), min_size=1, max_size=8),
    st.floats(0.001, 0.5),
)
def test_the_point_lies_in_the_interval_and_changes_alternate(y, half):
    found = crossing(y, half=half)
    assert found.low_M <= found.high_M
    if found.crossover_M is not None:
        assert found.low_M <= found.crossover_M <= found.high_M
        assert MS[0] <= found.crossover_M <= MS[len(y) - 1]
    winners = [change.winner for change in found.changes]
    assert all(one != other for one, other in pairwise(winners))
    assert (found.status is CrossoverStatus.MULTIPLE) == (len(winners) > 1)

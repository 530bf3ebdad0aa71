"""The crossover of one shape: every status planted, estimates against closed forms, and the same with swapped roles."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rooflens.analysis.crossover.curve import Crossing, CrossoverStatus, Region, bracket, estimate, locate

from .mirrored import mirrored

MS = (1, 2, 4, 8, 16, 32, 64, 128)
BELOW, ABOVE = CrossoverStatus.BELOW, CrossoverStatus.ABOVE


def crossing(y, Ms=MS, half=0.001, delta=0.01) -> Crossing:
    """Locate with the interval y +- half; half=None: one round, no interval."""
    y = np.asarray(y, dtype=float)
    missing = np.full(len(y), math.nan)
    low, high = (missing, missing) if half is None else (y - half, y + half)
    return locate(Ms[: len(y)], y, low, high, delta)


def wins(found):
    """Regions as text: C1-8 I16-128."""
    return " ".join(f"{one.winner[0].upper()}{one.first_M:g}-{one.last_M:g}" for one in found.regions)


def test_a_challenger_that_wins_below():
    found = crossing([-3, -2, -1, -0.25, 0.75, 1, 2, 3])
    assert (found.status, wins(found)) == (BELOW, "C1-8 I16-128")
    assert found.crossover_M == pytest.approx(2 ** (3 + 0.25))  # a quarter of the way from 8 to 16
    assert (found.low_M, found.high_M, found.undecided) == (8, 16, ())


def test_a_challenger_that_wins_in_between_or_twice_has_no_single_crossover():
    found = crossing([0.5, 0.5, -0.5, -1, -1, -0.25, 0.75, 1])
    assert (found.status, wins(found)) == (CrossoverStatus.MULTIPLE, "I1-2 C4-32 I64-128")
    assert (found.crossover_M, found.low_M, found.high_M) == (None, 0, math.inf)
    assert wins(crossing([-1, -0.5, 0.5, 1, -0.2, -0.4, 0.2, 0.4])) == "C1-2 I4-8 C16-32 I64-128"


def test_everywhere_and_nowhere():
    ahead, behind = crossing([-1, -0.8, -0.6, -0.5]), crossing([1, 0.8, 0.6, 0.5])
    assert (ahead.status, wins(ahead)) == (CrossoverStatus.AHEAD, "C1-8")
    assert (behind.status, wins(behind)) == (CrossoverStatus.BEHIND, "I1-8")
    assert {ahead.crossover_M, behind.crossover_M} == {None}


def test_undecided_M_widen_the_bracket_and_belong_to_nobody():
    found = crossing([-1, -0.5, -0.05, 0.02, 0.04, 0.5, 1, 2], half=0.1)
    assert (wins(found), found.low_M, found.high_M) == ("C1-2 I32-128", 2, 32)
    assert found.undecided == (4, 8, 16)
    assert found.crossover_M == pytest.approx(2 ** (2 + 0.05 / 0.07))


@pytest.mark.parametrize("tail", [[0.03], [-0.03], [0.0, 0.0, 0.0]])
def test_a_lead_that_is_lost_unverified_is_no_crossover_and_claims_no_M_beyond(tail):
    found = crossing([-1, -0.8, -0.4, *tail], half=0.05)
    assert (found.status, wins(found)) == (CrossoverStatus.AHEAD, "C1-4")
    assert (found.crossover_M, found.low_M, found.high_M) == (None, 0, math.inf)
    assert bracket(found.regions, BELOW) == (4, math.inf)


def test_differences_within_the_margin_decide_nothing_however_certain():
    y = [-1, -0.5, -0.3, 0.009, -0.009, 0.3, 0.5, 1]
    assert crossing(y, half=1e-6).status is BELOW
    assert crossing(y, half=1e-6, delta=0.001).status is CrossoverStatus.MULTIPLE
    assert crossing([0.009] * 8, half=1e-6).status is CrossoverStatus.UNDECIDED
    assert crossing([-1, 0, 0, 0, 1]).crossover_M == pytest.approx(4)  # the middle of exact zeros
    assert crossing([-1, 0.5, -0.5, 1], half=0.6).crossover_M == pytest.approx(2**1.5)  # pooled to 0


@pytest.mark.parametrize("y", [[-3, -2, -1, -0.25, 0.75, 1], [-3, -2, -1], [1, 2, 3], [0.0] * 8])
def test_one_round_decides_nothing(y):
    assert crossing(y, half=None) == Crossing(CrossoverStatus.UNDECIDED, undecided=MS[: len(y)])


def test_one_M_and_none_say_nothing():
    for y in ([-1], [1], [0.001], []):
        assert crossing(y) == Crossing(CrossoverStatus.UNMEASURED)
    assert [one for one in CrossoverStatus if not one.is_informative] == [CrossoverStatus.UNMEASURED]


def test_the_bracket_to_one_side():
    challenger, incumbent = Region(4, 16, "challenger"), Region(64, 128, "incumbent")
    assert bracket([challenger, incumbent], BELOW) == (16, 64)
    assert bracket([challenger, incumbent], ABOVE) is None  # contradicts it
    assert (bracket([challenger], BELOW), bracket([challenger], ABOVE)) == ((16, math.inf), (0, 4))
    assert (bracket([incumbent], BELOW), bracket([incumbent], ABOVE)) == ((0, 64), (128, math.inf))
    assert {bracket([], BELOW), bracket([], ABOVE), bracket([challenger], None)} == {None}


def test_an_open_end_is_estimated_where_the_fit_crosses_before_it():
    sizes, lost = (4, 8, 16), (-0.4, -0.1, 0.1)
    assert estimate(sizes, lost, BELOW, (4, math.inf)) == pytest.approx(2**3.5)
    assert estimate(sizes, [-one for one in lost], ABOVE, (4, math.inf)) == pytest.approx(2**3.5)
    assert estimate(sizes, (-0.4, -0.3, -0.2), BELOW, (4, math.inf)) == math.inf
    assert estimate(sizes, (0.2, 0.3, 0.4), BELOW, (0, 16)) == 0


def min_max_fit(y):
    """Isotonic regression in closed form (Barlow et al. 1972): fit_i = max_{a<=i} min_{b>=i} mean y[a..b]."""
    n = len(y)
    return [max(min(np.mean(y[a : b + 1]) for b in range(i, n)) for a in range(i + 1)) for i in range(n)]


@given(st.lists(st.floats(-2, 2).map(lambda value: round(value, 3)), max_size=6))
def test_the_estimate_is_the_zero_of_the_isotonic_fit(inner):
    y = [-2.5, *inner, 2.5]
    fit = np.asarray(min_max_fit(y))
    if (np.abs(fit) < 1e-9).any():
        return  # a plateau at zero: tested above
    left = int(np.flatnonzero(fit < 0)[-1])
    log_m = left - fit[left] / (fit[left + 1] - fit[left])  # MS are the powers of two
    assert crossing(y, half=2.2).crossover_M == pytest.approx(2**log_m, rel=1e-9)


Y = st.lists(st.floats(-1, 1).map(lambda value: round(value, 2)), max_size=8)


@given(Y, st.floats(0.001, 0.5))
def test_swapped_roles_are_the_mirror_image(y, half):
    assert crossing([-one for one in y], half=half) == mirrored(crossing(y, half=half))


@given(Y, st.floats(0.001, 0.5))
def test_regions_alternate_and_hold_all_that_is_decided(y, half):
    found = crossing(y, half=half)
    assert all(one.winner != other.winner and one.last_M < other.first_M for one, other in pairwise(found.regions))
    if found.status is not CrossoverStatus.UNMEASURED:
        inside = {m for one in found.regions for m in MS if one.first_M <= m <= one.last_M}
        assert {*MS[: len(y)]} - inside <= {*found.undecided}
    if found.crossover_M is not None:
        assert found.low_M <= found.crossover_M <= found.high_M
    assert (found.crossover_M is None) == (found.status not in (BELOW, ABOVE))

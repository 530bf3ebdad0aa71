"""A number has no more digits than its 95 % interval leaves, and still lies in it."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rooflens.reports import formatting as fmt


@pytest.mark.parametrize(
    "value, low, high, text",
    [
        (12.34, 12.34 * 0.95, 12.34 * 1.05, "12×"),
        (12.34, 12.28, 12.40, "12.3×"),
        (12.34, 12.335, 12.345, "12.34×"),
        (8.0, 8.0, 8.0, "8.00×"),  # no width says nothing of digits
        (1.5, 1.05, 2.1, "1.5×"),  # one digit alone would make it 2
        (1.04, 1.001, 1.5, "1.04×"),  # what is verified to be above 1 never reads as 1
        (1.68, 1.667, 1.69, "1.68×"),
        (0.0431, 0.02, 0.09, "0.043×"),
        (123.45, 90.0, 170.0, "120×"),
        (3.64, math.nan, math.nan, "3.64×"),
        (3.64, None, None, "3.64×"),
        (3.64, 0.0, math.inf, "3.64×"),
        (3.64, 3.7, 3.8, "3.64×"),  # an interval that does not hold the value says nothing of it
    ],
)
def test_ratios(value, low, high, text):
    assert fmt.ratio(value, low, high) == text


def test_times_keep_their_unit():
    assert fmt.time(350e-6, 345e-6, 352e-6) == "350 µs"
    assert fmt.time(12.346e-6, 12.341e-6, 12.351e-6) == "12.35 µs"
    assert fmt.time(1.2341e-3, 1.21e-3, 1.25e-3) == "1.23 ms"


def test_a_time_that_is_known_better_than_its_last_decimal_has_more():
    assert fmt.time(3.62804e-3, 3.62799e-3, 3.62809e-3) == "3.6280 ms"
    assert fmt.time_interval(3.62791e-3, 3.62809e-3) == "[3.6279, 3.6281] ms"
    assert fmt.time_interval(5.1176e-6, 5.1244e-6) == "[5.118, 5.124] µs"
    assert fmt.time_interval(5.1e-6, 5.1e-6) == "[5.10, 5.10] µs"  # no width says nothing of digits
    assert fmt.time_interval(1e-9, 3e7) == "unknown"


@given(st.floats(1e-6, 10.0), st.floats(1e-4, 0.5))
def test_a_printed_time_lies_in_its_printed_interval(seconds, half):
    low, high = seconds * math.exp(-half), seconds * math.exp(half)
    text, unit = fmt.time(seconds, low, high).split()
    ends = fmt.time_interval(low, high)
    if ends.count(" ") == 2 and ends.endswith(unit):  # both ends in the unit of the time
        start, end = map(float, ends[1:].partition("]")[0].split(", "))
        assert start < end
        assert start <= float(text) <= end


def test_rates_round_before_the_point_too():
    assert fmt.flops(812.34e12, 750e12, 880e12) == "810 TFLOPS"
    assert fmt.flops_in("GFLOPS", 7.654e9, 7.6e9, 7.7e9) == "7.7"
    assert fmt.gigabytes(4312.4e9, 4300e9, 4320e9) == "4310"


def test_changes_below_1_percent_need_one_digit_only():
    assert fmt.change(0.5563, 0.3821, 0.8098) == "−44%"
    assert fmt.change(1.104, 1.05, 1.15) == "+10%"
    assert fmt.change(1.0032, 0.996, 1.011) == "+0.3%"
    assert fmt.change(1.031, 1.028, 1.034) == "+3.1%"
    assert fmt.change(0.966, 0.9606, 0.9714) == "−3.4%"
    assert fmt.signed_percent(0.0, -0.001, 0.001) == "0.0"


@given(st.lists(st.tuples(st.floats(-0.0999, 0.0999), st.floats(1e-5, 0.3)), min_size=2))
def test_sorted_changes_read_as_sorted_whatever_their_intervals(changes):
    """−3% above −3.2% in a list by size would be a number that no reader can place."""
    changes.sort()
    shown = [float(fmt.signed_percent(size, size - half, size + half).replace("−", "-")) for size, half in changes]
    assert all(late > early - 0.1 for early, late in pairwise(shown))


def test_what_is_undecided_never_reads_as_a_measured_tie():
    assert fmt.undecided(1.02, 0.9, 1.15) == "~1×" != fmt.tie()
    assert fmt.undecided(1.08, 0.9, 1.3) == "~1.1×"
    assert fmt.undecided(1.08) == "~1.08×"


@given(st.floats(1e-2, 1e4), st.floats(1e-4, 0.9), st.floats(1e-4, 3.0))
def test_the_shown_number_lies_in_its_interval_or_is_as_exact_as_without(value, below, above):
    low, high = value * (1 - below), value * (1 + above)
    shown = float(fmt.rounded(value, 2, low, high))
    usual = float(f"{value:.2f}")
    assert low <= shown <= high or shown == usual


@given(st.floats(1.5, 1e4), st.floats(1e-3, 0.3))
def test_the_last_digit_is_no_finer_than_the_interval_allows(value, part):
    """Beyond the two digits that always stay, a digit is shown only where its unit is over a tenth of the interval."""
    low, high = value * (1 - part), value * (1 + part)
    text = fmt.rounded(value, 2, low, high)
    decimals = len(text.partition(".")[2])
    two_digits = 1 - math.floor(math.log10(value))
    if decimals > max(0, two_digits):
        assert 10.0**-decimals > (high - low) / 10 * 0.999
    assert decimals <= 2

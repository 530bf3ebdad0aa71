"""The number grammar: printed examples, hand computation, and no more digits than an interval leaves."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rooflens.reports import formatting as fmt

CASES = {
    fmt.ratio: [
        ((0.0163,), "0.016×"),
        ((0.0996,), "0.10×"),
        ((99.994,), "99.99×"),
        ((123.45,), "123.5×"),
        ((math.inf,), "∞×"),
        ((math.nan,), ""),
        ((None,), ""),
        ((8.0, 8.0, 8.0), "8.00×"),  # no width says nothing of digits
        ((1.5, 1.05, 2.1), "1.5×"),  # one digit alone would make it 2
        ((1.04, 1.001, 1.5), "1.04×"),  # what is verified to be above 1 never reads as 1
        ((3.64, 3.7, 3.8), "3.64×"),  # an interval that does not hold the value says nothing of it
    ],
    fmt.ratio_interval: [
        ((1.4e-5, 5363062.9), "unknown"),  # a bound that says nothing is not spelled out
        ((1.4e-5, 3.0), "[< 0.001×, 3.00×]"),
        ((5.99, 5363062.9), "[5.99×, > 1000×]"),
        ((3.6, 3.69), "[3.60×, 3.69×]"),
        ((None, 2.0), ""),
    ],
    fmt.undecided: [((1, 1, 1), "~1.0×"), ((1.02, 0.9, 1.1), "~1×"), ((1.08, 0.9, 1.3), "~1.1×"), ((1.08,), "~1.08×")],
    fmt.effect: [
        ((0.0,), "0.00%"),
        ((math.log(4.2),), "4.20×"),
        ((math.log(5000),), "> 1000×"),
        ((-math.log(4.2),), "0.24×"),
        ((-math.log(5000),), "< 0.001×"),
        ((math.nan,), "unknown"),
        ((None,), "unknown"),
        ((math.log(1.1271), math.log(1.10), math.log(1.15)), "+13%"),  # a change is one of time: above 0 is slower
    ],
    fmt.effect_interval: [
        ((math.log(1.10), math.log(1.1551)), "[+10%, +16%]"),
        ((-800.0, 800.0), "unknown"),
        ((math.nan, 0.0), ""),
    ],
    fmt.time: [
        ((4.139e-3,), "4.139 ms"),
        ((999.996e-6,), "1.000 ms"),  # would round to 1000.00 µs
        ((0.9999996,), "1.000 s"),
        ((350e-6, 345e-6, 352e-6), "350 µs"),
        ((None,), ""),
        ((math.nan,), ""),
        ((3.62804e-3, 3.62799e-3, 3.62809e-3), "3.6280 ms"),  # known better than the last decimal
    ],
    fmt.time_interval: [
        ((5.1e-6, 5.1e-6), "[5.10, 5.10] µs"),
        ((1e-9, 3e7), "unknown"),
    ],
    fmt.flops: [
        ((99.94e12,), "99.9 TFLOPS"),
        ((99.96e12,), "100.0 TFLOPS"),
        ((0.9996e12,), "1.00 TFLOPS"),
        ((None,), ""),
        ((812.34e12, 750e12, 880e12), "810 TFLOPS"),
    ],
    fmt.flops_in: [(("GFLOPS", 7.654e9, 7.6e9, 7.7e9), "7.7")],
    fmt.rates_in: [
        (("TFLOPS", 10.38e12, 10.44e12), ("10.38", "10.44")),  # two rates show their difference
        (("TFLOPS", 15.0131e12, 15.0101e12), ("15.013", "15.010")),
    ],
    fmt.bandwidth: [((4.8e12,), "4800.0 GB/s"), ((55.04e9,), "55.0 GB/s"), ((math.nan,), "")],
    fmt.gigabytes: [((4312.4e9, 4300e9, 4320e9), "4310")],
    fmt.change: [
        ((0.5563, 0.3821, 0.8098), "−44%"),
        ((1.0032, 0.996, 1.011), "+0.3%"),  # below 1 % one digit is enough
        ((0.966, 0.9606, 0.9714), "−3.4%"),
    ],
    fmt.signed_percent: [
        ((0.018,), "+1.80"),
        ((-0.00001,), "0.00"),
        ((0.0, -0.001, 0.001), "0.0"),
    ],
    fmt.share: [
        ((1 - 2**-53,), "100%"),  # a cell that is its own ceiling
        ((0,), "0%"),
        ((0.0004,), "<0.1%"),  # never rounds down to none, or up to all
        ((0.9996,), ">99.9%"),
        ((1.2,), "120%"),
    ],
    fmt.crossover: [((622.4,), "M~622"), ((1.414,), "M~1.4"), ((16,), "M~16")],
    fmt.m_interval: [
        ((32, 64), "[32, 64]"),
        ((512, math.inf), "≥ 512"),
        ((None, None), ""),
        ((0, 8), "≤ 8"),
    ],
    fmt.m_range: [
        ((16, None), "M ≥ 16"),
        ((4, 16), "4 ≤ M ≤ 16"),
        ((8, 8), "M = 8"),
        ((None, None), "every M"),
    ],
    fmt.sizes: [
        (([1, 2, 4, 8, 16, 32],), "1, 2, 4, …, 32"),
        (([1, 2, 4, 8, 16, 33],), "1, 2, 4, 8, 16, 33"),
    ],
    fmt.clock: [((1.98e9,), "1.980 GHz"), ((345e6,), "345 MHz"), ((0.9996e9,), "1.000 GHz"), ((None,), "")],
    fmt.temperature: [((61.4,), "61 °C"), ((-3.0,), "−3 °C"), ((math.nan,), "")],
    fmt.power: [((697.6,), "698 W"), ((None,), "")],
    fmt.bytes_size: [((62914560,), "60 MiB"), ((16 << 30,), "16 GiB"), ((None,), "")],
    fmt.ceiling: [
        (("vector", 512e9), "512.0 Gop/s"),
        (("clock", 1.83e9), "1.830 GHz"),
        (("bandwidth", 4.3e12), "4300.0 GB/s"),
        (("peak", 788e12), "788.0 TFLOPS"),
        (("launch", 2.3e-6), "2.30 µs"),
    ],
    fmt.tick_time: [((5e-7,), "500 ns"), ((2e-5,), "20 µs"), ((1e-3,), "1 ms"), ((0.5,), "500 ms"), ((10,), "10 s")],
    fmt.tick_flops: [((1e10,), "10 GFLOPS"), ((1e12,), "1 TFLOPS"), ((1e15,), "1000 TFLOPS")],
    fmt.tick_ratio: [((0.125,), "1/8×"), ((1,), "1×"), ((4,), "4×")],
    fmt.tick_change: [((-1e-9,), "0%"), ((0.02,), "+2%"), ((-0.025,), "−2.5%"), ((120.0,), "+12000%")],
}


@pytest.mark.parametrize("form", CASES, ids=lambda form: form.__name__)
def test_the_number_grammar(form):
    assert [form(*given) for given, _ in CASES[form]] == [text for _, text in CASES[form]]


@given(st.floats(1e-9, 1e9), st.integers(2, 5))
def test_significant_digits_are_right_and_as_many_as_asked(value, digits):
    text = fmt.significant(value, digits)
    assert float(text) == pytest.approx(value, rel=0.5001 * 10 ** (1 - digits))
    assert "e" not in text
    assert len(text.replace(".", "").lstrip("0")) in ({digits} if "." in text else range(digits, 11))


@given(st.floats(1e-9, 1e3))
def test_a_shown_time_is_within_half_its_last_digit(seconds):
    number, unit = fmt.time(seconds).split()
    scale = {"µs": 1e-6, "ms": 1e-3, "s": 1}[unit]
    decimals = len(number.split(".")[1])
    assert float(number) * scale == pytest.approx(seconds, abs=0.5001 * scale * 10**-decimals)


@given(st.floats(1e-6, 10.0), st.floats(1e-4, 0.5))
def test_a_printed_time_lies_in_its_printed_interval(seconds, half):
    low, high = seconds * math.exp(-half), seconds * math.exp(half)
    text, unit = fmt.time(seconds, low, high).split()
    ends = fmt.time_interval(low, high)
    if ends.count(" ") == 2 and ends.endswith(unit):  # both ends in the unit of the time
        start, end = map(float, ends[1:].partition("]")[0].split(", "))
        assert start < end
        assert start <= float(text) <= end


@given(st.lists(st.tuples(st.floats(-0.0999, 0.0999), st.floats(1e-5, 0.3)), min_size=2))
def test_sorted_changes_read_as_sorted_whatever_their_intervals(changes):
    """−3% above −3.2% in a list by size would be a number that no reader can place."""
    changes.sort()
    shown = [float(fmt.signed_percent(size, size - half, size + half).replace("−", "-")) for size, half in changes]
    assert all(late > early - 0.1 for early, late in pairwise(shown))


@given(st.floats(1e-2, 1e4), st.floats(1e-4, 0.9), st.floats(1e-4, 3.0))
def test_the_shown_number_lies_in_its_interval_or_is_as_exact_as_without(value, below, above):
    low, high = value * (1 - below), value * (1 + above)
    shown = float(fmt.rounded(value, 2, low, high))
    assert low <= shown <= high or shown == float(f"{value:.2f}")


@given(st.floats(1.5, 1e4), st.floats(1e-3, 0.3))
def test_the_last_digit_is_no_finer_than_the_interval_allows(value, part):
    """Beyond the two digits that always stay, a digit is shown only where its unit is over a tenth of the interval."""
    low, high = value * (1 - part), value * (1 + part)
    decimals = len(fmt.rounded(value, 2, low, high).partition(".")[2])
    if decimals > max(0, 1 - math.floor(math.log10(value))):
        assert 10.0**-decimals > (high - low) / 10 * 0.999
    assert decimals <= 2

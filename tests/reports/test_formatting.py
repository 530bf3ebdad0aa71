"""The number grammar, against the examples that the documents print and hand computation."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rooflens.reports import formatting as fmt


@pytest.mark.parametrize(
    "value, text",
    [
        (3.64, "3.64×"),
        (44.8, "44.80×"),
        (1.0, "1.00×"),
        (0.4349, "0.43×"),
        (0.0163, "0.016×"),
        (0.0996, "0.10×"),
        (99.994, "99.99×"),
        (123.45, "123.5×"),
        (math.inf, "∞×"),
        (math.nan, ""),
        (None, ""),
    ],
)
def test_ratio(value, text):
    assert fmt.ratio(value) == text


@pytest.mark.parametrize(
    "seconds, text",
    [
        (12.346e-6, "12.35 µs"),
        (0.35e-3, "350.00 µs"),
        (4.139e-3, "4.139 ms"),
        (999.996e-6, "1.000 ms"),  # would round to 1000.00 µs
        (0.9999996, "1.000 s"),
        (2.5, "2.500 s"),
        (None, ""),
        (math.nan, ""),
    ],
)
def test_time(seconds, text):
    assert fmt.time(seconds) == text


@pytest.mark.parametrize(
    "rate, text",
    [
        (1470.6e12, "1470.6 TFLOPS"),
        (99.94e12, "99.9 TFLOPS"),
        (99.96e12, "100.0 TFLOPS"),
        (1.234e12, "1.23 TFLOPS"),
        (0.9996e12, "1.00 TFLOPS"),
        (430e9, "430.0 GFLOPS"),
        (7.654e9, "7.65 GFLOPS"),
        (None, ""),
    ],
)
def test_flops(rate, text):
    assert fmt.flops(rate) == text


def test_bandwidth_is_in_decimal_gigabytes():
    assert fmt.bandwidth(4.8e12) == "4800.0 GB/s"
    assert fmt.bandwidth(55.04e9) == "55.0 GB/s"
    assert fmt.bandwidth(math.nan) == ""


@pytest.mark.parametrize(
    "fraction, text",
    [(0.018, "+1.80"), (-0.0245, "−2.45"), (0.0, "0.00"), (0.00001, "0.00"), (-0.00001, "0.00"), (1.1, "+110.00")],
)
def test_signed_percent_has_one_minus_and_no_negative_zero(fraction, text):
    assert fmt.signed_percent(fraction) == text


@pytest.mark.parametrize(
    "fraction, text",
    [
        (0.714, "71%"),
        (0, "0%"),
        (1, "100%"),
        (0.0004, "<0.1%"),
        (0.004, "0.4%"),
        (0.9996, ">99.9%"),
        (0.995, "99.5%"),
        (1.2, "120%"),
    ],
)
def test_share_never_rounds_up_to_all_or_down_to_none(fraction, text):
    assert fmt.share(fraction) == text


def test_crossover_grammar_of_the_document():
    assert fmt.crossover(622.4) == "M~622"
    assert fmt.crossover(1.414) == "M~1.4"
    assert fmt.crossover(16) == "M~16"
    assert fmt.m_interval(32, 64) == "[32, 64]"
    assert fmt.m_interval(None, 64) == "≤ 64"
    assert fmt.m_interval(512, math.inf) == "≥ 512"
    assert fmt.m_interval(None, None) == fmt.m_interval(0, math.inf) == ""
    assert fmt.m_interval(0, 8) == "≤ 8"
    assert fmt.m_range(None, 4) == "M ≤ 4"
    assert fmt.m_range(16, None) == "M ≥ 16"
    assert fmt.m_range(4, 16) == "4 ≤ M ≤ 16"
    assert fmt.m_range(8, 8) == "M = 8"
    assert fmt.m_range(None, None) == "every M"


def test_header_says_which_way_the_ratio_goes():
    assert fmt.ratio_header("dequant_blas", "simt_4bit") == "dequant_blas ÷ simt_4bit (time), > 1: simt_4bit is faster"


def test_sets_of_sizes():
    assert fmt.sizes([1, 2, 4, 8, 16, 32]) == "1, 2, 4, …, 32"
    assert fmt.sizes([8, 1]) == "1, 8"
    assert fmt.sizes([1, 2, 4, 8, 16, 33]) == "1, 2, 4, 8, 16, 33"


def test_what_telemetry_says():
    assert [fmt.clock(1.98e9), fmt.clock(345e6), fmt.clock(0.9996e9)] == ["1.980 GHz", "345 MHz", "1.000 GHz"]
    assert [fmt.temperature(61.4), fmt.temperature(-3.0), fmt.power(697.6)] == ["61 °C", "−3 °C", "698 W"]
    assert [fmt.clock(None), fmt.temperature(math.nan), fmt.power(None)] == ["", "", ""]


def test_sizes_in_bytes():
    assert fmt.bytes_size(62914560) == "60 MiB"
    assert fmt.bytes_size(16 << 30) == "16 GiB"
    assert fmt.bytes_size(None) == ""


def test_tick_labels():
    assert [fmt.tick_time(value) for value in (5e-7, 1e-6, 2e-5, 1e-3, 0.5, 10)] == [
        "500 ns",
        "1 µs",
        "20 µs",
        "1 ms",
        "500 ms",
        "10 s",
    ]
    assert [fmt.tick_flops(value) for value in (1e10, 1e12, 1e15)] == ["10 GFLOPS", "1 TFLOPS", "1000 TFLOPS"]
    assert [fmt.tick_ratio(value) for value in (0.125, 1, 4)] == ["1/8×", "1×", "4×"]


@given(st.floats(1e-9, 1e9), st.integers(2, 5))
def test_significant_digits_are_right_and_as_many_as_asked(value, digits):
    text = fmt.significant(value, digits)
    assert float(text) == pytest.approx(value, rel=0.5001 * 10 ** (1 - digits))
    assert "e" not in text
    assert len(text.replace(".", "").lstrip("0")) in {digits, *range(digits, 11)}
    if "." in text:
        assert len(text.replace(".", "").lstrip("0")) == digits


@given(st.floats(1e-9, 1e3))
def test_a_shown_time_is_within_half_its_last_digit(seconds):
    number, unit = fmt.time(seconds).split()
    scale = {"µs": 1e-6, "ms": 1e-3, "s": 1}[unit]
    decimals = len(number.split(".")[1])
    assert float(number) * scale == pytest.approx(seconds, abs=0.5001 * scale * 10**-decimals)


def test_a_bound_that_says_nothing_is_not_spelled_out():
    assert fmt.ratio_interval(1.4e-5, 5363062.9) == "unknown"
    assert fmt.ratio_interval(1.4e-5, 3.0) == "[< 0.001×, 3.00×]"
    assert fmt.ratio_interval(5.99, 5363062.9) == "[5.99×, > 1000×]"
    assert fmt.ratio_interval(3.6, 3.69) == "[3.60×, 3.69×]"
    assert fmt.ratio_interval(None, 2.0) == ""


@pytest.mark.parametrize(
    ("what", "value", "text"),
    [
        ("vector", 33.4e12, "33.4 Top/s"),
        ("vector", 512e9, "512.0 Gop/s"),
        ("clock", 1.83e9, "1.830 GHz"),
        ("bandwidth", 4.3e12, "4300.0 GB/s"),
        ("peak", 788e12, "788.0 TFLOPS"),
        ("launch", 2.3e-6, "2.30 µs"),
        ("vector", None, ""),
    ],
)
def test_ceilings_have_the_unit_of_their_kind(what, value, text):
    assert fmt.ceiling(what, value) == text


def test_two_rates_show_their_difference():
    assert fmt.rates_in("TFLOPS", 7.40e12, 7.49e12) == ("7.40", "7.49")
    assert fmt.rates_in("TFLOPS", 10.38e12, 10.44e12) == ("10.38", "10.44")
    assert fmt.rates_in("TFLOPS", 15.0131e12, 15.0101e12) == ("15.013", "15.010")
    assert fmt.rates_in("GFLOPS", 10.4e9, 10.4e9) == ("10.4", "10.4")


@pytest.mark.parametrize(
    "fraction, text",
    [(0.0, "0%"), (-1e-9, "0%"), (0.02, "+2%"), (-0.025, "−2.5%"), (0.5, "+50%"), (-0.1, "−10%"), (120.0, "+12000%")],
)
def test_changes_on_an_axis_are_short(fraction, text):
    assert fmt.tick_change(fraction) == text

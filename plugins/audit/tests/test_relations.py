"""Numbers that follow from others which no header names: a baseline row, the best of several columns, one size."""

import pytest

from .helpers import (
    audited,
    found,
    lines,
    table,
)


def lines_of(text, rule, *device):
    return lines(audited(text, *device), rule)


@pytest.mark.parametrize(
    ("header", "rows"),
    [
        # 400 / 100 tokens per second, 10 / 2.5 ms
        (
            "engine | tok/s | vs. eager",
            ["eager | 100.0 | 1.00x", "a | 250.0 | 2.50x", "c | 50 | 0.50x", "b | 400.0 | {}x"],
        ),
        (
            "engine | latency (ms) | speedup",
            ["eager | 10.00 | 1.00x", "a | 4.00 | 2.50x", "c | 20.0 | 0.50x", "b | 2.50 | {}x"],
        ),
        ("engine | GB/s | % of copy", ["copy | 1000 | 100%", "a | 2500 | 250%", "c | 500 | 50%", "b | 4000 | {}00%"]),
        (
            "engine | ms | slowdown ratio",
            ["eager | 4.00 | 1.00x", "a | 10.00 | 2.50x", "c | 8 | 2.00x", "b | 16.0 | {}x"],
        ),
    ],
)
def test_ratios_to_a_baseline_row(header, rows):
    text = table(header, *rows)
    assert not audited(text.format("4")).findings
    assert lines_of(text.format("6"), "does-not-follow") == [2 + len(rows)]


def test_a_row_may_say_that_it_is_the_baseline():
    rows = ["ours | ~36 | 3.3x faster", "wgpu | ~30 | 2.7x faster", "cuBLAS | ~11 | baseline", "CPU | ~3 | {}x"]
    assert not audited(table("backend | tok/s | vs cuBLAS", *rows).format("0.3")).findings
    assert lines_of(table("backend | tok/s | vs cuBLAS", *rows).format("0.8"), "does-not-follow") == [6]
    rows = ["flat | 11210ns | 9740ns | {}%", "thread | 9725ns | 8678ns | -25.74%", "wire | 13096ns | 11242ns | base"]
    assert not audited(table("variant | mean | best 20% | Δ mean", *rows).format("-14.40")).findings
    assert lines_of(table("variant | mean | best 20% | Δ mean", *rows).format("-41.40"), "does-not-follow") == [3]


def test_sides_of_an_arrow():
    """From v1 to v2 the time falls from 4 to 1 ms: a speedup of 4, and not of 0.25."""
    rows = ["512 | 512 | 512 | 4.000 | 1.000 | {}", "512 | 512 | 512 | 8.100 | 4.000 | {}"]
    for header in ("speedup_v1_to_v2", "v1 -> v2 speedup", "v1→v2 speedup"):
        text = table(f"M | N | K | v1_ms | v2_ms | {header}", *rows)
        assert not found(audited(text.format("4.00", "2.02")), "ratio-label")
        assert lines_of(text.format("0.250", "0.494"), "ratio-label") == [3]


def test_a_ratio_to_the_best_of_the_others():
    rows = [
        "16 | 200.0 | 120.0 | 190.0 | 0.60x",
        "64 | 210.0 | 110.0 | 200.0 | 0.52x",
        "256 | 400.0 | 500.0 | 410.0 | 1.02x",
        "1024 | 900.0 | 990.0 | 920.0 | 1.02x",
        "4096 | 3600.0 | 4200.0 | 3960.0 | {}x",
    ]
    text = table("rows | torch | triton | cutlass | ratio", *rows)
    assert not audited(text.format("1.10")).findings
    assert lines_of(text.format("1.17"), "does-not-follow") == [7]


def test_how_many_digits_tell_a_copy():
    """Two times of four digits; one of 13; two of three digits are what rounding makes equal."""
    text = table("case | a us | b us", "x | {0} | {1}", "y | {0} | {1}", "z | 5.112 | 6.743")
    assert lines_of(text.format("4.618", "6.741"), "copied-numbers") == [4]
    assert not audited(text.format("4.61", "6.74")).findings
    text = table("case | seconds | note", "x | {} | a", "y | 1.382240005768e-05 | b", "z | 1.2e-05 | c")
    assert lines_of(text.format("1.382240005768e-05"), "copied-numbers") == [4]
    assert not audited(text.format("1.382240005769e-05")).findings


@pytest.mark.parametrize("unit", ["img/s", "K tok/s", "M paths/sec", " ops/second"])
def test_things_per_second(unit):
    text = table(
        "gpus | rate | speedup", f"1 | 5.10{unit} | 1.0x", f"4 | 37.0{unit} | {{}}x", f"8 | 63.0{unit} | 12.4x"
    )
    assert not audited(text.format("7.3")).findings
    assert lines_of(text.format("9.3"), "does-not-follow") == [4]


def test_numbers_that_two_columns_share():
    rows = [f"{size} MB | {speed} GB/s | {speed} GB/s" for size, speed in ((1, 73.97), (4, 296.36), (16, 643.02))]
    text = table("size | read | write", *rows, "64 MB | 376.08 GB/s | {} GB/s")
    assert lines_of(text.format("376.08"), "copied-numbers") == [3]
    assert not audited(text.format("377.00")).findings


def test_a_ratio_against_the_column_that_its_header_names():
    rows = ["1 | 32.5 | 28.5 | 45.2 | 1.59x", "2 | 33.9 | 28.6 | 24.6 | 0.86x", "3 | 85.1 | 62.0 | 98.5 | {}x"]
    for header in ("vs cuBLAS", "speedup over cuBLAS", "tuned vs. cuBLAS"):
        text = table(f"M | naive (us) | tuned (us) | cuBLAS (us) | {header}", *rows)
        assert not audited(text.format("1.59")).findings
        assert lines_of(text.format("1.39"), "does-not-follow") == [5]


def test_a_quotient_that_holds_for_rates_is_not_turned():
    """a/b: times 12.4 and 34.0, rates 53.3 and 19.3."""
    text = table(
        "M | b us | a us | b GB/s | a GB/s | a/b", *(f"{m} | 34.0 | 12.4 | 19.3 | 53.3 | {{0}}x" for m in (1, 2))
    )
    assert not audited(text.format("2.76")).findings
    assert not audited(text.format("0.365")).findings
    assert lines_of(text.format("2.16"), "does-not-follow") == [3, 4]


def test_bandwidth_follows_from_bytes_and_time():
    """117 MB in 1128 us are 103.7 GB/s, 117 MiB 108.8 GB/s."""
    text = table("kernel | size | time | read", "a | 117 MB | 1128 µs | {} GB/s", "b | 469 MB | 2450 µs | 191 GB/s")
    assert not audited(text.format("104")).findings
    assert not audited(text.format("109")).findings
    assert lines_of(text.format("102"), "does-not-follow") == [3]
    text = table("kernel | MB | a us | b us | a GB/s | b GB/s", "x | 42.5 | 36.0 | 18.2 | {} | 2328.3")
    assert lines_of(text.format("1178") + "| y | 10.6 | 33.7 | 12.4 | 314.9 | 853.4 |\n", "does-not-follow") == []
    assert lines_of(text.format("1278") + "| y | 10.6 | 33.7 | 12.4 | 314.9 | 853.4 |\n", "does-not-follow") == [3]


def test_one_measurement_under_two_names():
    rows = [
        "square | 4096 | 4096 | 36.0 | 18.2",
        "tall | 8192 | 1024 | 36.0 | 18.2",
        "o_proj | 4096 | 4096 | {} | 18.2",
    ]
    text = table("shape | M | N | a us | b us", *rows)
    assert lines_of(text.format("36.0"), "copied-numbers") == [5]
    assert not audited(text.format("36.4")).findings


def test_a_rate_follows_from_times_whose_header_also_names_the_type():
    header = "M | N | K | lib BF16 | lib TFLOPS"
    rows = [
        f"{m} | 4096 | 4096 | {m / 4:.2f} us | {2 * m * 4096**2 / (m / 4 * 1e-6) / 1e12:.2f}" for m in (64, 256, 1024)
    ]
    text = table(header, *rows, "4096 | 4096 | 4096 | 1024.00 us | {}")
    assert not audited(text.format("134.22")).findings
    assert lines_of(text.format("143.22"), "does-not-follow") == [6]

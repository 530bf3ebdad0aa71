"""Numbers that follow from others which no header names: a baseline row, the best of several columns, one size."""

import pytest

from .helpers import audited, check_gap, found, lines, table


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
    check_gap(text, "4", "6", 2 + len(rows))


def test_a_row_may_say_that_it_is_the_baseline():
    rows = ["ours | ~36 | 3.3x faster", "wgpu | ~30 | 2.7x faster", "cuBLAS | ~11 | baseline", "CPU | ~3 | {}x"]
    check_gap(table("backend | tok/s | vs cuBLAS", *rows), "0.3", "0.8", 6)
    rows = ["flat | 11210ns | 9740ns | {}%", "thread | 9725ns | 8678ns | -25.74%", "wire | 13096ns | 11242ns | base"]
    check_gap(table("variant | mean | best 20% | Δ mean", *rows), "-14.40", "-41.40", 3)


def test_sides_of_an_arrow():
    """From v1 to v2 the time falls from 4 to 1 ms: a speedup of 4, and not of 0.25."""
    rows = ["512 | 512 | 512 | 4.000 | 1.000 | {}", "512 | 512 | 512 | 8.100 | 4.000 | {}"]
    for header in ("speedup_v1_to_v2", "v1 -> v2 speedup", "v1→v2 speedup"):
        text = table(f"M | N | K | v1_ms | v2_ms | {header}", *rows)
        assert not found(audited(text.format("4.00", "2.02")), "ratio-label")
        assert lines(audited(text.format("0.250", "0.494")), "ratio-label") == [3]


def test_a_ratio_to_the_best_of_the_others():
    rows = [
        "16 | 200.0 | 120.0 | 190.0 | 0.60x",
        "64 | 210.0 | 110.0 | 200.0 | 0.52x",
        "256 | 400.0 | 500.0 | 410.0 | 1.02x",
        "1024 | 900.0 | 990.0 | 920.0 | 1.02x",
        "4096 | 3600.0 | 4200.0 | 3960.0 | {}x",
    ]
    text = table("rows | torch | triton | cutlass | ratio", *rows)
    check_gap(text, "1.10", "1.17", 7)


def test_how_many_digits_tell_a_copy():
    """Two times of four digits; one of 13; two of three digits are what rounding makes equal."""
    text = table("case | a us | b us", "x | {0} | {1}", "y | {0} | {1}", "z | 5.112 | 6.743")
    assert lines(audited(text.format("4.618", "6.741")), "copied-numbers") == [4]
    assert not audited(text.format("4.61", "6.74")).findings
    text = table("case | seconds | note", "x | {} | a", "y | 1.382240005768e-05 | b", "z | 1.2e-05 | c")
    check_gap(text, "1.382240005769e-05", "1.382240005768e-05", 4, rule="copied-numbers")


@pytest.mark.parametrize("unit", ["img/s", "K tok/s", "M paths/sec", " ops/second"])
def test_things_per_second(unit):
    text = table(
        "gpus | rate | speedup", f"1 | 5.10{unit} | 1.0x", f"4 | 37.0{unit} | {{}}x", f"8 | 63.0{unit} | 12.4x"
    )
    check_gap(text, "7.3", "9.3", 4)


def test_numbers_that_two_columns_share():
    rows = [f"{size} MB | {speed} GB/s | {speed} GB/s" for size, speed in ((1, 73.97), (4, 296.36), (16, 643.02))]
    text = table("size | read | write", *rows, "64 MB | 376.08 GB/s | {} GB/s")
    check_gap(text, "377.00", "376.08", 3, rule="copied-numbers")


def test_a_ratio_against_the_column_that_its_header_names():
    rows = ["1 | 32.5 | 28.5 | 45.2 | 1.59x", "2 | 33.9 | 28.6 | 24.6 | 0.86x", "3 | 85.1 | 62.0 | 98.5 | {}x"]
    for header in ("vs cuBLAS", "speedup over cuBLAS", "tuned vs. cuBLAS"):
        text = table(f"M | naive (us) | tuned (us) | cuBLAS (us) | {header}", *rows)
        check_gap(text, "1.59", "1.39", 5)


def test_a_quotient_that_holds_for_rates_is_not_turned():
    """a/b: times 12.4 and 34.0, rates 53.3 and 19.3."""
    text = table(
        "M | b us | a us | b GB/s | a GB/s | a/b", *(f"{m} | 34.0 | 12.4 | 19.3 | 53.3 | {{0}}x" for m in (1, 2))
    )
    assert not audited(text.format("2.76")).findings
    check_gap(text, "0.365", "2.16", 3, 4)


def test_bandwidth_follows_from_bytes_and_time():
    """117 MB in 1128 us are 103.7 GB/s, 117 MiB 108.8 GB/s."""
    text = table("kernel | size | time | read", "a | 117 MB | 1128 µs | {} GB/s", "b | 469 MB | 2450 µs | 191 GB/s")
    assert not audited(text.format("104")).findings
    check_gap(text, "109", "102", 3)
    rows = ["x | 42.5 | 36.0 | 18.2 | {} | 2328.3", "y | 10.6 | 33.7 | 12.4 | 314.9 | 853.4"]
    check_gap(table("kernel | MB | a us | b us | a GB/s | b GB/s", *rows), "1178", "1278", 3)


def test_one_measurement_under_two_names():
    rows = [
        "square | 4096 | 4096 | 36.0 | 18.2",
        "tall | 8192 | 1024 | 36.0 | 18.2",
        "o_proj | 4096 | 4096 | {} | 18.2",
    ]
    text = table("shape | M | N | a us | b us", *rows)
    check_gap(text, "36.4", "36.0", 5, rule="copied-numbers")


def test_a_rate_follows_from_times_whose_header_also_names_the_type():
    header = "M | N | K | lib BF16 | lib TFLOPS"
    rows = [
        f"{m} | 4096 | 4096 | {m / 4:.2f} us | {2 * m * 4096**2 / (m / 4 * 1e-6) / 1e12:.2f}" for m in (64, 256, 1024)
    ]
    text = table(header, *rows, "4096 | 4096 | 4096 | 1024.00 us | {}")
    check_gap(text, "134.22", "143.22", 6)

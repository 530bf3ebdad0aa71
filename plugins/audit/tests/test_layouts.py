"""Layouts with several numbers in a cell, a line or a header: each is read as plain columns would be."""

import pytest
from rooflens.plugins.audit.reading.annotated_table import ColumnRole

from .helpers import audited, found, lines, table


def test_a_ratio_in_parentheses_is_of_its_cell_and_of_the_row_without_one():
    rows = ("a | 40.0 us", "b | 20.0 us (2.00x)", "c | {} us (4.00x)", "d | 80.0 us (0.50x)")
    right = audited(table("kernel | latency", *rows).format("10.0"))
    assert [column.role for column in right.sheets[0].columns] == [ColumnRole.LABEL, ColumnRole.TIME, ColumnRole.RATIO]
    assert not right.findings
    assert lines(audited(table("kernel | latency", *rows).format("11.0")), "does-not-follow") == [5]


def test_a_ratio_beside_the_name_of_the_winner():
    rows = (
        "1 | 10.0 | 20.0 | A (2.00x)",
        "2 | 30.0 | 20.0 | B (1.50x)",
        "4 | 20.0 | 50.0 | A ({}x)",
        "8 | 12.0 | 15.0 | A (1.25x)",
        "16 | 9.0 | 9.0 | tie",
    )
    text = table("M | A (us) | B (us) | best", *rows)
    assert not audited(text.format("2.50")).findings
    assert lines(audited(text.format("2.05")), "does-not-follow") == [5]


def test_a_share_of_the_peak_beside_its_rate():
    text = table("M | TFLOPS", "1 | 494.5 (50%)", "2 | 692.3 (70%)", "4 | 791.2 ({}%)")
    assert not audited(text.format(80), "H100 SXM", dtype="bf16").findings
    assert lines(audited(text.format(60), "H100 SXM", dtype="bf16"), "percent-of-peak") == [5]


def test_numbers_between_slashes_have_the_names_between_slashes():
    (sheet,) = audited(table("M | time (p10/p50)", "1 | 4.5 / 5.5 us", "2 | 6.5 / 7.5 us")).sheets
    assert [(one.name, one.role, one.unit) for one in sheet.columns[1:]] == [
        ("time p10", ColumnRole.TIME, 1e-6),
        ("time p50", ColumnRole.TIME, 1e-6),
    ]


def test_how_much_a_number_varies_is_no_second_quantity():
    (sheet,) = audited(table("M | us", "1 | 4.5 (±1.5%)", "2 | 6.5 (±2.5%)")).sheets
    assert len(sheet.columns) == 2


def test_a_second_row_of_headers():
    text = table(
        " | H100 | | H200 | ", "M | a (us) | b (us) | a (us) | b (us)", "1 | 2.5 | 3.5 | 4.5 | 5.5", "2 | 3 | 4 | 5 | 6"
    )
    (sheet,) = audited(text).sheets
    assert [one.name for one in sheet.columns] == ["M", "H100 a (us)", "H100 b (us)", "H200 a (us)", "H200 b (us)"]
    assert sheet.line(0) == 4


@pytest.mark.parametrize("text", ["All times in microseconds.", "### Latency (us), bf16", "Results are in µs"])
def test_a_unit_that_stands_above_the_table(text):
    (sheet,) = audited(f"{text}\n\n" + table("M | cublas | ours", "1 | 4.5 | 5.5", "2 | 6.5 | 7.5")).sheets
    assert [(one.role, one.unit) for one in sheet.columns[1:]] == [(ColumnRole.TIME, 1e-6)] * 2


def test_sizes_as_headers():
    text = table("kernel | 1 | 16 | 256", "a | 4.5 | 5.5 | 6.5", "b | 2.5 | 3.5 | 4.5")
    (sheet,) = audited("### Latency (us), N=1024, K=2048\n\n" + text).sheets
    assert [sheet.sizes(0, one) for one in sheet.columns[1:]] == [{"M": M, "N": 1024, "K": 2048} for M in (1, 16, 256)]


def test_a_row_for_each_quantity():
    rows = (
        "old (us) | 10.0 | 12.0 | 20.0 | 30.0",
        "new (us) | 5.0 | 8.0 | 10.0 | 20.0",
        "speedup | 2.00x | {}x | 2.00x | 1.50x",
    )
    text = table(" | M=1 | M=16 | M=64 | M=256", *rows)
    assert not audited(text.format("1.50")).findings
    assert lines(audited(text.format("1.90")), "does-not-follow") == [5]


@pytest.mark.parametrize(
    ("header", "label", "sizes"),
    [
        ("shape", "qkv 16x4096x7168", {"M": 16, "N": 4096, "K": 7168}),
        ("layer (N x K)", "qkv 4096 x 7168", {"N": 4096, "K": 7168}),
        ("case", "m16n4096k7168", {"M": 16, "N": 4096, "K": 7168}),
        ("case", "M16-N4096-K7168 fp8", {"M": 16, "N": 4096, "K": 7168}),
        ("case", "bs=16 seq=2 4096→7168", {"M": 32, "K": 4096, "N": 7168}),
        ("kernel", "mma m16n8k16", {}),
        ("kernel", "tile 128x128x64", {}),
        ("shape", "qkv 4096x7168 of 16x4096", {}),
    ],
)
def test_sizes_in_labels(header, label, sizes):
    (sheet,) = audited(table(f"{header} | us", f"{label} | 4.5", f"{label} b | 5.5")).sheets
    assert sheet.sizes(0) == sizes


def test_copies_of_other_work_are_told_by_their_rates():
    rows = ("1 | 4096 | 99 | 1264", "1 | 7168 | 53 | 1180", "4 | 4096 | 99 | 1264")
    assert lines(audited(table("M | N | us | TFLOPS", *rows)), "copied-numbers") == []
    rows = ("1 | 4096 | 9.95 | 1264.5", "1 | 7168 | 53.1 | 1180.4", "4 | 4096 | 9.95 | 1264.5")
    assert lines(audited(table("M | N | us | TFLOPS", *rows)), "copied-numbers") == [5]


def test_a_peak_with_sparsity_that_a_claim_calls_dense():
    (wrong,) = audited("", "H100 SXM", claims=["The dense fp8 peak is 3958 TFLOPS."]).findings
    assert wrong.rule == "percent-of-peak"
    rights = ["The dense fp8 peak is 1979 TFLOPS.", "The fp8 peak with sparsity is 3958 TFLOPS."]
    assert not audited("", "H100 SXM", claims=rights).findings


def test_numbers_around_an_arrow():
    rows = ("a | 10.0 → 5.0 | 2.00x", "b | 12.0 → 8.0 | {}x", "c | 20.0 → 10.0 | 2.00x", "d | 30.0 → 20.0 | 1.50x")
    text = table("kernel | us | speedup", *rows)
    assert not audited(text.format("1.50")).findings
    assert lines(audited(text.format("1.90")), "does-not-follow") == [4]


def test_headers_with_remarks_above_a_frame():
    header = "    batch_size  torch (TFLOP/s (larger is better))  ours (TFLOP/s (larger is better))"
    (sheet,) = audited(
        f"{header}\n0          1.0    2.870333     4.733311\n1         16.0   46.541434    71.740831\n"
    ).sheets
    assert [one.role for one in sheet.columns] == [ColumnRole.OTHER, ColumnRole.SIZE, ColumnRole.RATE, ColumnRole.RATE]


def test_a_mean_below_a_plain_table():
    text = "  (B, H, S, D)    tflops\n--------------  --------\n(8, 16, 128, 128)    60.5\n(8, 16, 256, 128)   147.5\n"
    text += "(8, 16, 512, 128)   245.0\n          average   {}\n"
    assert not audited(text.format(151.0)).findings
    assert lines(audited(text.format(115.0)), "counts") == [6]


def test_rates_of_both_passes_lie_between_theirs():
    rows = "A | 300.0 | 240.0 | {}", "B | 76.0 | 108.0 | 96.0"
    text = table("kernel | fwd TFLOPs/s | bwd TFLOPs/s | fwd + bwd TFLOPs/s", *rows)
    assert not audited(text.format("256.0")).findings
    assert lines(audited(text.format("310.0")), "part-above-whole") == [3]


def test_operations_of_a_run():
    rows = ("326 | 3083.09 | 60.13 | 19.50", "744 | 1344.71 | 60.13 | 44.72", "656 | 1528.82 | 60.13 | 39.33")
    text = table("runs | us | GFLOP/run | TFLOPS", *rows, "712 | 1406.18 | 60.13 | 42.76")
    assert not audited(text).findings
    assert lines(audited(text.replace("39.33", "33.93")), "pattern") == [5]


def test_bandwidths_of_operands():
    times = ((1, 19.5), (64, 10.0), (128, 11.5), (256, 13.2), (512, 20.0))
    rates = [(2112 * 7168 + M * 7168 + 2 * M * 2112) / us / 1e3 for M, us in times]
    rows = [f"{M} | 2112 | 7168 | {us} | {rate:.1f}" for (M, us), rate in zip(times, rates, strict=True)]
    assert not audited(table("m | n | k | us | GB/s", *rows)).findings
    rows[2] = f"128 | 2112 | 7168 | 11.5 | {1.2 * rates[2]:.1f}"
    assert lines(audited(table("m | n | k | us | GB/s", *rows)), "does-not-follow") == [5]


def test_bandwidths_in_another_unit():
    text = table("n | k | latency_ms | bandwidth_gbs", "7168 | 16384 | 0.77 | 0.31", "18432 | 7168 | 0.83 | 0.32")
    assert len(found(audited(text), "does-not-follow")) == 1


def test_a_percentage_that_is_a_fraction():
    text = table("S | new_mean | base_mean | speedup_percent", "1 | 0.031 | 0.044 | 0.302", "4 | 0.030 | 0.042 | 0.283")
    assert not found(audited(text), "ratio-label")
    more = text + "| 8 | 0.030 | 0.045 | 0.333 |\n"
    assert len(found(audited(more), "ratio-label")) == 1

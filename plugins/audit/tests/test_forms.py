"""Forms that tables in real pull requests have: summaries, units in cells, remarks, ratios of named columns."""

import pytest
from rooflens.plugins.audit.reading.annotated_table import ColumnRole
from rooflens.plugins.audit.reading.assumptions import find_device
from rooflens.plugins.audit.reading.document import read_document
from rooflens.plugins.audit.reading.printed import read_printed
from rooflens.plugins.audit.reading.words import summary_in, words_of
from rooflens.shapes.errors import UsageError
from rooflens.shapes.problem import Op

from .helpers import audited, rules, table


@pytest.mark.parametrize(
    "name, statistic",
    [
        ("mean", "mean"),
        ("**Geomean**", "gmean"),
        ("Geometric mean", "gmean"),
        ("Geo mean (18 shapes)", "gmean"),
        ("Arithmetic mean", "mean"),
        ("Avg speedup", "mean"),
        ("Total", "sum"),
        ("Median of 12", "median"),
        ("Mean TTFT (ms)", ""),
        ("Total token throughput (tok/s)", ""),
        ("Peak max", ""),
        ("min max", ""),
        ("llama", ""),
    ],
)
def test_rows_that_sum_up_by_their_names(name, statistic):
    assert summary_in(words_of(name.strip("*"))) == statistic


@pytest.mark.parametrize("sizes", ["8192^3", "M=N=K=8192", "m=n=k=8192", "8192x8192x8192", "8192 × 8192 × 8192"])
def test_sizes_of_a_title_hold_for_all_its_rows(sizes):
    """2 * 8192^3 FLOP in 1.500 ms are 733.0 TFLOPS; in 1.600 ms 687.2, and not 787.2."""
    text = table("kernel | time (ms) | TFLOPS", "ours | 1.500 | 733.0", "cuBLAS | 1.600 | {}")
    assert rules(audited(f"# Dense GEMM, {sizes}, bf16\n\n{text.format('687.2')}")) == set()
    assert rules(audited(f"# Dense GEMM, {sizes}, bf16\n\n{text.format('787.2')}")) == {"does-not-follow"}


SPEEDUPS = ("a | 100.0 | 50.0 | 2.000", "b | 100.0 | 25.0 | 4.000", "c | 100.0 | 80.0 | 1.250")
"""Geometric mean 10^(1/3) = 2.154, mean 2.417."""


@pytest.mark.parametrize(
    "last, is_right",
    [
        ("Geometric mean | | | 2.154", True),
        ("Geometric mean | | | 2.417", False),
        ("Mean | | | 2.417", True),
        ("Mean | | | 2.154", False),
    ],
)
def test_both_means_are_told_apart(last, is_right):
    result = audited(table("case | old us | new us | speedup", *SPEEDUPS, last))
    assert rules(result) == (set() if is_right else {"counts"})


def test_a_summary_of_a_group_is_of_its_group():
    group = "b | 1 | 100.0 | 80.0 | 1.25", "b | 2 | 100.0 | 90.0 | 1.11"
    rows = ["a | 1 | 100.0 | 50.0 | 2.00", "a | 2 | 100.0 | 40.0 | 2.50", "geomean | | | | 2.24", *group]
    header = "model | M | old us | new us | speedup"
    assert not audited(table(header, *rows, "geomean | | | | 1.18")).findings
    (wrong,) = audited(table(header, *rows, "geomean | | | | 1.48")).findings
    assert (wrong.rule, wrong.line) == ("counts", 8)
    assert "2 rows above" in wrong.message
    assert not audited(table(header, *rows, "geomean | | | | 1.62")).findings  # of all four


def test_rows_of_a_statistic_of_something_are_rows():
    rows = [
        *("Request throughput (req/s) | 5.00 | 5.50 | +10.0%", "Requests | 100 | 100 | 0.0%"),
        "Mean TTFT (ms) | 304.97 | 258.76 | -15.2%",
        *("Median TTFT (ms) | 124.20 | 161.44 | +30.0%", "Mean TPOT (ms) | 16.94 | 16.39 | -3.2%"),
    ]
    result = audited(table("Metric | Before | After | Change", *rows))
    assert (result.rows, result.findings) == (5, ())
    rows[4] = "Mean TPOT (ms) | 16.94 | 16.39 | -5.2%"
    (wrong,) = audited(table("Metric | Before | After | Change", *rows)).findings
    assert (wrong.rule, wrong.line) == ("does-not-follow", 7)


def test_the_unit_of_a_cell_goes_before_that_of_its_header():
    flops = 2 * 1024 * 4096 * 4096
    row = f"1024 | 4096 | 4096 | 60.1 us | {flops / 60.1e-6 / 1e12:.0f}"
    result = audited(table("M | N | K | time (ms) | TFLOPS | run", f"{row} | a", f"{row} | b"), "H200", dtype="bf16")
    assert not result.findings
    assert result.sheets[0].columns[3].unit == pytest.approx(1e-6)


def test_cells_of_several_units_have_their_own_steps():
    rows = ["1 | 4096 | 4096 | 30.1us | 11.2us | 2.69x", "8 | 4096 | 4096 | 0.21ms | 27.1us | 7.75x"]
    result = audited(table("M | N | K | torch | ours | speedup", *rows))
    assert not result.findings
    times = result.sheets[0].columns[3]
    assert [times.span(row) for row in (0, 1)] == [pytest.approx((30.05, 30.15)), pytest.approx((205, 215))]
    assert times.unit == 1e-6
    rows[1] = "8 | 4096 | 4096 | 0.21ms | 27.1us | 5.75x"
    assert rules(audited(table("M | N | K | torch | ours | speedup", *rows))) == {"does-not-follow"}


def test_a_bandwidth_in_terabytes_below_a_header_without_a_unit():
    rows = ["a | 2.65 TB/s", "b | 5.90 TB/s"]
    (fast,) = audited(table("kernel | bandwidth", *rows), "H200").findings
    assert (fast.rule, fast.line) == ("above-bandwidth", 4)
    assert fast.evidence["bytes_per_s"] == pytest.approx(5.895e12)


@pytest.mark.parametrize(
    "text, value, unit",
    [
        ("80.0 ± 0.2", 80.0, ""),
        ("80.0±0.2 us", 80.0, "us"),
        ("80.0 us +/- 1.5 us", 80.0, "us"),
        ("0.995 (same)", 0.995, ""),
        ("1.55x (1.11x - 2.54x)", 1.55, "x"),
    ],
)
def test_a_number_with_its_spread_or_a_remark(text, value, unit):
    printed = read_printed(text)
    assert (printed.value, printed.unit) == (value, unit)


@pytest.mark.parametrize("text", ["80.0 → 64.0", "(4096)", "4 (a) b", "80 ± ?", "1 - 2", "3 (4"])
def test_what_holds_several_numbers_is_none(text):
    assert read_printed(text) is None


@pytest.mark.parametrize("cell", ["1e400us", "1e-400 ms", "9" * 400 + "us", "1" + " " * 30_000 + "x y", "0us", "-3ms"])
def test_odd_numbers_in_cells_of_several_units_are_no_crash(cell):
    rows = ["1 | 4096 | 4096 | 30.1us | 11.2us | 2.69x", f"8 | 4096 | 4096 | 0.21ms | {cell} | 7.75x"]
    assert audited(table("M | N | K | torch | ours | speedup", *rows), "H200").rows == 2


def test_summaries_without_a_number_above_zero_are_no_crash():
    rows = ["a | 3 | 2 | 1.5", "b | 4 | 2 | 2.0", "mean | 0.0 | −0.5 | 1.75", "geomean | -3 | 0 | 9"]
    assert audited(table("case | old us | new us | speedup", *rows)).rows == 2


def test_numbers_beyond_all_measurement_are_none():
    rows = ["4096 | 4096 | 4096 | 1e-400 | 50% | 1e308", "4096 | 4096 | 8192 | 1e-308 | 50% | 1e308"]
    assert not audited(table("M | N | K | TFLOPS | MFU | fwd ms", *rows, "mean | | | | | 5"), "H200").findings


def test_cells_that_are_no_number_are_counted():
    columns = audited("M;N;K;time_us;TFLOPS\n7k;4096;4096;60,1;571\n5k;4096;4096;OOM;625\n").sheets[0].columns
    assert [column.unread for column in columns] == [2, 0, 0, 1, 0]


def test_a_ratio_of_two_columns_that_it_names_needs_no_units():
    header = "Layer | M | N | K | Triton | GMM | Autotune | Autotune/GMM"
    rows = [
        "a | 2048 | 4096 | 7168 | 1271 | 1063 | 1279 | 1.203x",
        "b | 2048 | 7168 | 2048 | 1092 | 1219 | 1185 | 0.972x",
    ]
    assert not audited(table(header, *rows)).findings
    (wrong,) = audited(table(header, *rows, "c | 2048 | 7168 | 512 | 1136 | 1202 | 1182 | 1.043x")).findings
    assert (wrong.rule, wrong.line) == ("does-not-follow", 5)


@pytest.mark.parametrize(
    "name, role",
    [
        ("MFU", "share of peak"),
        ("% of peak", "share of peak"),
        ("efficiency (%)", "share of peak"),
        ("efficiency (% of cuBLAS)", "change"),
        ("efficiency vs cuBLAS %", "change"),
        ("GPU utilization (%)", "change"),
    ],
)
def test_an_efficiency_is_of_a_peak_unless_it_says_of_what(name, role):
    header, row = f"M | N | K | TFLOPS | {name}", "4096 | 4096 | 4096 | 650.2 | 92.9%"
    result = audited(table(header, row, f"2048{row[4:]}"), "H200", dtype="bf16")
    assert str(result.sheets[0].columns[4].role) == role
    assert rules(result) == ({"percent-of-peak"} if role == "share of peak" else set())


@pytest.mark.parametrize("name", ["% peak BW", "HBM bandwidth (% of peak)", "% of peak memory bandwidth"])
def test_a_share_of_the_bandwidth_is_no_share_of_the_peak_of_flops(name):
    header, row = f"M | N | K | us | TFLOPS | GB/s | {name}", "1 | 8192 | 8192 | 12.0 | 11.2 | 2796 | 58%"
    assert not audited(table(header, row), "H200", dtype="bf16").findings


@pytest.mark.parametrize("name", ["H20", "B20", "A10", "MI35"])
def test_the_beginning_of_a_number_names_no_device(name):
    with pytest.raises(UsageError, match="did you mean"):
        find_device(name)


def test_operands_larger_than_the_last_cache_do_not_fit_into_it():
    def reason(us, n):
        (fast,) = audited(table("M | N | K | us", f"1 | {n} | 8192 | {us}"), "H200", dtype="bf16").findings
        return str(fast.severity), fast.message.rpartition("; ")[2].split(":")[0]

    # 4 bits per weight against 4.8 TB/s and 60 MiB
    assert reason("2.00", 8192) == ("misleading", "its operands fit into the last cache")
    assert reason("40.00", 57344) == ("misleading", "part of its operands would have to lie in the last cache")
    assert reason("30.00", 57344) == ("impossible", "even with the whole last cache full of operands")


def test_a_line_of_marks_is_no_title():
    body = table("M | N | K | TFLOPS", "16 | 4096 | 4096 | 1.5", "32 | 4096 | 4096 | 2.5")
    text = f"Forward pass\n====================\n{body}"
    assert audited(text).sheets[0].titled.title == "Forward pass"


def test_experts_without_a_row_are_not_read():
    """One token of 8 of 128 experts reads 8 weights: 16 times less than all, which no time here allows."""
    weights = 8 * 1408 * 2816 / 2
    header, row = "M | E | top_k | N | K | us", f"1 | 128 | 8 | 1408 | 2816 | {weights / 4.0e12 * 1e6:.2f}"
    assert not audited(table(header, row), "H200", op=Op.MOE_GEMM, dtype="bf16").findings
    fast = f"1 | 128 | 8 | 1408 | 2816 | {weights / 9.6e12 * 1e6:.2f}"
    (finding,) = audited(table(header, fast), "H200", op=Op.MOE_GEMM, dtype="bf16").findings
    assert finding.rule == "above-bandwidth"
    assert 1.9 < finding.evidence["bytes_per_s"] / 4.8e12 < 2.1


@pytest.mark.parametrize(
    "cell, rate",
    [
        ("**1747** GB/s", 1747e9),
        ("__1747__", 1747e9),
        ("<b>1747</b> GB/s", 1747e9),
        ("`1747` GB/s", 1747e9),
        ("[1747 GB/s](run.log)", 1747e9),
        ("1.7k", 1700e9),
        ("1.7 TB/s", 1.7e12),
    ],
)
def test_emphasis_links_and_thousands_in_a_cell(cell, rate):
    (column,) = audited(f"| case | bw |\n|-|-|\n| a | {cell} |\n").sheets[0].of(ColumnRole.BANDWIDTH)
    assert column.cells[0].value * column.unit == pytest.approx(rate)


@pytest.mark.parametrize("header", ["TF", "TF/s", "TFLOP/s", "tflops", "New (TF)"])
@pytest.mark.parametrize("cell", ["650.5", "650.5 TF", "650.5 TF/s", "650500 GF/s", "0.6505 PFLOP/s"])
def test_spellings_of_rates(header, cell):
    (column,) = audited(f"| case | {header} |\n|-|-|\n| a | {cell} |\n").sheets[0].of(ColumnRole.RATE)
    assert column.cells[0].value * column.unit == pytest.approx(650.5e12)


def test_a_framework_with_a_unit_of_time_is_no_rate():
    (sheet,) = audited("| case | TF (ms) |\n|-|-|\n| a | 6.5 |\n").sheets
    assert sheet.columns[1].role is ColumnRole.TIME


def test_a_bandwidth_called_bw_is_held_against_the_memory():
    """H200: 4800 GB/s."""
    text = "| case | us | bw |\n|-|-|-|\n| a | 6.5 | 4700 |\n| b | 6.5 | **4900** |\n"
    assert [(one.rule, one.line) for one in audited(text, "H200").findings] == [("above-bandwidth", 4)]


def test_what_a_row_leaves_out_at_its_beginning_stands_above():
    rows = ("| 4096 | 512 | 1 | 5.1 | a |", "| | | 2 | 5.2 | |", "| | 64 | 1 | 3.1 | b |")
    text = "\n".join(("| N | K | M | us | note |", "|-|-|-|-|-|", *rows)) + "\n"
    (sheet,) = audited(text).sheets
    assert [sheet.sizes(row) for row in range(3)] == [
        {"N": 4096, "K": 512, "M": 1},
        {"N": 4096, "K": 512, "M": 2},
        {"N": 4096, "K": 64, "M": 1},
    ]
    assert sheet.titled.table.rows[1][-1] == ""  # only at the beginning


HTML = """\
# Benchmarks

<table border="1">
  <thead>
    <tr><th rowspan="2">N</th><th rowspan="2">M</th><th colspan="2">H200</th></tr>
    <tr><th>old <br/>(us)</th><th><code>new</code> (us)</th></tr>
  </thead>
  <tr><td rowspan=2>4096</td><td>1</td><td>8.0</td><td>4.0</td></tr>
  <tr><td>2</td><td>9.0</td><td><b>4.5</b></td></tr>
  <tr>
    <td>8192</td>
    <td>1</td> <td colspan=2>12.0</td>
  </tr>
</table>

and | a table | below
--- | --- | ---
1 | 2 | 3
"""


def test_html_tables_with_merged_cells():
    table, below = read_document(HTML.encode(), "t.md").tables
    assert table.table.header == ("N", "M", "H200 old (us)", "H200 new (us)")
    assert table.table.rows == (
        ("4096", "1", "8.0", "4.0"),
        ("4096", "2", "9.0", "4.5"),
        ("8192", "1", "12.0", "12.0"),
    )
    assert (table.title, table.line, table.table.lines) == ("Benchmarks", 3, (8, 9, 11))
    assert (below.table.header, below.line) == (("and", "a table", "below"), 16)


@pytest.mark.parametrize("torn", ["<table>", "<table><tr><td>1</td>", "<table></table>", "<table><tr></table>", "<td>"])
def test_html_that_is_no_table(torn):
    with pytest.raises(UsageError, match="has no table with a header"):
        read_document(f"{torn}\nsome prose\n".encode(), "t.md")


def test_columns_that_name_rows_and_those_without_use_are_listed():
    from rooflens.plugins.audit.output import _understood

    (sheet,) = audited("| kernel | M | zig | us |\n|-|-|-|-|\n| a | 1 | 7 | 2.5 |\n").sheets
    assert "names of rows: kernel; not used: zig" in _understood(sheet)


@pytest.mark.parametrize(
    "text",
    [
        "| M | N | K | time (us) |\n|---|---|---|---|\n| 4k | 4k | 4k | {} |\n| 2K | 4k | 4k | {} |\n",
        "| shape | time (us) |\n|---|---|\n| 4k x 4k x 4k | {} |\n| 2k x 4k x 4k | {} |\n",
        "| case | time (us) |\n|---|---|\n| M=4k, N=4k, K=4k | {} |\n| M=2k, N=4k, K=4k | {} |\n",
        "### N=4k, K=4K\n\n| M | time (us) |\n|---|---|\n| 4k | {} |\n| 2k | {} |\n",
        "### K=4k, N=4096\n\n| label | M=4k (us) |\n|---|---|\n| first | {} |\n| second | {} |\n",
    ],
)
def test_k_of_a_size_is_1024(text):
    """At 137.5 us 4096^3 are 999.6 TFLOPS, above the 989.4 of an H100, and 4000^3 would be 930.9."""
    findings = audited(text.format(137.5, 137.5), "H100 SXM", dtype="bf16").findings
    assert "above-peak" in {finding.rule for finding in findings}
    assert not audited(text.format(140.0, 140.0), "H100 SXM", dtype="bf16").findings

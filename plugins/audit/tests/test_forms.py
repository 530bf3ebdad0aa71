"""Forms that tables in real pull requests have: summaries, units in cells, remarks, ratios of named columns."""

import pytest
from rooflens.analysis.imports.columns import ColumnRole
from rooflens.analysis.imports.devices import find_device
from rooflens.analysis.imports.words import is_summary, words_of
from rooflens.shapes.errors import UsageError
from rooflens.shapes.problem import Op

from .helpers import audited, rules, table


@pytest.mark.parametrize(
    "name, sums_up",
    [
        *((name, True) for name in ("mean", "**Geomean**", "Geo mean (18 shapes)", "Avg speedup", "Total")),
        *((name, False) for name in ("Mean TTFT (ms)", "Total token throughput (tok/s)", "min max", "llama")),
    ],
)
def test_rows_that_sum_up_by_their_names(name, sums_up):
    assert is_summary(words_of(name.strip("*"))) is sums_up


@pytest.mark.parametrize("sizes", ["8192^3", "M=N=K=8192", "m=n=k=8192", "8192x8192x8192", "8192 × 8192 × 8192"])
def test_sizes_of_a_title_hold_for_all_its_rows(sizes):
    """2 * 8192^3 FLOP in 1.500 ms are 733.0 TFLOPS; in 1.600 ms 687.2, and not 787.2."""
    text = table("kernel | time (ms) | TFLOPS", "ours | 1.500 | 733.0", "cuBLAS | 1.600 | {}")
    assert rules(audited(f"# Dense GEMM, {sizes}, bf16\n\n{text.format('687.2')}")) == set()
    assert rules(audited(f"# Dense GEMM, {sizes}, bf16\n\n{text.format('787.2')}")) == {"does-not-follow"}


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


def test_a_bandwidth_in_terabytes_below_a_header_without_a_unit():
    rows = ["a | 2.65 TB/s", "b | 5.90 TB/s"]
    (fast,) = audited(table("kernel | bandwidth", *rows), "H200").findings
    assert (fast.rule, fast.line) == ("above-bandwidth", 4)
    assert fast.evidence["bytes_per_s"] == pytest.approx(5.895e12)


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


def test_experts_without_a_row_are_not_read():
    """One token of 8 of 128 experts reads 8 weights: 16 times less than all, which no time here allows."""
    weights = 8 * 1408 * 2816 / 2
    header, row = "M | E | top_k | N | K | us", f"1 | 128 | 8 | 1408 | 2816 | {weights / 4.0e12 * 1e6:.2f}"
    assert not audited(table(header, row), "H200", op=Op.MOE_GEMM, dtype="bf16").findings
    fast = f"1 | 128 | 8 | 1408 | 2816 | {weights / 9.6e12 * 1e6:.2f}"
    (finding,) = audited(table(header, fast), "H200", op=Op.MOE_GEMM, dtype="bf16").findings
    assert finding.rule == "above-bandwidth"
    assert 1.9 < finding.evidence["bytes_per_s"] / 4.8e12 < 2.1


@pytest.mark.parametrize("header", ["TF", "TF/s", "TFLOP/s", "tflops", "New (TF)"])
@pytest.mark.parametrize(
    "cell",
    [
        *("650.5", "650.5 TF", "650.5 TF/s", "650500 GF/s", "0.6505 PFLOP/s", "0.6505k"),
        *("**650.5** TF", "__650.5__", "<b>650.5</b> TF", "`650.5` TF", "[650.5 TF](run.log)"),
    ],
)
def test_spellings_of_rates(header, cell):
    (column,) = audited(f"| case | {header} |\n|-|-|\n| a | {cell} |\n").sheets[0].of(ColumnRole.RATE)
    assert column.cells[0].value * column.unit == pytest.approx(650.5e12)


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

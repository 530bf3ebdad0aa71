"""Single rules in closed form: what each calls wrong, what it leaves alone, and why."""

import numpy as np
import pytest
from rooflens.analysis.imports.consistency import gain_of_reduction, span
from rooflens.plugins.audit.audit import audit
from rooflens.plugins.audit.reading.document import read_document
from rooflens.shapes.problem import Op

from .helpers import audited, found, rules, setting, table


def csv(header, *rows):
    return "\n".join([header, *rows]) + "\n"


def check(text, device="H200", **more):
    return audited(text, device, name="t.csv", **more)


def test_bytes_from_the_cache_are_a_warm_number_and_beyond_it_impossible():
    """H200: 4800 GB/s and 60 MiB of cache. 4096 x 4096 weights of one byte are 16.8 MB, 32768 x 32768 are 1.07 GB."""
    fast = check(csv("M,N,K,us", "1,4096,4096,2.00", "1,32768,32768,100.00"), weight_bits=8)
    small, large = found(fast, "above-bandwidth")
    assert (str(small.severity), str(large.severity)) == ("misleading", "impossible")
    assert small.evidence["bytes_per_s"] == pytest.approx((4096 * 4096 + 4096 + 2 * 4096) / 2e-6)
    assert "8395 GB/s" in small.message
    assert not check(csv("M,N,K,us", "1,4096,4096,4.00", "1,32768,32768,250.00"), weight_bits=8).findings


def test_a_printed_bandwidth_above_the_memory():
    (finding,) = check(csv("M,N,K,GB/s", "1,4096,4096,5200", "2,4096,4096,4000")).findings
    assert (finding.rule, finding.line) == ("above-bandwidth", 2)


def test_printed_rates_above_the_peak_need_no_sizes():
    (finding,) = check(csv("name,TFLOPS,GB/s", "a,990.1,10", "b,989.4,10"), dtype="bf16").findings
    assert (finding.rule, finding.line, finding.row) == ("above-peak", 2, "a")


def test_without_a_type_the_fastest_is_the_roof():
    text = csv("name,TFLOPS,GB/s", "a,1500.0,10")
    assert not check(text).findings
    assert rules(check(text, dtype="bf16")) == {"above-peak"}


def test_the_type_of_a_column_and_of_a_row():
    flops = 2 * 4096**3
    slow, fast, other = (f"{flops / rate * 1e3:.6f}" for rate in (900e12, 1500e12, 1501e12))
    text = csv("M,N,K,FP8 (ms),BF16 (ms)", f"4096,4096,4096,{fast},{fast}")
    assert [finding.message.split(":")[0] for finding in check(text).findings] == ["BF16 (ms)"]
    text = csv(
        "M,N,K,dtype,ms", f"4096,4096,4096,fp8,{fast}", f"4096,4096,4096,bf16,{other}", f"4096,4096,4096,fp16,{slow}"
    )
    assert [finding.line for finding in check(text).findings] == [3]


def test_flat_times_of_a_memory_bound_kernel_are_no_floor():
    """A GEMV at 60 % of the memory's rate takes the same time for 1 and 64 rows."""
    time = 8192 * 8192 / (0.6 * 4800e9)
    Ms = (1, 2, 4, 8, 16, 32, 64)
    rows = [f"{M},8192,8192,{2 * M * 8192 * 8192 / time / 1e12:.4f}" for M in Ms]
    assert not check(csv("M,N,K,TFLOPS", *rows), weight_bits=8).findings
    launch = 12e-6
    rows = [f"{M},256,256,{2 * M * 256 * 256 / launch / 1e12:.6f}" for M in Ms]
    (finding,) = check(csv("M,N,K,TFLOPS", *rows), weight_bits=8).findings
    assert finding.rule == "launch-floor"
    assert finding.evidence["growth_of_flops"] == 64
    assert finding.evidence["shortest_s"] == pytest.approx(launch, rel=0.01)


def test_a_floor_that_is_printed_as_time_is_no_fault():
    rows = [f"{M},256,256,12.0{M % 10}" for M in (1, 2, 4, 8, 16, 32, 64)]
    assert not check(csv("M,N,K,us", *rows)).findings
    assert not check(csv("M,N,K,us", *rows), device="").findings


@pytest.mark.parametrize(
    "claim, device, dtype, words",
    [
        ("990 TFLOPS is 50% of peak", "H200", "bf16", "the figure with sparsity"),
        ("523 TFLOPS, 40 % of the theoretical peak", "MI350X", "bf16", "that is the peak of MI300X"),
        ("On MI300X it gets 645 TFLOPS (60% of peak)", "H200", "bf16", "On MI300X it is 49 % of its bf16 peak"),
        ("1.2 PFLOPS at ~90% of peak", "H200", "fp8", "implies a peak of 1333 TFLOPS"),
    ],
)
def test_which_peak_a_percentage_may_have_meant(claim, device, dtype, words):
    (finding,) = audited("", device, dtype=dtype, claims=[claim]).findings
    assert finding.rule == "percent-of-peak"
    assert words in finding.message


@pytest.mark.parametrize(
    "claim",
    ["495 TFLOPS is 50% of peak", "It reaches ~500 TFLOPS (~50% of peak).", "5 of 7 pass", "600 TFLOPS, 30% of it"],
)
def test_claims_that_hold_or_say_nothing(claim):
    assert not audited("", "H200", dtype="bf16", claims=[claim]).findings


def test_the_peak_itself_is_no_rate_that_was_reached():
    text = "It gets 700 TFLOPS, with {} that is {} of peak."
    for peak in ("989.4 TFLOPS bf16 peak", "a spec of 989.4 TFLOPS", "a theoretical 989.4 TFLOPS"):
        assert not audited("", "H200", dtype="bf16", claims=[text.format(peak, "70.8%")]).findings
        (finding,) = audited("", "H200", dtype="bf16", claims=[text.format(peak, "60%")]).findings
        assert "700 as 60% of peak implies a peak of 1167" in finding.message


def test_a_fraction_of_peak_may_be_a_number_below_one():
    assert not check(csv("M,N,K,TFLOPS,MFU", "4096,4096,4096,494.7,0.50"), dtype="bf16").findings
    assert rules(check(csv("M,N,K,TFLOPS,MFU", "4096,4096,4096,494.7,0.60"), dtype="bf16")) == {"percent-of-peak"}


def test_ratios_of_rates_and_of_named_sides():
    header = "M,N,K,Old TFLOPS,New TFLOPS,Speedup,New/Old"
    assert not check(csv(header, "4096,4096,4096,200.0,300.0,1.50x,1.50")).findings
    wrong = check(csv(header, "4096,4096,4096,200.0,300.0,0.67x,0.67"))
    assert [finding.rule for finding in wrong.findings] == ["ratio-label", "ratio-label"]


def test_sides_that_nobody_named_may_be_divided_either_way():
    for ratio in ("2.00x", "0.50x"):
        assert not check(csv("M,N,K,hip_us,triton_us,speedup", f"512,512,512,50.0,100.0,{ratio}")).findings
    rows = ["512,512,512,50.0,100.0,2.00x", "512,512,1024,60.0,100.0,3.00x"]
    assert [finding.line for finding in check(csv("M,N,K,hip_us,triton_us,speedup", *rows)).findings] == [3]
    memory = [f"512,512,{K},50.0,100.0,{ratio}" for K, ratio in ((512, "1.10x"), (1024, "1.20x"))]
    assert not check(csv("M,N,K,hip_us,triton_us,memory ratio", *memory)).findings


def test_a_gain_that_is_a_reduction():
    rows = [f"4096,4096,{K},2.000,1.500,+25.00%" for K in (4096, 8192)]
    (finding,) = check(csv("M,N,K,Old (ms),New (ms),TFLOPS gain", *rows)).findings
    assert finding.rule == "ratio-label"
    assert "labelled as a gain of the rate" in finding.message


def test_differences():
    header = "name,main TFLOPS,opt TFLOPS,delta TFLOPS"
    assert not check(csv(header, "fwd,627.96,639.32,+11.37")).findings
    (finding,) = check(csv(header, "fwd,627.96,639.32,+11.39")).findings
    assert finding.rule == "does-not-follow"


def test_a_reduction_fixes_the_gain_and_a_mean_of_gains_only_bounds_it():
    header = "Model,#Cases,Time reduction,TFLOPS gain"
    low, high = gain_of_reduction(span("20.00"))
    assert (low, high) == pytest.approx((24.9922, 25.0078), abs=1e-4)
    for cases, gains in ((1, ("+24.98%", "+25.02%")), (12, ("+24.98%",))):
        for gain in gains:
            (finding,) = check(csv(header, f"a,{cases},+20.00%,{gain}")).findings
            assert finding.rule == "contradictory-changes"
    for cases, gain in ((1, "+25.00%"), (12, "+25.00%"), (12, "+29.00%")):
        assert not check(csv(header, f"a,{cases},+20.00%,{gain}")).findings


def test_a_step_lies_between_its_passes():
    header = "M,N,K,Δ fwd,Δ bwd,Δ comb"
    assert not check(csv(header, "512,512,512,-5.0%,+10.0%,+4.0%")).findings
    assert rules(check(csv(header, "512,512,512,-5.0%,+10.0%,+11.0%"))) == {"contradictory-changes"}


def test_last_rows():
    good = ("M | N | K | Speedup", "64 | 64 | 64 | 1.00x", "32 | 64 | 64 | 4.00x")
    assert not audited(table(*good, "geomean | | | 2.00x")).findings
    assert not audited(table(*good, "mean | | | 2.50x")).findings
    (finding,) = audited(table(*good, "geomean | | | 2.50x")).findings
    assert (finding.rule, finding.line) == ("counts", 5)
    ratio_of_means = (
        "M | N | K | Old (us) | New (us) | Speedup",
        "64 | 64 | 64 | 100.0 | 100.0 | 1.00x",
        "32 | 64 | 64 | 40.0 | 10.0 | 4.00x",
        "mean | | | 70.0 | 55.0 | 1.27x",
    )
    assert not audited(table(*ratio_of_means)).findings


def test_a_total_is_the_sum_of_times():
    header = (
        "M | N | K | Old (us) | New (us) | Speedup",
        "64 | 64 | 64 | 90.0 | 60.0 | 1.50x",
        "32 | 64 | 64 | 50.0 | 50.0 | 1.00x",
    )
    assert not audited(table(*header, "**Total** | | | **140** | **110** | **1.27x**")).findings
    assert rules(audited(table(*header, "Total | | | 150.0 | 110.0 | 1.27x"))) == {"counts"}


def test_counts_and_quantiles_of_one_row():
    header = "Metric | p25 | median | p75 | shapes ≥ +1% | shapes ≤ −1%"
    for row, wrong in (
        ("Fwd Δ% | -0.29 | +0.63 | +1.80 | 34 | 14", 0),
        ("Fwd Δ% | -0.29 | +0.63 | +1.80 | 60 | 34", 2),
    ):
        result = audited("Changes over all 83 shapes\n\n" + table(header, row, row.replace("Fwd", "Bwd")))
        assert len(found(result, "counts")) == 2 * wrong


def test_counts_of_a_claim_against_all_rows():
    rows = [f"{M} | 512 | 512 | {change}" for M, change in ((64, "+5.20%"), (128, "-2.00%"), (256, "+0.50%"))]
    text = table("M | N | K | Δ bwd", *rows)
    for claim in ("1/3 shapes <= -1% on bwd, 1/3 shapes >= +5% on bwd.", "9/84 shapes <= -1% on bwd."):  # or unprinted
        assert not audited(text, claims=[claim]).findings
    for claim in ("2/3 shapes <= -1% on bwd.", "0/84 shapes >= +5% on bwd."):
        assert rules(audited(text, claims=[claim])) == {"counts"}
        cell = table("what | where", f"{claim} | here", "as above | there")
        assert rules(audited(f"{text}\n## Claims\n\n{cell}")) == {"counts"}


def test_more_experts_on_idle_units_are_free():
    """Two or four experts of 128 x 128 outputs leave most of a device idle."""
    small = csv(
        "E,M,N,K,ms,TFLOPS", *(f"{E},128,128,65536,1.000,{2 * E * 128 * 128 * 65536 / 1e9:.1f}" for E in (2, 4))
    )
    assert not found(check(small, op=Op.GROUPED_GEMM), "m-convention")
    large = csv(
        "E,M,N,K,ms,TFLOPS", *(f"{E},4096,4096,512,1.000,{2 * E * 4096 * 4096 * 512 / 1e9:.1f}" for E in (4, 8))
    )
    assert found(check(large, op=Op.GROUPED_GEMM), "m-convention")


def test_a_kernel_is_part_of_its_call_in_one_table():
    header = "M,N,K,kernel_us,total_us"
    assert not check(csv(header, "512,512,512,10.0,12.0", "512,512,1024,10.0,10.0")).findings
    (finding,) = check(csv(header, "512,512,512,12.2,12.0", "512,512,1024,10.0,10.0")).findings
    assert (finding.rule, finding.line) == ("part-above-whole", 2)


def test_passes_are_parts_of_a_step_across_files():
    texts = ("M,N,K,fwd_new_ms\n512,512,512,2.00\n", "M,N,K,step_new_ms\n512,512,512,1.50\n")
    documents = [read_document(text.encode(), f"{name}.csv") for name, text in zip("ab", texts, strict=True)]
    (finding,) = audit(documents, setting("H200")).findings
    assert (finding.rule, finding.where) == ("part-above-whole", "a.csv")
    assert "b.csv line 2" in finding.message


def test_one_printed_step():
    header = "M,N,K,Old (ms),New (ms),Time reduction"
    rows = ["4096,4096,4096,0.28,0.26,+7.14%", "4096,8192,4096,0.53,0.44,+16.98%", "8192,8192,4096,1.02,0.87,+14.71%"]
    (finding,) = check(csv(header, *rows)).findings
    assert finding.rule == "below-resolution"
    assert (finding.evidence["steps"], finding.line) == (pytest.approx(2), 2)
    assert finding.evidence["low"] == pytest.approx(100 * (1 - 0.265 / 0.275))
    from_unrounded = [rows[0].replace("+7.14", "+8.02"), rows[1].replace("+16.98", "+17.52"), rows[2]]
    assert not check(csv(header, *from_unrounded)).findings


def test_every_finding_says_where_and_what_to_do():
    result = check(csv("M,N,K,us", "1,4096,4096,0.10"), weight_bits=8)
    assert rules(result) == {"above-bandwidth"}
    (finding,) = result.findings
    assert (finding.where, finding.line, finding.row) == ("t.csv", 2, "M=1 N=4096 K=4096")
    assert "cold cache" in finding.advice
    assert finding.evidence["source"]


def test_more_experts_that_take_half_as_long_again_are_no_total():
    rows = [f"{E},4096,4096,4096,{ms},{2 * E * 4096**3 / ms / 1e9:.1f}" for E, ms in ((4, 1.0), (8, 1.5))]
    assert not found(check(csv("E,M,N,K,ms,TFLOPS", *rows), op=Op.GROUPED_GEMM, dtype="bf16"), "m-convention")


@pytest.mark.parametrize("share", [0.15, 0.3])
def test_times_that_the_memory_may_explain_are_no_floor(share):
    """At 15 % of its rate the bytes stay the same; at 30 % and more it is busy, though they grow three times."""
    if share < 0.2:
        sizes = [(M, 2048, 2048) for M in (1, 2, 4, 8, 16)]
    else:
        sizes = [(M, N, 4096) for M, N in ((1, 4096), (2, 6144), (4, 8192), (8, 12288))]
    time = 0.5 * sizes[0][1] * sizes[0][2] / (share * 4800e9)
    rows = [f"{M},{N},{K},{2 * M * N * K / time / 1e12:.5f}" for M, N, K in sizes]
    assert not found(check(csv("M,N,K,TFLOPS", *rows), dtype="bf16"), "launch-floor")


def test_many_shares_of_one_wrong_peak_are_one_finding():
    rows = [f"{M},4096,4096,{M / 10:.1f},{M / 10 / 12:.3f}%" for M in (1024, 2048, 3072, 4096, 5120)]
    (finding,) = check(csv("M,N,K,TFLOPS,% of peak", *rows), dtype="bf16").findings
    assert finding.rule == "percent-of-peak"
    assert finding.message.endswith("; 5 rows")


def test_one_ratio_the_wrong_way_round_is_no_label():
    rows = ["a,2.00,1.00,2.00", "b,3.00,1.00,3.00", "c,4.00,1.00,0.25"]
    (finding,) = check(csv("case,old (ms),new (ms),speedup", *rows)).findings
    assert (finding.rule, finding.line) == ("does-not-follow", 4)


def test_changes_of_something_else_are_left_alone():
    rows = ["a,2.00,1.00,+0.3%", "b,3.00,1.00,-0.1%", "c,4.00,1.00,+0.2%"]
    assert not check(csv("case,old (ms),new (ms),accuracy change", *rows)).findings


def test_equal_numbers_are_no_change_below_the_resolution():
    rows = ["a,1.39,1.18,15.11%", "b,1.27,1.26,0.79%", "c,1.40,1.40,0.00%", "d,1.91,1.53,19.90%", "e,1.73,1.31,24.28%"]
    result = check(csv("case,old (ms),new (ms),time reduction", *rows))
    assert [finding.line for finding in found(result, "below-resolution")] == [3]


@pytest.mark.parametrize(
    "header, rows",
    [
        ("case,old (ms),new (ms),time reduction", ("a,1.39,1.18,15.1%", "b,1.27,1.26,0.8%")),
        ("case,old (ms),new (ms),speedup", ("a,1.39,1.18,1.178", "b,1.27,1.26,1.008")),
    ],
)
def test_a_coincidence_is_no_proof_of_rounded_numbers(header, rows):
    assert not found(check(csv(header, *rows)), "below-resolution")


def test_milliseconds_that_were_microseconds():
    """8192^3 are 1.1 TFLOP: 1865 ms are 0.59 TFLOPS of 989.4, 1865 us would be 60 % of them."""
    (finding,) = check(csv("M,N,K,time (ms)", "8192,8192,8192,1865"), dtype="bf16").findings
    assert (finding.rule, finding.evidence["share_of_roof"]) == ("implausibly-slow", pytest.approx(0.000596, rel=1e-2))
    for rows in (("8192,8192,8192,1.865",), ("8192,8192,8192,1865", "8192,8192,4096,20"), ("64,64,64,100",)):
        assert not check(csv("M,N,K,time (ms)", *rows), dtype="bf16").findings
    (finding,) = audited("| case | H200 ms |\n|-|-|\n| GEMM 8192^3 | 1865 |\n", dtype="bf16").findings
    assert finding.rule == "implausibly-slow"


def test_one_time_for_many_sizes():
    rows = [f"{M},4096,4096,1.253" for M in (1024, 2048, 4096, 8192)]
    (finding,) = check(csv("M,N,K,ms", *rows)).findings
    assert (finding.rule, finding.evidence["rows"]) == ("equal-times", 4)
    assert not check(csv("M,N,K,ms", *rows[:3])).findings
    assert not check(csv("M,N,K,us", *(row.replace("1.253", "12.53") for row in rows)), device="").findings  # a launch


def test_times_of_a_timer_with_wide_steps_are_no_copies():
    """An A100's events count steps of 1.024 us, so that many of some thousand times between 50 and 100 us are equal."""
    generator = np.random.default_rng(0)
    ticks = generator.integers(50, 100, 3000)
    sizes = [(M, N, 4096) for M in range(1, 101) for N in range(64, 1984, 64)]
    rows = [f"{M},{N},{K},{tick * 1.024e-3:.4f}" for (M, N, K), tick in zip(sizes, ticks, strict=True)]
    assert not found(check(csv("M,N,K,ms", *rows), device=""), "equal-times")
    alone = [f"{M},4096,4096,1.253" for M in (1024, 2048, 4096, 8192)]
    (finding,) = found(check(csv("M,N,K,ms", *rows, *alone), device=""), "equal-times")
    assert finding.evidence["rows"] == 4


def test_a_floor_at_fixed_weights():
    """2048 x 2048 weights of 4 bits at 4 % of 4800 GB/s: neither memory nor matrix units explain 10.9 us."""
    rows = [f"{M},2048,2048,{2 * M * 2048 * 2048 / 10.9e6:.5f}" for M in (1, 2, 4, 8, 16, 32, 64)]
    assert rules(check(csv("M,N,K,TFLOPS", *rows), dtype="bf16")) == {"launch-floor"}


def test_cases_that_stand_twice():
    header, row = "M,N,K,kernel,us", "64,512,512,a,12.5"
    (same,) = check(csv(header, row, "64,512,512,b,12.5", row)).findings
    assert (same.rule, str(same.severity), same.line) == ("repeated-rows", "misleading", 4)
    (other,) = check(csv(header, row, "64,512,512,a,13.5")).findings
    assert (other.rule, str(other.severity), other.line) == ("repeated-rows", "question", 3)
    sections = table("M | N | K | us", "forward | | |", "64 | 512 | 512 | 5", "backward | | |", "64 | 512 | 512 | 5")
    assert not audited(sections).findings


@pytest.mark.parametrize(
    "cell, sizes",
    [
        ("M=1, N=4096, K=4096", {"M": 1, "N": 4096, "K": 4096}),
        ("m=8,n=16,k=32", {"M": 8, "N": 16, "K": 32}),
        ("fp16 M=N=K=512", {"M": 512, "N": 512, "K": 512}),
        ("8192^3", {"M": 8192, "N": 8192, "K": 8192}),
        ("GEMM 256 x 256 x 256", {"M": 256, "N": 256, "K": 256}),
        ("128x256x64 tile", {}),
        ("n=3 runs", {}),
    ],
)
def test_sizes_inside_one_cell(cell, sizes):
    (sheet,) = audited(f"| what | us |\n|-|-|\n| {cell} | 12.5 |\n").sheets
    assert sheet.sizes(0) == sizes

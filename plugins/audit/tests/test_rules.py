"""Single rules in closed form: what each calls wrong, what it leaves alone, and why."""

import pytest
from rooflens.plugins.audit.output import section

from .helpers import audited, found, lines, rules, table


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


def test_printed_rates_above_the_peak_need_no_sizes():
    (finding,) = check(csv("name,TFLOPS,GB/s", "a,990.1,10", "b,989.4,10"), dtype="bf16").findings
    assert (finding.rule, finding.line, finding.row) == ("above-peak", 2, "a")


def test_the_type_of_a_column_and_of_a_row():
    flops = 2 * 4096**3
    slow, fast, other = (f"{flops / rate * 1e3:.6f}" for rate in (900e12, 1500e12, 1501e12))
    text = csv("M,N,K,FP8 (ms),BF16 (ms)", f"4096,4096,4096,{fast},{fast}")
    assert [finding.message.split(":")[0] for finding in check(text).findings] == ["BF16 (ms)"]
    text = csv(
        "M,N,K,dtype,ms", f"4096,4096,4096,fp8,{fast}", f"4096,4096,4096,bf16,{other}", f"4096,4096,4096,fp16,{slow}"
    )
    assert [finding.line for finding in check(text).findings] == [3]


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


def test_many_shares_of_one_wrong_peak_are_one_finding():
    rows = [f"{M},4096,4096,{M / 10:.1f},{M / 10 / 12:.3f}%" for M in (1024, 2048, 3072, 4096, 5120)]
    (finding,) = check(csv("M,N,K,TFLOPS,% of peak", *rows), dtype="bf16").findings
    assert finding.rule == "percent-of-peak"
    assert finding.message.endswith("; 5 rows")


def test_a_share_above_100_percent_needs_no_device():
    rows = ("4096,4096,4096,1374,139%", "4096,4096,8192,1400,141%")
    (finding,) = check(csv("M,N,K,TFLOPS,% of peak", *rows), device="").findings
    assert finding.message == "% of peak 139% is above 100 %"
    assert not finding.severity.is_wrong


def test_one_ratio_the_wrong_way_round_is_no_label():
    rows = ["a,2.00,1.00,2.00", "b,3.00,1.00,3.00", "c,4.00,1.00,0.25"]
    (finding,) = check(csv("case,old (ms),new (ms),speedup", *rows)).findings
    assert (finding.rule, finding.line) == ("does-not-follow", 4)


def test_changes_of_something_else_are_left_alone():
    rows = ["a,2.00,1.00,+0.3%", "b,3.00,1.00,-0.1%", "c,4.00,1.00,+0.2%"]
    assert not check(csv("case,old (ms),new (ms),accuracy change", *rows)).findings


def test_cases_that_stand_twice():
    header, row = "M,N,K,kernel,us", "64,512,512,a,12.5"
    (same,) = check(csv(header, row, "64,512,512,b,12.5", row)).findings
    assert (same.rule, str(same.severity), same.line) == ("repeated-rows", "misleading", 4)
    (other,) = check(csv(header, row, "64,512,512,a,13.5")).findings
    assert (other.rule, str(other.severity), other.line) == ("repeated-rows", "question", 3)
    sections = table("M | N | K | us", "forward | | |", "64 | 512 | 512 | 5", "backward | | |", "64 | 512 | 512 | 5")
    assert not audited(sections).findings


def test_zeros_are_counted_once_and_are_no_rates():
    """Of 512 x 4096 x 4096 in 10 us, 1718 TFLOPS; the first row of TFLOPS rounds to 0."""
    header = "M,N,K,us,TFLOPS,GB/s"
    rows = ["1,16,16,10.0,0.00,0.10", "512,4096,4096,10.0,0.00,0", "256,4096,4096,0,0.00,0", "128,4096,4096,inf,,"]
    rows += ["64,4096,4096,10.0,214.75,1730.00"]
    untimed, unknown = check(csv(header, *rows), "").findings
    assert [one.rule for one in (untimed, unknown)] == ["zeros", "zeros"]
    assert (untimed.line, untimed.evidence["rows"], str(untimed.severity)) == (4, 2.0, "impossible")
    assert (unknown.line, unknown.evidence["rows"], str(unknown.severity)) == (3, 1.0, "contradiction")
    assert rules(check(csv("M,N,K,us", "4096,4096,4096,0.0", "8192,4096,4096,900.1"))) == {"zeros"}
    assert not check(csv("M,N,K,ms", "64,512,512,0", "4096,4096,4096,3")).findings
    assert rules(check(csv("M,N,K,ms", "8192,8192,8192,0.0", "4096,4096,4096,3"))) == {"above-peak"}, "0.05 ms at most"


def test_a_stage_that_did_not_run_is_no_zero_and_its_total_no_copy():
    header = "case,us1,us2,us"
    rows = [
        f"{name},{time},0.0,{time}" for name, time in zip("abcd", (158.4834, 212.9873, 241.6039, 249.5786), strict=True)
    ]
    assert not check(csv(header, *rows), "").findings


def test_times_are_no_slips_where_a_third_of_the_rates_do_not_follow():
    """A time ten times as long, in its rate too; of ten rates, three are printed ten times too large."""
    rows = [(M, 1000.0 if M == 512 else 100 + M / 64, 10 if M in (64, 128, 192) else 1) for M in range(64, 704, 64)]
    texts = [f"{M},4096,4096,{us},{2 * M * 4096 * 4096 / us / 1e6 * wrong:.2f}" for M, us, wrong in rows]
    result = check(csv("M,N,K,us,tflops", *texts), "")
    assert [(one.rule, one.line) for one in result.findings] == [("does-not-follow", line) for line in (2, 3, 4)]
    assert lines(check(csv("M,N,K,us,tflops", *texts, "704,4096,4096,111,0.00"), ""), "does-not-follow") == [2, 3, 4]


def test_a_number_that_its_row_confirms_is_no_slip():
    """3.8786 us are 0.14 TFLOPS; rows of other sizes are a thousand times as fast."""
    rows = ["8,16,2048,3.8786,0.14"]
    rows += [
        f"{M},37888,5120,{100 + M / 100},{2 * M * 37888 * 5120 / (100 + M / 100) / 1e6:.2f}" for M in range(196, 226, 3)
    ]
    assert not check(csv("M,N,K,us,tflops", *rows), "").findings
    assert rules(check(csv("M,N,K,us,tflops", *rows, "230,37888,5120,102.3,8722.1"), "")) == {"does-not-follow"}


def test_tokens_that_choose_at_random_reach_a_part_of_the_experts():
    """H200, 64 of 64 tokens to 1 of 64 experts each: 63.6 % of 64 x 4096 x 4096 bytes, 683 MB, are 142 us."""
    text = csv("token,inter_dim,model_dim,expert,topk,us", "64,4096,4096,64,1,{}")
    assert not found(check(text.format("150.0"), weight_bits=8), "above-bandwidth")
    assert found(check(text.format("135.0"), weight_bits=8), "above-bandwidth")


@pytest.mark.parametrize(("name", "no"), [("Pass", "False"), ("correct", "no"), ("OK", "0")])
def test_rows_of_wrong_output_are_left_out_and_counted(name, no):
    yes = {"False": "True", "no": "yes", "0": "1"}[no]
    result = check(csv(f"M,N,K,us,{name}", f"4096,4096,4096,900.0,{yes}", f"4096,4096,4096,0.1,{no}"))
    (sheet,) = result.sheets
    assert (result.rows, result.findings) == (1, ())
    assert sheet.table.notes == (f"rows left out, as {name} says that their output was wrong: 1",)
    text = f"M,N,K,us,{name}\n64,64,64,9.0,{yes}\n128,64,64,9.0,{no}\n"
    kept = audited(text, name="t.csv", columns=[f"ignore={name}"])
    assert kept.rows == 2, "its role is another"
    assert sheet.table.notes[0] in str(section(result, sheet.setting))


def test_counts_under_a_name_of_a_check_are_no_verdicts():
    assert check(csv("M,N,K,us,valid", "64,512,512,900.0,0", "128,512,512,901.0,17")).rows == 2

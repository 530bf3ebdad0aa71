"""A case of a published comparison goes through the importer: its step follows from what it prints of both passes.

TestID 47 of AMD-AGI/Primus-Turbo pull request 339 (MI355X), as printed.
"""

import pytest
from rooflens.analysis.comparison.effects import measure_effects, sum_of_passes
from rooflens.analysis.comparison.unverified import rank_unverified
from rooflens.analysis.comparison.versions import pair
from rooflens.analysis.imports.consistency import ValueRange, gain, rate_of, reduction, span
from rooflens.analysis.imports.read import read


def plus(*spans: ValueRange) -> ValueRange:
    """Sum."""
    return ValueRange(sum(one.low for one in spans), sum(one.high for one in spans))


def write(path, header, rows):
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def test_step_of_the_case_with_both_times_and_rates(tmp_path):
    """TestID 47: forward 70.30 ms and 1626.5 TFLOPS, backward 184.27 ms and 1241.1, the step 1347.6."""
    header = "TestID,Case,M,N,K,Check,Forward Time (ms),Forward TFLOPS,Backward Time (ms),Backward TFLOPS"
    row = "47,Llama-3.1-405B,32768,106496,16384,{},70.30,1626.5,184.27,1241.1"
    base, head, wrong = (
        read(write(tmp_path / f"{name}.csv", header, [row.format(check)]))
        for name, check in (("base", "PASS"), ("head", "PASS"), ("fail", "FAIL"))
    )
    assert not [note for note in head.notes if "cannot follow" in note]
    step = sum_of_passes(pair(base, head), ("fwd", "bwd"), "step").cases.loc[0]
    flops = 6 * 32768 * 106496 * 16384
    assert step["flops"] == flops
    assert step["resolution_s"] == pytest.approx(2e-5)
    assert span("1347.6").meets(rate_of(flops, plus(span("70.30"), span("184.27")), 1e-3))
    assert step["flops"] / step["head_time_s"] / 1e12 == pytest.approx(1347.6, abs=0.06)
    fixed = measure_effects(pair(wrong, head))
    assert fixed.cases["status"].tolist() == ["fixed", "fixed"]
    assert rank_unverified(fixed).cases.empty


def test_interval_arithmetic():
    assert span("1.39") == ValueRange(1.385, 1.395)
    assert span("-5") == ValueRange(-5.5, -4.5)
    assert gain(ValueRange(2, 2), ValueRange(3, 3)) == pytest.approx((50, 50))
    assert reduction(ValueRange(2, 2), ValueRange(1, 1)) == pytest.approx((50, 50))

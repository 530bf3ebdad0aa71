"""A published comparison goes through the importer: what it prints follows from its times.

What does not follow in these tables is found by the audit, and tested there.

Tables of AMD-AGI/Primus-Turbo pull request 339 (MI355X) and its MI300X comment, as printed.
"""

import csv
import math
from pathlib import Path

import pytest
from rooflens.analysis.comparison.effects import measure_effects, sum_of_passes
from rooflens.analysis.comparison.unverified import rank_unverified
from rooflens.analysis.comparison.versions import pair
from rooflens.analysis.imports.consistency import (
    ValueRange,
    gain,
    rate_of,
    reduction,
    span,
)
from rooflens.analysis.imports.read import read

DATA = Path(__file__).parents[2] / "data" / "published"


def printed(name):
    with (DATA / f"primus339_{name}.csv").open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def plus(*spans: ValueRange) -> ValueRange:
    """Sum."""
    return ValueRange(sum(one.low for one in spans), sum(one.high for one in spans))


def write(path, header, rows):
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


MI300X = {"fwd": ("Forward", "mi300x_top10_forward"), "bwd": ("Backward", "mi300x_top10_backward")}


def primus_csv(path, side, pass_):
    """The rows of a printed table in the form in which the benchmark wrote them, one pass only."""
    word, table = MI300X[pass_]
    rows = [
        f"{row['test_id']},ROCm,MI300X,{row['model']},1,{row['M']},{row['N']},{row['K']},fp8,blockwise,PASS,"
        f"{row[f'{pass_}_{side}_ms']}"
        for row in printed(table)
    ]
    return write(path, f"TestID,Platform,GPU,Case,MBS,M,N,K,Dtype,Granularity,Check,{word} Time (ms)", rows)


@pytest.fixture(params=["fwd", "bwd"])
def mi300x(request, tmp_path):
    sides = [read(primus_csv(tmp_path / f"{side}.csv", side, request.param)) for side in ("main", "opt")]
    return printed(MI300X[request.param][1]), rank_unverified(measure_effects(pair(*sides)))


def test_printed_deltas_lie_within_what_the_printed_times_allow(mi300x):
    rows, result = mi300x
    assert len(result.cases) == len(rows) == 10
    for (_, case), row in zip(result.cases.iterrows(), rows, strict=True):
        ratio = ValueRange(math.exp(case["low"]), math.exp(case["high"]))
        time_reduction = ValueRange(100 * (1 - ratio.high), 100 * (1 - ratio.low))
        assert time_reduction.meets(span(row["speedup_pct"])), row
        rate_gain = ValueRange(100 * (1 / ratio.high - 1), 100 * (1 / ratio.low - 1))
        assert rate_gain.meets(span(row["tflops_gain_pct"])), row


def test_rates_go_through_the_comparison(tmp_path):
    """Rates of the step as the only input: combined changes come out as printed."""
    rows = printed("best_movers")
    columns = {"tflops": "comb", "model": "case", "layer": "test_id"}
    sides = [
        read(
            write(
                tmp_path / f"{side}.csv",
                "test_id,case,M,N,K,pass,comb",
                [
                    f"{row['test_id']},{row['case']},{row['M']},{row['N']},{row['K']},step,{row[f'{side}_comb_tflops']}"
                    for row in rows
                ],
            ),
            columns,
        )
        for side in ("main", "pr")
    ]
    result = rank_unverified(measure_effects(pair(*sides)))
    for (_, case), row in zip(result.cases.iterrows(), rows, strict=True):
        rate_gain = ValueRange(100 * math.expm1(-case["high"]), 100 * math.expm1(-case["low"]))
        assert rate_gain.meets(span(row["delta_comb_pct"])), row
        assert rate_gain.high - rate_gain.low < 0.04
        assert 100 * math.expm1(-case["effect"]) == pytest.approx(float(row["delta_comb_pct"]), abs=0.02)
    assert result.cases["ranked"].all()


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
    assert rank_unverified(fixed).suite is None


def test_interval_arithmetic():
    assert span("1.39") == ValueRange(1.385, 1.395)
    assert span("-5") == ValueRange(-5.5, -4.5)
    assert gain(ValueRange(2, 2), ValueRange(3, 3)) == pytest.approx((50, 50))
    assert reduction(ValueRange(2, 2), ValueRange(1, 1)) == pytest.approx((50, 50))

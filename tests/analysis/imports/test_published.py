"""A published comparison goes through the importer: what it prints follows from its times, and what cannot is found.

Tables of AMD-AGI/Primus-Turbo pull request 339 (MI355X) and its MI300X comment, as printed.
"""

import csv
import math
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import pytest
from rooflens.analysis.comparison.effects import measure_effects, sum_of_passes
from rooflens.analysis.comparison.unverified import rank_unverified
from rooflens.analysis.comparison.versions import pair
from rooflens.analysis.imports.consistency import (
    SLACK,
    Claim,
    ValueRange,
    contradictions,
    enlarged,
    gain,
    gain_of_reduction,
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


def tally(values: Sequence[str], step: float, cases: int) -> ValueRange:
    """How many of `cases` changes can be at `step` or beyond (a negative step: below), if `values` are among them.

    At least those that certainly are, at most all but those that certainly are not.
    """
    sign = -1.0 if step < 0 else 1.0
    ends = [sorted(sign * end for end in span(value)) for value in values]
    certain = sum(low >= abs(step) - SLACK for low, _ in ends)
    excluded = sum(high < abs(step) - SLACK for _, high in ends)
    return ValueRange(float(certain), float(cases - excluded))


def from_rounded(base: str, head: str, printed: str) -> bool:
    """Return whether a printed reduction in percent is, to its last digit, that of the printed times taken as exact."""
    exact = 100 * (1 - Decimal(head) / Decimal(base))
    return round(exact, max(0, -int(Decimal(printed).as_tuple().exponent))) == Decimal(printed)


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
        assert gain_of_reduction(time_reduction).meets(span(row["tflops_gain_pct"])), row


def test_two_changes_of_one_ratio_must_agree():
    """A time reduction fixes the gain of throughput; one is from rounded times and the other is not."""
    found = {}
    for table in ("mi300x_top10_backward", "mi300x_top10_forward"):
        claims = [
            Claim(
                f"TestID {row['test_id']}",
                "TFLOPS gain %",
                row["tflops_gain_pct"],
                gain_of_reduction(span(row["speedup_pct"])),
                f"a time reduction of {row['speedup_pct']} %",
            )
            for row in printed(table)
        ]
        found[table] = contradictions(claims)
    assert [line.split(":")[0] for line in found["mi300x_top10_backward"]] == [
        f"TestID {number}" for number in (49, 77, 25, 81, 29, 53, 10, 78, 26, 54)
    ]
    assert found["mi300x_top10_backward"][0] == (
        "TestID 49: TFLOPS gain % +18.14 cannot follow from a time reduction of +15.11 %: "
        "that allows 17.7926 to 17.8064"
    )
    assert [line.split(":")[0] for line in found["mi300x_top10_forward"]] == [
        f"TestID {number}" for number in (2, 74, 73, 49, 84, 1, 45, 6)
    ]


def test_reductions_were_computed_from_the_rounded_times():
    for pass_, (_, table) in MI300X.items():
        exact = [
            from_rounded(row[f"{pass_}_main_ms"], row[f"{pass_}_opt_ms"], row["speedup_pct"]) for row in printed(table)
        ]
        assert exact == [True] * 10, table


def test_extremes_of_the_summary():
    """The gain rises with the reduction, so the largest of both belong to one row."""
    rows = {row["metric"]: row for row in printed("mi300x_summary")}
    claims = [
        Claim(
            word,
            f"{end} TFLOPS gain",
            rows[f"{word} TFLOPS gain"][f"{end}_pct"],
            gain_of_reduction(span(rows[f"{word} time reduction"][f"{end}_pct"])),
            "the extreme time reduction",
        )
        for word in ("Forward", "Backward")
        for end in ("min", "max")
    ]
    assert [line.split(" cannot")[0] for line in contradictions(claims)] == [
        "Forward: max TFLOPS gain +9.05",
        "Backward: max TFLOPS gain +18.14",
    ]


def test_means_over_models_are_the_mean_over_cases():
    rows, summary = printed("mi300x_per_model"), {row["metric"]: row for row in printed("mi300x_summary")}
    columns = {
        "forward_speedup_pct": "Forward time reduction",
        "backward_speedup_pct": "Backward time reduction",
        "forward_tflops_gain_pct": "Forward TFLOPS gain",
        "backward_tflops_gain_pct": "Backward TFLOPS gain",
    }
    for column, metric in columns.items():
        total = plus(*(span(row[column]) for row in rows))  # twelve cases each
        claim = Claim(
            metric, "mean", summary[metric]["mean_pct"], ValueRange(total.low / 7, total.high / 7), "the models"
        )
        assert claim.holds, claim


@pytest.mark.parametrize(
    "table, base, head, delta",
    [
        ("aggregate", "main_gmean_tflops", "pr_gmean_tflops", "delta_pct"),
        ("commit_message_aggregate", "main_gmean_tflops", "branch_gmean_tflops", "delta_pct"),
        ("per_model", "main_comb_gmean_tflops", "pr_comb_gmean_tflops", "delta_pct"),
        ("best_movers", "main_comb_tflops", "pr_comb_tflops", "delta_comb_pct"),
    ],
)
def test_gains_follow_from_the_printed_rates(table, base, head, delta):
    claims = [
        Claim(str(row), delta, row[delta], gain(span(row[base]), span(row[head])), "the rates")
        for row in printed(table)
    ]
    assert contradictions(claims) == []


def test_gmeans_of_the_models_make_up_that_of_the_suite():
    (whole,) = (row for row in printed("aggregate") if row["metric"] == "Combined-step")
    for side in ("main", "pr"):
        ends = [
            math.exp(
                sum(
                    int(row["n"]) * math.log(span(row[f"{side}_comb_gmean_tflops"])[end])
                    for row in printed("per_model")
                )
                / sum(int(row["n"]) for row in printed("per_model"))
            )
            for end in (0, 1)
        ]
        assert Claim(side, "gmean", whole[f"{side}_gmean_tflops"], ValueRange(*ends), "the models").holds


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


def test_combined_change_lies_between_those_of_its_passes():
    for table in ("best_movers", "fwd_regressions", "large_n_wgrad"):
        for row in printed(table):
            ends = sorted(span(row[f"delta_{pass_}_pct"]) for pass_ in ("fwd", "bwd"))
            claim = Claim(
                row["test_id"], "step", row["delta_comb_pct"], ValueRange(ends[0].low, ends[1].high), "its passes"
            )
            assert claim.holds, claim


def known_changes(column):
    """Every change of a pass that some table prints, once per TestID."""
    tables = ("best_movers", "fwd_regressions", "large_n_wgrad")
    return list({row["test_id"]: row[column] for table in tables for row in printed(table)}.values())


def test_counts_that_rows_contradict():
    """Commit message and text count the changes of one branch differently."""
    counts = {row["metric"]: row for row in printed("distribution")}
    bwd, fwd = known_changes("delta_bwd_pct"), known_changes("delta_fwd_pct")
    assert len(bwd) == 16
    claims = []
    for metric, values in (("Fwd", fwd), ("Bwd", bwd), ("Comb", known_changes("delta_comb_pct"))):
        for name, step in (("ge_plus1", 1), ("le_minus1", -1), ("ge_plus5", 5), ("le_minus5", -5)):
            count = counts[metric][f"n_{name}pct"]
            claims.append(Claim("text", f"{metric} {name}", count, tally(values, step, 83), "the rows"))
    commit = {"ge_plus1": ("56", 1), "ge_plus5": ("13", 5), "le_minus1": ("8", -1)}  # of 84
    for name, (count, step) in commit.items():
        claims.append(Claim("commit", f"Bwd {name}", count, tally(bwd, step, 84), "the rows"))
        allowed = enlarged(counts["Bwd"][f"n_{name}pct"], 83, 1)
        claims.append(Claim("commit", f"Bwd {name}", count, allowed, "the counts over 83 of them"))
    # "all 10 net-negative-fwd shapes" beside 14 of -1 % or less
    at_least = ValueRange(float(counts["Fwd"]["n_le_minus1pct"]), 83)
    claims.append(Claim("text", "Fwd below 0", "10", at_least, "the number at -1 % or less"))
    assert [line.split(":")[0] + line.split(":")[1].split(" cannot")[0] for line in contradictions(claims)] == [
        "commit Bwd ge_plus1 56",
        "commit Bwd ge_plus5 13",
        "commit Bwd ge_plus5 13",
        "commit Bwd le_minus1 8",
        "text Fwd below 0 10",
    ]


def test_difference_of_means():
    for row in printed("mi300x_aggregate"):
        base, head = span(row["main_mean_tflops"]), span(row["opt_mean_tflops"])
        claim = Claim(
            row["metric"], "delta", row["delta_tflops"], ValueRange(head.low - base.high, head.high - base.low), "it"
        )
        assert claim.holds, claim


def test_interval_arithmetic():
    assert span("1.39") == ValueRange(1.385, 1.395)
    assert span("-5") == ValueRange(-5.5, -4.5)
    assert gain(ValueRange(2, 2), ValueRange(3, 3)) == pytest.approx((50, 50))
    assert reduction(ValueRange(2, 2), ValueRange(1, 1)) == pytest.approx((50, 50))
    assert gain_of_reduction(ValueRange(50, 50)) == pytest.approx((100, 100))
    assert tally(["4.99", "5.00", "5.004", "6"], 5, 10) == ValueRange(2, 9)
    assert not from_rounded("1.39", "1.18", "+15.20")

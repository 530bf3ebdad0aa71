"""Tables of five pull requests, as printed: what is wrong with them is found, and the others are left alone."""

from pathlib import Path

import pytest
from rooflens.plugins.audit.audit import audit
from rooflens.plugins.audit.reading.document import read_document

from .helpers import PUBLISHED, audited, found, published, rules, setting, table

DEVICE = {"aiter2297": "MI350X", "primus339": "MI355X", "aiter3783": "MI355X", "torchao3996": "MI300X"}

FAULTS = {
    "aiter2297_claims.csv": {"percent-of-peak"},
    "aiter2297_deepseek_tflops.csv": {"launch-floor"},
    "primus339_mi300x_per_model.csv": {"contradictory-changes"},
    "primus339_mi300x_summary.csv": {"contradictory-changes"},
    "primus339_mi300x_top10_backward.csv": {"contradictory-changes"},
    "primus339_mi300x_top10_forward.csv": {"contradictory-changes", "below-resolution"},
    "torchao3996_forward.csv": {"above-peak", "ratio-label"},
    "torchao3996_kernel.csv": {"m-convention"},
}
"""Table: what is wrong with it alone."""

CONSISTENT = (
    "aiter3783_absolute_us.csv",
    "aiter3783_claims.csv",
    "aiter3783_dense_speedup.csv",
    "bitsandbytes1979_headlines.csv",
    "primus339_aggregate.csv",
    "primus339_autotune_cost.csv",
    "primus339_best_movers.csv",
    "primus339_claims.csv",
    "primus339_commit_message_aggregate.csv",
    "primus339_distribution.csv",
    "primus339_fwd_regressions.csv",
    "primus339_large_n_wgrad.csv",
    "primus339_mi300x_aggregate.csv",
    "primus339_mi300x_correctness.csv",
    "primus339_mi300x_fwd_regressions.csv",
    "primus339_per_model.csv",
    "primus339_smallest_gains.csv",
    "torchao3996_claims.csv",
)
"""Tables in which no number contradicts another, as far as each says alone."""


def device_of(name):
    return "MI300X" if "mi300x" in name else DEVICE.get(Path(name).stem.partition("_")[0], "RX 7900 XTX")


def test_every_published_table_is_judged():
    assert {path.name for path in PUBLISHED.glob("*.csv")} == {*FAULTS, *CONSISTENT}


@pytest.mark.parametrize("name", CONSISTENT)
def test_consistent_tables_are_left_alone(name):
    result = published(name, device=device_of(name))
    assert result.rows
    assert result.findings == ()


@pytest.mark.parametrize("name", FAULTS)
def test_faults_of_a_table_alone(name):
    assert rules(published(name, device=device_of(name))) == FAULTS[name]


FORWARD, KERNEL = "torchao3996_forward.csv", "torchao3996_kernel.csv"
"""Only the second one has rates, which say how both count M."""


@pytest.mark.parametrize("names, severity", [((FORWARD,), "question"), ((FORWARD, KERNEL), "impossible")])
def test_three_times_are_too_short_for_the_peak(names, severity):
    peaks = found(published(*names, device="MI300X"), "above-peak")
    assert [finding.row for finding in peaks] == [
        "E=8 M=4096 N=4096 K=4096",
        "E=16 M=8192 N=4096 K=4096",
        "E=8 M=16640 N=8192 K=5120",
    ]
    assert [round(finding.evidence["flops_per_s"] / 1e12) for finding in peaks] == [1328, 2401, 2548]
    assert {finding.evidence["peak_flops_per_s"] for finding in peaks} == {1307.4e12}
    assert {str(finding.severity) for finding in peaks} == {severity}


def test_total_m_makes_the_times_possible():
    assert not found(published("torchao3996_forward.csv", device="MI300X", m_is="total"), "above-peak")
    assert found(published("torchao3996_forward.csv", device="MI300X", m_is="per_expert"), "m-convention")


def test_the_floor_of_a_sweep():
    (floor,) = found(published("aiter2297_deepseek_tflops.csv", device="MI350X", dtype="bf16"), "launch-floor")
    assert floor.evidence["rows"] == 18
    assert 28.95e-6 < floor.evidence["shortest_s"] < 29.05e-6
    assert 30.55e-6 < floor.evidence["longest_s"] < 30.65e-6
    assert "all with B <= 64" in floor.message


def test_the_share_of_a_peak_that_the_device_does_not_have():
    (listed,) = published("aiter2297_claims.csv", device="MI350X", dtype="bf16").findings
    (claimed,) = audited("", "MI350X", dtype="bf16", claims=["645 TFLOPS is 60% of peak"]).findings
    for finding in (listed, claimed):
        assert finding.evidence["share_of_bf16_peak"] == pytest.approx(645 / 2306.9)
        assert finding.evidence["implied_peak_flops_per_s"] == pytest.approx(1075e12, rel=0.003)
        assert "28 % of its bf16 peak (2306.9)" in finding.message
        assert "no device in the table" in finding.message


REGRESSIONS = {"34", "80", "52", "58"}
"""TestIDs of the forward regressions that are about one step of 0.01 ms."""


def test_regressions_of_one_printed_step():
    names = ("primus339_mi300x_top10_forward.csv", "primus339_mi300x_fwd_regressions.csv")
    steps = [
        finding
        for finding in found(published(*names, device="MI300X"), "below-resolution")
        if "step_s" in finding.evidence
    ]
    assert {finding.row.split()[0] for finding in steps} == REGRESSIONS
    assert all(0.9 < finding.evidence["steps"] < 1.3 and finding.evidence["step_s"] == 1e-5 for finding in steps)


def test_two_step_gains_stand_beside_their_times():
    near = found(published("primus339_mi300x_top10_forward.csv", device="MI300X"), "below-resolution")
    assert [finding.row.split()[0] for finding in near] == ["2", "74", "6"]
    assert [finding.evidence["steps"] for finding in near] == pytest.approx([2, 2, 2])


def test_changes_that_cannot_both_hold():
    pairs = found(published("primus339_mi300x_top10_backward.csv", device="MI300X"), "contradictory-changes")
    assert [int(finding.row.split()[0]) for finding in pairs] == [49, 77, 25, 81, 29, 53, 10, 78, 26, 54]
    assert (pairs[0].evidence["low"], pairs[0].evidence["high"]) == pytest.approx((17.7926, 17.8064), abs=1e-4)
    forward = found(published("primus339_mi300x_top10_forward.csv", device="MI300X"), "contradictory-changes")
    assert [int(finding.row.split()[0]) for finding in forward] == [2, 74, 73, 49, 84, 1, 45, 6]
    extremes = found(published("primus339_mi300x_summary.csv", device="MI300X"), "contradictory-changes")
    assert [finding.row.split()[0] for finding in extremes] == ["Forward", "Backward"]
    (mean,) = found(published("primus339_mi300x_per_model.csv", device="MI300X"), "contradictory-changes")
    assert mean.row == "Llama-3.1-8B"


def test_counts_of_a_commit_message_contradict_the_table_of_the_pull_request():
    counts = table(
        "Metric | shapes ≥ +1% | shapes ≤ −1% | shapes ≥ +5% | shapes ≤ −5%",
        *("Fwd Δ% | 34 | 14 | 0 | 5", "Bwd Δ% | 83 | 0 | 82 | 0", "Comb Δ% | 83 | 0 | 82 | 0"),
    )
    message = "56/84 shapes >= +1% on bwd, 13/84 shapes >= +5% on bwd, 8/84 shapes <= -1% on bwd, 83/84 >= 1% on comb."
    wrong = audited(f"## Deltas over the same 83 shapes\n\n{counts}", claims=[message]).findings
    assert [finding.message.split("'")[1] for finding in wrong] == [
        "56/84 shapes >= +1% on bwd",
        "13/84 shapes >= +5% on bwd",
        "8/84 shapes <= -1% on bwd",
    ]


def test_ratios_the_wrong_way_round_and_parts_above_their_wholes():
    result = published(FORWARD, KERNEL, device="MI300X")
    labels = found(result, "ratio-label")
    assert [finding.message.split(":")[0] for finding in labels] == [
        "printed_new_over_old_x",
        "printed_new_over_bf16_x",
    ]
    parts = [
        (finding.row, round(1e3 * finding.evidence["part_s"], 3), round(1e3 * finding.evidence["whole_s"], 3))
        for finding in found(result, "part-above-whole")
    ]
    assert ("E=8 M=4096 N=4096 K=4096", 4.139, 4.07) in parts
    assert ("E=8 M=16640 N=8192 K=5120", 40.689, 32.276) in parts
    assert len(parts) == 9


REPORTS = sorted((PUBLISHED.parents[2] / "docs" / "results").glob("h200-*/report.md"))


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.parent.name)
def test_reports_of_this_project_hold(report):
    result = audit([read_document(report.read_bytes(), report.name)], setting("H200"))
    assert result.rows > 100
    assert result.findings == ()

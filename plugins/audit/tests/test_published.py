"""Tables of five pull requests, as printed: what is wrong with them is found, and the others are left alone."""

from pathlib import Path

import pytest
from rooflens.analysis.imports.text import tables_in
from rooflens.plugins.audit.audit import audit

from .helpers import PUBLISHED, found, published, rules, setting

DEVICE = {"aiter2297": "MI350X", "primus339": "MI355X", "aiter3783": "MI355X", "torchao3996": "MI300X"}

FORWARD, KERNEL = "torchao3996_forward.csv", "torchao3996_kernel.csv"
"""Only the second one has rates, which say how both count M."""


@pytest.mark.parametrize("name", sorted(path.name for path in PUBLISHED.glob("*.csv")))
def test_faults_of_a_table_alone(name):
    device = "MI300X" if "mi300x" in name else DEVICE.get(Path(name).stem.partition("_")[0], "RX 7900 XTX")
    result = published(name, device=device)
    assert result.rows
    assert rules(result) == ({"above-peak", "ratio-label"} if name == FORWARD else set())


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
    assert not found(published(FORWARD, device="MI300X", m_is="total"), "above-peak")


def test_ratios_the_wrong_way_round_in_every_row_are_a_question():
    labels = found(published(FORWARD, KERNEL, device="MI300X"), "ratio-label")
    assert [(finding.message.split(":")[0], str(finding.severity)) for finding in labels] == [
        ("printed_new_over_old_x", "question"),
        ("printed_new_over_bf16_x", "question"),
    ]


REPORTS = sorted((PUBLISHED.parents[2] / "docs" / "results").glob("h200-*/report.md"))


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.parent.name)
def test_reports_of_this_project_hold(report):
    result = audit(tables_in(report.read_bytes(), report.name), setting("H200"))
    assert result.rows > 100
    assert result.findings == ()

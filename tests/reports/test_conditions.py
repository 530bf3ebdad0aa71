"""What a report says of the time of the measurement: telemetry, canary, disturbed cells, discarded samples, timers."""

from dataclasses import replace

import pytest
from rooflens.analysis.frames.load import load_run
from rooflens.reports.build import build_report
from rooflens.reports.model import Bullets, Remarks
from rooflens.reports.render import markdown

from .measured import WATCHED
from .planted import report_of, synthetic, tables, texts

SMALL = (("toy", "up", 512, 2048), ("toy", "down", 2048, 512))
GPU = {"machine": synthetic.H200, "shapes": SMALL, "Ms": (1, 8)}
"""2 shapes x 2 M x 4 providers = 16 cells."""


def items(table):
    """A table of two columns as a dictionary."""
    return {row[0]: row[1] for row in texts(table)[1:]}


def limits_of(report):
    (section,) = [section for section in report.walk() if section.id == "limits"]
    return [item for block in section.blocks if isinstance(block, Bullets | Remarks) for item in block.items]


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """Three rounds, so that the canary disturbs every cell."""
    return report_of(tmp_path_factory.mktemp("watched") / "run", **GPU, **WATCHED)


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    """Two rounds, so that only blas at M=1 is disturbed."""
    return report_of(tmp_path_factory.mktemp("calm") / "run", **GPU, **WATCHED, rounds=2)


def test_the_overview_by_hand(watched, calm):
    shown = items(tables(watched)["conditions-table"])
    assert shown["telemetry"] == "nvml: NVIDIA's driver"
    assert shown["clock held down by"] == "power_cap in 25% of the batches"
    assert shown["other processes on the device"] == "none seen"
    assert shown["canary"] == "3 readings"
    assert shown["disturbed cells"] == "16 / 16"
    assert shown["discarded samples"] == "2 / 480 (negative time 2)"
    assert items(tables(calm)["conditions-table"])["disturbed cells"] == "2 / 16"


def test_telemetry_and_canary_by_hand(watched, tmp_path):
    table = tables(watched)["telemetry-table"]
    assert texts(table)[1:] == [
        ["clock", "1.755 GHz", "1.867 GHz", "1.980 GHz"],
        ["memory clock", "3.200 GHz", "3.200 GHz", "3.200 GHz"],
        ["temperature", "41 °C", "52 °C", "63 °C"],
        ["power", "310 W", "504 W", "698 W"],
    ]
    assert [cell.value for cell in table.rows[0][1:]] == pytest.approx([1.755e9, 1.8675e9, 1.98e9])
    assert "96 batches" in table.reading
    # Slopes of ln(time) between the pairs: 0, ln(1.041)/2 and ln(1.041) a minute; their median, over two minutes.
    assert texts(tables(watched)["canary-table"])[1:] == [["GEMM", "3", "4.10", "+4.10"], ["copy", "3", "0.00", "0.00"]]
    assert "were read once per batch of samples" in " ".join(limits_of(watched))
    host = report_of(tmp_path / "host", **GPU, telemetry=lambda cell, round_: [{"busy_elsewhere": 0.25}])
    assert texts(tables(host)["telemetry-table"])[1:] == [["cores busy with other work", "25%", "25%", "25%"]]
    assert "are not stored with the samples" in " ".join(limits_of(host))  # no clock


def test_disturbed_cells_are_named_with_what_moved(watched, calm, tmp_path, monkeypatch):
    table = tables(calm)["disturbed"]
    assert [row[:4] for row in texts(table)[1:]] == [
        ["blas", "toy up", "512×2048", "1"],
        ["blas", "toy down", "2048×512", "1"],
    ]
    assert {row[-1] for row in texts(table)[1:]} == {"2 other processes on the device"}
    everything = texts(tables(watched)["disturbed"])[1:]
    assert len(everything) == 16
    assert everything[0][-1] == "2 other processes on the device; canary slowed down by 4.1 % (gemm)"
    monkeypatch.setattr("rooflens.reports.sections.conditions.conditions.MOST_DISTURBED", 5)
    bounded = tables(report_of(tmp_path / "run", **GPU, **WATCHED))["disturbed"]
    assert (len(bounded.rows), "5 of 16, those with most causes first" in bounded.reading) == (5, True)
    assert [row[0].text for row in bounded.rows[:3]] == ["blas", "blas", "simt_4bit"]


def test_a_run_without_telemetry_and_canary_says_not_recorded_and_no_more(tmp_path):
    report = report_of(tmp_path / "run", **GPU, columns=lambda cell, round_: dict.fromkeys(
        ("cold_by", "copies", "launches_per_sample", "discarded", "disturbed", "tuning")))  # fmt: skip
    found = tables(report)
    assert items(found["conditions-table"]) == {"telemetry": "not recorded", "canary": "not recorded"}
    assert not {"telemetry-table", "canary-table", "disturbed"} & set(found)
    protocol = items(found["protocol-table"])
    assert (protocol["cold by"], protocol["configurations"]) == ("not recorded", "not recorded")
    assert not {"launches per sample", "copies of the operands", "candidates per search"} & set(protocol)
    assert "Clocks, temperature and power are not stored with the samples" in " ".join(limits_of(report))


def test_what_events_have_beyond_the_records_is_said(tmp_path):
    run = load_run(synthetic.write_run(tmp_path / "run", **GPU, columns=lambda cell, round_: {"timer": "profiler"}))
    assert "launching" not in items(tables(build_report(run))["protocol-table"])
    beside = run.samples.assign(event_time_s=run.samples["time_s"] + 3e-6)
    launching = items(tables(build_report(replace(run, samples=beside)))["protocol-table"])["launching"]
    assert launching.startswith("not in the times: between events the same launches take 3.0 µs more in the median")


def test_how_it_was_timed_by_hand(tmp_path):
    def columns(cell, round_):
        if cell.provider == "blas":
            return {"timer": "event", "cold_by": "flush"}
        tuned = {"tuning": "cold", "candidates": 8 * cell.M, "tuning_s": 1.5}
        return {"timer": "graph", "cold_by": "rotation", "copies": 6 + cell.M, "launches_per_sample": 14, **tuned}

    report = report_of(tmp_path / "run", **GPU, columns=columns)
    protocol = items(tables(report)["protocol-table"])
    assert (
        protocol["timer"] == "graph: device graph of launches (12 cells); "
        "event: device events around each launch; launching it is in the time (4 cells)"
    )
    assert protocol["launches per sample"] == "14"
    assert protocol["cold by"].startswith("rotation among copies of the operands")
    assert protocol["cold by"].endswith("(4 cells)")
    assert protocol["copies of the operands"] == "7 to 14, median 10.5"
    assert protocol["configurations"] == "cold: searched anew in this run (12 cells); default: no search (4 cells)"
    assert protocol["candidates per search"] == "8 to 64, median 36"
    assert protocol["time spent on searches"] == "18.000 s"


def test_nothing_is_compared_across_timers(tmp_path):
    columns = {"columns": lambda cell, round_: {"timer": "graph"} if cell.provider == "simt_4bit" else {}}
    report = report_of(tmp_path / "run", **GPU, **columns)
    found = tables(report)
    assert "speedup-bf16-nf4-g64-cold-simt-4bit" not in found
    assert "speedup-bf16-nf4-g64-cold-blas" in found
    assert "timer differs: graph here, event for dequant_blas" in markdown.render(report).text

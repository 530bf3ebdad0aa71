"""Telemetry over a run and per cell, by hand."""

import math

import pytest
from rooflens.analysis.frames.load import load_run
from rooflens.analysis.frames.telemetry import conditions
from rooflens.analysis.run.pipeline import analyze
from rooflens.analysis.run.summarize import summarize

from ..synthetic import H200, write_run

ONE = {"shapes": (("m", "l", 64, 96),), "Ms": (4,), "providers": ("simt_4bit", "dequant_blas"), "machine": H200}


def planted(cell, round_):
    """Two batches a round: 12 in all; simt runs slower and slower, and hot in its last batch."""
    if cell.provider == "dequant_blas":
        return [{"clock_hz": 1.98e9, "temperature_c": 40.0, "power_w": 300.0, "slowdown": "power_cap"}] * 2
    first = {"clock_hz": 1.98e9 - 1e8 * round_, "temperature_c": 50.0, "power_w": 500.0, "other_processes": 0}
    last = {"clock_hz": 1.90e9 - 1e8 * round_, "temperature_c": 86.0, "other_processes": 2}
    return [first, last | ({"slowdown": "thermal power_cap"} if round_ == 2 else {})]


def test_ranges_shares_and_other_processes(tmp_path):
    found = analyze(load_run(write_run(tmp_path, **ONE, telemetry=planted))).conditions
    assert found.batches == 12
    assert found.clock_hz == (1.70e9, 1.98e9, 1.98e9)  # 1.98 six times and once more, 1.90, 1.88, 1.80, 1.78, 1.70
    assert found.temperature_c == (40.0, 45.0, 86.0)
    assert found.power_w == (300.0, 300.0, 500.0)  # three batches do not know it
    assert found.memory_clock_hz is None
    assert found.slowdowns == (("power_cap", 7 / 12), ("thermal", 1 / 12))
    assert found.other_processes == 2
    assert found.busy_elsewhere is None


def test_a_cell_has_its_median_clock_and_the_words_of_its_batches(tmp_path):
    def hot(cell, round_, index):
        return "thermal slowdown" if cell.provider == "simt_4bit" and round_ == 2 and index > 7 else ""

    for discards in ({}, {"discards": hot}):
        summary = summarize(load_run(write_run(tmp_path, **ONE, telemetry=planted, **discards))).set_index("provider")
        # 1.98, 1.90, 1.88, 1.80, 1.78, 1.70
        assert summary["clock_hz"].to_dict() == pytest.approx({"simt_4bit": 1.84e9, "dequant_blas": 1.98e9})
        assert summary["slowdown"].to_dict() == {"simt_4bit": "thermal power_cap", "dequant_blas": "power_cap"}
        assert (summary["disturbed"] == "").all(), "a power limit only labels"
        assert summary.loc["dequant_blas", "note"].startswith("the power limit held its clock down")
        note = summary.loc["simt_4bit", "note"]
        words = "samples were discarded (thermal slowdown)" if discards else "its clock was held down (thermal)"
        assert f"{words}: let the device cool" in note
        assert note.count("let the device cool") == 1


def test_without_telemetry_nothing_is_known(tmp_path):
    run = load_run(write_run(tmp_path / "run", **ONE))
    summary = summarize(run)
    assert summary["clock_hz"].isna().all()
    assert (summary["slowdown"] == "").all()
    assert (summary["note"] == "").all()
    assert conditions(run.telemetry) is None
    host = load_run(write_run(tmp_path / "host", **ONE, telemetry=lambda cell, round_: [{"busy_elsewhere": 0.25}]))
    found = conditions(host.telemetry)
    assert (found.clock_hz, found.other_processes, found.slowdowns) == (None, None, ())
    assert found.busy_elsewhere == (0.25, 0.25, 0.25)


def test_telemetry_of_a_round_that_was_not_committed_is_ignored(tmp_path):
    folder = write_run(tmp_path, **ONE, telemetry=planted)
    before = load_run(folder)
    with (folder / "telemetry.csv").open("a") as file:
        file.write("0123456789abcdef,0,0,0,1,,,,,,\n" + before.telemetry["cell_id"].iloc[0] + ",7,0,0,1,,,,,,\n")
        file.write("0123456789abcdef,0,1,1,2")
    again = load_run(folder)
    assert again.telemetry.equals(before.telemetry)
    assert math.isfinite(summarize(again)["clock_hz"].iloc[0])

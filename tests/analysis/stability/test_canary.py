"""The canary: drift over a run against scipy, and what moved around a round, by hand."""

import math

import numpy as np
import pandas as pd
import pytest
from rooflens.analysis.frames.load import load_run
from rooflens.analysis.run.pipeline import analyze
from rooflens.analysis.run.summarize import summarize
from rooflens.analysis.stability.canary import KINDS, changes, disturbances, drifts_by_device, slowdown, thresholds
from scipy import stats

from ..several_devices import reading, stamp
from ..synthetic import H200, write_run

ONE = {"shapes": (("m", "l", 64, 96),), "Ms": (4,), "providers": ("simt_4bit", "dequant_blas")}


ON_GPU = dict.fromkeys(KINDS, slowdown(is_cpu=False))


def cell(name: str, minute: float, elapsed_s: float = 1.0, process: int = 0) -> dict[str, object]:
    return {"cell_id": name, "process": process, "started_at": stamp(minute), "elapsed_s": elapsed_s}


def test_drift_is_slowest_over_fastest_and_the_line_of_theil_and_sen():
    rng = np.random.default_rng(3)
    minutes = np.arange(12.0)
    gemm = 1e-3 * np.exp(0.004 * minutes + rng.normal(0, 0.002, 12))
    gemm[5] *= 1.3  # one reading beside a burst of other work
    canary = pd.DataFrame([reading(minute, time) for minute, time in zip(minutes, gemm, strict=True)])
    found, copy = drifts_by_device(canary.sample(frac=1, random_state=1), None)[0]  # in any order
    assert (found.kind, found.readings) == ("gemm", 12)
    assert found.range == pytest.approx(gemm.max() / gemm.min() - 1)
    assert found.trend == pytest.approx(math.expm1(11 * stats.theilslopes(np.log(gemm), minutes).slope))
    assert found.trend == pytest.approx(math.expm1(0.044), abs=0.005)  # the planted one, in spite of the outlier
    assert (copy.kind, copy.range, copy.trend) == ("copy", 0.0, 0.0)
    alone = drifts_by_device(canary.head(1), None)[0]
    assert [(drift.readings, drift.range, drift.trend) for drift in alone] == [(1, None, None)] * 2
    assert drifts_by_device(canary.head(0), None) == {}


def test_the_trend_of_a_long_run_spans_all_of_it():
    minutes = np.arange(1203) / 40
    canary = pd.DataFrame([reading(minute, 1e-3 * math.exp(0.002 * minute)) for minute in minutes])
    assert drifts_by_device(canary, None)[0][0].trend == pytest.approx(math.expm1(0.002 * minutes[-1]), rel=1e-6)


def test_the_readings_around_a_round_are_the_last_before_and_the_first_after_it():
    canary = pd.DataFrame([reading(0, 1.0e-3), reading(1, 1.1e-3), reading(2, 1.21e-3, 3e-3)])
    cells = pd.DataFrame(
        [cell("early", 0.2), cell("late", 1.2), cell("long", 0.5, 45), cell("last", 2.5), cell("first", 0)]
    )
    gemm = changes(cells, canary)["gemm"]
    assert gemm.to_list()[:3] == pytest.approx([0.1, 0.1, 0.21])
    assert math.isnan(gemm[3])  # nothing after it
    assert gemm[4] == pytest.approx(0.1)  # a reading at the moment that it began was before it
    assert changes(cells, canary)["copy"].to_list()[:3] == pytest.approx([0, 0.5, 0.5])


def test_only_a_slowdown_over_3_percent_disturbs_and_the_largest_of_a_cell_is_told():
    canary = pd.DataFrame([reading(0, 1e-3, 2e-3), reading(1, 1.029e-3, 1.9e-3), reading(2, 1.071e-3, 1.9e-3),
                           reading(3, 1.0e-3, 2.0e-3)])  # fmt: skip
    cells = pd.DataFrame(
        [cell("a", 0.1), cell("b", 1.1), cell("c", 2.1), cell("twice", 1.1), cell("twice", 2.1), cell("after", 4.0)],
        index=[10, 11, 12, 13, 14, 15],
    )
    assert disturbances(cells, canary, None, ON_GPU).to_dict() == {
        "b": "canary slowed down by 4.1 % (gemm)",  # and before "a", 5.0 % faster (copy)
        "c": "canary slowed down by 5.3 % (copy)",  # and 6.6 % faster (gemm)
        "twice": "canary slowed down by 4.1 % (gemm), 5.3 % (copy)",
    }
    faster = pd.DataFrame([reading(0, 1e-3, 2e-3), reading(1, 0.961e-3, 1.9e-3)])
    assert disturbances(cells.head(1), faster, None, ON_GPU).empty
    back = pd.DataFrame([reading(0, 1e-3), reading(1, 0.961e-3), reading(2, 1e-3)])  # up and down: a slowdown too
    assert disturbances(cells.head(2), back, None, ON_GPU).to_dict() == {"b": "canary slowed down by 4.1 % (gemm)"}
    assert disturbances(cells, canary.head(0), None, ON_GPU).empty
    for copy_s, expected in ((2.19e-3, {}), (2.21e-3, {10: "canary slowed down by 10.5 % (copy)"})):
        canary = pd.DataFrame([reading(0, 1e-3, 2e-3), reading(1, 1e-3, copy_s)])
        limits = thresholds(canary.head(1), is_cpu=True)  # a CPU shares its memory and may move by 10 %
        assert disturbances(cells.head(1).assign(cell_id=10), canary, None, limits).to_dict() == expected


@pytest.mark.parametrize("none", ["once", "-1-01-01", "0001-01-01", "9999-12-31T23:59:59Z", ""])
def test_a_time_that_is_none_is_passed_over(none):
    canary = pd.DataFrame([reading(0, 1e-3), reading(2, 2e-3)])
    cells = pd.DataFrame([cell("good", 1), cell("bad", 1) | {"started_at": "yesterday"}])
    assert disturbances(cells, canary, None, ON_GPU).index.tolist() == ["good"]
    lost = canary.assign(at=[none, stamp(2)])
    assert disturbances(cells, lost, None, ON_GPU).empty


def run_with_canary(tmp_path, **options):
    """Rounds begin at minutes 0, 1, 2; the canary moves by 4.1 % between minutes 1.5 and 2.5."""
    canary = [reading(0, 1e-3), reading(0.5, 1e-3), reading(1.5, 1e-3), reading(2.5, 1.041e-3)]
    return load_run(write_run(tmp_path / "run", **ONE | {"machine": H200}, canary=canary, **options))


def test_the_summary_joins_what_rounds_and_canary_say(tmp_path):
    def said(cell, round_):
        text = "clock from 1500 to 1980 MHz" if cell.provider == "simt_4bit" and round_ < 2 else ""
        return {"disturbed": text}

    summary = summarize(run_with_canary(tmp_path, columns=said)).set_index("provider")
    assert summary.loc["dequant_blas", "disturbed"] == "canary slowed down by 4.1 % (gemm)"
    assert summary.loc["simt_4bit", "disturbed"] == "clock from 1500 to 1980 MHz; canary slowed down by 4.1 % (gemm)"
    assert summary["note"].str.startswith("disturbed while it was measured").all()
    failed = {"failures": lambda cell: ("oom", "no memory") if cell.provider == "simt_4bit" else None}
    assert [*summarize(run_with_canary(tmp_path, **failed))["disturbed"]] == ["", "canary slowed down by 4.1 % (gemm)"]
    said = ("other processes used 9% of the cores", "other processes used 51% of the cores; clock moved", "clock moved")
    run = load_run(write_run(tmp_path / "cpu", **ONE, columns=lambda cell, round_: {"disturbed": said[round_]}))
    assert set(summarize(run)["disturbed"]) == {"other processes used 51% of the cores; clock moved"}
    canary = "disturbed while it was measured (canary's gemm)"
    assert summary.loc["dequant_blas", "note"] == canary  # one footnote for all, whatever the numbers
    assert summary.loc["simt_4bit", "note"].split("; ") == [canary.replace("canary's gemm", "clock"), canary]


def starts(scatter: float, minute: float = 0.0, count: int = 6, process: int = 0) -> list[dict[str, object]]:
    """Readings of one moment: the GEMM alternates by `scatter`, the copy does not move."""
    return [reading(minute + 0.001 * n, 1e-3 * math.exp(scatter * (-1) ** n), process=process) for n in range(count)]


def test_the_scatter_of_readings_at_the_start_is_what_a_slowdown_has_to_exceed():
    found = thresholds(pd.DataFrame(starts(0.03)), is_cpu=True)
    logs = 0.03 * np.array([1, -1, 1, -1, 1, -1])
    assert found["gemm"] == pytest.approx(math.expm1(stats.t.ppf(0.995, 5) * math.sqrt(2) * logs.std(ddof=1)))
    assert found["copy"] == slowdown(is_cpu=True)  # what is below is of no interest
    several = [*starts(0.03), *[row | {"gemm_s": 2 * row["gemm_s"]} for row in starts(0.03, process=1)]]
    pooled = thresholds(pd.DataFrame(several), is_cpu=True)["gemm"]  # processes differ, and that is no scatter
    assert pooled == pytest.approx(math.expm1(stats.t.ppf(0.995, 10) * math.sqrt(2 * 12 * 0.03**2 / 10)))
    single = pd.DataFrame(starts(0.03, count=1))
    assert thresholds(single, is_cpu=True) == thresholds(single.head(0), is_cpu=True) == dict.fromkeys(KINDS, 0.1)
    wild = thresholds(pd.DataFrame(starts(300, count=2)), is_cpu=True)["gemm"]
    assert 1e300 < wild < math.inf


@pytest.mark.parametrize(
    ("scatter", "slower", "marked"),
    [(0.005, 1.16, True), (0.03, 1.16, False), (0.03, 1.32, True), (0.03, 2.0, True), (0.3, 2.0, False)],
)
def test_a_run_is_disturbed_by_what_its_start_does_not_explain(tmp_path, scatter, slower, marked):
    """Rounds begin at minutes 0, 1, 2, 5 s after the full minute; the CPU slows down in the last of them."""
    later = [reading(1.5, 1e-3), reading(2.5, slower * 1e-3)]
    run = load_run(write_run(tmp_path / "run", **ONE, canary=[*starts(scatter), *later]))
    assert (len(run.starts), len(run.canary)) == (6, 3)
    alone = load_run(write_run(tmp_path / "alone", **ONE, canary=[*starts(0.01, process=7), later[0]]))
    assert (len(alone.starts), len(alone.canary)) == (0, 7), "of a process without a time"
    assert run.canary["gemm_s"].to_list() == pytest.approx([1e-3, 1e-3, slower * 1e-3], rel=0.05)
    assert (summarize(run)["disturbed"] != "").to_list() == [marked] * 2
    warned = [text for text in analyze(run).warnings if "absolute times drifted" in text]
    assert len(warned) == marked

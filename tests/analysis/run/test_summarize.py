"""One row per cell, against hand computation, scipy and planted truth."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from rooflens.analysis.frames.load import load_run
from rooflens.analysis.run.pipeline import placed
from rooflens.analysis.run.summarize import round_medians, summarize
from rooflens.shapes.run_folder.columns import CELLS
from rooflens.shapes.run_folder.columns_computed import COMPUTED
from scipy import stats

from ..synthetic import H200, PlantedCell, write_run

ONE = {"shapes": (("m", "l", 64, 96),), "Ms": (4,), "providers": ("simt_4bit", "dequant_blas")}


def load(tmp_path, **options):
    return load_run(write_run(tmp_path / "run", **options))


def test_rates_of_an_exact_time(tmp_path):
    run = load(tmp_path, **ONE, latency=lambda cell: 1e-3, round_noise=0, sample_noise=0)
    row = summarize(run).iloc[0]
    flops = 2 * 4 * 64 * 96
    weight = 64 * 96 // 2 + 4 * (64 * 96 // 64)  # nibbles, and fp32 absmax per 64 elements
    compulsory = weight + 2 * (4 * 96 + 4 * 64)  # and bf16 activations and output
    assert (row["flops"], row["compulsory_bytes"]) == (flops, compulsory)
    assert row["time_s"] == pytest.approx(1e-3)
    assert row["flops_per_s"] == pytest.approx(flops / 1e-3)
    assert row["bandwidth_bytes_per_s"] == pytest.approx(compulsory / 1e-3)
    assert row["moved_bandwidth_bytes_per_s"] == pytest.approx(row["moved_bytes"] / 1e-3)
    assert (row["rounds"], row["samples"], row["verdict"], row["stop_reason"]) == (3, 30, "passed", "converged")


def test_every_computed_column_is_described(tmp_path):
    run = load(tmp_path, **ONE)
    cells, _ = placed(run, summarize(run))
    assert set(cells.columns) - {*CELLS.names} == {*COMPUTED.names}


def test_rows_follow_the_manifest_and_rising_M(tmp_path):
    shapes = (("z", "first", 64, 96), ("a", "second", 32, 96))
    run = load(tmp_path, shapes=shapes, Ms=(16, 2, 4), providers=("z_4bit", "blas"), caches=("warm", "cold"), rounds=1)
    summary = summarize(run)
    assert summary["cache"].tolist() == ["cold"] * 12 + ["warm"] * 12
    assert summary["layer"].tolist()[:12] == ["first"] * 6 + ["second"] * 6
    assert summary["M"].tolist()[:6] == [2, 2, 4, 4, 16, 16]
    assert summary["provider"].tolist()[:4] == ["z_4bit", "blas"] * 2


@pytest.mark.parametrize("discarded", [False, True])
@pytest.mark.parametrize("rounds", [2, 5])
def test_a_time_is_the_geometric_mean_of_round_medians_with_students_interval(tmp_path, rounds, discarded):
    """Samples that are discarded, and ten times too long, count nowhere."""

    def every_fifth(cell: PlantedCell, round_: int, index: int) -> str:
        return "thermal slowdown" if discarded and index % 5 == round_ else ""

    run = load(tmp_path, **ONE, rounds=rounds, samples=20, discards=every_fifth)
    cells, samples = run.cells.copy(), run.samples.copy()
    medians = round_medians(run)
    for row in summarize(run).to_dict("records"):
        own = run.samples[(run.samples["cell_id"] == row["cell_id"]) & (run.samples["discarded"] == "")]
        by_round = own.groupby("round")["time_s"].median()
        assert medians.loc[medians["cell_id"] == row["cell_id"], "median_s"].tolist() == pytest.approx([*by_round])
        truth = stats.ttest_1samp(np.log(by_round), 0).confidence_interval(0.95)
        assert row["time_s"] == pytest.approx(stats.gmean(by_round))
        assert (row["time_low_s"], row["time_high_s"]) == pytest.approx((math.exp(truth.low), math.exp(truth.high)))
        assert (row["samples"], row["discarded"]) == (len(own), 20 * rounds - len(own))
        assert row["note"].startswith("samples were discarded (thermal slowdown): let the device cool" * discarded)
    assert run.cells.equals(cells), "nothing is mutated"
    assert run.samples.equals(samples)


def test_a_coarse_timer_is_noticed_and_widens_the_interval(tmp_path):
    fine = summarize(load(tmp_path / "fine", **ONE, latency=lambda cell: 1e-5))
    assert fine["resolution_s"].isna().all()
    assert (fine["note"] == "").all()
    noise = {"quantum_s": 1e-6, "round_noise": 0, "sample_noise": 0.08}
    coarse = summarize(load(tmp_path, **ONE, latency=lambda cell: 1e-5, **noise))
    assert coarse["resolution_s"].tolist() == pytest.approx([1e-6, 1e-6])
    assert coarse["note"].str.match(r"timer step 1 us is \d+\.\d% of the time").all()
    assert (coarse["time_high_s"] - coarse["time_low_s"] >= 0.99e-6).all()


def test_a_failed_cell_keeps_its_row_and_reason_and_no_time(tmp_path):
    def fails(cell: PlantedCell) -> tuple[str, str] | None:
        return ("compile_error", "LLVM ERROR") if cell.provider == "simt_4bit" else None

    run = load(tmp_path, **ONE, failures=fails)
    failed, passed = summarize(run).to_dict("records")
    assert (failed["verdict"], failed["reason"], failed["rounds"]) == ("compile_error", "LLVM ERROR", 0)
    assert np.isnan([failed["time_s"], failed["flops_per_s"], failed["snr_db"]]).all()
    assert failed["flops"] == 2 * 4 * 64 * 96
    assert passed["verdict"] == "passed"
    run.cells.loc[run.cells["round"] == 2, ["verdict", "reason"]] = "crashed", "signal 11"
    later = summarize(replace(run, samples=run.samples[run.samples["round"] < 2])).iloc[1]
    assert (later["verdict"], later["reason"], later["rounds"]) == ("crashed", "signal 11", 2)
    assert math.isnan(later["time_s"])


GEOMETRY = {
    "tile_M": 16, "tile_N": 64, "workgroups": 24, "resident": 3, "issued_flops": 1 << 40, "decode_per_weight": 2.5,
    "decoded_weights": 1 << 30, "decode_integer_per_weight": 1.25,
}  # fmt: skip
SEARCHED = {"tuning": "cold", "candidates": 24, "tuning_s": 3.5}


def test_what_rows_say_of_a_cell_is_passed_through_and_the_worst_of_its_rounds_is_told(tmp_path):
    run = load(tmp_path, **ONE, columns=lambda cell, _: GEOMETRY | SEARCHED if cell.provider == "simt_4bit" else {})
    worst = {"snr_db": 44.0, "relative_error": 6e-3, "stop_reason": "budget", "config": '{"BLOCK_N": 128}'}
    run.cells.loc[(run.cells["provider"] == "simt_4bit") & (run.cells["round"] == 1), [*worst]] = [*worst.values()]
    rows = summarize(run).set_index("provider")
    assert rows.loc["simt_4bit", [*GEOMETRY, *SEARCHED]].to_dict() == GEOMETRY | SEARCHED
    assert rows.loc["simt_4bit", [*worst][:3]].tolist() == [*worst.values()][:3]
    assert rows.loc["simt_4bit", "note"].startswith("its configuration differs between rounds")
    assert rows.loc["dequant_blas", [*GEOMETRY, "candidates", "tuning_s"]].isna().all()
    assert rows.loc["dequant_blas", "tuning"] == "default"
    assert set(map(str, rows[[*GEOMETRY]].dtypes)) == {"float64"}


def test_a_cell_that_was_measured_again_with_other_source_counts_once(tmp_path):
    run = load(tmp_path, **ONE, latency=lambda cell: 1e-3, round_noise=0, sample_noise=0)
    old = run.cells["cell_id"].iloc[0]
    newer = run.cells[run.cells["cell_id"] == old].assign(cell_id="new")
    faster = run.samples[run.samples["cell_id"] == old].assign(cell_id="new", time_s=5e-4)
    run = replace(run, cells=pd.concat([run.cells, newer], ignore_index=True), samples=pd.concat([run.samples, faster]))
    summary = summarize(run)
    assert len(summary) == 2
    row = summary[summary["cell_id"] == "new"].iloc[0]
    assert row["time_s"] == pytest.approx(5e-4)
    assert "measured again" in row["note"]


GRAPHED = {"timer": "graph", "copies": 8, "cold_by": "rotation", "launches_per_sample": 66}
SAID = {"blocked": False, "reason": "the launch waits for the device; always"}


@pytest.mark.parametrize(
    ("usual", "second", "summarized", "note"),
    [
        (GRAPHED | {"launches_per_sample": 64}, GRAPHED, GRAPHED, "a sample is the mean over 66 launches"),
        ({"blocked": True}, {"blocked": False}, {}, "host latency is in it, because the device waited for launches: "),
        (SAID | {"blocked": True}, SAID, {}, "the launch waits for the device, always"),  # one round is enough
        (
            {"timer": "a"},
            {"timer": "b"},
            {"timer": "mixed"},
            "its rounds differ in timer: measure it again with one timer",
        ),
        ({"cold_by": "a"}, {"cold_by": "b"}, {"cold_by": "mixed"}, "its rounds differ in cold_by: "),
        ({"tuning": "a"}, {"tuning": "b"}, {"tuning": "mixed"}, "its rounds differ in tuning: "),
    ],
)
def test_how_a_time_was_taken_is_in_the_summary(tmp_path, usual, second, summarized, note):
    def taken(cell: PlantedCell, round_: int) -> dict[str, object]:
        return {} if cell.provider != "simt_4bit" else second if round_ == 1 else usual

    summary = summarize(load(tmp_path, **ONE, machine=H200, columns=taken)).set_index("provider")
    assert summary.loc["simt_4bit", [*summarized]].to_dict() == summarized
    assert summary.loc["simt_4bit", "note"].startswith(note)
    assert summary.loc["dequant_blas", "note"] == ""
    if second is GRAPHED:
        assert summary.loc["simt_4bit", "remarks"] == (summary.loc["simt_4bit", "note"].replace("66", "many"),)


@pytest.mark.parametrize("column", ["host_time_s", "event_time_s", "kernels_s"])
def test_what_stands_beside_the_time_is_the_geometric_mean_of_round_medians(tmp_path, column):
    folder = write_run(tmp_path, **ONE, latency=lambda cell: 1e-3)
    run = load_run(folder)
    run = replace(run, samples=run.samples.assign(**{column: run.samples["time_s"] * (1 + run.samples["round"])}))
    row = summarize(run).iloc[0]
    own = run.samples[run.samples["cell_id"] == row["cell_id"]]
    assert row[column] == pytest.approx(stats.gmean(own.groupby("round")[column].median()))

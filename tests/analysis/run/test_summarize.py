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

from ..synthetic import CPU, H200, PlantedCell, write_run

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


def test_geometric_mean_of_round_medians_not_of_pooled_samples(tmp_path):
    run = load(tmp_path, **ONE, samples=21)
    summary, medians = summarize(run), round_medians(run)
    for row in summary.to_dict("records"):
        own = run.samples[run.samples["cell_id"] == row["cell_id"]]
        by_round = [np.median(own.loc[own["round"] == number, "time_s"]) for number in range(3)]
        assert medians.loc[medians["cell_id"] == row["cell_id"], "median_s"].tolist() == pytest.approx(by_round)
        assert row["time_s"] == pytest.approx(stats.gmean(by_round))


@pytest.mark.parametrize("rounds", [2, 3, 5])
def test_the_interval_of_a_few_cells_is_that_of_scipy_over_their_rounds(tmp_path, rounds):
    run = load(tmp_path, **ONE, rounds=rounds)
    medians = round_medians(run)
    for row in summarize(run).to_dict("records"):
        logs = np.log(medians.loc[medians["cell_id"] == row["cell_id"], "median_s"])
        truth = stats.ttest_1samp(logs, 0).confidence_interval(0.95)
        assert row["time_low_s"] == pytest.approx(math.exp(truth.low))
        assert row["time_high_s"] == pytest.approx(math.exp(truth.high))


def test_one_round_has_no_interval_whatever_its_samples_and_its_neighbours(tmp_path):
    def skipped(cell: PlantedCell, round_: int) -> bool:
        return round_ > 0 and cell.M == 4

    many = {"shapes": (("m", "l", 64, 96),), "Ms": tuple(range(1, 12)), "providers": ("simt_4bit", "dequant_blas")}
    summary = summarize(load(tmp_path, **many, samples=60, skip=skipped))
    assert summary["time_s"].notna().all()
    assert (summary["time_low_s"].isna() == (summary["M"] == 4)).all()
    assert (summary["time_high_s"].isna() == (summary["M"] == 4)).all()


def uneven(cell: PlantedCell) -> float:
    """Standard deviation from round to round, log-normal over the cells around 0.8 %: a tenth have over 2 %."""
    uniform = (int(cell.cell_id, 16) + 0.5) / 16**16
    return 0.008 * math.exp(0.75 * float(stats.norm.ppf(uniform)))


@pytest.mark.parametrize(
    ("rounds", "correlation"),
    [(2, 0.95), *(pytest.param(*one, marks=pytest.mark.slow) for one in ((2, 0.0), (3, 0.0), (3, 0.95), (8, 0.95)))],
)
def test_intervals_cover_the_planted_time_in_95_percent_of_cells_with_their_own_noise(tmp_path, rounds, correlation):
    shapes = [("m", f"l{index}", 64, 96) for index in range(500)]
    run = load(
        tmp_path, shapes=shapes, Ms=(1,), providers=("a", "b"), latency=lambda cell: 1e-3, rounds=rounds, samples=12,
        round_noise=uneven, sample_noise=0.01, correlation=correlation, seed=rounds,
    )  # fmt: skip
    summary = summarize(run)
    covered = (summary["time_low_s"] <= 1e-3) & (summary["time_high_s"] >= 1e-3)
    assert len(summary) == 1000
    assert 0.93 <= covered.mean() <= 0.97
    assert summary["time_s"].between(summary["time_low_s"], summary["time_high_s"]).all()


def test_a_coarse_timer_is_noticed_and_widens_the_interval(tmp_path):
    fine = summarize(load_run(write_run(tmp_path / "fine", **ONE, latency=lambda cell: 1e-5)))
    assert fine["resolution_s"].isna().all()
    assert (fine["note"] == "").all()
    run = load_run(
        write_run(
            tmp_path / "coarse", **ONE, latency=lambda cell: 1e-5, quantum_s=1e-6, round_noise=0, sample_noise=0.08
        )
    )
    coarse = summarize(run)
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


def relabel(run, record: int, **values):
    """Return the run with fields of one commit row replaced, and its samples dropped when it no longer passes."""
    cells = run.cells.copy()
    for column, value in values.items():
        cells.loc[record, column] = value
    keys = cells.loc[cells["verdict"] == "passed", ["cell_id", "round"]]
    return replace(run, cells=cells, samples=run.samples.merge(keys, on=["cell_id", "round"]))


def test_a_failure_in_a_later_round_fails_the_cell(tmp_path):
    run = load(tmp_path, **ONE)
    run = relabel(run, 4, verdict="crashed", reason="signal 11")
    row = summarize(run).set_index("cell_id").loc[run.cells["cell_id"].iloc[4]]
    assert (row["verdict"], row["reason"], row["rounds"]) == ("crashed", "signal 11", 2)
    assert math.isnan(row["time_s"])


def test_the_worst_accuracy_and_the_budget_are_what_is_reported(tmp_path):
    run = relabel(load(tmp_path, **ONE), 2, snr_db=44.0, relative_error=6e-3, stop_reason="budget")
    row = summarize(run).set_index("cell_id").loc[run.cells["cell_id"].iloc[2]]
    assert (row["snr_db"], row["relative_error"], row["stop_reason"]) == (44.0, 6e-3, "budget")


GEOMETRY = {
    "tile_M": 16, "tile_N": 64, "workgroups": 24, "resident": 3, "issued_flops": 1 << 40, "decode_per_weight": 2.5,
    "decoded_weights": 1 << 30, "decode_integer_per_weight": 1.25,
}  # fmt: skip


def test_the_geometry_of_a_launch_is_passed_through(tmp_path):
    run = load(tmp_path, **ONE, columns=lambda cell, round_: GEOMETRY if cell.provider == "simt_4bit" else {})
    rows = summarize(run).set_index("provider")[list(GEOMETRY)]
    assert rows.loc["simt_4bit"].to_dict() == GEOMETRY
    assert rows.loc["dequant_blas"].isna().all()
    assert set(map(str, rows.dtypes)) == {"float64"}


def test_runs_that_did_not_store_the_geometry_have_none(tmp_path):
    folder = write_run(tmp_path / "run", **ONE)
    cells = pd.read_csv(folder / "cells.csv", dtype="str", keep_default_na=False)
    cells.drop(columns=list(GEOMETRY)).to_csv(folder / "cells.csv", index=False)
    summary = summarize(load_run(folder))
    assert len(summary) == 2
    assert summary[list(GEOMETRY)].isna().all(axis=None)


def test_configurations_that_differ_between_rounds_are_noted(tmp_path):
    run = relabel(load(tmp_path, **ONE), 0, config='{"BLOCK_N": 128}')
    notes = summarize(run).set_index("cell_id")["note"]
    assert notes[run.cells["cell_id"].iloc[0]].startswith("its configuration differs between rounds")


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


def every_fifth(cell: PlantedCell, round_: int, index: int) -> str:
    return "thermal slowdown" if index % 5 == round_ else ""


def test_discarded_samples_enter_no_median_and_no_interval(tmp_path):
    run = load(tmp_path, **ONE, rounds=2, samples=20, discards=every_fifth)  # the discarded ones are ten times too long
    medians = round_medians(run)
    assert medians["samples"].tolist() == [16] * 4
    for row in summarize(run).to_dict("records"):
        own = run.samples[(run.samples["cell_id"] == row["cell_id"]) & (run.samples["discarded"] == "")]
        counting = [own.loc[own["round"] == number, "time_s"].to_numpy() for number in range(2)]
        stored = medians.loc[medians["cell_id"] == row["cell_id"], "median_s"]
        assert stored.tolist() == pytest.approx([np.median(times) for times in counting])
        truth = stats.ttest_1samp(np.log(stored), 0).confidence_interval(0.95)
        assert (row["time_low_s"], row["time_high_s"]) == pytest.approx((math.exp(truth.low), math.exp(truth.high)))
        assert (row["samples"], row["discarded"]) == (32, 8)
        assert row["note"].startswith("samples were discarded (thermal slowdown): let the device cool")


def test_discards_change_nothing_else(tmp_path):
    def last_two(cell: PlantedCell, round_: int, index: int) -> str:
        return "negative time" if index > 9 else ""

    exact = {"latency": lambda cell: 1e-3, "sample_noise": 0, "round_noise": 0}
    kept = summarize(load_run(write_run(tmp_path / "kept", **ONE, **exact)))
    lost = summarize(load_run(write_run(tmp_path / "lost", **ONE, **exact, samples=12, discards=last_two)))
    columns = ["cell_id", "time_s", "time_low_s", "time_high_s", "samples"]
    assert lost[columns].equals(kept[columns])
    assert (
        lost["note"].tolist()
        == ["samples were discarded (negative time): measure again with --timer graph or --timer profiler"] * 2
    )


def graphed(cell: PlantedCell, round_: int) -> dict[str, object]:
    return {"timer": "graph", "launches_per_sample": 64 + round_, "copies": 8, "cold_by": "rotation", "blocked": None}


def test_how_a_time_was_taken_is_in_the_summary(tmp_path):
    rows = summarize(load(tmp_path, **ONE, columns=graphed)).to_dict("records")
    for row in rows:
        assert (row["timer"], row["cold_by"], row["tuning"]) == ("graph", "rotation", "default")
        assert (row["copies"], row["launches_per_sample"]) == (8, 66)
        assert row["note"].startswith("a sample is the mean over 66 launches")
        assert row["remarks"] == (row["note"].replace("66", "many"),)


def test_notes_of_timers_say_what_to_try(tmp_path):
    def unblocked(cell: PlantedCell, round_: int) -> dict[str, object]:
        return {"blocked": round_ != 1}  # one round is enough

    host = summarize(load_run(write_run(tmp_path / "host", **ONE, machine=H200, columns=unblocked)))
    assert host["note"].unique().tolist() == [
        "host latency is in it, because the device waited for launches: --timer graph leaves it out"
    ]

    def remarked(cell: PlantedCell, round_: int) -> dict[str, object]:
        return unblocked(cell, round_) | {"reason": "the launch waits for the device; always"}

    said = summarize(load_run(write_run(tmp_path / "said", **ONE, machine=H200, columns=remarked)))
    assert said["note"].unique().tolist() == ["the launch waits for the device, always"]


@pytest.mark.parametrize(("column", "option"), [("timer", "--timer"), ("cold_by", "--cold-by"), ("tuning", "--tuning")])
def test_rounds_that_were_measured_in_different_ways_are_mixed(tmp_path, column, option):
    other = {"timer": "graph", "cold_by": "rotation", "tuning": "pinned"}[column]

    def one_round(cell: PlantedCell, round_: int) -> dict[str, object]:
        return {column: other} if round_ == 1 and cell.provider == "simt_4bit" else {}

    summary = summarize(load(tmp_path, **ONE, columns=one_round)).set_index("provider")
    assert summary.loc["simt_4bit", column] == "mixed"
    assert summary.loc["simt_4bit", "note"] == f"its rounds differ in {column}: measure it again with one {option}"
    assert summary.loc["dequant_blas", column] != "mixed"
    assert summary.loc["dequant_blas", "note"] == ""


def test_what_a_search_cost_is_in_the_summary(tmp_path):
    def searched(cell: PlantedCell, round_: int) -> dict[str, object]:
        return {"tuning": "cold", "candidates": 24, "tuning_s": 3.5} if cell.provider == "simt_4bit" else {}

    summary = summarize(load(tmp_path, **ONE, columns=searched)).set_index("provider")
    assert summary.loc["simt_4bit", ["tuning", "candidates", "tuning_s"]].tolist() == ["cold", 24, 3.5]
    assert summary.loc["dequant_blas", "tuning"] == "default"
    assert summary.loc["dequant_blas", ["candidates", "tuning_s"]].isna().all()


@pytest.mark.parametrize("column", ["host_time_s", "event_time_s", "kernels_s"])
def test_what_stands_beside_the_time_is_the_geometric_mean_of_round_medians(tmp_path, column):
    folder = write_run(tmp_path, **ONE, latency=lambda cell: 1e-3)
    run = load_run(folder)
    run = replace(run, samples=run.samples.assign(**{column: run.samples["time_s"] * (1 + run.samples["round"])}))
    row = summarize(run).iloc[0]
    own = run.samples[run.samples["cell_id"] == row["cell_id"]]
    assert row[column] == pytest.approx(stats.gmean(own.groupby("round")[column].median()))


def test_nothing_is_mutated(tmp_path):
    run = load(tmp_path, **ONE)
    cells, samples = run.cells.copy(), run.samples.copy()
    summarize(run)
    assert run.cells.equals(cells)
    assert run.samples.equals(samples)


def test_the_planted_models_are_in_the_summary(tmp_path):
    from ..synthetic import modelled_latency

    truth = modelled_latency(CPU)
    summary = summarize(load(tmp_path, round_noise=0, sample_noise=0))
    for row in summary.to_dict("records"):
        names = ("model", "layer", "N", "K", "M", "B", "dtype", "scheme", "provider", "cache")
        assert row["time_s"] == pytest.approx(truth(PlantedCell(**{name: row[name] for name in names})))

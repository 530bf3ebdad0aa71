"""Ratios, against hand computation, scipy and planted truth."""

import math
from fnmatch import fnmatchcase

import numpy as np
import pandas as pd
import pytest
from rooflens.analysis.frames.coordinates import GEMM
from rooflens.analysis.frames.load import load_run
from rooflens.analysis.frames.speedup import best_speedups, geometric_means, speedups
from rooflens.analysis.run.summarize import round_medians, summarize
from scipy import stats

from ..synthetic import PlantedCell, write_run

TIMES = {
    ("simt_4bit", 1): 1e-3, ("simt_4bit", 8): 4e-3,
    ("blas", 1): 2e-3, ("blas", 8): 2e-3,
    ("dequant_blas", 1): 6e-3, ("dequant_blas", 8): 2e-3,
}  # fmt: skip
"""Seconds by (provider, M)."""

GRID = {
    "shapes": (("m", "l", 64, 96),),
    "Ms": (1, 8),
    "providers": ("simt_4bit", "blas", "dequant_blas"),
    "latency": lambda cell: TIMES[cell.provider, cell.M],
}
EXACT = {"round_noise": 0.0, "sample_noise": 0.0}


def ratios_of(tmp_path, baseline="dequant_blas", **options):
    run = load_run(write_run(tmp_path / "run", **options))
    return speedups(summarize(run), round_medians(run), baseline)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"drift": lambda round_: (1.0, 1.4, 0.8)[round_]},  # what hits a round alike cancels
        {"discards": lambda cell, round_, index: "thermal slowdown" if index < 3 else ""},
        {"rounds": 1},
    ],
    ids=["plain", "drift", "discarded", "one round"],
)
def test_a_grid_by_hand(tmp_path, options):
    found = ratios_of(tmp_path, **GRID, **EXACT, **options).set_index(["provider", "M"])
    ratios = {("simt_4bit", 1): 6.0, ("blas", 1): 3.0, ("simt_4bit", 8): 0.5, ("blas", 8): 1.0}
    assert found["ratio"].to_dict() == pytest.approx(ratios)
    rounds = options.get("rounds", 3)
    assert (found["rounds"] == rounds).all()
    if rounds == 1:
        assert found["ratio_low"].isna().all()
        assert set(found["verdict"]) == {"undecided"}
        assert found["reason"].str.startswith("one common round").all()
        return
    for end in ("ratio_low", "ratio_high"):
        assert found[end].to_dict() == pytest.approx(ratios)
    assert found["verdict"].to_dict() == {
        ("simt_4bit", 1): "faster", ("blas", 1): "faster", ("simt_4bit", 8): "slower", ("blas", 8): "undecided",
    }  # fmt: skip
    if "drift" not in options:
        assert found.loc[("simt_4bit", 1), ["time_s", "baseline_time_s"]].tolist() == pytest.approx([1e-3, 6e-3])


def test_the_interval_of_a_ratio_does_not_depend_on_who_else_is_compared(tmp_path):
    many = {"shapes": (("m", "l", 64, 96),), "Ms": tuple(range(1, 30)), "sample_noise": 0.0}
    noise = {"round_noise": lambda cell: 0.2 if cell.provider == "blas" else 0.002}
    run = load_run(write_run(tmp_path / "run", **many, **noise, providers=("simt_4bit", "blas", "dequant_blas")))
    summary, rounds = summarize(run), round_medians(run)
    both = speedups(summary, rounds, "dequant_blas")
    alone = speedups(summary[summary["provider"] != "blas"], rounds, "dequant_blas")
    mine = both[both["provider"] == "simt_4bit"].reset_index(drop=True)
    assert mine[["ratio_low", "ratio_high"]].equals(alone[["ratio_low", "ratio_high"]])
    assert mine["log_se"].median() < 0.004  # and the noise of blas is not in it


SIMT, BOTH = ("simt_4bit",), ("simt_4bit", "dequant_blas")


@pytest.mark.parametrize(
    ("who", "columns", "reason"),
    [
        (SIMT, {"timer": ["graph"] * 3}, "timer differs: graph here, host for dequant_blas: * one timer"),
        (SIMT, {"cold_by": ["rotation"] * 3}, "cold_by differs: rotation here, flush for * one cold_by"),
        (SIMT, {"timer": [""] * 3}, "timer differs: unknown here, host for dequant_blas: *"),
        (BOTH, {"timer": ["graph", "host", "host"]}, "timer differs: mixed here, mixed for dequant_blas: *"),
        (BOTH, {"timer": ["graph"] * 3, "cold_by": ["rotation"] * 3, "tuning": ["cold"] * 3}, ""),
    ],
)
def test_times_that_were_taken_in_different_ways_have_no_ratio(tmp_path, who, columns, reason):
    def taken(cell, round_):
        return {name: values[round_] for name, values in columns.items() if cell.provider in who}

    found = ratios_of(tmp_path, **GRID, **EXACT, columns=taken)
    mine = found[found["provider"] == "simt_4bit"]
    assert (mine["note"] == "").all()
    assert all(fnmatchcase(told, reason) for told in mine["reason"])
    assert (mine["ratio"].isna() == bool(reason)).all()
    assert ((mine["verdict"] == "") == bool(reason)).all()
    means = geometric_means(found).set_index(["provider", "M"])
    assert means.loc[("simt_4bit", 1), ["gemms", "excluded"]].tolist() == ([0, 1] if reason else [1, 0])


BUSY = {"disturbed": "2 other processes on the device"}


@pytest.mark.parametrize(
    ("who", "columns", "noted", "note"),
    [
        ("blas", BUSY, {"blas"}, "disturbed while it or dequant_blas was measured (other processes on"),
        ("dequant_blas", BUSY, {"blas", "simt_4bit"}, "disturbed while it or dequant_blas was measured"),
        ("simt_4bit", {"tuning": "pinned"}, {"simt_4bit"}, "tuning differs: pinned here, default for dequant_blas"),
    ],
)
def test_what_limits_a_side_is_noted_on_every_ratio_that_it_is_in(tmp_path, who, columns, noted, note):
    found = ratios_of(tmp_path, **GRID, **EXACT, columns=lambda cell, round_: columns if cell.provider == who else {})
    assert found["ratio"].notna().all()
    assert set(found.loc[found["note"] != "", "provider"]) == noted
    assert all(text.startswith(note) for text in set(found["note"]) - {""})


def test_interval_is_that_of_scipy(tmp_path):
    run = load_run(write_run(tmp_path, **GRID, rounds=4))
    medians = round_medians(run).set_index(["cell_id", "round"])["median_s"]
    for row in speedups(summarize(run), round_medians(run), "dequant_blas").to_dict("records"):
        logs = [math.log(medians[row["baseline_cell_id"], r] / medians[row["cell_id"], r]) for r in range(4)]
        truth = stats.ttest_1samp(logs, 0).confidence_interval(0.95)
        assert row["ratio"] == pytest.approx(math.exp(np.mean(logs)))
        assert row["log_se"] == pytest.approx(stats.sem(logs))
        assert (row["ratio_low"], row["ratio_high"]) == pytest.approx((math.exp(truth.low), math.exp(truth.high)))


@pytest.mark.parametrize("rounds", [3, pytest.param(8, marks=pytest.mark.slow)])
def test_intervals_cover_the_planted_ratio_in_95_percent(tmp_path, rounds):
    found = ratios_of(
        tmp_path, shapes=[("m", f"l{index}", 64, 96) for index in range(1500)], Ms=(1,), samples=1, rounds=rounds,
        providers=("simt_4bit", "dequant_blas"), latency=lambda cell: TIMES[cell.provider, cell.M],
        round_noise=0.02, sample_noise=0, seed=rounds,
    )  # fmt: skip
    covered = (found["ratio_low"] <= 6) & (found["ratio_high"] >= 6)
    assert 0.93 <= covered.mean() <= 0.97


def test_only_common_rounds_are_paired(tmp_path):
    def not_reached(cell: PlantedCell, number: int) -> bool:
        return (cell.provider == "dequant_blas" and number == 0) or (cell.provider == "blas" and number > 0)

    found = ratios_of(tmp_path, **GRID, **EXACT, skip=not_reached).set_index(["provider", "M"])
    assert found.loc[("simt_4bit", 1), "rounds"] == 2
    assert found.loc[("blas", 1), "rounds"] == 0
    assert math.isnan(found.loc[("blas", 1), "ratio"])
    assert found.loc[("blas", 1), "reason"] == "no round in common with dequant_blas"


def test_pairs_without_a_ratio_keep_their_row_with_the_reason(tmp_path):
    def fails(cell: PlantedCell) -> tuple[str, str] | None:
        if cell.provider == "simt_4bit" and cell.M == 1:
            return "incorrect", "SNR 12 dB"
        if cell.provider == "dequant_blas" and cell.M == 8:
            return "oom", ""
        return None

    found = ratios_of(tmp_path, **GRID, **EXACT, failures=fails).set_index(["provider", "M"])
    assert len(found) == 4
    assert found["reason"].to_dict() == {
        ("simt_4bit", 1): "incorrect: SNR 12 dB", ("blas", 1): "",
        ("simt_4bit", 8): "dequant_blas oom", ("blas", 8): "dequant_blas oom",
    }  # fmt: skip
    assert found["ratio"].isna().to_list() == [True, False, True, True]
    assert found["verdict"].tolist() == ["", "faster", "", ""]
    absent = ratios_of(tmp_path, baseline="stock_triton", **GRID, **EXACT)
    assert set(absent["reason"]) == {"stock_triton was not measured here"}
    assert geometric_means(absent)["excluded"].sum() == len(absent) == 6


def test_a_coarse_timer_widens_the_interval_of_a_tie(tmp_path):
    found = ratios_of(
        tmp_path, **(GRID | {"latency": lambda cell: 1e-5}), quantum_s=1e-6, round_noise=0, sample_noise=0.06
    )
    assert set(found["verdict"]) == {"undecided"}
    assert (found["ratio_high"] / found["ratio_low"] > 1.15).all()  # two sides, half a step of 10 % each way


SHAPES = (("a", "x", 64, 96), ("b", "x", 64, 96), ("c", "x", 128, 96))


def test_geometric_mean_by_hand_with_one_vote_per_gemm(tmp_path):
    by_model = {"a": 2.0, "b": 8.0, "c": 1.0}  # a and b are one GEMM: gmean(2, 8) = 4, gmean(4, 1) = 2
    found = ratios_of(
        tmp_path, shapes=SHAPES, Ms=(1, 2, 4), providers=("simt_4bit", "dequant_blas"), **EXACT,
        latency=lambda cell: 1e-3 * (by_model[cell.model] if cell.provider == "dequant_blas" else 1),
        failures=lambda cell: ("oom", "") if cell.M == 4 or (cell.M == 2 and cell.model == "c") else None,
    )  # fmt: skip
    means = geometric_means(found).set_index("M")
    assert set(means["provider"]) == {"simt_4bit"}
    assert means["ratio"].tolist() == pytest.approx([2.0, 4.0, math.nan], nan_ok=True)
    assert means.loc[1, ["ratio_min", "ratio_max"]].tolist() == pytest.approx([1.0, 4.0])
    assert means[["gemms", "cells", "excluded"]].values.tolist() == [[2, 3, 0], [1, 2, 1], [0, 0, 3]]


def test_a_geometric_mean_is_bounded_by_the_means_of_the_bounds():
    rows = [
        {"provider": "a", "baseline": "b", **dict.fromkeys(GEMM, 1), "N": n, "ratio_low": low, "ratio_high": high,
         "log_ratio": math.log(low * high) / 2}
        for n, (low, high) in enumerate([(2.0, 8.0), (0.5, 2.0)])
    ]  # fmt: skip
    by = ("provider", "baseline")
    row = geometric_means(pd.DataFrame(rows), by).iloc[0]
    assert (row["ratio"], row["ratio_low"], row["ratio_high"]) == pytest.approx((2, 1, 4))
    bare = pd.DataFrame([*rows, rows[0] | {"N": 9, "ratio_low": math.nan, "ratio_high": math.nan}])
    unbounded = geometric_means(bare, by).iloc[0]
    assert unbounded["gemms"] == 3
    assert math.isnan(unbounded["ratio_low"])  # one ratio without an interval: nothing is known of the mean's


def test_among_verified_wins_the_one_that_is_surest_is_the_best():
    rows = [("a", 1, 17.0, 1.6, 185.0), ("a", 2, 12.0, 10.5, 13.5), ("a", 4, 11.0, 9.0, 13.0)]
    ratios = pd.DataFrame(rows, columns=["provider", "M", "ratio", "ratio_low", "ratio_high"])
    for verdicts, best in (("faster", 2), (["undecided", "undecided", "faster"], 4)):  # a win beats what is none
        assert best_speedups(ratios.assign(baseline="b", verdict=verdicts))["M"].tolist() == [best]
    assert best_speedups(ratios.assign(baseline="b", verdict="", ratio=math.nan)).empty

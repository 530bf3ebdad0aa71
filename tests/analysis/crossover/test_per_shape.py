"""Crossovers and their median over a run: planted truth with noise, censoring, failures."""

import math

import numpy as np
import pandas as pd
import pytest
from rooflens.analysis.crossover.across_shapes import best_threshold, median_crossover, median_crossovers
from rooflens.analysis.crossover.per_shape import CROSSOVER_COLUMNS, crossovers
from rooflens.analysis.frames.load import load_run
from rooflens.analysis.run.summarize import round_medians, summarize
from rooflens.shapes.errors import UsageError

from ..synthetic import PlantedCell, write_run

PAIR = ("simt_4bit", "dequant_blas")
SLOPE = 0.35
"""Nats per octave of M."""


def planted(crossings: dict[str, float], slope: float = SLOPE):
    """Latency whose ln(t_simt / t_dequant) is a line in log2 M through zero at crossings[layer]."""

    def latency(cell: PlantedCell) -> float:
        if cell.provider == "dequant_blas":
            return 1e-3
        return 1e-3 * math.exp(slope * (math.log2(cell.M) - math.log2(crossings[cell.layer])))

    return latency


def find(tmp_path, crossings: dict[str, float], Ms=tuple(2**i for i in range(12)), slope=SLOPE, **options):
    """Measure planted crossovers; `crossings` maps layer to M."""
    shapes = [("m", layer, 64 + 64 * index, 96) for index, layer in enumerate(crossings)]
    defaults = {"rounds": 5, "samples": 3, "sample_noise": 0.01, "round_noise": 0.01}
    folder = write_run(
        tmp_path / "run",
        shapes=shapes,
        Ms=Ms,
        providers=PAIR,
        latency=planted(crossings, slope),
        **(defaults | options),
    )
    run = load_run(folder)
    return crossovers(summarize(run), round_medians(run), *PAIR)


def test_planted_crossovers_are_found_within_a_tenth_of_an_octave(tmp_path):
    truth = {f"l{index}": 2 ** (0.5 + index / 4) for index in range(40)}
    found = find(tmp_path, truth)
    assert list(found.columns) == list(CROSSOVER_COLUMNS)
    assert found["layer"].tolist() == list(truth)
    assert set(found["status"]) == {"single"}
    error = np.log2(found["crossover_M"]) - np.log2(list(truth.values()))
    assert np.abs(error).max() < 0.1
    inside = (found["low_M"] <= list(truth.values())) & (found["high_M"] >= list(truth.values()))
    assert inside.mean() >= 0.93
    assert (found["M_max"] == 2048).all()
    assert all(sizes == tuple(2**i for i in range(12)) for sizes in found["Ms"])


@pytest.mark.slow
def test_the_median_survives_40_percent_censoring(tmp_path):
    octaves = [1.5 + 0.35 * index for index in range(24)] + [12.0 + index / 8 for index in range(16)]
    truth = {f"l{index}": 2**octave for index, octave in enumerate(octaves)}
    found = find(tmp_path, truth)
    assert (found["status"] == "right_censored").sum() == 16
    median = median_crossover(found)
    true_median = np.median(octaves)
    assert abs(math.log2(median.median_M) - true_median) < 0.1
    assert median.shapes == 40
    assert median.high_M == math.inf  # rank 27 of 40 is censored
    assert median.text == f"{median.median_M:.0f}"
    assert median.interval_text.endswith("to > 2048")
    kept = found.loc[found["status"] == "single", "crossover_M"]
    assert true_median - np.median(np.log2(kept)) > 1  # what dropping the censored shapes would do


def test_half_censored_is_greater_than_M_max(tmp_path):
    truth = {f"l{index}": 8.0 if index < 3 else 1e5 for index in range(6)}
    median = median_crossover(find(tmp_path, truth, Ms=(1, 4, 16, 64)))
    assert median.median_M == math.inf
    assert median.text == "> 64"


def test_never_counts_as_before_the_first_M(tmp_path):
    truth = {f"l{index}": 0.01 for index in range(4)} | {"single": 8.0, "far": 1e6}
    found = find(tmp_path, truth, Ms=(2, 4, 8, 16))
    assert found["status"].tolist() == ["never"] * 4 + ["single", "right_censored"]
    median = median_crossover(found)
    assert (median.median_M, median.text) == (0, "< 2")
    assert median.statuses == {"never": 4, "single": 1, "right_censored": 1}


def test_failed_and_missing_cells_are_left_out_and_told(tmp_path):
    def fails(cell: PlantedCell) -> tuple[str, str] | None:
        if cell.layer == "dead" and cell.provider == "dequant_blas":
            return "crashed", "signal 11"
        return ("oom", "out of memory") if cell.M >= 16 and cell.provider == "simt_4bit" else None

    found = find(
        tmp_path, {"alive": 4.0, "dead": 4.0}, Ms=(1, 2, 4, 8, 16, 32), failures=fails,
        skip=lambda cell, number: cell.M == 2 and cell.provider == "dequant_blas",
    ).set_index("layer")  # fmt: skip
    alive = found.loc["alive"]
    assert alive["status"] == "single"
    assert (alive["Ms"], alive["missing"], alive["M_max"]) == ((1, 4, 8), 3, 8)
    assert "not at M=2: dequant_blas was not measured here" in alive["warnings"]
    assert "not at M=16,32: oom: out of memory" in alive["warnings"]
    dead = found.loc["dead"]
    assert (dead["status"], dead["missing"], dead["Ms"]) == ("unmeasured", 6, ())
    assert math.isnan(dead["M_max"])
    assert "dequant_blas crashed: signal 11" in " ".join(dead["warnings"])
    median = median_crossover(found.reset_index())
    assert (median.shapes, median.statuses) == (1, {"single": 1, "unmeasured": 1})


def test_an_M_at_which_the_two_were_timed_differently_is_left_out(tmp_path):
    def graph_for_small(cell: PlantedCell, round_: int) -> dict[str, object]:
        return {"timer": "graph"} if cell.M <= 2 and cell.provider == "simt_4bit" else {}

    row = find(tmp_path, {"only": 8.0}, Ms=(1, 2, 4, 8, 16, 32), columns=graph_for_small).iloc[0]
    assert (row["Ms"], row["missing"]) == ((4, 8, 16, 32), 2)
    expected = "not at M=1,2: timer differs: graph here, host for dequant_blas: measure both with one --timer"
    assert expected in row["warnings"]


def test_an_M_at_which_one_of_the_two_was_tuned_is_told(tmp_path):
    def pinned_for_small(cell: PlantedCell, round_: int) -> dict[str, object]:
        return {"tuning": "pinned"} if cell.M <= 2 and cell.provider == "simt_4bit" else {}

    row = find(tmp_path, {"only": 8.0}, Ms=(1, 2, 4, 8, 16, 32), columns=pinned_for_small).iloc[0]
    assert row["Ms"] == (1, 2, 4, 8, 16, 32)
    assert [text for text in row["warnings"] if text.startswith("at M=1,2: tuning differs: pinned here")]


def test_one_shape_and_one_M(tmp_path):
    found = find(tmp_path, {"only": 4.0}, Ms=(1,))
    assert found["status"].tolist() == ["one_m"]
    needed = "measured at one M, and a crossover needs two: sweep M with the option -a"
    assert needed in found["warnings"].iloc[0]
    median = median_crossover(found)
    assert (median.text, median.median_M, median.interval_text) == ("needs two M", None, "")
    assert (median.shapes, median.is_informative, median.threshold) == (0, False, None)
    assert median.warnings == (f"the shape was {needed}",)


def test_shapes_of_one_M_are_apart_and_do_not_move_the_median():
    frame = pd.DataFrame(
        [row("a", crossover_M=8.0), *(row(f"one {i}", status="one_m", crossover_M=math.nan) for i in "bcd")]
    )
    median = median_crossover(frame)
    assert (median.median_M, median.shapes, median.is_informative) == (8.0, 1, True)
    assert any(text.startswith("3 of 4 shapes were measured at one M") for text in median.warnings)


def test_the_setting_is_named_whole_but_for_the_pass_of_a_quantization():
    assert median_crossover(pd.DataFrame([row("a")])).setting_words == ("fwd", "bf16", "nf4-g64", "cold")
    assert median_crossover(pd.DataFrame([row("a", op="quantize")])).setting_words == ("bf16", "nf4-g64", "cold")


def test_a_run_without_a_common_cell(tmp_path):
    found = find(tmp_path, {"only": 4.0}, failures=lambda cell: ("unsupported", "no") if cell.M else None)
    median = median_crossover(found)
    assert (median.median_M, median.text, median.threshold, median.shapes) == (None, "none", None, 0)


def test_dtypes_and_caches_have_medians_of_their_own(tmp_path):
    found = find(tmp_path, {"a": 4.0}, Ms=(1, 16), dtypes=("bf16", "fp32"), caches=("cold", "warm"))
    medians = median_crossovers(found)
    where = [(one.cache, one.dtype) for one in medians]
    assert where == [("cold", "bf16"), ("cold", "fp32"), ("warm", "bf16"), ("warm", "fp32")]
    with pytest.raises(ValueError, match="one pair of providers"):
        median_crossover(found)


def test_wrong_names_are_usage_errors(tmp_path):
    run = load_run(write_run(tmp_path, Ms=(1,), rounds=1))
    frames = summarize(run), round_medians(run)
    with pytest.raises(UsageError, match=r"unknown provider of this run 'simt_4bits': did you mean simt_4bit"):
        crossovers(*frames, "simt_4bits", "dequant_blas")
    with pytest.raises(UsageError, match="both 'blas'"):
        crossovers(*frames, "blas", "blas")


def row(label: str, **values) -> dict[str, object]:
    """One row of a crossover table, as `crossovers` makes them."""
    base = {
        "challenger": "a", "incumbent": "b", "model": "m", "layer": label, "op": "gemm", "pass": "fwd", "B": 1,
        "E": 1, "top_k": 1, "N": 64,
        "K": 96, "dtype": "bf16", "scheme": "nf4-g64", "cache": "cold", "status": "single", "crossover_M": 8.0,
        "low_M": 4.0, "high_M": 16.0, "challenger_wins": "below", "verified": True, "changes": (), "M_min": 1.0,
        "M_max": 64.0, "Ms": (), "log_ratios": (), "missing": 0, "refined": 0, "warnings": (),
    }  # fmt: skip
    assert set(values) <= set(base)
    return base | values


def test_an_even_median_is_averaged_in_octaves():
    assert median_crossover(pd.DataFrame([row("x", crossover_M=4.0), row("y", crossover_M=16.0)])).median_M == 8.0


def test_parity_and_reversed_shapes_are_apart_and_multiple_is_in():
    frame = pd.DataFrame(
        [
            row("one", crossover_M=4.0),
            row("two", crossover_M=16.0, status="multiple"),
            row("tie", crossover_M=math.nan, status="parity", challenger_wins=""),
            row("odd", crossover_M=32.0, challenger_wins="above"),
        ]
    )
    median = median_crossover(frame)
    assert (median.median_M, median.shapes, median.reversed) == (8.0, 2, 1)
    assert median.statuses == {"single": 1, "multiple": 1, "parity": 1}
    assert "apart: 1 of 3 crossovers, the challenger wins above them" in median.warnings


def test_half_never_and_half_censored_has_no_median():
    rows = [row("a", status="never", crossover_M=math.nan), row("b", status="always", crossover_M=math.nan)]
    median = median_crossover(pd.DataFrame(rows))
    assert median.median_M is None
    assert any("there is no median" in text for text in median.warnings)


def test_early_censoring_is_warned_of():
    rows = [row(str(index), crossover_M=40.0) for index in range(5)]
    rows.append(row("short", status="right_censored", crossover_M=math.nan, M_max=16.0))
    assert any(
        text.startswith("1 shape counts as beyond M=40") for text in median_crossover(pd.DataFrame(rows)).warnings
    )


def test_a_censored_median_tells_of_shapes_that_were_not_measured_as_far_as_it_says():
    beyond = {"status": "right_censored", "crossover_M": math.nan}
    rows = [row(str(index), **beyond, M_max=16.0) for index in range(4)] + [row("long", **beyond, M_max=64.0)]
    median = median_crossover(pd.DataFrame(rows))
    assert median.text == "> 64"
    assert any(text.startswith("4 shapes count as beyond") for text in median.warnings)
    alike = median_crossover(pd.DataFrame([row(str(index), **beyond) for index in range(5)]))
    assert not any("count as beyond" in text for text in alike.warnings)


@pytest.mark.slow
def test_the_interval_of_the_median_covers_it_in_95_percent():
    rng = np.random.default_rng(7)
    covered = 0
    for _ in range(600):
        octaves = rng.normal(5.0, 2.0, size=40)  # true median 2^5; about 4 % beyond M_max = 2^8.5
        rows = [
            row(str(index), crossover_M=2.0**octave) if octave <= 8.5 else
            row(str(index), crossover_M=math.nan, status="right_censored")
            for index, octave in enumerate(octaves)
        ]  # fmt: skip
        median = median_crossover(pd.DataFrame(rows))
        covered += median.low_M <= 32 <= median.high_M
    assert 0.93 <= covered / 600 <= 0.97  # order statistics of 40 values: 96.2 %


def test_the_threshold_with_least_regret_by_hand():
    frame = pd.DataFrame(
        [
            row("x", Ms=(1, 4, 16), log_ratios=(-0.5, -0.1, 0.4)),
            row("y", Ms=(1, 4, 16), log_ratios=(-0.5, 0.3, 0.9)),
        ]
    )
    # M <= 0: (0.5 + 0.1 + 0.5) / 6; M <= 1: 0.1 / 6 (x at 4); M <= 4: 0.3 / 6 (y at 4); always: (0.3 + 0.4 + 0.9) / 6
    best = best_threshold(frame)
    assert (best.M, best.cells) == (1, 6)
    assert best.mean_regret == pytest.approx(0.1 / 6)
    assert (best.worst_regret, best.worst_shape, best.worst_M) == (pytest.approx(0.1), "m x (64x96)", 4)


def test_M_that_a_refinement_added_weigh_no_more_than_their_stretch_of_the_axis():
    early = row("x", Ms=(1, 16, 256), log_ratios=(-0.5, 0.4, 0.9))
    late = row("y", Ms=(1, 16, 256), log_ratios=(-0.5, -0.2, 0.9))
    # M <= 1 costs y 0.2 at 16, M <= 16 costs x 0.4 there; every M stands for 4 octaves
    swept = best_threshold(pd.DataFrame([early, late]))
    assert (swept.M, swept.mean_regret) == (1, pytest.approx(0.2 / 6))
    refined = row("y", Ms=(1, 16, 17, 18, 19, 20, 256), log_ratios=(-0.5, *[-0.2] * 5, 0.9))
    best = best_threshold(pd.DataFrame([early, refined]))
    # 16 to 20 stand for half of the gaps on both sides of each; counted by cells, x would be outvoted
    stretch = (4 + 2 * (math.log2(20) - 4) + (8 - math.log2(20))) / 2
    whole = 4 + stretch + (8 - math.log2(20))
    assert best.M == 1
    assert best.cells == 10
    assert best.mean_regret == pytest.approx(0.2 * stretch / (12 + whole))


def test_thresholds_at_the_ends():
    always = best_threshold(pd.DataFrame([row("x", Ms=(1, 4), log_ratios=(-0.5, -0.1))]))
    assert (always.M, always.mean_regret, always.worst_shape) == (math.inf, 0.0, "")
    never = best_threshold(pd.DataFrame([row("x", Ms=(1, 4), log_ratios=(0.5, 0.1))]))
    assert (never.M, never.worst_regret) == (0.0, 0.0)
    assert best_threshold(pd.DataFrame([row("x")])) is None


def test_the_median_is_not_the_best_threshold(tmp_path):
    # Five shapes cross at 64 with little at stake, one crosses at 2 with much: following the median costs it dearly.
    gentle = [row(str(i), crossover_M=64.0, Ms=(1, 8, 64), log_ratios=(-0.02, -0.01, 0.0)) for i in range(5)]
    steep = row("steep", crossover_M=2.0, Ms=(1, 8, 64), log_ratios=(-0.3, 1.5, 3.0))
    median = median_crossover(pd.DataFrame([*gentle, steep]))
    assert median.median_M == 64.0
    assert median.threshold.M == 1
    assert median.threshold.worst_regret == pytest.approx(0.01)

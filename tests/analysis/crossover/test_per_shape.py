"""Crossovers and their median over a run: planted truth with noise, censoring, failures."""

import math
from collections import Counter

import pandas as pd
import pytest
from rooflens.analysis.crossover.across_shapes import best_threshold, median_crossover, median_crossovers
from rooflens.analysis.crossover.curve import Region
from rooflens.analysis.crossover.per_shape import crossovers
from rooflens.analysis.frames.load import load_run
from rooflens.analysis.run.summarize import round_medians, summarize

from ..synthetic import COORDINATES, PlantedCell, write_run

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


@pytest.mark.parametrize(
    ("options", "told", "text"),
    [
        ({"rounds": 1}, "no winner is verified", "undecided"),
        (
            {"slope": 0, "round_noise": 1e-4, "sample_noise": 1e-4},
            "within 1% at every M: nothing to choose",
            "undecided",
        ),
        ({"Ms": (1,)}, "measured at one M, and a crossover needs two", "needs two M"),
        ({"failures": lambda cell: ("unsupported", "no")}, "unsupported: no", "none"),
    ],
)
def test_what_verifies_nothing_has_no_median(tmp_path, options, told, text):
    found = find(tmp_path, {"a": 8.0}, **options)
    assert set(found["status"]) == {"undecided" if text == "undecided" else "unmeasured"}
    assert told in " ".join(found["warnings"].iloc[0])
    median = median_crossover(found)
    assert (median.side, median.median_M, median.places, median.text) == (None, None, (), text)
    assert (median.interval_text, median.is_informative) == ("", text == "undecided")


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
    assert alive["status"] == "below"
    assert (alive["Ms"], alive["missing"], alive["M_max"]) == ((1, 4, 8), 3, 8)
    assert "not at M=2: dequant_blas was not measured here" in alive["warnings"]
    assert "not at M=16,32: oom: out of memory" in alive["warnings"]
    dead = found.loc["dead"]
    assert (dead["status"], dead["missing"], dead["Ms"]) == ("unmeasured", 6, ())
    assert math.isnan(dead["M_max"])
    assert "dequant_blas crashed: signal 11" in " ".join(dead["warnings"])
    median = median_crossover(found.reset_index())
    assert (len(median.places), median.statuses) == (1, {"below": 1, "unmeasured": 1})


def test_dtypes_and_caches_have_medians_of_their_own(tmp_path):
    found = find(tmp_path, {"a": 4.0}, Ms=(1, 16), dtypes=("bf16", "fp32"), caches=("cold", "warm"))
    medians = median_crossovers(found)
    where = [(one.cache, one.dtype) for one in medians]
    assert where == [("cold", "bf16"), ("cold", "fp32"), ("warm", "bf16"), ("warm", "fp32")]
    with pytest.raises(ValueError, match="one pair of providers"):
        median_crossover(found)


def row(label: str, status: str = "below", **values) -> dict[str, object]:
    """One row of a crossover table, as `crossovers` makes them."""
    base = COORDINATES | {
        "challenger": "a", "incumbent": "b", "layer": label, "N": 64, "K": 96, "status": status,
        "crossover_M": math.nan, "low_M": 0.0, "high_M": math.inf, "regions": (), "undecided": (), "M_min": 1.0,
        "M_max": 64.0, "Ms": (), "log_ratios": (), "missing": 0, "refined": 0, "warnings": (),
    }  # fmt: skip
    assert set(values) <= set(base)
    return base | values


def crossing(label: str, octave_M: float, side: str = "below", width: float = 2.0, **values) -> dict[str, object]:
    """One shape with a bracket of `width` around its crossover, measured at its ends only."""
    ends = (octave_M / width, octave_M * width)
    winners = ("challenger", "incumbent") if side == "below" else ("incumbent", "challenger")
    return row(
        label, side, low_M=ends[0], high_M=ends[1], crossover_M=octave_M, Ms=ends,
        log_ratios=(-0.5, 0.5) if side == "below" else (0.5, -0.5),
        regions=tuple(Region(size, size, winner) for size, winner in zip(ends, winners, strict=True)), **values,
    )  # fmt: skip


def one_sided(label: str, status: str, first: float = 1.0, last: float = 64.0, **values) -> dict[str, object]:
    """One shape in which only one of the two is verified faster, from `first` to `last`."""
    winner = "challenger" if status == "ahead" else "incumbent"
    y = -0.5 if status == "ahead" else 0.5
    return row(label, status, regions=(Region(first, last, winner),), Ms=(first, last), log_ratios=(y, y), **values)


def test_shapes_that_cross_to_the_other_side_several_times_or_undecided_are_apart():
    other = [crossing("odd", 32, "above"), row("two", "multiple"), row("tie", "undecided"), row("none", "unmeasured")]
    median = median_crossover(pd.DataFrame([crossing("one", 4), crossing("two", 16), *other]))
    assert (median.side, median.median_M, len(median.places)) == ("below", pytest.approx(8), 2)  # in octaves
    assert median.between == (2, 32)
    assert median.statuses == {"below": 2, "above": 1, "multiple": 1, "undecided": 1, "unmeasured": 1}
    assert "not in the median: 1 above, 1 multiple, 1 undecided, 1 unmeasured" in median.warnings
    alone = (row(f"one {i}", "unmeasured", Ms=(4,), log_ratios=(-0.5,), op="quantize") for i in "bcd")
    median = median_crossover(pd.DataFrame([crossing("a", 8.0, op="quantize"), *alone]))
    assert (median.median_M, len(median.places), median.is_informative) == (8.0, 1, True)
    assert any(text.startswith("3 of 4 shapes were measured at one M") for text in median.warnings)


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([one_sided("a", "ahead"), one_sided("b", "ahead")], "ahead"),
        ([one_sided("a", "behind"), row("b", "unmeasured")], "behind"),
        ([one_sided("a", "ahead"), one_sided("b", "behind")], "none"),
        ([crossing("a", 4), crossing("b", 16, "above")], "none"),
        ([row("a", "undecided"), row("b", "undecided")], "undecided"),
        ([row("a", "multiple")], "multiple"),
    ],
)
def test_there_is_no_median_without_a_verified_change_to_one_side(rows, text):
    median = median_crossover(pd.DataFrame(rows))
    assert (median.side, median.median_M, median.between, median.places) == (None, None, None, ())
    assert median.text == text


BEHIND = [one_sided(str(index), "behind", 2.0) for index in range(4)]
AHEAD = [one_sided(str(index), "ahead", last=16.0) for index in range(4)]


@pytest.mark.parametrize(
    ("rows", "side", "median_M", "text", "between", "interval"),
    [
        ([*AHEAD, one_sided("x", "ahead"), crossing("y", 8)], "below", math.inf, "> 16", (16, math.inf), "[4, > 64]"),
        ([*AHEAD[:3], *(crossing(i, 8) for i in "xyz")], "below", math.inf, "> 4", (4, math.inf), "[4, > 64]"),
        ([*BEHIND, crossing("x", 8), one_sided("y", "ahead")], "below", 0, "< 2", (0, 2), "[< 1, > 64]"),
        ([*(crossing(i, 16, "above") for i in "vwxyz"), BEHIND[0]], "above", 16, "16", (8, 32), "[8, > 64]"),
    ],
)
def test_an_open_median_claims_no_more_than_was_verified(rows, side, median_M, text, between, interval):
    median = median_crossover(pd.DataFrame(rows))
    assert (median.side, median.median_M, median.text, median.between) == (side, median_M, text, between)
    assert median.interval_text == interval
    assert len(median.places) == 6
    assert median.statuses == dict(Counter(one["status"] for one in rows))


def test_the_threshold_with_least_regret_by_hand():
    frame = pd.DataFrame(
        [
            row("x", Ms=(1, 4, 16), log_ratios=(-0.5, -0.1, 0.4)),
            row("y", Ms=(1, 4, 16), log_ratios=(-0.5, 0.3, 0.9)),
        ]
    )
    # M <= 0: (0.5 + 0.1 + 0.5) / 6; M <= 1: 0.1 / 6 (x at 4); M <= 4: 0.3 / 6 (y at 4); always: (0.3 + 0.4 + 0.9) / 6
    best = best_threshold(frame)
    assert (best.side, best.M, best.cells) == ("below", 1, 6)
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
    assert (always.side, always.M, always.mean_regret, always.worst_shape) == ("ahead", None, 0.0, "")
    never = best_threshold(pd.DataFrame([row("x", Ms=(1, 4), log_ratios=(0.5, 0.1))]))
    assert (never.side, never.M, never.worst_regret) == ("behind", None, 0.0)
    above = best_threshold(pd.DataFrame([row("x", Ms=(1, 4, 16), log_ratios=(0.5, 0.1, -0.4))]))
    assert (above.side, above.M, above.mean_regret) == ("above", 16, 0.0)
    assert best_threshold(pd.DataFrame([row("x")])) is None

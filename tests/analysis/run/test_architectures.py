"""Runs of two architectures side by side: every number is planted, and what one of them lacks stays with its reason."""

import math

import pandas as pd
import pytest
from rooflens.analysis.frames.load import load_run
from rooflens.analysis.run.architectures import (
    KEYS,
    OUTCOME,
    agreement,
    common_means,
    common_shares,
    crossings_apart,
    crossovers_side_by_side,
    named,
    reversals,
    side,
    side_by_side,
)
from rooflens.analysis.run.pipeline import analyze
from rooflens.shapes.errors import UsageError

from ..synthetic import write_run

SHAPES = (("toy", "up", 512, 2048), ("toy", "down", 2048, 512))
BOTH = ("sm90", "gfx950")
PROVIDERS = ("simt_4bit", "dequant_blas", "blas")


def planted(folder, name, ratio, **options):
    """The analysis of a run without noise, in which simt_4bit is `ratio(cell)` times as fast as dequant_blas."""
    usual = {
        "shapes": SHAPES,
        "Ms": (1, 16, 256),
        "providers": PROVIDERS,
        "samples": 2,
        "rounds": 2,
        "round_noise": 0,
        "sample_noise": 0,
        "latency": lambda cell: 1e-3 / (ratio(cell) if cell.provider == "simt_4bit" else 1),
    }
    return analyze(load_run(write_run(folder / name, **usual | options)))


@pytest.fixture(scope="module")
def opposite(tmp_path_factory):
    """simt_4bit wins by 4 and loses by 2 beyond M = 16 on sm90; on gfx950 it wins at M = 1 only."""
    folder = tmp_path_factory.mktemp("opposite")
    return {
        "sm90": planted(folder, "sm90", lambda cell: 4 if cell.M <= 16 else 1 / 2),
        "gfx950": planted(folder, "gfx950", lambda cell: 2 if cell.M == 1 else 1 / 5),
    }


def at(frame, provider, layer, m):
    rows = frame[(frame["provider"] == provider) & (frame["layer"] == layer) & (frame["M"] == m)]
    assert len(rows) == 1
    return rows.iloc[0]


def test_each_architecture_keeps_its_own_numbers(opposite):
    frame = side_by_side(opposite)
    assert len(frame) == 2 * 3 * 3
    row = at(frame, "simt_4bit", "up", 16)
    assert row["ratio[sm90]"] == pytest.approx(4)
    assert row["ratio[gfx950]"] == pytest.approx(1 / 5)
    assert row["time_s[sm90]"] == pytest.approx(1e-3 / 4)
    assert row["time_s[gfx950]"] == pytest.approx(5e-3)
    assert row["ratio_low[sm90]"] <= 4 + 1e-9
    assert row["ratio_high[sm90]"] >= 4 - 1e-9
    assert (row["speedup[sm90]"], row["speedup[gfx950]"]) == ("faster", "slower")
    baseline = at(frame, "dequant_blas", "up", 16)
    assert math.isnan(baseline["ratio[sm90]"])
    assert baseline["time_s[sm90]"] == pytest.approx(1e-3)


def test_one_side_is_the_analysis_itself(opposite):
    frame = side_by_side(opposite)
    for name, analysis in opposite.items():
        own = side(frame, name)[[*KEYS, *OUTCOME]]
        pd.testing.assert_frame_equal(own, analysis.cells[[*KEYS, *OUTCOME]].reset_index(drop=True), check_dtype=False)
        gains = side(frame, name).dropna(subset=["ratio"])
        assert gains["log_ratio"].tolist() == analysis.speedups["log_ratio"].tolist()


def test_what_one_architecture_lacks_stays_with_its_reason(tmp_path):
    analyses = {
        "sm90": planted(tmp_path, "sm90", lambda cell: 2),
        "gfx950": planted(
            tmp_path, "gfx950", lambda cell: 3, shapes=SHAPES[:1], providers=("simt_4bit", "dequant_blas"),
            failures=lambda cell: ("unsupported", "no such instruction") if cell.provider == "simt_4bit" else None,
        ),
    }  # fmt: skip
    frame = side_by_side(analyses)
    assert len(frame) == 2 * 3 * 3
    unsupported = at(frame, "simt_4bit", "up", 1)
    assert unsupported["verdict[gfx950]"] == "unsupported"
    assert unsupported["why[gfx950]"] == "unsupported: no such instruction"
    assert unsupported["ratio[sm90]"] == pytest.approx(2)
    other_shape = at(frame, "simt_4bit", "down", 1)
    assert other_shape["verdict[gfx950]"] == ""
    assert other_shape["why[gfx950]"] == "absent: the run on gfx950 has no such cell"
    no_provider = at(frame, "blas", "up", 1)
    assert no_provider["reason[gfx950]"] == "absent: blas has no cell in the run on gfx950"
    assert math.isnan(no_provider["time_s[gfx950]"])
    assert no_provider["verdict[sm90]"] == "passed"
    swapped = side_by_side(dict(reversed(analyses.items())))
    assert set(map(tuple, swapped[[*KEYS]].to_numpy())) == set(map(tuple, frame[[*KEYS]].to_numpy()))


def test_an_unfinished_run_says_that_a_cell_may_follow(tmp_path):
    late = planted(tmp_path, "gfx950", lambda cell: 2, skip=lambda cell, round_: cell.layer == "down")
    frame = side_by_side({"sm90": planted(tmp_path, "sm90", lambda cell: 2), "gfx950": late})
    why = at(frame, "simt_4bit", "down", 1)["why[gfx950]"]
    assert why == "absent: the run on gfx950 has no such cell; 18 of its planned rounds are missing"


def test_different_baselines_do_not_stand_side_by_side(tmp_path):
    other = planted(tmp_path, "gfx950", lambda cell: 2, baseline="blas")
    with pytest.raises(UsageError, match="dequant_blas on sm90, blas on gfx950"):
        side_by_side({"sm90": planted(tmp_path, "sm90", lambda cell: 2), "gfx950": other})


def means_of(frame):
    means = common_means(frame, BOTH)
    mine = means[means["provider"] == "simt_4bit"]
    return {(row["architecture"], row["M"]): row for row in mine.to_dict("records")}


def test_means_are_over_the_shapes_that_every_architecture_has(tmp_path):
    """Of ratios 2 and 8 on sm90 the second has no partner at M = 1: its mean is 2, not 4."""

    def lost(cell):
        gone = (cell.layer == "down" and cell.M == 1) or cell.M == 256
        return ("oom", "") if cell.provider == "simt_4bit" and gone else None

    frame = side_by_side(
        {
            "sm90": planted(tmp_path, "sm90", lambda cell: 2 if cell.layer == "up" else 8),
            "gfx950": planted(tmp_path, "gfx950", lambda cell: 3, failures=lost),
        }
    )
    means = means_of(frame)
    assert means["sm90", 1]["ratio"] == pytest.approx(2)
    assert (means["sm90", 1]["gemms"], means["sm90", 1]["left_out"]) == (1, 1)
    assert means["gfx950", 1]["ratio"] == pytest.approx(3)
    assert means["gfx950", 1]["left_out"] == 0
    assert means["sm90", 16]["ratio"] == pytest.approx(4)
    assert means["sm90", 256]["ratio"] == pytest.approx(4), "gfx950 has no ratio there, and takes nothing from sm90"
    assert ("gfx950", 256) not in means


def test_without_a_shape_in_common_there_is_no_mean(tmp_path):
    def lost(layer):
        return lambda cell: ("oom", "") if (cell.provider, cell.layer) == ("simt_4bit", layer) else None

    frame = side_by_side(
        {
            "sm90": planted(tmp_path, "sm90", lambda cell: 2, failures=lost("up")),
            "gfx950": planted(tmp_path, "gfx950", lambda cell: 2, failures=lost("down")),
        }
    )
    assert means_of(frame) == {}


def test_shares_of_the_roofline_are_medians_over_common_shapes(tmp_path):
    frame = side_by_side({name: planted(tmp_path, name, lambda cell: 2) for name in BOTH})
    shares = common_shares(frame, BOTH)
    mine = shares[(shares["provider"] == "simt_4bit") & (shares["M"] == 16) & (shares["architecture"] == "sm90")]
    two = [at(frame, "simt_4bit", layer, 16)["fraction_of_bound[sm90]"] for layer in ("up", "down")]
    assert mine["share"].tolist() == [pytest.approx(sum(two) / 2)]
    assert mine["cells"].tolist() == [2]


def test_agreement_is_about_verified_verdicts(opposite):
    frame = side_by_side(opposite)
    words = frame.assign(word=agreement(frame, BOTH))
    mine = words[words["provider"] == "simt_4bit"].set_index(["layer", "M"])["word"]
    assert mine.to_dict() == {
        ("up", 1): "faster",
        ("up", 16): "reversed",
        ("up", 256): "slower",
        ("down", 1): "faster",
        ("down", 16): "reversed",
        ("down", 256): "slower",
    }
    assert set(words.loc[words["provider"] == "dequant_blas", "word"]) == {""}
    assert set(words.loc[words["provider"] == "blas", "word"]) == {"undecided"}
    one = agreement(frame, ("sm90",))
    assert set(one) == {""}


def test_reversals_come_with_what_sets_them_apart(tmp_path):
    analyses = {
        "sm90": planted(tmp_path, "sm90", lambda cell: {1: 4, 16: 2, 256: 1 / 3}[cell.M]),
        "gfx950": planted(tmp_path, "gfx950", lambda cell: {1: 2, 16: 1 / 5, 256: 6}[cell.M]),
    }
    found = reversals(side_by_side(analyses), BOTH)
    contrasts = list(zip(found["M"], found["contrast"], strict=True))
    assert contrasts == [
        (256, pytest.approx(18)),
        (256, pytest.approx(18)),
        (16, pytest.approx(10)),
        (16, pytest.approx(10)),
    ]
    assert set(found["provider"]) == {"simt_4bit"}


def test_of_three_architectures_the_two_furthest_apart_make_the_contrast(tmp_path):
    ratios = {"sm90": 4, "gfx942": 2, "gfx950": 1 / 2, "sm100": 1 / 5}
    analyses = {name: planted(tmp_path, name, lambda cell, own=own: own, Ms=(1,)) for name, own in ratios.items()}
    found = reversals(side_by_side(analyses), tuple(ratios))
    assert found["contrast"].tolist() == [pytest.approx(20)] * 2


def test_a_reversal_that_is_not_verified_is_none(tmp_path):
    """One round has no interval, so that nothing is verified on gfx950."""
    analyses = {
        "sm90": planted(tmp_path, "sm90", lambda cell: 4),
        "gfx950": planted(tmp_path, "gfx950", lambda cell: 1 / 4, rounds=1),
    }
    frame = side_by_side(analyses)
    assert reversals(frame, BOTH).empty
    assert set(agreement(frame, BOTH)[frame["provider"] == "simt_4bit"]) == {"undecided"}


MS = (1, 4, 16, 64, 256)


def falling(middle):
    """A ratio that falls through 1 at M = `middle`."""
    return lambda cell: (middle / cell.M) ** 0.5


def test_crossovers_side_by_side_and_where_they_lie_apart(tmp_path):
    analyses = {
        "sm90": planted(tmp_path, "sm90", lambda cell: falling(128 if cell.layer == "up" else 8)(cell), Ms=MS),
        "gfx950": planted(tmp_path, "gfx950", falling(8), Ms=MS),
    }
    frame = crossovers_side_by_side({name: analysis.crossovers for name, analysis in analyses.items()})
    up, down = frame.to_dict("records")
    assert (up["layer"], up[named("crossover_M", "sm90")]) == ("up", pytest.approx(128, rel=0.01))
    assert up[named("crossover_M", "gfx950")] == pytest.approx(8, rel=0.01)
    assert (up[named("low_M", "sm90")], up[named("high_M", "gfx950")]) == (64, 16)
    assert down[named("crossover_M", "sm90")] == pytest.approx(8, rel=0.01)
    assert crossings_apart(frame, BOTH).tolist() == [True, False]


def test_a_challenger_that_wins_above_its_crossover_is_not_compared(tmp_path):
    """On gfx950 the ratio rises through 1 at M = 128: its position means the opposite of that on sm90."""
    analyses = {
        "sm90": planted(tmp_path, "sm90", falling(8), Ms=MS),
        "gfx950": planted(tmp_path, "gfx950", lambda cell: 1 / falling(128)(cell), Ms=MS),
    }
    frame = crossovers_side_by_side({name: analysis.crossovers for name, analysis in analyses.items()})
    assert set(frame[named("status", "gfx950")]) == {"above"}
    assert (frame[named("high_M", "sm90")] <= frame[named("low_M", "gfx950")]).all()
    assert not crossings_apart(frame, BOTH).any()


def test_an_architecture_without_the_challenger_has_no_crossover(tmp_path):
    alone = planted(tmp_path, "gfx950", falling(8), Ms=MS, providers=("dequant_blas", "blas"))
    sm90 = planted(tmp_path, "sm90", falling(8), Ms=MS)
    frame = crossovers_side_by_side({"sm90": sm90.crossovers, "gfx950": alone.crossovers})
    assert set(frame[named("status", "gfx950")]) == {""}
    assert set(frame[named("status", "sm90")]) == {"below"}
    assert not crossings_apart(frame, BOTH).any()


def test_three_architectures_compare_only_what_they_have(tmp_path):
    analyses = {
        "sm90": planted(tmp_path, "sm90", lambda cell: 4),
        "gfx942": planted(tmp_path, "gfx942", lambda cell: 1 / 2),
        "gfx950": planted(tmp_path, "gfx950", lambda cell: 3, providers=("dequant_blas", "blas")),
    }
    frame = side_by_side(analyses)
    words = agreement(frame, tuple(analyses))
    assert set(words[frame["provider"] == "simt_4bit"]) == {"reversed"}
    means = common_means(frame, tuple(analyses))
    mine = means[(means["provider"] == "simt_4bit") & (means["M"] == 1)]
    assert dict(zip(mine["architecture"], mine["ratio"], strict=True)) == {
        "sm90": pytest.approx(4),
        "gfx942": pytest.approx(1 / 2),
    }


def test_analyses_are_left_as_they_were(opposite):
    before = {name: (analysis.cells.copy(), analysis.speedups.copy()) for name, analysis in opposite.items()}
    frame = side_by_side(opposite)
    common_means(frame, BOTH)
    reversals(frame, BOTH)
    for name, analysis in opposite.items():
        pd.testing.assert_frame_equal(analysis.cells, before[name][0])
        pd.testing.assert_frame_equal(analysis.speedups, before[name][1])

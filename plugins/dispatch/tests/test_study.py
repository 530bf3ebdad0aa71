"""Dispatch of a stored run: arms, recommendation, notes, and decisions that changed."""

import math

import numpy as np
import pytest
from rooflens.analysis.frames.load import load_run
from rooflens.plugins.dispatch.policy import choices
from rooflens.plugins.dispatch.study import Question, changes, chosen_by, study
from rooflens.shapes.errors import UsageError

from tests.analysis.synthetic import write_run

from .planted import from_array

SHAPES = tuple((f"model {index % 3}", f"l{index}", 512 * (1 + index), 1024) for index in range(9))


def crossing(cell):
    """simt_4bit wins up to M = 8, and everywhere on the two smallest weights."""
    if cell.provider in ("dequant_blas", "blas"):
        return 1e-3
    wins = cell.M <= 8 or cell.N <= 1024
    return (0.5e-3 if wins else 2e-3) * (1.5 if cell.provider == "gemv_4bit" else 1)


def run_of(tmp_path, **options):
    given = {"latency": crossing, "shapes": SHAPES, "rounds": 4, "samples": 3, "Ms": (1, 4, 8, 32, 128)} | options
    return load_run(write_run(tmp_path / "planted", **given))


BY_CACHE = {
    "latency": lambda cell: 1e-3 if (cell.provider == "dequant_blas") == (cell.cache == "cold") else 2e-3,
    "caches": ("warm", "cold"),
    "providers": ("simt_4bit", "dequant_blas"),
}
TRITON = {
    "latency": lambda cell: 0.25e-3 if cell.provider == "stock_triton" else crossing(cell),
    "providers": ("simt_4bit", "dequant_blas", "stock_triton"),
}
"""The fastest of all is a reference: it reads weights that somebody else has decoded."""
ONE_M = {"failures": lambda cell: ("unsupported", "M") if cell.provider == "gemv_4bit" and cell.M > 1 else None}


@pytest.mark.parametrize(
    ("options", "question", "arms", "recommended", "told"),
    [
        ({}, Question(), ("dequant_blas", "simt_4bit", "gemv_4bit"), "threshold", ""),
        ({}, Question(incumbent="blas", challengers=("gemv_4bit",)), ("blas", "gemv_4bit"), "", "blas is a reference"),
        (TRITON, Question(), ("dequant_blas", "simt_4bit"), "threshold", ""),
        (
            ONE_M,
            Question(),
            ("dequant_blas", "simt_4bit", "gemv_4bit"),
            "threshold",
            "gemv_4bit has a time on 9 of 45 GEMMs: elsewhere dequant_blas runs",
        ),
        # The simplest of equals is recommended, and cold decides where there is any.
        ({"latency": lambda cell: 1e-3}, Question(challengers=("simt_4bit",)), None, "always dequant_blas", ""),
        (BY_CACHE, Question(), None, "always dequant_blas", ""),
        (BY_CACHE, Question(cache="warm"), None, "threshold", ""),
    ],
)
def test_what_is_asked_of_a_run(tmp_path, options, question, arms, recommended, told):
    found = study(run_of(tmp_path, **options), question)
    assert arms in (None, found.timings.arms)
    assert recommended in ("", found.recommended)
    assert any(told in note for note in found.notes) or not told


def test_equal_kernels_are_parity_and_nothing_is_engaged(tmp_path):
    found = study(run_of(tmp_path, latency=lambda cell: 1e-3, round_noise=0.01))
    entries = [entry for name in ("threshold", "table") for entry in found.policy(name).entries]
    assert {(str(entry.status), entry.arm) for entry in entries} == {("parity", "dequant_blas")}
    assert 0 < found.flattered < 0.02


def test_what_cannot_be_asked_is_told_with_the_way_out(tmp_path):
    with pytest.raises(UsageError, match="-p blas: it is a reference of planted"):
        study(run_of(tmp_path), Question(challengers=("blas",)))
    run = run_of(tmp_path, failures=lambda cell: ("oom", "too large") if cell.provider == "dequant_blas" else None)
    with pytest.raises(UsageError, match=r"baseline dequant_blas has no cold time: .* --incumbent; .* simt_4bit"):
        study(run)
    assert study(run, Question(incumbent="gemv_4bit")).timings.arms == ("gemv_4bit", "simt_4bit")


def test_the_planted_rule_is_recommended_and_keeps_its_regret_on_new_shapes(tmp_path):
    found = study(run_of(tmp_path))
    assert (found.recommended, found.criterion) == ("threshold", "shape")
    threshold = found.of("threshold")
    # of 9 x 5 GEMMs, the two small weights at M = 32 and 128 run the incumbent at twice the time
    assert threshold.in_sample.mean == pytest.approx(4 / 45 * math.log(2), abs=0.001)
    assert threshold.in_sample.mean <= threshold.held_out["shape"].mean < 1.1 * threshold.in_sample.mean
    assert found.of("table").in_sample.mean < 0.001
    assert found.of("table").held_out["shape"].mean == found.of("always dequant_blas").held_out["shape"].mean
    assert study(run_of(tmp_path), Question(holdout="round")).criterion == "round"


def test_gains_that_are_not_proven_are_counted(tmp_path):
    def large(cell):
        return 1e-3 if cell.provider == "dequant_blas" else 0.7e-3

    loud = {"latency": large, "providers": ("simt_4bit", "dequant_blas"), "sample_noise": 0.0}
    found = study(run_of(tmp_path, **loud, round_noise=0.8))
    entries = found.policy("table").entries
    count = sum(entry.status == "parity" and entry.gain > 0.03 for entry in entries)
    assert count > 10
    assert any(
        note.startswith("gain more than the margin") and f": {count} of 45 GEMMs;" in note for note in found.notes
    )
    assert not [note for note in study(run_of(tmp_path, **loud, round_noise=0.005)).notes if "not proven" in note]


def test_changes_are_ranked_by_the_time_that_they_save():
    table = from_array(np.repeat([[[0.0], [-0.1]], [[0.0], [-1.0]], [[0.0], [0.5]]], 3, axis=2))
    table.time_s[0] = 1.0, math.exp(-0.1)  # a long launch: 10 % of it is more than 63 % of 10 us
    found = changes(table, np.array([0, 0, 0]), np.array([1, 1, 1]))
    assert found["N"].tolist() == [64, 128, 192]
    assert found["saved_s"].tolist() == pytest.approx(
        [1 - math.exp(-0.1), 1e-5 * (1 - math.exp(-1)), 1e-5 * (1 - math.exp(0.5))]
    )
    assert found["speedup"].tolist() == pytest.approx([math.exp(0.1), math.e, math.exp(-0.5)])
    assert (found["before"] == "old").all()
    assert len(changes(table, np.array([0, 1, 0]), np.array([0, 1, 1]))) == 1


def test_decisions_are_found_by_name(tmp_path):
    found = study(run_of(tmp_path))
    assert set(chosen_by(found, "simt_4bit")) == {1}
    assert chosen_by(found, "table").tolist() == choices(found.policy("table"), found.timings).tolist()
    assert chosen_by(found, "oracle").min() >= 0
    with pytest.raises(UsageError, match="no decisions of 'moon'"):
        chosen_by(found, "moon")


@pytest.mark.parametrize("said, told", [("simt", "simt"), ("", "nothing")])
def test_a_rule_that_dispatched_to_arms_has_their_decisions_and_no_other_has_any(tmp_path, said, told):
    def dispatching(large):
        def columns(cell, round_):
            word = "simt_4bit: by its row" if cell.M <= 8 else large
            return {"dispatched": word if cell.provider == "gemv_4bit" else ""}

        return study(run_of(tmp_path / (large or "none"), columns=columns))

    found = dispatching("dequant_blas")
    assert [one.name for one in found.scored if one.policy is None] == ["gemv_4bit's rule", "oracle"]
    assert chosen_by(found, "gemv_4bit").tolist() == (found.timings.cases["M"] <= 8).astype(int).tolist()
    with pytest.raises(UsageError, match=f"gemv_4bit dispatched to {told}, and only dequant_blas, simt_4bit"):
        chosen_by(dispatching(said), "gemv_4bit")

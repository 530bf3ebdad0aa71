"""What became of the cells of a run, counted once, and what settles what is open."""

import pandas as pd
import pytest
from rooflens.analysis.frames.load import load_run
from rooflens.analysis.run.pipeline import analyze
from rooflens.analysis.run.remedy import are_ties, remedy
from rooflens.shapes.run_folder.coverage import Coverage

from ..synthetic import write_run

SMALL = {"shapes": (("m", "up", 64, 96), ("m", "down", 96, 64)), "Ms": (1, 2), "rounds": 2}
"""2 shapes x 2 M x 4 providers = 16 cells, 32 rounds of them."""


def covered(folder, **options):
    return analyze(load_run(write_run(folder / "run", **SMALL | options))).coverage


def test_a_whole_run(tmp_path):
    assert covered(tmp_path) == Coverage(16, 0, 0, 0, rounds=32, rounds_to_do=0, shapes=2, shapes_timed=2)


def test_each_cell_is_counted_once(tmp_path):
    """`blas` cannot run, `gemv_4bit` fails at M=2; of the second shape only the baseline has a round."""
    verdicts = {("blas", 1): ("unsupported", "no"), ("blas", 2): ("unsupported", "no"), ("gemv_4bit", 2): ("oom", "")}
    found = covered(
        tmp_path,
        failures=lambda cell: verdicts.get((cell.provider, cell.M)),
        skip=lambda cell, round_: cell.layer == "down" and (cell.provider != "dequant_blas" or round_ == 1),
    )
    assert found == Coverage(
        timed=5 + 2, failed=1, unsupported=2, to_do=6, rounds=32, rounds_to_do=12 + 2, shapes=2, shapes_timed=2
    )
    assert found.runnable == 14


def test_a_shape_that_was_not_reached_is_asked_for_all_the_same(tmp_path):
    found = covered(tmp_path, skip=lambda cell, _: cell.layer == "down")
    assert (found.shapes_timed, found.shapes, found.to_do) == (1, 2, 8)
    failed = covered(tmp_path / "failed", failures=lambda cell: ("oom", "") if cell.layer == "down" else None)
    assert (failed.shapes_timed, failed.shapes, failed.to_do) == (1, 2, 0)


@pytest.mark.parametrize(
    ("what", "first"),
    [
        ({}, ""),
        ({"more_rounds": True}, "more rounds"),
        ({"one_M": True}, "sweep M"),
        ({"one_M": True, "rounds_to_do": 1}, "resume the run"),  # the plan has more than one M
        ({"more_rounds": True, "rounds_to_do": 1}, "resume the run"),
        ({"more_rounds": True, "rounds_to_do": 1, "device_changed": True}, "the device changed"),
    ],
)
def test_a_remedy_is_what_helps(what, first):
    assert (found := remedy(**what)).startswith(first) and bool(found) == bool(first)  # noqa: PT018


@pytest.mark.parametrize(
    ("ends", "ties"),
    [
        ((), True),
        (((0.995, 1.004), (0.993, 1.001)), True),
        (((0.995, 1.004), (0.98, 1.001)), False),
        (((0.9, 1.2),), False),
        (((None, None),), False),  # one round has no interval
    ],
)
def test_more_rounds_decide_nothing_about_ties(ends, ties):
    assert are_ties(pd.DataFrame(ends, columns=["ratio_low", "ratio_high"], dtype="float64")) is ties

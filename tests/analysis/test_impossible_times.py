"""Impossible times decide nothing: whatever they are, and however they scatter, all that is not about them stays."""

import dataclasses

import pandas as pd
import pytest
from rooflens.analysis.camping import find
from rooflens.analysis.comparison.effects import Order, measure_effects
from rooflens.analysis.comparison.versions import from_runs
from rooflens.analysis.dispatch.study import Question, study
from rooflens.analysis.frames.load import RunData
from rooflens.analysis.history.history import follow
from rooflens.analysis.history.run_story import observe
from rooflens.analysis.roofline.roofs import roofs
from rooflens.analysis.run.pipeline import analyze
from rooflens.analysis.run.summarize import summarize

from .impossible import MS, PLANTED, PROVIDERS, SHAPES, planted


@pytest.fixture(scope="module")
def two(tmp_path_factory) -> tuple[RunData, RunData]:
    """Return two runs that differ in impossible times alone."""
    folder = tmp_path_factory.mktemp("planted")
    return planted(folder / "a" / "run", 1e-7, 0.0), planted(folder / "b" / "run", 2e-9, 0.3)


def same(a: pd.DataFrame, b: pd.DataFrame, name: str) -> None:
    """Compare all rows that are not of an impossible cell."""
    frames = []
    for frame in (a, b):
        if "impossible" in frame and frame["impossible"].dtype == bool:
            frame = frame.loc[~frame["impossible"]]
        elif "bound_class" in frame:
            frame = frame.loc[frame["bound_class"] != "impossible"]
        frames.append(frame.reset_index(drop=True))
    pd.testing.assert_frame_equal(*frames, obj=name)


def test_some_times_are_impossible(two):
    for run in two:
        assert summarize(run)["impossible"].sum() == PLANTED


def test_the_analysis_of_all_other_cells_stays(two):
    a, b = (analyze(run) for run in two)
    for field in dataclasses.fields(a):
        one, other = getattr(a, field.name), getattr(b, field.name)
        if field.name in ("run", "rounds", "warnings"):
            continue
        if isinstance(one, pd.DataFrame):
            if field.name == "speedups":
                one, other = (frame.loc[frame["ratio"].notna()] for frame in (one, other))
            same(one, other, field.name)
        else:
            assert one == other, field.name


def test_roofs(two):
    a, b = (analyze(run) for run in two)
    same(roofs(a.cells, a.ceilings, a.run.device), roofs(b.cells, b.ceilings, b.run.device), "roofs")


def test_camping(two):
    found = [find(one.cells, one.rounds, one.run.cells) for one in map(analyze, two)]
    for field in dataclasses.fields(found[0]):
        same(getattr(found[0], field.name), getattr(found[1], field.name), field.name)


def test_camping_counts_what_it_leaves_out(two):
    found = analyze(two[0])
    coverage = find(found.cells, found.rounds, found.run.cells).coverage.set_index("provider")
    every = len(SHAPES) * len(MS)
    assert coverage["cells"].to_dict() == dict.fromkeys(PROVIDERS, every)
    assert coverage["impossible"].to_dict() == {"simt_4bit": 5, "gemv_4bit": len(MS), "dequant_blas": 2}
    assert (coverage["points"] == every - coverage["impossible"]).all()


def test_dispatch(two):
    a, b = (study(run, Question()) for run in two)
    assert repr(a) == repr(b)


def test_history(tmp_path):
    told = []
    for name, seconds, scatter in (("a", 1e-7, 0.0), ("b", 2e-9, 0.3)):
        runs = [planted(tmp_path / name / f"r{day}", seconds, scatter, day) for day in (1, 2, 3)]
        told.append(follow([observe(run) for run in runs]))
    a, b = told
    assert len(a.points) == 3 * (len(SHAPES) * len(MS) * len(PROVIDERS) - PLANTED)
    same(a.points, b.points, "points")
    same(a.series, b.series, "series")
    assert (a.proposals, a.notes) == (b.proposals, b.notes)
    every = 3 * len(SHAPES) * len(MS) * len(PROVIDERS)
    told = f"{3 * PLANTED} of {every} times are excluded, because they are faster than the device allows"
    assert told in a.notes


def test_comparison(two, tmp_path):
    """Of two versions that differ in nothing but the noise of honest times."""
    told = []
    for name, seconds, scatter, base in zip("ab", (1e-7, 2e-9), (0.0, 0.3), two, strict=True):
        head = planted(tmp_path / name / "head", 3 * seconds, scatter, day=3, seed=1)
        told.append(measure_effects(from_runs(base, head, Order.SEQUENTIAL)).cases)
    assert (told[0]["status"] == "impossible").sum() == PLANTED
    same(*(cases.loc[cases["status"] == "compared"] for cases in told), "cases")

"""Impossible times decide nothing: whatever they are, and however they scatter, all that is not about them stays."""

import dataclasses

import pandas as pd
import pytest
from rooflens.analysis.comparison.effects import Order, measure_effects
from rooflens.analysis.comparison.versions import from_runs
from rooflens.analysis.roofline.roofs import roofs
from rooflens.analysis.run.pipeline import analyze
from rooflens.analysis.run.summarize import summarize

from .impossible import PLANTED, planted, planted_twice, same


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    return planted_twice(tmp_path_factory.mktemp("planted"))


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


def test_comparison(two, tmp_path):
    """Of two versions that differ in nothing but the noise of honest times."""
    told = []
    for name, seconds, scatter, base in zip("ab", (1e-7, 2e-9), (0.0, 0.3), two, strict=True):
        head = planted(tmp_path / name / "head", 3 * seconds, scatter, day=3, seed=1)
        told.append(measure_effects(from_runs(base, head, Order.SEQUENTIAL)).cases)
    assert (told[0]["status"] == "impossible").sum() == PLANTED
    same(*(cases.loc[cases["status"] == "compared"] for cases in told), "cases")

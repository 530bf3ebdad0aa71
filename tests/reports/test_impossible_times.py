"""Reports show impossible times and take nothing from them: two runs that differ in these alone give one report."""

from collections.abc import Iterator
from typing import Any

import pytest
from rooflens.analysis.run.pipeline import analyze
from rooflens.reports.build import report_of
from rooflens.reports.presets import OF_A_RUN
from rooflens.reports.render.json_form import tree
from rooflens.reports.view import View

from ..analysis.impossible import PLANTED, planted

SHOWN = ("cells-", "bound-", "times-", "three-", "panels-", "files")
"""Tables and data of figures with an entry per cell, which show its time and rate; and the hash of samples.csv."""

RATES = "Footnotes name the suspects; use no ratio with them."
"""Ends a sentence that names the rates which cannot be."""


@pytest.fixture(scope="module")
def views(tmp_path_factory) -> list[View]:
    folder = tmp_path_factory.mktemp("planted")
    runs = [planted(folder / name / "run", seconds, 0.01) for name, seconds in (("a", 1e-7), ("b", 2e-9))]
    return [View(analyze(run)) for run in runs]


def differences(a: Any, b: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of every leaf that differs, with the ids on the way to it, and both leaves."""
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        for key in a:
            yield from differences(a[key], b[key], (*path, a.get("id", ""), key))
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for position, pair in enumerate(zip(a, b, strict=True)):
            yield from differences(*pair, (*path, position))
    elif a != b:
        yield (*path, a, b)


@pytest.mark.parametrize("preset", list(OF_A_RUN))
def test_nothing_but_the_cells_themselves_changes(views, preset):
    reports = [tree(report_of(view, preset)) | {"notes": {}} for view in views]
    found = [
        place
        for place in differences(*reports)
        if not any(str(part).startswith(SHOWN) for part in place) and not str(place[-1]).endswith(RATES)
        if place[-3] != "note"
    ]
    assert found == []


def test_the_highest_rates_are_possible_ones(views):
    (table,) = (
        block
        for section in tree(report_of(views[0]))["sections"]
        for block in section["blocks"]
        if str(block.get("id", "")).startswith("peaks-")
    )
    assert f"{PLANTED} / 162 cells are excluded, faster than the device allows" in table["reading"]
    assert all(row[1]["value"] < 989e12 for row in table["rows"])

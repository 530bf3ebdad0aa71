"""One file to paste into a pull request: below GitHub's limit, and whole without any other file."""

import re

import pytest
from rooflens.reports.figures.chart import Bar
from rooflens.reports.model import Column, Report, Section, TableCell, table
from rooflens.reports.render.comment import LIMIT, bars, render

from . import branches
from .planted import report_of

TARGET = re.compile(r"\]\(|<img|<a |href=|src=|figures/")


@pytest.mark.parametrize("ascii_only", [False, True])
@pytest.mark.parametrize("subject", ["run", "comparison"])
def test_nothing_outside_of_the_file_is_needed(tmp_path, subject, ascii_only):
    report = (
        report_of(tmp_path / "run")
        if subject == "run"
        else branches.report_of(branches.training(lambda *_: branches.gain(-0.05)))
    )
    text = render(report, ascii_only)
    assert not TARGET.search(text)
    assert "```text" in text
    assert len(text) <= LIMIT
    assert ("█" in text) != ascii_only


def test_links_of_cells_are_left_out():
    linked = table("t", "T", [{"name": TableCell("a", link="gfx950/report.html")}])
    assert not TARGET.search(render(Report("A report", (), (Section("first", "First", (linked,)),), "rooflens")))


def test_bars_are_as_long_as_their_values():
    rows = (Bar("a", "4.00×", 4.0), Bar("bb", "1.00×", 1.0), Bar("c", "0.02×", 1 / 48))
    assert bars(rows) == "a   4.00×  " + "█" * 24 + "\nbb  1.00×  " + "█" * 6 + "\nc   0.02×  ▏"
    assert [line.count("#") for line in bars(rows, ascii_only=True).splitlines()] == [24, 6, 0]
    assert bars((Bar("a", "0%", 0.0),)) == "a  0%"


def test_what_is_too_long_is_left_out_by_name():
    rows = ({"name": "é" * 100, Column("number"): number} for number in range(2_000))
    sections = (Section("first", "First"), Section("second", "Second", (table("long", "A long table", rows),)))
    text = render(Report("A report", (), sections, "rooflens"))
    assert len(text) <= LIMIT
    assert text.count("<details>") == text.count("</details>") == 1
    assert "*Left out for length: A long table. It is in the HTML report and in the CSV files.*" in text

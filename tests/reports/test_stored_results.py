"""The reports under docs/results are those of the tables beside them; `make results` writes them.

Their figures come without CSV files: the numbers follow from the tables of the run, which are stored already.
"""

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rooflens.analysis.frames.load import load_run
from rooflens.reports.build import build_report
from rooflens.reports.figures.chart import Figure
from rooflens.reports.model import Report, Section
from rooflens.reports.render import markdown
from rooflens.reports.write import write_report

from .golden_subjects import kept
from .pages import nearly_equal_definitions, unfolded

RESULTS = Path(__file__).parents[2] / "docs" / "results"
STORED = sorted(path.parent.name for path in RESULTS.glob("*/report.md"))
QUICK = "cpu-llm4bit-quick"
QUICK_SUITES = sorted(path.parent.name for path in RESULTS.glob("*-quick/run.json"))
MOST_OPEN_LINES = 120
WRITE = os.environ.get("ROOFLENS_GOLDEN") == "write"


def stored_report(folder: Path) -> Report:
    """Build the report of a stored run; its figures have no numbers beside them."""
    report = build_report(load_run(folder))
    return replace(report, sections=tuple(map(_without_data, report.sections)))


def _without_data(section: Section) -> Section:
    blocks = tuple(replace(block, data=None) if isinstance(block, Figure) else block for block in section.blocks)
    return replace(section, blocks=blocks, sections=tuple(map(_without_data, section.sections)))


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK_SUITES)
def test_the_section_of_a_quick_run_is_one_comment(name):
    report = build_report(load_run(RESULTS / name))
    assert "Left out for length" not in markdown.render(report).text
    assert nearly_equal_definitions(report) == []


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n == QUICK else pytest.mark.slow) for n in STORED])
def test_a_stored_report_is_what_its_tables_say(name):
    folder = RESULTS / name
    report = stored_report(folder)
    if WRITE:
        for path in (*folder.glob("report*.md"), *folder.glob("figures/*")):
            path.unlink()
        write_report(report, {"markdown": folder / "report.md"})
        pytest.skip(f"wrote {folder / 'report.md'}")
    rendered = markdown.render(report)
    assert len(unfolded(rendered.text)) <= MOST_OPEN_LINES
    assert [path.name for path in folder.glob("report*.md")] == ["report.md"]
    links = set(re.findall(r"\]\((figures/[^)]+)\)", rendered.text))
    assert {f"figures/{path.name}" for path in folder.glob("figures/*")} == links
    assert kept((folder / "report.md").read_text("utf-8")).splitlines() == kept(rendered.text).splitlines()

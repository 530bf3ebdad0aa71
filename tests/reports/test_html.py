"""The page: one file, no network, nothing unescaped, every link resolves, same bytes twice."""

import base64
import hashlib
import re
from dataclasses import replace

import pytest
from rooflens.reports.model import HowToRead, Remarks, Report, Section, Text, explained
from rooflens.reports.render import html

from .handmade import OOM, figure, grid, report
from .pages import Page


@pytest.fixture(scope="module")
def text():
    return html.render(report())


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


def test_nothing_leaves_the_file(text, page):
    assert not re.search(r"""(?:src|href|action|data|poster)\s*=\s*["']?(?:https?:|//|file:)""", text)
    assert "@import" not in text
    assert all(match.startswith("#m") for match in re.findall(r"url\(([^)]*)\)", text))
    assert not {"iframe", "object", "embed", "img", "base", "form"} & page.tags
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    script = re.search(r"<script>(.*?)</script>", text, re.DOTALL)[1]
    assert not re.search(r"fetch|XMLHttpRequest|import\(|eval|innerHTML|document\.write|localStorage|cookie", script)
    assert len(script.encode()) < 7_000


def test_the_policy_admits_this_style_sheet_and_this_script_alone(text):
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)[1]
    directives = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert directives["default-src"] == "'none'"
    for tag, directive in (("style", "style-src-elem"), ("script", "script-src")):
        (inside,) = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert directives[directive] == f"'sha256-{digest}'"


def test_notes_stand_below_their_section_with_the_reports_number(text):
    grids = text[text.index('<section id="grids">') : text.index('id="more"')]
    assert re.findall(r"<li value=\"(\d+)\"", grids) == ["1", "2"]
    assert OOM in grids


def test_definitions_stand_once_per_chapter_and_remarks_beyond_five_are_folded():
    several = Remarks(tuple(f"remark {number}" for number in range(7)))
    chapters = tuple(map(explained, report().sections))
    page = html.render(replace(report(), sections=(*chapters, Section("many", "Many", (several,)))))
    assert page.count("<summary>How to read this</summary>") == sum(
        isinstance(block, HowToRead) for chapter in chapters for block in chapter.blocks
    )
    assert page.count("Lower is faster.") == 1
    opened, folded = page.split("<summary>2 more</summary>")
    assert ("remark 4" in opened, "remark 5" in opened, "remark 6" in folded) == (True, False, True)


def test_a_heat_cell_is_small(text):
    """23,000 cells of the full suite must stay a page that opens: 25 bytes each without a footnote."""
    (cell,) = re.findall(r"<td class=g12>44\.80×(?=<)", text)[:1]
    assert len(cell) < 25


def large(details: int = 6) -> Report:
    """A report that is mostly details."""
    grids = tuple(grid(f"grid-{number}", detail=True) for number in range(details))
    drawings = tuple(figure(f"panels-{number}", panels=8, detail=True) for number in range(details))
    chapters = (
        Section("first", "First", (Text("What it is about."), grid("open"), *grids)),
        Section("second", "Second", (figure("open-figure"), *drawings)),
    )
    return Report("Large", (), chapters, "rooflens test")


def test_a_page_that_would_grow_too_large_says_what_it_left_out():
    whole = html.render(large())
    size = len(whole.encode())
    assert html.render(large(), limit=size + 30_000) == whole
    small = html.render(large(), limit=size)
    assert len(small.encode()) <= size - 15_000
    page = Page(small)
    assert {"open", "open-figure"} <= set(page.ids)
    assert {f"grid-{number}" for number in range(6)} <= set(page.ids)  # the drawings are larger
    assert "panels-0" in page.ids
    assert "panels-5" not in page.ids
    second = small[small.index('id="second"') :]
    assert "Left out, so that this page stays below" in second
    assert "Time against M" in second[second.index("Left out") :]
    assert "The JSON form of the report has everything." in second
    assert "Ask for it." in html.render(replace(large(), elsewhere="Ask for it."), limit=size)
    assert set(page.links) <= set(page.ids)
    least = Page(html.render(large(), limit=70_000))
    assert "open" in least.ids  # what is open goes last
    assert not {f"panels-{number}" for number in range(6)} & set(least.ids)

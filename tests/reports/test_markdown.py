"""GitHub markdown: escaped, within the limit, detail moved last-first and saying so, numbers as in the page."""

import re
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rooflens.reports.figures.chart import Data
from rooflens.reports.model import CodeBlock, Column, Report, Section, Table, TableCell, Text, explained
from rooflens.reports.render import html, markdown
from rooflens.reports.render.markdown import OPEN_ROWS, in_short
from rooflens.reports.render.markdown_blocks import escape
from rooflens.reports.render.visible import visible

from .handmade import figure, grid, report
from .pages import Page, markdown_tables, unfolded


@pytest.fixture(scope="module")
def text():
    return markdown.render(report()).text


def test_it_is_what_github_shows(text):
    """No drawing, style or script; images are files, folded parts have a blank line, a fence outlives backticks."""
    assert not re.search(r"<svg|<style|<script|data:|<img", text)
    assert re.search(r"<details><summary>simt_4bit &lt;b&gt;&amp;&lt;/b&gt; friends</summary>\n\n", text)
    assert text.count("<details>") == text.count("</details>") == 4  # and three chapters
    blocks = (CodeBlock("echo ```"), replace(figure(), data=Data(("M",), ((1,),))), figure("bare"))
    told = markdown.render(Report("r", (), (Section("s", "S", blocks),), "g")).text
    assert "````sh\necho ```\n````" in told
    assert "![simt_4bit is faster at small M](figures/panels.svg)" in told
    assert "[Its numbers](figures/panels.csv)" in told
    assert "bare.csv" not in told


def test_headline_one_table_and_one_figure_stand_open(text):
    opened = "\n".join(unfolded(text))
    assert len(markdown_tables(opened)) == 1
    assert re.findall(r"!\[.*?\]\((.*?)\)", opened) == ["figures/panels.svg"]
    assert opened.index("best speedup") < opened.index("M=1 |") < opened.index("panels.svg")
    assert re.findall("<summary>(.*?)</summary>", opened) == ["Speedup", "Figures", "Reproduce"]


@pytest.mark.parametrize(("rows", "found"), [(OPEN_ROWS, ["t0"]), (OPEN_ROWS + 1, [])])
def test_a_long_table_is_folded(rows, found):
    tables = (replace(wide(0, detail=False), rows=((TableCell("row"), TableCell("1")),) * rows), wide(1, detail=False))
    first, *_ = in_short(Report("r", (), (Section("first", "First"), Section("s", "S", tables)), "g")).sections
    assert [table.id for table in first.blocks] == found


def test_listings_of_cells_are_left_to_the_page_with_their_definitions():
    listing = replace(wide(0, detail=True), listing=True, how_to_read="Time: of a launch.")
    tables = (wide(1, detail=False), listing, replace(wide(2, detail=True), how_to_read="Rate: over time."))
    tree = Report("r", (), (Section("h", "H"), explained(Section("s", "S", tables))), "g", source="runs/x")
    text = markdown.render(tree).text
    assert [bool(rows_of(text, number)) for number in range(3)] == [False, True, True]
    assert ("Time: of a launch" in text, "Rate: over time" in text) == (False, True)
    assert "Every cell, with its interval and its rates, is in the HTML report and in the CSV files of runs/x." in text
    assert len(Page(html.render(tree)).tables["t0"]) == 41


def test_notes_follow_their_section(text):
    assert "<sup>1</sup> the interval includes 1<br>" in "\n".join(unfolded(text))
    assert text.index("<sup>2</sup> out of memory") < text.index("<summary>Speedup")  # of the table that stands open


@pytest.mark.parametrize(
    "raw, escaped",
    [
        ("a|b", r"a\|b"),
        ("simt_4bit", "simt_4bit"),
        ("_x_", r"\_x\_"),
        ("~1.0×", r"\~1.0×"),
        ("<script>", "&lt;script&gt;"),
        ("see #12 @bob", "see &#35;12 &#64;bob"),
        ("x@y", "x&#64;y"),
        ("two\nlines", "two lines"),
        ("[a](b)", r"\[a\](b)"),
        ("- item", r"\- item"),
        ("−2.45", "−2.45"),
    ],
)
def test_escape(raw, escaped):
    assert escape(raw) == escaped


@given(st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Zl", "Zp", "Zs", "Cs")), min_size=1))
@example("a\u202eb\u00adc")
def test_any_name_survives_a_table_cell(name):
    table = Table("t", "T", (Column("a"), Column("b")), ((TableCell(name), TableCell("end")),))
    text = markdown.render(Report("r", (), (Section("s", "S", (table,)),), "g")).text
    (rows,) = markdown_tables(text)
    assert rows[1] == [" ".join(visible(name).split()), "end"]


def wide(number: int, detail: bool) -> Table:
    rows = tuple(
        (TableCell(f"row {index} of table {number}"), TableCell(f"{index}.00×", float(index))) for index in range(40)
    )
    return Table(f"t{number}", f"table {number}", (Column("shape"), Column("M=1")), rows, detail=detail)


def rows_of(text: str, number: int) -> list[int]:
    """Rows of the table `number` that a body holds, in order."""
    return [int(row) for row in re.findall(rf"row (\d+) of table {number} ", text)]


def test_too_long_leaves_out_detail_last_first_and_says_where_it_is():
    section = Section("s", "S", tuple(wide(number, detail=number > 0) for number in range(10)))
    tree = Report("r", (), (section,), "g", source="runs/x")
    full = markdown.render(tree).text
    short = markdown.render(tree, limit=len(full) // 2)
    assert len(short.text) <= len(full) // 2
    kept = [number for number in range(10) if rows_of(short.text, number)]
    assert kept == list(range(len(kept)))
    assert 3 <= len(kept) < 10
    assert "Left out for length: table" in short.text
    assert "It is in the HTML report and in the CSV files of `runs/x`." in short.text


@pytest.mark.parametrize("limit", [400, 1000, 3000])
def test_the_limit_holds_whatever_the_report(limit):
    section = Section("s", "S", (Text("word " * 500), wide(0, detail=False), figure(), CodeBlock("echo\n" * 300)))
    rendered = markdown.render(replace(report(), sections=(section,)), limit=limit)
    assert len(rendered.text) <= limit
    assert "Left out for length" in rendered.text
    assert rendered.text.count("<details>") == rendered.text.count("</details>")


def test_a_figure_that_is_left_out_has_no_image_and_no_notes():
    section = Section("s", "S", (figure("kept"), figure("left", detail=True), grid()))
    tree = Report("r", (), (section,), "g")
    rendered = markdown.render(tree, limit=len(markdown.render(tree).text) - 10)
    assert [item.id for item in rendered.figures] == ["kept"]
    assert "left.svg" not in rendered.text

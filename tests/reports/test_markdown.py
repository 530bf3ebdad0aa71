"""GitHub markdown: escaped, within the limit, dropping detail last-first and saying so, numbers as in the page."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rooflens.reports import html, markdown
from rooflens.reports.model import Cell, Column, Report, Section, Table, Text

from .handmade import figure, grid, report
from .pages import Page, markdown_tables, plain


@pytest.fixture(scope="module")
def text():
    return markdown.render(report()).text


def test_same_text_twice(text):
    assert markdown.render(report()).text == text


def test_tables_equal_those_of_the_page(text):
    page = Page(html.render(report()))
    tables = [table for table in markdown_tables(text) if table[0] != ["", "", ""]]
    assert tables == [page.tables["grid"], page.tables["grid-2"]]


def test_key_numbers_carry_their_shares(text):
    (headline,) = [table for table in markdown_tables(text) if table[0] == ["", "", ""]]
    assert headline[1:] == [
        ["best speedup", "44.80×", "llama2-7b gate/up, M=1"],
        ["what binds", "75% dram", "dram 75%, launch 25%. of 4 cells"],
    ]


def test_nothing_that_github_drops(text):
    assert not re.search(r"<svg|<style|<script|data:|<img", text)


def test_images_are_relative_files_with_alternative_text(text):
    assert "![simt_4bit is faster at small M](figures/panels.png)" in text
    assert [item.id for item in markdown.render(report()).figures] == ["panels", "single"]


def test_detail_tables_are_folded_with_a_blank_line_after_the_summary(text):
    assert re.search(r"<details><summary>simt_4bit &lt;b&gt;&amp;&lt;/b&gt; friends</summary>\n\n", text)
    assert text.count("<details>") == text.count("</details>") == 1


def test_notes_follow_their_section(text):
    assert "<sup>1</sup> the interval includes 1<br>" in text
    assert text.index("<sup>2</sup> out of memory") > text.index("## Speedup")


def test_code_fence_outlives_backticks():
    section = Section("s", "S", (markdown.Code("echo ```"),))
    assert "````sh\necho ```\n````" in markdown.render(Report("r", (), (section,), "g")).text


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
    assert markdown.escape(raw) == escaped


@given(st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Zl", "Zp", "Zs", "Cs")), min_size=1))
def test_any_name_survives_a_table_cell(name):
    table = Table("t", "T", (Column("a"), Column("b")), ((Cell(name), Cell("end")),))
    text = markdown.render(Report("r", (), (Section("s", "S", (table,)),), "g")).text
    (rows,) = markdown_tables(text)
    assert rows[1] == [" ".join(name.split()), "end"]


def wide(number: int, detail: bool) -> Table:
    rows = tuple((Cell(f"row {index} of table {number}"), Cell(f"{index}.00×", float(index))) for index in range(40))
    return Table(f"t{number}", f"table {number}", (Column("shape"), Column("M=1")), rows, detail=detail)


def test_too_long_drops_detail_last_first_and_says_where_it_is():
    section = Section("s", "S", tuple(wide(number, detail=number > 0) for number in range(10)))
    tree = Report("r", (), (section,), "g", source="runs/x")
    full = markdown.render(tree).text
    short = markdown.render(tree, limit=len(full) // 2).text
    assert len(short) <= len(full) // 2
    kept = [number for number in range(10) if f"row 39 of table {number} " in short]
    assert kept == list(range(len(kept)))
    assert 3 <= len(kept) < 10
    assert "Left out for length" in short
    assert "`runs/x`" in short
    assert "HTML report" in short


def test_detail_goes_before_the_rest_even_when_it_stands_first():
    section = Section("s", "S", (wide(0, detail=True), wide(1, detail=False)))
    tree = Report("r", (), (section,), "g")
    text = markdown.render(tree, limit=len(markdown.render(tree).text) - 1).text
    assert "row 39 of table 1 " in text
    assert "row 39 of table 0 " not in text


@pytest.mark.parametrize("limit", [400, 1000, 3000])
def test_the_limit_holds_whatever_the_report(limit):
    section = Section("s", "S", (Text("word " * 500), wide(0, detail=False), figure()))
    text = markdown.render(replace(report(), sections=(section,)), limit=limit).text
    assert len(text) <= limit
    assert "Left out for length" in text


def test_a_dropped_figure_needs_no_image():
    section = Section("s", "S", (figure("kept"), figure("gone", detail=True), grid()))
    tree = Report("r", (), (section,), "g")
    rendered = markdown.render(tree, limit=len(markdown.render(tree).text) - 10)
    assert [item.id for item in rendered.figures] == ["kept"]
    assert "gone.png" not in rendered.text


def test_plain_undoes_escape():
    assert plain(markdown.escape("a|b_c~*[x]` <i>&amp;")) == "a|b_c~*[x]` <i>&amp;"

"""The page: one file, no network, nothing unescaped, every link resolves, same bytes twice."""

import re

import pytest
from rooflens.reports import html
from rooflens.reports.model import Cell, Column, Scale, Tone

from .handmade import OOM, report
from .pages import Page


@pytest.fixture(scope="module")
def text():
    return html.render(report())


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


def test_same_bytes_twice(text):
    assert html.render(report()) == text


def test_hostile_names_are_text(text, page):
    assert "script" not in page.tags
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "A report | of &lt;everything&gt;" in text


def test_nothing_leaves_the_file(text, page):
    assert not re.search(r"""(?:src|href|action|data|poster)\s*=\s*["']?(?:https?:|//|file:)""", text)
    assert "@import" not in text
    assert all(match.startswith("#m") for match in re.findall(r"url\(([^)]*)\)", text))
    assert not {"script", "iframe", "object", "embed", "img"} & page.tags
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert "default-src 'none'" in text


def test_every_link_resolves_and_ids_are_unique(page):
    assert set(page.links) <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    assert {"headline", "grids", "grid", "more", "panels", "note-1", "note-2"} <= set(page.ids)


def test_grid_cells_hold_their_numbers(page):
    assert page.tables["grid"] == [
        ["shape", "M=1", "M=8"],
        ["llama2-7b gate/up", "44.80×", "1.08×"],
        ["a|b <script>alert(1)</script>", "0.43×", "oom"],
        ["NA", "1.00×", "oom"],
    ]


def test_notes_stand_below_their_section_with_the_reports_number(text):
    grids = text[text.index('<section id="grids">') : text.index('id="more"')]
    assert re.findall(r"<li value=\"(\d+)\"", grids) == ["1", "2"]
    assert OOM in grids


@pytest.mark.parametrize(
    "scale, cell, expected",
    [
        (Scale.DIVERGING, Cell("8×", 8, 3.0), " class=g12"),
        (Scale.DIVERGING, Cell("0.5×", 0.5, -1.0), " class=r4"),
        (Scale.DIVERGING, Cell("~1.0×", 1, 0.0, tone=Tone.UNDECIDED), ' class="g0 u"'),
        (Scale.DIVERGING, Cell("oom", tone=Tone.FAILED), " class=f"),
        (Scale.SEQUENTIAL, Cell("50%", 0.5, 0.5), " class=q6"),
        (Scale.BAR, Cell("50%", 0.5, 0.5), ' class=bar style="--v:0.500"'),
        (Scale.NONE, Cell("x"), ""),
    ],
)
def test_colour_follows_the_scale_of_the_column(scale, cell, expected):
    assert str(html.attributes(Column("c", scale=scale), cell)) == expected


def test_every_figure_says_how_to_read_it_and_has_an_alternative_text(text):
    assert text.count('class="figure"') == text.count("How to read this.") == 2
    charts = re.findall(r'<svg class="chart"[^>]*>', text)
    assert len(charts) == 4
    assert all('role="img"' in chart and re.search(r'aria-label="[^"]+"', chart) for chart in charts)


def test_a_heat_cell_is_small(text):
    """23,000 cells of the full suite must stay a page that opens: 25 bytes each without a footnote."""
    (cell,) = re.findall(r"<td class=g12>44\.80×(?=<)", text)[:1]
    assert len(cell) < 25

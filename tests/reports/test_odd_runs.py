"""Reports of runs that are not what one would like: cut short, failed, hostile, too small or too large."""

import pytest
from rooflens.reports.render import html, markdown

from .pages import Page, markdown_tables
from .planted import SMALL, all_text, report_of, synthetic, tables


def renders(report):
    """Render in every format; return the markdown."""
    page = Page(html.render(report))
    assert set(page.links) <= set(page.ids)
    rendered = markdown.render(report)
    assert len(rendered.text) <= markdown.LIMIT
    return rendered.text


@pytest.mark.parametrize("rounds, words", [(1, "no interval"), (3, "rest on few values"), (5, "over the logarithms")])
def test_the_source_of_intervals_is_told(tmp_path, rounds, words):
    report = report_of(tmp_path / "run", shapes=SMALL[:1], Ms=(1, 4), rounds=rounds)
    assert words in renders(report)
    assert ("5 or more are needed" in all_text(report)) == (rounds < 5)


@pytest.mark.slow
def test_markdown_of_the_full_suite_fits_a_pull_request(tmp_path):
    """40 shapes x 3 dtypes x 2 caches."""
    shapes = tuple((f"model-{number % 13}b", f"layer {number}", 256 + 64 * number, 1024) for number in range(40))
    report = report_of(
        tmp_path / "full",
        shapes=shapes,
        Ms=tuple(2**power for power in range(0, 12, 2)),
        dtypes=("bf16", "fp16", "fp32"),
        caches=("cold", "warm"),
        machine=synthetic.H200,
        rounds=2,
        samples=2,
    )
    rendered = markdown.render(report)
    assert 30_000 < len(rendered.text) <= 60_000
    assert len(markdown.render(report, limit=10**9).text) > 120_000
    assert "Left out for length" in rendered.text
    assert "simt_4bit" in rendered.text[:1500]
    assert len(rendered.figures) >= 3
    first_grid = Page(html.render(report)).tables["speedup-bf16-nf4-g64-cold-simt-4bit"]
    assert first_grid in markdown_tables(rendered.text)  # the challenger's grid is what stays
    assert markdown.render(report).text == rendered.text


def test_a_run_that_is_too_long_lists_some_m_and_says_so(tmp_path, monkeypatch):
    from rooflens.reports.sections.speedups import cells

    monkeypatch.setattr(cells, "MAX_ROWS", 20)
    report = report_of(tmp_path / "run", shapes=SMALL, Ms=(1, 2, 4, 8, 16), rounds=1)
    listed = [name for name in tables(report) if name.startswith("cells-")]
    assert listed == ["cells-bf16-nf4-g64-cold-m1"]
    assert "cells.csv has them all" in all_text(report)

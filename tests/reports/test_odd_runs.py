"""Reports of runs that are not what one would like: cut short, failed, hostile, too small or too large."""

import pytest
from rooflens.reports.model import KeyNumbers
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


def test_interrupted_run_says_what_is_missing_and_how_to_go_on(tmp_path):
    report = report_of(
        tmp_path / "part", shapes=SMALL, Ms=(1, 4, 16), skip=lambda cell, round_: round_ == 2 or cell.layer == "square"
    )
    text = renders(report)
    planned, missing = 3 * 3 * 4 * 3, 3 * 3 * 4 * 3 - 2 * 3 * 4 * 2
    assert f"{missing} / {planned} rounds to do" in text
    assert "rooflens run --resume -o runs/part" in text


def test_one_cell(tmp_path):
    report = report_of(tmp_path / "one", shapes=SMALL[:1], Ms=(1,), providers=("dequant_blas",), rounds=1)
    text = renders(report)
    assert "nothing to compare it with" in text
    assert "1 / 1 timed" in text


@pytest.mark.parametrize("rounds, words", [(1, "no interval"), (3, "rest on few values"), (5, "over the logarithms")])
def test_the_source_of_intervals_is_told(tmp_path, rounds, words):
    report = report_of(tmp_path / "run", shapes=SMALL[:1], Ms=(1, 4), rounds=rounds)
    assert words in renders(report)
    assert ("5 or more are needed" in all_text(report)) == (rounds < 5)


def test_everything_failed(tmp_path):
    report = report_of(tmp_path / "bad", shapes=SMALL, Ms=(1, 4), failures=lambda cell: ("crashed", "signal 11"))
    text = renders(report)
    assert "0 / 24 timed; 24 failed" in text
    assert "signal 11" in text
    (block,) = [block for block in report.sections[0].blocks if isinstance(block, KeyNumbers)]
    assert [item.text for item in block.items] == ["none", "none"]


def test_baseline_failed_everywhere(tmp_path):
    def failures(cell):
        return ("oom", "too large") if cell.provider == "dequant_blas" else None

    options = {"shapes": SMALL, "Ms": (1, 4), "failures": failures}
    text = renders(report_of(tmp_path / "run", **options))
    assert "the baseline dequant_blas has no time here: ratios are over blas, which replaces it" in text
    text = renders(report_of(tmp_path / "pair", **options, providers=("simt_4bit", "dequant_blas")))
    assert "No ratio for simt_4bit: dequant_blas oom: too large." in text


def test_baseline_was_not_measured(tmp_path):
    report = report_of(tmp_path / "run", shapes=SMALL, Ms=(1, 4), providers=("simt_4bit", "blas"))
    assert "the baseline dequant_blas has no time here: ratios are over blas" in renders(report)
    report = report_of(tmp_path / "alone", shapes=SMALL, Ms=(1, 4), providers=("simt_4bit",))
    assert "has no cell in this run, so there is no ratio" in renders(report)


def test_no_challenger(tmp_path):
    report = report_of(tmp_path / "run", shapes=SMALL, Ms=(1, 4), challengers=(), providers=("dequant_blas", "blas"))
    assert "No challenger is named" in renders(report)


def test_no_ceilings(tmp_path):
    report = report_of(tmp_path / "run", shapes=SMALL, Ms=(1, 4), ceilings=False)
    text = renders(report)
    assert "No ceiling was measured" in text
    assert "no cell has a time" not in text.lower()
    assert "roofline-figure" not in text


def test_incorrect_output_is_named(tmp_path):
    def failures(cell):
        return ("incorrect", "SNR 3.1 dB, 40 dB needed") if cell.provider == "simt_4bit" and cell.M == 4 else None

    text = renders(report_of(tmp_path / "run", shapes=SMALL, Ms=(1, 4), failures=failures))
    assert "3 cells failed the check and have no time." in text
    assert "SNR 3.1 dB, 40 dB needed" in text


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

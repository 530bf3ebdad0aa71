"""The page of `rooflens history --html`: what it says of planted trends, and how a browser shows it."""

import re
from contextlib import chdir
from urllib.parse import unquote

import pytest
from rooflens.cli.main import main
from rooflens.reports.figures import colours

from tests.analysis.synthetic import CPU, H200, write_run
from tests.reports.browsing import HEADINGS, INKS, NAMELESS, OPEN_ALL, OVERFLOW, as_hex
from tests.reports.pages import Page

from .test_history_command import of_commit

SHAPES = (("tiny", "q", 64, 128), ("tiny", "v", 4096, 4096))
STEP, RUNS = 4, 8


def plant(folder):
    """Eight nights of a GPU, from the fifth on with simt_4bit 8 % slower at M = 16; four of a CPU in two families."""
    for number in range(RUNS):
        for name, machine, scheme in (("gpu", H200, "nf4-g64"), ("cpu", CPU, "nf4-g64"), ("a16", CPU, "a16w8-128x128")):
            if name != "gpu" and number < STEP:
                continue

            def latency(cell, number=number):
                slower = number >= STEP and cell.provider == "simt_4bit" and cell.M == 16
                return 1e-4 * cell.M * (1.08 if slower else 1)

            write_run(
                folder / "runs" / f"{name} {number:02}",
                shapes=SHAPES,
                Ms=(1, 16),
                providers=("simt_4bit", "dequant_blas"),
                schemes=(scheme,),
                caches=("cold", "warm") if name == "gpu" else ("cold",),
                machine=machine,
                latency=latency,
                round_noise=0.001,
                sample_noise=0,
                samples=3,
                seed=number,
                canary=[{"at": "2026-01-02T03:00:00Z", "process": 0, "gemm_s": 1e-3, "copy_s": 2e-3}],
                manifest={"created_at": f"2026-01-{number + 1:02}T03:00:00Z"} | of_commit("/home/me/kernels", number),
            )
    (folder / "runs" / "gpu 07" / "report.html").write_text("<!doctype html><title>the report</title>")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trends")
    plant(folder)
    with chdir(folder):
        assert main(["history", *sorted(map(str, (folder / "runs").iterdir())), "--html", "pages/of trends.html"]) == 0
    return folder / "pages" / "of trends.html"


@pytest.fixture(scope="module")
def text(written):
    return written.read_text(encoding="utf-8")


def test_a_change_has_its_commits_its_cells_and_the_command_that_decides(text):
    assert re.findall(r'<h3><a href="#change-[^>]*>([^<]*)</a>', text) == ["3333333..4444444"]
    ((head, *rows),) = [table for name, table in Page(text).tables.items() if name.startswith("change-")]
    found = [dict(zip(head, row, strict=True)) for row in rows]
    assert {(row["provider"], row["M"], row["shape"], row["cache"]) for row in found} == {
        ("simt_4bit", "16", f"tiny {shape}", cache)
        for shape in ("q (64x128)", "v (4096x4096)")
        for cache in ("cold", "warm")
    }
    assert all(float(row["change %"]) == pytest.approx(8, abs=0.5) for row in found)
    span = f"{'3' * 12}..{'4' * 12}"
    assert f"rooflens compare --git {span} --repo /home/me/kernels --providers bench/k.py -p simt_4bit" in text


def test_every_cell_has_a_panel_those_that_changed_first_and_all_but_a_few_are_folded(text):
    drawn = text[text.index('<section id="cells"') : text.index('<section id="series"')]
    opened, folded = drawn.split('<details class="fold"')
    assert (opened.count('<div class="panel">'), folded.count('<div class="panel">')) == (12, 20)
    titles = re.findall(r'<div class="panel"><p><b>([^<]*)</b>', drawn)
    assert len(set(titles)) == 32
    assert all(title.startswith("simt_4bit, M = 16, ") and title.endswith(", NVIDIA H200") for title in titles[:4])
    first = opened.split('<div class="panel">')[1]
    assert 'class="band ' in first  # intervals of the times
    assert 'class="interval ' in first  # where the change may lie


def test_runs_are_listed_with_their_commits_and_lead_to_their_reports(text, written):
    head, newest, *_ = Page(text).tables["runs-table"]
    assert newest == ["gpu 07", "2026-01-08T03:00:00Z", "7777777", "main", "clean", "<b>7</b>", "16"]
    links = [unquote(link) for link in re.findall(r'href="([^"#]*report\.html)"', text)]
    assert links == ["../runs/gpu 07/report.html"]
    assert (written.parent / links[0]).read_text().endswith("<title>the report</title>")
    assert head[0] == "run"


def test_a_filter_narrows_the_page_and_what_cannot_be_written_is_one_line(written, tmp_path, monkeypatch, capsys):
    runs = sorted(map(str, (written.parents[1] / "runs").glob("cpu *")))
    monkeypatch.chdir(tmp_path)
    assert main(["history", *runs, "--filter", "M == 1", "--html", "out.html", "--json"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("{")
    assert "out.html" in err.splitlines()
    assert "0 changes proposed" in (tmp_path / "out.html").read_text(encoding="utf-8")
    (tmp_path / "file").write_text("")
    assert main(["history", *runs, "--html", "file/below.html"]) == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith("rooflens: error: cannot write file/below.html")


@pytest.mark.browser
def test_the_name_of_a_run_leads_to_its_report_and_back(open_page, written):
    shown = open_page(written.as_uri(), 1600, own="file:")
    shown.locator("nav a", has_text="Runs").click()
    shown.locator("#runs-table a", has_text="gpu 07").click()
    assert shown.title() == "the report"
    shown.go_back()
    assert shown.title() == "History"


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_and_is_legible_and_named(open_page, written, scheme):
    theme = {"light": colours.LIGHT, "dark": colours.DARK}[scheme]
    for width in (400, 1600):
        shown = open_page(written.as_uri(), width, scheme, own="file:")
        shown.evaluate(OPEN_ALL)
        assert shown.evaluate(OVERFLOW) == []
        assert shown.evaluate("document.documentElement.scrollWidth") <= width
    assert as_hex(shown.evaluate("getComputedStyle(document.body).backgroundColor")) == theme.surface
    assert shown.evaluate(NAMELESS) == []
    assert shown.evaluate(HEADINGS)[:2] == [1, 2]
    for ink, under, sample in shown.evaluate(INKS):
        assert colours.contrast(as_hex(ink), as_hex(under)) >= 4.5, sample
    boxes = shown.evaluate(
        "[...document.querySelectorAll('svg.chart')].map(e => e.getBoundingClientRect())"
        ".map(box => [box.width, box.height])"
    )
    assert boxes
    assert all(width > 60 and height > 15 for width, height in boxes)

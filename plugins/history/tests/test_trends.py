"""The pages of `rooflens history --html`: what they say of planted trends, and how a browser shows them."""

import re
from contextlib import chdir
from urllib.parse import unquote

import pytest
from rooflens.cli.main import main
from rooflens.reports.figures import colours

from tests.analysis.synthetic import CPU, H200, write_run
from tests.reports.browsing import HEADINGS, INKS, NAMELESS, OPEN_ALL, OVERFLOW, as_hex
from tests.reports.pages import Page

SHAPES = (("tiny", "q", 64, 128), ("tiny", "v", 4096, 4096))
STEP, RUNS = 4, 8


def commit(number):
    return f"{number:x}" * 40


def plant(folder):
    """Eight nights of a GPU, from the fifth on with simt_4bit 8 % slower at M = 16; four of a CPU in two families."""
    for number in range(RUNS):
        for name, machine, scheme in (("gpu", H200, "nf4-g64"), ("cpu", CPU, "nf4-g64"), ("a16", CPU, "a16w8-128x128")):
            if name != "gpu" and number < STEP:
                continue

            def latency(cell, number=number):
                slower = number >= STEP and cell.provider == "simt_4bit" and cell.M == 16
                return 1e-4 * cell.M * (1.08 if slower else 1)

            code = {
                "top": "/home/me/kernels",
                "commit": commit(number),
                "branch": "main",
                "subject": f"<b>{number}</b>",
            }
            request = {"suite": "llm4bit-quick", "files": ["/home/me/kernels/bench/k.py"], "providers": [], "axes": []}
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
                manifest={
                    "created_at": f"2026-01-{number + 1:02}T03:00:00Z", "repository": code, "request": request,
                },
            )  # fmt: skip
    (folder / "runs" / "gpu 07" / "report.html").write_text("<!doctype html><title>the report</title>")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trends")
    plant(folder)
    with chdir(folder):
        assert main(["history", *sorted(map(str, (folder / "runs").iterdir())), "--html", "pages/of trends"]) == 0
    return folder / "pages" / "of trends"


def page(site, name):
    return Page((site / name).read_text(encoding="utf-8"))


def test_the_index_has_a_row_per_family_and_device(site):
    assert sorted(path.name for path in site.iterdir()) == ["a16w8.html", "fourbit.html", "index.html"]
    head, *rows = page(site, "index.html").tables["families"]
    found = {(row[0], row[1]): dict(zip(head, row, strict=True)) for row in rows}
    assert list(found) == [
        ("a16w8", "Planted CPU @ 2.10GHz"), ("fourbit", "NVIDIA H200"), ("fourbit", "Planted CPU @ 2.10GHz"),
    ]  # fmt: skip
    gpu, a16 = found["fourbit", "NVIDIA H200"], found["a16w8", "Planted CPU @ 2.10GHz"]
    assert (gpu["cells"], gpu["runs"], gpu["slower"], gpu["faster"]) == ("16", "8", "4", "0")
    # 4 of the 16 cells are 8 % slower: 1.08 ** (1 / 4)
    assert float(gpu["change %"]) == pytest.approx(100 * (1.08**0.25 - 1), abs=0.15)
    assert (gpu["latest change"], gpu["between"]) == ("2026-01-05", "3333333..4444444")
    assert (a16["runs"], a16["trend since"], a16["slower"], a16["latest change"]) == ("4", "2026-01-05", "0", "none")


def test_a_change_has_its_commits_its_cells_and_the_command_that_decides(site):
    text = (site / "fourbit.html").read_text(encoding="utf-8")
    found = page(site, "fourbit.html").tables
    (title,) = re.findall(r"<h3><a[^>]*>(2026-01-05, 3333333\.\.4444444: 4 cells slower, [^<]*)</a>", text)
    assert re.search(r"largest \+8(\.\d+)?% \[", title)
    (name,) = [name for name in found if name.startswith("trend-2-change-") and len(found[name]) == 5]
    head, *rows = found[name]
    assert {row[0] for row in rows} == {
        f"simt_4bit, M = 16, tiny {shape}, {cache}"
        for shape in ("q (64x128)", "v (4096x4096)")
        for cache in ("cold", "warm")
    }
    assert all(float(row[head.index("change % of time")]) == pytest.approx(8, abs=0.5) for row in rows)
    span = f"{'3' * 12}..{'4' * 12}"
    assert f"rooflens compare --git {span} --repo /home/me/kernels --providers bench/k.py -p simt_4bit" in text
    assert "“&lt;b&gt;4&lt;/b&gt;”" in text  # the subject of the commit, as text


def test_every_cell_has_a_panel_those_that_changed_first_and_all_but_a_few_are_folded(site):
    text = (site / "fourbit.html").read_text(encoding="utf-8")
    gpu = text[text.index('id="trend-2-cells"') : text.index('id="trend-2-runs"')]
    opened, folded = gpu.split('<details class="fold"')
    assert (opened.count('<div class="panel">'), folded.count('<div class="panel">')) == (12, 4)
    titles = re.findall(r'<div class="panel"><p><b>([^<]*)</b>', gpu)
    assert len(set(titles)) == 16
    assert all(title.startswith("simt_4bit, M = 16, ") for title in titles[:4])
    first = opened.split('<div class="panel">')[1]
    assert 'class="band ' in first  # intervals of the times
    assert 'class="interval ' in first  # where the change may lie


def test_runs_are_listed_with_their_commits_and_lead_to_their_reports(site):
    text = (site / "fourbit.html").read_text(encoding="utf-8")
    head, newest, *_ = page(site, "fourbit.html").tables["trend-2-runs-table"]
    assert newest[:5] == ["gpu 07", "2026-01-08T03:00:00Z", "7777777", "main", "clean"]
    links = [unquote(link) for link in re.findall(r'href="([^"#]*report\.html)"', text)]
    assert links == ["../../runs/gpu 07/report.html"]
    assert (site / links[0]).read_text().endswith("<title>the report</title>")
    assert head[0] == "run"


def test_a_filter_narrows_the_pages_and_what_cannot_be_written_is_one_line(site, tmp_path, monkeypatch, capsys):
    runs = sorted(map(str, (site.parents[1] / "runs").glob("cpu *")))
    monkeypatch.chdir(tmp_path)
    assert main(["history", *runs, "--filter", "M == 1", "--html", "out", "--json"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("{")
    assert "out/index.html" in err.splitlines()
    assert "are proposed" not in (tmp_path / "out/index.html").read_text(encoding="utf-8")
    (tmp_path / "file").write_text("")
    assert main(["history", *runs, "--html", "file/below"]) == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith("rooflens: error: cannot write file/below/")


def test_a_file_that_is_no_page_of_rooflens_is_not_replaced(site, tmp_path, monkeypatch, capsys):
    runs = sorted(map(str, (site.parents[1] / "runs").glob("cpu *")))
    monkeypatch.chdir(tmp_path)
    for _ in range(2):  # its own pages are
        assert main(["history", *runs, "--html", "."]) == 0
    (tmp_path / "index.html").write_text("my own site")
    (tmp_path / "fourbit.html").unlink()
    assert main(["history", *runs, "--html", "."]) == 2
    assert "index.html is no page of rooflens" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["index.html"]
    assert (tmp_path / "index.html").read_text() == "my own site"


def test_few_runs_claim_neither_sameness_nor_a_trend(site, tmp_path, monkeypatch):
    """Two runs of which the second is twice as slow, then one with another driver."""
    monkeypatch.chdir(tmp_path)
    for number in range(3):
        write_run(
            tmp_path / f"r{number}", Ms=(1,), shapes=SHAPES, providers=("simt_4bit", "dequant_blas"), machine=H200,
            latency=lambda cell, number=number: 1e-4 * (1 + number),
            manifest={"created_at": f"2026-01-{number + 1:02}T03:00:00Z"}
            | ({"environment": {"driver": "another"}} if number == 2 else {}),
        )  # fmt: skip
    for names, change, said in (("r0 r1", "+100.00", "Time since 2026-01-01"), ("r0 r1 r2", "", "one run")):
        assert main(["history", *names.split(), "--html", "out"]) == 0
        head, row = page(tmp_path / "out", "index.html").tables["families"]
        assert row[head.index("change %")].startswith(change[:4])
        assert bool(row[head.index("change %")]) == bool(change)
        text = (tmp_path / "out/fourbit.html").read_text(encoding="utf-8")
        assert said in text
        assert "takes a series of 4 runs or more" in text
        assert "by no more than chance" not in text


@pytest.fixture
def visit(open_page, site):
    """Open one of the pages at a width and in a colour scheme."""
    return lambda name, *how: open_page((site / name).as_uri(), *how, own="file:")


@pytest.mark.browser
def test_from_the_index_to_a_family_to_a_report_and_back(visit):
    shown = visit("index.html", 1600)
    assert shown.locator("svg.spark").count() == 3
    shown.locator("#families a", has_text="fourbit").first.click()
    assert shown.title() == "fourbit: trend"
    shown.locator("nav a", has_text="Cells on NVIDIA H200").click()
    assert shown.evaluate("document.querySelector('#trend-2-cells').getBoundingClientRect().top") < 200
    shown.locator("#trend-2-runs-table a", has_text="gpu 07").click()
    assert shown.title() == "the report"
    shown.go_back()
    shown.locator("header a", has_text="All trends").click()
    assert shown.title() == "Trends"


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["index.html", "fourbit.html"])
def test_pages_fit_and_are_legible_and_named(visit, name, scheme):
    theme = {"light": colours.LIGHT, "dark": colours.DARK}[scheme]
    for width in (400, 1600):
        shown = visit(name, width, scheme)
        shown.evaluate(OPEN_ALL)
        assert shown.evaluate(OVERFLOW) == []
        assert shown.evaluate("document.documentElement.scrollWidth") <= width
    assert as_hex(shown.evaluate("getComputedStyle(document.body).backgroundColor")) == theme.surface
    assert shown.evaluate(NAMELESS) == []
    assert shown.evaluate(HEADINGS)[:2] == [1, 2]
    for ink, under, sample in shown.evaluate(INKS):
        assert colours.contrast(as_hex(ink), as_hex(under)) >= 4.5, sample
    boxes = shown.evaluate(
        "[...document.querySelectorAll('svg.spark, svg.chart')].map(e => e.getBoundingClientRect())"
        ".map(box => [box.width, box.height])"
    )
    assert boxes
    assert all(width > 60 and height > 15 for width, height in boxes)

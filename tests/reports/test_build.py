"""The chapters of a report against hand computation."""

import json
import re
import shlex
from dataclasses import asdict, replace

import pandas as pd
import pytest
from rooflens.analysis.crossover.refine import PLACE
from rooflens.analysis.frames.load import load_run
from rooflens.analysis.run.pipeline import analyze
from rooflens.reports.build import build_report
from rooflens.reports.model import CodeBlock, Column, TableCell, Tone, table
from rooflens.reports.render import html, json_form, markdown
from rooflens.reports.sections.conditions.configurations import configurations
from rooflens.reports.sections.conditions.context import reproduce
from rooflens.reports.view import View

from .pages import Page, markdown_tables
from .planted import SMALL, all_text, exact, figures_of, records, report_of, synthetic, tables, texts


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """simt takes 10 µs per row, dequant_blas 80 µs at every M: ratios 8, 4, 2, 1, 1/2, 1/4 and crossover M = 8."""
    options = exact(simt_4bit=lambda cell: 10e-6 * cell.M, dequant_blas=lambda cell: 80e-6)
    return report_of(tmp_path_factory.mktemp("toy") / "run", shapes=SMALL, Ms=(1, 2, 4, 8, 16, 32), **options)


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """The quick suite on a planted CPU with two kinds of failure."""

    def failures(cell):
        if cell.provider == "gemv_4bit" and cell.M > 64:
            return "unsupported", "one row at a time"
        return ("oom", "3 GiB asked") if cell.provider == "blas" and cell.N == 14336 and cell.M == 256 else None

    return report_of(tmp_path_factory.mktemp("quick") / "run", failures=failures)


def test_speedup_grid_by_hand(toy):
    grid = texts(tables(toy)["speedup-bf16-nf4-g64-cold-simt-4bit"])
    assert grid[0] == ["shape", "N×K", "M=1", "M=2", "M=4", "M=8", "M=16", "M=32"]
    assert grid[1] == ["toy up", "512×2048", "8.00×", "4.00×", "2.00×", "~1.0×", "0.50×", "0.25×"]
    assert [row[0] for row in grid[1:]] == [
        "toy up",
        "toy down",
        "toy square",
        "geometric mean",
        "distinct GEMMs in it",
    ]
    assert grid[4][2:] == ["8.00×", "4.00×", "2.00×", "~1.0×", "0.50×", "0.25×"]
    assert grid[5][2:] == ["3"] * 6


def test_an_M_without_any_ratio_has_no_column_and_is_said_with_its_reason(quick):
    grid = tables(quick)["speedup-bf16-nf4-g64-cold-gemv-4bit"]
    assert texts(grid)[0][-1] == "M=64"
    assert "; no ratio at M=128, 256 (unsupported: one row at a time)" in grid.reading


def test_rows_are_those_of_the_frame_that_is_asked_for(tmp_path):
    """Python gives a frame the id of one that was freed."""
    run = load_run(synthetic.write_run(tmp_path / "run", shapes=SMALL, Ms=(1,)))
    view = View(analyze(run))
    found = [view.rows(pd.DataFrame({"number": [number]})) for number in range(50)]
    assert found == [[{"number": number}] for number in range(50)]


def test_what_a_refinement_added_is_in_the_curves_and_among_the_outputs(tmp_path):
    """A curve without it would cross elsewhere than the line that marks the crossover."""
    pair, (model, layer, N, K) = ("simt_4bit", "dequant_blas"), SMALL[0]
    place = dict(zip(PLACE, (model, layer, "gemm", 1, 1, 1, N, K, "fwd", "bf16", "nf4-g64", "cold"), strict=True))
    report = report_of(
        tmp_path / "run", shapes=SMALL, Ms=(1, 16, 24, 64), providers=pair,
        skip=lambda cell, _: cell.M == 24 and cell.layer != layer,
        columns=lambda cell, _: {"snr_db": 41.0 if cell.M == 24 else 50.0},
        manifest={"refine": {"challenger": pair[0], "incumbent": pair[1], "complete": True,
                             "added": [place | {"M": 24, "providers": list(pair)}]}},
    )  # fmt: skip
    figures = {name: figure for part in report.sections for name, figure in figures_of(part).items()}
    panels = figures["panels-bf16-nf4-g64-cold"]
    drawn = {chart.title: [[point.x for point in line.points] for line in chart.series] for chart in panels.charts}
    assert drawn == {"up": [[1, 16, 24, 64]] * 2, "down": [[1, 16, 64]] * 2, "square": [[1, 16, 64]] * 2}
    (medians,) = [figure for name, figure in figures.items() if name.startswith("median-")]
    line, dots = medians.charts[0].series  # no median at an M of one shape
    assert [point.x for point in line.points] == [1, 16, 64]
    (baseline,), (time,) = ([p.y for p in series.points if p.x == 24] for series in panels.charts[0].series)
    assert [(dot.x, dot.y) for dot in dots.points] == [(24, pytest.approx(baseline / time))]
    assert "at an M that the refinement added for it alone" in medians.how_to_read
    (roofs,) = [figure for name, figure in figures.items() if name.startswith("roofline-figure-")]
    placed = [row for row in records(roofs) if row["M"] == 24]
    assert [(row["layer"], row["bound_class"], row["time_s"]) for row in placed] == [
        (layer, "", pytest.approx(seconds)) for seconds in (time, baseline)
    ]
    assert sum(len(series.points) for series in roofs.charts[0].series) == 2 * (3 * 3 + 1)
    crossings = texts(tables(report)["crossover-bf16-nf4-g64-cold-simt-4bit"])
    assert [row[-1] for row in crossings] == ["further M", "1", "0", "0"]
    outputs = texts(tables(report)["accuracy"])
    assert [(row[0], row[3], row[-1].split(", ")[1]) for row in outputs[1:]] == [(name, "10", "M=24") for name in pair]


def test_crossover_by_hand(toy):
    found = tables(toy)
    assert texts(found["crossover-bf16-nf4-g64-cold-simt-4bit"])[1][:6] == [
        "toy up", "512×2048", "M~8", "[4, 16]", "below", "M ≤ 4",
    ]  # fmt: skip
    median = dict(zip(*texts(found["median-crossover"])[:2], strict=True))
    assert (median["median M"], median["faster"], median["shapes"], median["below"]) == ("M~8", "below", "3", "3")
    assert not {"ahead", "behind", "above"} & set(median)  # a status that no shape has takes no column
    assert "below: the challenger is faster below the crossover" in found["median-crossover"].how_to_read
    assert texts(found["threshold"])[1][2:5] in (["M ≤ 4", "0.00", "0.00"], ["M ≤ 8", "0.00", "0.00"])


def test_cell_table_by_hand(toy):
    """512 x 2048 at M=1: 2 x 512 x 2048 FLOP; 524288 + 65536 + 4096 + 1024 bytes; 10 µs."""
    found = tables(toy)
    (header, simt, *_), (_, dequant, *_) = (
        texts(found[f"cells-bf16-nf4-g64-cold-{name}"]) for name in ("simt-4bit", "dequant-blas")
    )
    assert header[5:7] == ["rate", "traffic"]
    assert simt[:7] == ["1", "512", "2048", "10.00 µs", "[10.00, 10.00] µs", "209.7", "59.5"]
    assert dequant[3] == "80.00 µs"
    assert (simt[8:], dequant[8:]) == (["dram", "toy up"], ["unexplained", "toy up"])


def test_whole_set_rate_is_total_work_over_total_time(toy):
    """Three shapes of 2^20 weights each: 3 x 2^21 FLOP in 30 µs at M=1, in 240 µs for dequant_blas."""
    table = tables(toy)["whole-bf16-nf4-g64-cold"]
    assert table.title.endswith("GFLOPS")
    assert [row[1].text for row in table.rows] == ["209.7", "26.2", "3"]


def test_a_size_of_two_models_counts_once_in_a_rate_over_all(tmp_path):
    shapes = (("a", "up", 512, 2048), ("b", "up", 512, 2048), ("a", "down", 2048, 1024))
    times = {512: 1e-5, 2048: 4e-5}
    report = report_of(tmp_path / "run", shapes=shapes, Ms=(1,), **exact(dequant_blas=lambda cell: times[cell.N]))
    rate, sizes = tables(report)["whole-bf16-nf4-g64-cold"].rows
    assert rate[1].value == pytest.approx(2 * (512 * 2048 + 2048 * 1024) / 5e-5)
    assert sizes[1].text == "2"


@pytest.mark.parametrize(("rounds", "words"), [(1, "No cell has two rounds"), (3, "logarithms"), (5, "logarithms")])
def test_the_source_of_intervals_is_told(tmp_path, rounds, words):
    report = report_of(tmp_path / "run", shapes=SMALL[:1], Ms=(1, 4), rounds=rounds)
    assert words in markdown.render(report).text
    assert ("5 or more are needed" in all_text(report)) == (rounds < 5)


def test_failed_cells_show_their_verdict_and_reason(quick):
    grid = tables(quick)["speedup-bf16-nf4-g64-cold-blas"]
    (failed,) = [cell for row in grid.rows for cell in row if cell.tone is Tone.FAILED]
    assert (failed.text, failed.value, failed.note) == ("oom", None, "oom: 3 GiB asked")
    rows = texts(tables(quick)["failed"])
    assert rows[1][:3] == ["gemv_4bit", "skipped", "12"]
    assert rows[1][5] == "128, 256"
    assert rows[2][:3] == ["blas", "oom", "1"]
    assert rows[2][-1] == "3 GiB asked"


def test_html_and_markdown_hold_the_same_tables(quick):
    listings = {table.id for table in tables(quick).values() if table.listing}  # in the page alone
    page = {name: table for name, table in Page(html.render(quick)).tables.items() if name not in listings}
    text = markdown.render(quick, limit=10**9).text
    in_markdown = [table for table in markdown_tables(text) if table[0] != ["", "", ""]]
    assert len(in_markdown) == len(page) > 20
    for mine, theirs in zip(in_markdown, page.values(), strict=True):
        header = [re.sub(r" \((%|GB/s|[TG]FLOPS)\)$", r" \1", name) for name in mine[0]]
        assert header == theirs[0]
        assert mine[1:] == theirs[1:]


def test_a_provider_looks_alike_in_every_figure_and_no_point_is_above_its_roof(quick):
    figures = {name: figure for part in quick.sections for name, figure in figures_of(part).items()}
    charts = [chart for figure in figures.values() for chart in figure.charts]
    styles = {(series.label, series.style) for chart in charts for series in chart.series}
    assert dict(styles) == {"dequant_blas": 0, "simt_4bit": 1, "gemv_4bit": 2, "blas": 3}
    assert len(styles) == 4
    (roofs,) = [block for name, block in figures.items() if name.startswith("roofline")]
    assert all(point.y <= 55e9 * point.x * 1.03 for series in roofs.charts[0].series for point in series.points)


def test_slices_and_challengers_never_mix(tmp_path):
    report = report_of(
        tmp_path / "run",
        dtypes=("bf16", "fp32"),
        caches=("cold", "warm"),
        shapes=SMALL[:2],
        Ms=(1, 4, 16),
        challengers=("simt_4bit", "gemv_4bit"),
    )
    speedup = report.sections[1]
    assert [part.title for part in speedup.sections] == ["bf16 · cold", "fp32 · cold", "bf16 · warm", "fp32 · warm"]
    assert [part.folded for part in speedup.sections] == [False, True, True, True]
    assert len(tables(report)["median-crossover"].rows) == 4 * 2
    assert Page(html.render(report)).tables["speedup-fp32-nf4-g64-warm-simt-4bit"][0][2:] == ["M=1", "M=4", "M=16"]


def test_a_command_with_quotes_can_be_read_and_typed(tmp_path):
    run = load_run(synthetic.write_run(tmp_path / "run", shapes=SMALL[:1], Ms=(1,), samples=2))
    words = ["rooflens", "run", "--filter", "model == 'a' or layer == 'k/v'", "it's $5", "a b"]
    view = View(analyze(replace(run, manifest=replace(run.manifest, command=words))))
    (code,) = (block for block in reproduce(view).blocks if isinstance(block, CodeBlock))
    line = code.text.splitlines()[0]
    assert shlex.split(line) == words
    assert line.startswith("""rooflens run --filter "model == 'a' or layer == 'k/v'" """)


def test_a_baseline_says_which_libraries_multiplied(tmp_path):
    run = load_run(synthetic.write_run(tmp_path / "run", shapes=SMALL[:1], Ms=(1, 64), samples=2))
    cells = run.cells.copy()
    baseline = cells["provider"] == "dequant_blas"
    for m, library in ((1, "torch"), (64, "MKL 2024.2")):
        cells.loc[baseline & (cells["M"] == m), "config"] = json.dumps({"gemm": "mm", "library": library})

    (found, *_) = configurations(View(analyze(replace(run, cells=cells)))).blocks
    named = {row[0].text: row[3].text for row in found.rows}
    assert named.pop("dequant_blas") == "gemm=mm, library=torch or MKL 2024.2"
    assert not any("library" in text for text in named.values())


def test_every_view_renders_one_coverage(tmp_path):
    """3 providers at 2 M can have a time: one failed, one was not reached; a fourth provider cannot run here."""

    def failures(cell):
        if cell.provider == "gemv_4bit":
            return "unsupported", "needs a GPU"
        return ("oom", "") if (cell.provider, cell.M) == ("blas", 1) else None

    folder = synthetic.write_run(
        tmp_path / "run",
        shapes=SMALL[:1],
        Ms=(1, 4),
        failures=failures,
        skip=lambda cell, _: (cell.provider, cell.M) == ("blas", 4),
    )
    told = "4 / 6 timed; 1 failed, 1 to do; 2 more cannot run here; 3 / 24 rounds to do"
    for preset, chapters in (
        ("full", ("open-items", "correctness", "reproduce")),
        ("flat", ("correctness", "open-items")),
    ):
        report = build_report(load_run(folder), preset)
        assert dict(report.facts)["cells"] == told
        sections = {section.id: section for section in report.walk()}
        assert all(told in str(sections[name].blocks) for name in chapters)
        stored = json_form.tree(report)["coverage"]
        assert stored == asdict(report.coverage)
        assert (stored["timed"], stored["failed"], stored["to_do"], stored["unsupported"]) == (4, 1, 1, 2)


def test_a_run_that_is_too_long_lists_some_m_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("rooflens.reports.sections.speedups.flat.MAX_ROWS", 6)
    report = report_of(tmp_path / "run", shapes=SMALL, Ms=(1, 2, 4, 8, 16), rounds=1)
    listed = tables(report)["cells-bf16-nf4-g64-cold-blas"]
    assert [row[0].text for row in listed.rows] == ["1"] * 3 + ["16"] * 3
    assert listed.reading == "15 problems. 9 rows at other M are in cells.csv."
    assert "no interval" in all_text(report)


def test_a_table_has_the_columns_of_its_first_row():
    made = table("t", "T", [{"what": "a", Column("count"): 3}, {"what": "sum"}])
    assert [(column.header, column.is_text) for column in made.columns] == [("what", True), ("count", False)]
    assert made.rows == ((TableCell("a"), TableCell("3", 3)), (TableCell("sum"), TableCell("")))

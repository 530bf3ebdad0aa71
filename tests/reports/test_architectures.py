"""The report of several architectures side by side: what its tables say of planted truth, and what it leads to."""

import json
import re

import pytest
from rooflens.analysis.frames.load import load_run
from rooflens.analysis.run.pipeline import analyze
from rooflens.reports.build import build_architectures
from rooflens.reports.model import Table
from rooflens.reports.render import html, json_form, markdown, plain, text
from rooflens.reports.sections.architectures.subject import Architectures, SweepInfo
from rooflens.reports.view import View
from rooflens.shapes.errors import UsageError

from .figures import records
from .pages import Page
from .planted import all_text, synthetic, tables, texts

SHAPES = (("toy", "up", 512, 2048), ("toy", "down", 2048, 512))
SWEEP = SweepInfo("night", "llm4bit-quick", "2026-01-02T03:04:05Z", "runs/night")
PROVIDERS = ("simt_4bit", "mma_4bit", "dequant_blas")


def view(folder, name, latencies, **options):
    """A run without noise: provider -> seconds as a function of the cell, or as a number."""

    def latency(cell):
        found = latencies[cell.provider]
        return found(cell) if callable(found) else found

    usual = {
        "shapes": SHAPES, "Ms": (1, 16, 256), "providers": PROVIDERS, "samples": 2, "rounds": 2,
        "challengers": ("simt_4bit", "mma_4bit"), "round_noise": 0, "sample_noise": 0, "latency": latency,
        "machine": synthetic.H200, "manifest": {"id": f"night-{name}"},
    }  # fmt: skip
    run = load_run(synthetic.write_run(folder / name, **usual | options))
    return name, View(analyze(run))


def no_mma(cell):
    return ("unsupported", "no matrix instruction") if cell.provider == "mma_4bit" else None


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """simt_4bit over dequant_blas: sm90 4, 4, 1/2 at M = 1, 16, 256; gfx950 2, 1/5, 1/5. mma_4bit on sm90 alone: 8."""
    folder = tmp_path_factory.mktemp("pair")
    base = 8e-4
    return [
        view(
            folder, "sm90",
            {"dequant_blas": base, "mma_4bit": base / 8, "simt_4bit": lambda c: base / (4 if c.M <= 16 else 1 / 2)},
        ),
        view(
            folder, "gfx950",
            {"dequant_blas": base, "mma_4bit": base, "simt_4bit": lambda c: base / (2 if c.M == 1 else 1 / 5)},
            failures=no_mma,
        ),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def report(pair):
    links = {"sm90": "sm90/report.html", "gfx950": "gfx950/report.html"}
    return build_architectures(SWEEP, pair, links=links)


SLICE = "bf16-nf4-g64-cold"


def test_the_grid_is_architecture_by_m_with_each_ones_own_speedup(report):
    grid = tables(report)[f"speedup-{SLICE}-simt-4bit"]
    assert texts(grid) == [
        ["architecture", "M=1", "M=16", "M=256"],
        ["sm90", "4.00×", "4.00×", "0.50×"],
        ["gfx950", "2.00×", "0.20×", "0.20×"],
        ["distinct GEMMs in it", "2", "2", "2"],
    ]
    assert "> 1: simt_4bit is faster" in grid.reading
    per_shape = texts(tables(report)[f"shapes-speedup-{SLICE}-simt-4bit"])
    assert per_shape[1:3] == [
        ["toy up", "512×2048", "sm90", "4.00×", "4.00×", "0.50×"],
        ["toy up", "512×2048", "gfx950", "2.00×", "0.20×", "0.20×"],
    ]
    assert len(per_shape) == 1 + 2 * 2


def test_no_number_is_of_more_than_one_architecture(report):
    """The geometric mean of sm90 and gfx950 at M = 1 would be 2.83."""
    assert "2.83" not in json_form.render(report)
    assert "0.89" not in json_form.render(report)


def test_what_cannot_run_somewhere_is_in_its_row_with_its_reason(report):
    grid = tables(report)[f"speedup-{SLICE}-mma-4bit"]
    sm90, gfx950, _ = grid.rows
    assert [cell.text for cell in sm90] == ["sm90", "8.00×", "8.00×", "8.00×"]
    assert [cell.text for cell in gfx950] == ["gfx950", *["unsupported"] * 3]
    assert {cell.note for cell in gfx950[1:]} == {"unsupported: no matrix instruction"}
    per_shape = tables(report)[f"shapes-speedup-{SLICE}-mma-4bit"]
    assert {row[2].text for row in per_shape.rows} == {"sm90"}
    assert "Nothing on gfx950: unsupported: no matrix instruction." in per_shape.reading
    assert texts(tables(report)["absent"])[1:] == [
        ["mma_4bit", "gfx950", "unsupported", "6 / 6", "1, 16, 256", "toy up, toy down", "no matrix instruction"]
    ]


def test_disagreements_are_counted_and_listed(report):
    found = tables(report)
    assert texts(found["agreement"]) == [
        ["provider", "operands", "cells", "faster", "slower", "reversed", "undecided"],
        ["simt_4bit", "bf16 · cold", "6", "2", "2", "2", "0"],
    ]
    header, *rows = texts(found["reversals"])
    assert header[-3:] == ["sm90", "gfx950", "contrast"]
    assert [row[1:4] + row[-3:] for row in rows] == [
        ["toy up", "512×2048", "16", "4.00×", "0.20×", "20.00×"],
        ["toy down", "2048×512", "16", "4.00×", "0.20×", "20.00×"],
    ]
    assert "of 6 cells that can be compared, 2 are verified faster on one and slower on another" in all_text(report)


def test_the_fastest_provider_and_what_the_others_choice_costs(report):
    """mma_4bit leads sm90 everywhere; on gfx950 simt_4bit does at M = 1, and the baseline beyond."""
    found = tables(report)
    assert texts(found[f"same-{SLICE}"])[1:] == [
        ["the same", "0", "0", "0", "0"],
        ["another one", "2", "2", "2", "6"],
        ["not distinguished", "0", "0", "0", "0"],
        ["shapes", "2", "2", "2", "6"],
    ]
    choices = {(row[0], row[2]): row[3:] for row in texts(found[f"choices-{SLICE}"])[1:]}
    assert choices["toy up", "1"] == ["mma_4bit (simt_4bit 2.00×)", "simt_4bit (mma_4bit has no time)"]
    assert choices["toy up", "16"] == ["mma_4bit (dequant_blas 8.00×)", "dequant_blas (mma_4bit has no time)"]


def test_a_reference_is_no_rival(tmp_path):
    """blas is the fastest on both, and another one on each once it is left out."""
    times = {"blas": 1e-5, "dequant_blas": 4e-4, "simt_4bit": 1e-4}
    kinds = {"providers": tuple(times), "challengers": ("simt_4bit",)}
    pair = [
        view(tmp_path, "sm90", times, **kinds),
        view(tmp_path, "gfx950", times | {"simt_4bit": 8e-4}, **kinds),
    ]
    found = tables(build_architectures(SWEEP, pair))
    assert texts(found[f"same-{SLICE}"])[1:3] == [["the same", *["0"] * 4], ["another one", "2", "2", "2", "6"]]
    assert texts(found[f"choices-{SLICE}"])[1][3:] == [
        "simt_4bit (dequant_blas 4.00×)",
        "dequant_blas (simt_4bit 2.00×)",
    ]


def test_a_mean_says_what_it_leaves_out_and_where_nothing_is_in_common(tmp_path):
    times = {"dequant_blas": 4e-4, "mma_4bit": 2e-4, "simt_4bit": lambda c: 1e-4 if c.layer == "up" else 2e-4}

    def lost(*places):
        def failed(cell):
            gone = cell.provider == "simt_4bit" and (cell.M, cell.layer) in places
            return ("oom", "3 GiB asked") if gone else None

        return failed

    pair = [
        view(tmp_path, "sm90", times, failures=lost((16, "up"))),
        view(tmp_path, "gfx950", times, failures=lost((1, "down"), (16, "down"))),
    ]
    found = tables(build_architectures(SWEEP, pair))
    for table_id in (f"speedup-{SLICE}-simt-4bit", f"roofline-{SLICE}-simt-4bit"):
        sm90, gfx950 = found[table_id].rows[:2]
        assert sm90[1].note.startswith("excludes 1 cell that another architecture has no ")
        assert gfx950[1].note == ""
        assert [sm90[2].text, gfx950[2].text] == ["none in common"] * 2
        assert "no shape has a number here on every architecture" in sm90[2].note
        assert sm90[3].note == ""
    assert found[f"speedup-{SLICE}-simt-4bit"].rows[0][1].text == "4.00×", "of the shape that both have"


def test_a_provider_without_any_time_takes_no_colour_away(tmp_path):
    times = {"dequant_blas": 4e-4, "mma_4bit": 2e-4, "simt_4bit": 1e-4}
    kinds = {"challengers": ("mma_4bit", "simt_4bit"), "failures": no_mma}
    pair = [view(tmp_path, name, times, **kinds) for name in ("sm90", "gfx950")]
    subject = Architectures(SWEEP, dict(pair))
    assert subject.styles == {"dequant_blas": 0, "simt_4bit": 1, "mma_4bit": 2}
    assert "No ratio for mma_4bit. sm90: unsupported: no matrix instruction; gfx950: unsupported:" in all_text(
        build_architectures(SWEEP, pair)
    )


def test_crossovers_stand_side_by_side(report):
    found = tables(report)
    medians = texts(found["median-crossover"])
    assert medians[0] == [
        "challenger",
        "operands",
        *["sm90", "95% interval", "shapes"],
        *["gfx950", "95% interval", "shapes"],
    ]
    mma, simt = medians[1:]
    assert (simt[4], simt[7]) == ("2", "2")
    low, high = (float(simt[column].removeprefix("M~")) for column in (5, 2))
    assert 1 < low < 16 < high < 256
    assert (mma[2], mma[5]) == ("ahead", "unsupported")
    per_shape = texts(found[f"crossover-{SLICE}-simt-4bit"])
    assert [row[-1] for row in per_shape] == ["apart", "yes", "yes"]
    assert (per_shape[1][3], per_shape[1][6]) == ("[16, 256]", "[1, 16]")


def test_shares_are_of_each_devices_own_limits(report, pair):
    grid = texts(tables(report)[f"roofline-{SLICE}-dequant-blas"])
    for row, (name, own) in zip(grid[1:3], pair, strict=True):
        cells = own.cells[(own.cells["provider"] == "dequant_blas") & (own.cells["M"] == 16)]
        median = cells["fraction_of_bound"].sum() / 2
        assert row[0] == name
        assert float(row[2].removesuffix("%")) == pytest.approx(100 * median, abs=0.5)
    assert grid[3] == ["shapes in it", "2", "2", "2"]
    assert texts(tables(report)[f"roofline-{SLICE}-mma-4bit"])[2] == ["gfx950", *["unsupported"] * 3]


def test_times_are_there_because_ratios_do_not_show_them(report):
    rows = texts(tables(report)[f"times-{SLICE}-simt-4bit"])
    assert rows[1][3:] == ["200.00 µs", "200.00 µs", "1.600 ms"]
    assert rows[2][3:] == ["400.00 µs", "4.000 ms", "4.000 ms"]


def test_the_figure_has_a_panel_per_architecture_on_the_same_axes(report):
    figure = next(
        block
        for part in report.walk()
        for block in part.blocks
        if getattr(block, "id", "") == f"speedup-over-m-{SLICE}"
    )
    sm90, gfx950 = figure.charts
    assert (sm90.title, gfx950.title) == ("sm90", "gfx950")
    assert (sm90.x, sm90.y) == (gfx950.x, gfx950.y)
    assert {line.label: line.style for line in sm90.series}["simt_4bit"] == gfx950.series[0].style
    assert [line.label for line in gfx950.series] == ["simt_4bit"]
    drawn = {(row["architecture"], row["provider"], row["M"]): row["ratio"] for row in records(figure)}
    assert drawn["gfx950", "simt_4bit", 16] == pytest.approx(0.2)
    assert drawn["sm90", "mma_4bit", 256] == pytest.approx(8)
    assert "gfx950: simt_4bit 2.00× at M=1 and 0.20× at M=256" in figure.alt


def test_conditions_name_the_software_that_differs(tmp_path):
    times = dict.fromkeys(PROVIDERS, 1e-3)
    environment = {"torch": "2.11.0", "triton": "3.6.0", "rooflens": "0.1.0", "driver": ""}
    one = view(tmp_path, "sm90", times)
    other = view(tmp_path, "gfx950", times, manifest={"environment": environment})
    report = build_architectures(SWEEP, [one, other])
    told = all_text(report)
    assert "Besides the device these differ: torch, triton, python." in told
    rows = {row[0]: row[1:] for row in texts(tables(report)["conditions-table"])[1:]}
    assert rows["torch"] == ["2.13.0", "2.11.0"]
    assert rows["python"] == ["3.11.9", "unknown"]
    assert rows["timer"] == ["event: device events around each launch; launching it is in the time"] * 2
    assert "driver" not in rows, "unknown on both"
    assert "its own report" not in texts(tables(report)["runs"])[0], "there is no page to lead to"


def test_links_lead_to_each_report_in_page_markdown_and_json(report):
    page = html.render(report)
    assert '<a href="gfx950/report.html">gfx950/report.html</a>' in page
    assert "gfx950/report.html" in Page(page).tables["runs"][2]
    assert "[gfx950/report.html](gfx950/report.html)" in markdown.render(report).text
    runs = next(
        block for block in json.loads(json_form.render(report))["sections"][0]["blocks"] if block.get("id") == "runs"
    )
    assert runs["rows"][1][-1] == {
        "text": "gfx950/report.html",
        "value": "gfx950/report.html",
        "link": "gfx950/report.html",
    }


def test_a_link_is_a_path_whatever_stands_in_it(pair):
    odd = 'javascript:alert("x") y/#&.html'
    report = build_architectures(SWEEP, pair, links={"sm90": odd})
    quoted = "javascript%3Aalert%28%22x%22%29%20y/%23%26.html"
    assert f'href="{quoted}"' in html.render(report)
    assert f"]({quoted})" in markdown.render(report).text


def test_the_digest_is_plain_and_narrow_and_has_each_architecture(report):
    told = text.render_digest(plain.as_ascii(report))
    assert told.isascii()
    assert max(map(len, told.splitlines())) <= 72
    assert re.search(r"^sm90 \(NVIDIA H200\)\n  mma_4bit over dequant_blas, bf16 - cold: ", told, re.MULTILINE)
    assert "simt_4bit over dequant_blas, bf16 - cold: 2.00x at M=1" in told.partition("gfx950 (")[2]


def test_an_architecture_without_a_finished_cell_is_named(pair):
    report = build_architectures(SWEEP, pair, missing={"gfx942": "its run has not begun"})
    assert report.title == "llm4bit-quick on sm90, gfx950 and gfx942"
    assert "gfx942 is not in this report: its run has not begun." in all_text(report)
    assert "gfx942: its run has not begun." in all_text(report)


def test_one_architecture_is_shown_and_nothing_is_compared(pair):
    report = build_architectures(SWEEP, pair[:1], missing={"gfx950": "its run has not begun"})
    found = tables(report)
    assert texts(found[f"speedup-{SLICE}-simt-4bit"])[1] == ["sm90", "4.00×", "4.00×", "0.50×"]
    assert not {"agreement", "reversals"} & set(found)
    assert texts(found[f"crossover-{SLICE}-simt-4bit"])[0] == ["shape", "N×K", "sm90", "between", "wins at"]
    with pytest.raises(UsageError, match="no architecture of this sweep has a finished cell yet"):
        build_architectures(SWEEP, [])


def test_slices_of_one_architecture_only_stay(tmp_path):
    """A second dtype on sm90: its grids are there, and gfx950 says that it has none of it."""
    times = {"dequant_blas": 4e-4, "mma_4bit": 2e-4, "simt_4bit": 1e-4}
    wide = view(tmp_path, "sm90", times, dtypes=("bf16", "fp32"))
    report = build_architectures(SWEEP, [wide, view(tmp_path, "gfx950", times)])
    grid = tables(report)["speedup-fp32-nf4-g64-cold-simt-4bit"]
    assert [cell.text for cell in grid.rows[0]] == ["sm90", "4.00×", "4.00×", "4.00×"]
    assert [cell.text for cell in grid.rows[1]] == ["gfx950", "absent", "absent", "absent"]
    assert grid.rows[1][1].note == "absent: the run on gfx950 has no such cell"


def test_nothing_to_compare_is_said(tmp_path):
    alone = {"providers": ("dequant_blas",), "challengers": ()}
    pair = [view(tmp_path, name, {"dequant_blas": 1e-3}, **alone) for name in ("sm90", "gfx950")]
    told = all_text(build_architectures(SWEEP, pair))
    assert "Only dequant_blas was measured: nothing to compare with." in told
    assert "No crossover. sm90: no challenger is named in this run; gfx950: no challenger is named" in told


def test_an_architecture_on_which_nothing_passed_is_a_column_of_reasons(tmp_path):
    times = {"dequant_blas": 4e-4, "mma_4bit": 2e-4, "simt_4bit": 1e-4}
    dead = view(tmp_path, "gfx950", times, failures=lambda cell: ("compile_error", "no target gfx950"))
    report = build_architectures(SWEEP, [view(tmp_path, "sm90", times), dead])
    grid = tables(report)[f"speedup-{SLICE}-simt-4bit"]
    assert [cell.text for cell in grid.rows[1]] == ["gfx950", *["compile_error"] * 3]
    assert [cell.text for cell in grid.rows[0]] == ["sm90", *["4.00×"] * 3]
    for block in (block for part in report.walk() for block in part.blocks if isinstance(block, Table)):
        assert block.rows, block.id
    assert html.render(report)
    assert text.render(report)

"""Reports of suites that are no sweep of a forward GEMM: quantizers, passes, one M per shape, odd sets of shapes."""

from pathlib import Path

import pytest
from rooflens.analysis.frames.load import load_run
from rooflens.reports.build import build_report
from rooflens.reports.model import Text
from rooflens.reports.render import html, markdown

from ..csv_files import read_rows, write_rows
from .planted import SMALL, exact, figures_of, report_of, synthetic, tables, texts

PAIR = ("simt_4bit", "dequant_blas")


def rewritten(folder: Path, changes, **options):
    """Plant a run, replace texts in its cells.csv, and build its report."""
    synthetic.write_run(folder, **options)
    path = folder / "cells.csv"
    rows = read_rows(path)
    write_rows(path, rows[0], [row | changes(row) for row in rows])
    return build_report(load_run(folder))


def quantizers(tmp_path, **options):
    """A run of quantizations: no FLOPs, one row of K at a time."""
    changes = {"op": "quantize", "flops": "0", "N": "1"}
    return rewritten(tmp_path / "run", lambda row: changes, shapes=SMALL, Ms=(1, 8), **options)


def figures(report):
    return {name: figure for part in report.sections for name, figure in figures_of(part).items()}


def of_provider(name, verdict="unsupported", reason="needs a GPU"):
    return {"failures": lambda cell: (verdict, reason) if cell.provider == name else None}


def test_a_quantizer_is_told_in_bytes(tmp_path):
    report = quantizers(tmp_path, **exact(simt_4bit=1e-3, dequant_blas=2e-3))
    assert dict(report.facts)["operands"] == "bf16 to nf4-g64"
    text = markdown.render(report, limit=10**9).text
    found = tables(report)
    about = [table for name, table in found.items() if name.startswith(("peaks", "whole", "cells-"))]
    assert "GFLOPS" not in str([(table.title, [column.unit for column in table.columns]) for table in about])
    assert found["whole-bf16-nf4-g64-cold"].title == "Rate over the whole shape set, GB/s"
    peaks = texts(found["peaks-bf16-nf4-g64-cold"])
    assert peaks[0] == ["provider", "highest bandwidth", "at"]
    assert all(float(row[1]) > 0 for row in peaks[1:])
    assert "rate" not in texts(found["cells-bf16-nf4-g64-cold-simt-4bit"])[0]
    assert "0 0" not in text
    at_first = [row for row in read_rows(tmp_path / "run" / "cells.csv") if (row["round"], row["M"]) == ("0", "1")]
    moved = sum(int(row["compulsory_bytes"]) for row in at_first if row["provider"] == "simt_4bit")
    rate = found["whole-bf16-nf4-g64-cold"].rows[0][1].value
    assert rate == pytest.approx(moved / 3e-3)  # total bytes over total time: three shapes of 1 ms


def test_where_only_the_baseline_ran_no_table_is_empty_and_no_sentence_is_repeated(tmp_path):
    report = quantizers(tmp_path, providers=PAIR, **of_provider("simt_4bit"))
    for name, table in tables(report).items():
        assert table.rows, name
    assert not any(
        name.startswith(("speedup", "crossover", "median-crossover", "threshold")) for name in tables(report)
    )
    speedup, crossover = report.sections[1], report.sections[2]
    assert [block.text for block in speedup.blocks] == ["No ratio for simt_4bit: unsupported: needs a GPU."]
    assert [block.text for block in crossover.blocks] == [
        "No crossover: no challenger can run on this device (simt_4bit: needs a GPU)."
    ]
    assert not speedup.sections
    assert not crossover.sections


def test_panels_of_one_model_are_titled_by_what_tells_them_apart(tmp_path):
    shapes = tuple(("DeepSeek-R1", f"mla_kv_b 512x128 tp{n} B{16 * n}", 512, 128 * n) for n in (1, 2, 4))

    def panels(name, given):
        found = figures(report_of(tmp_path / name, shapes=given, Ms=(1, 8)))
        return next(figure for figure in found.values() if figure.multiples)

    one, mixed = panels("one", shapes), panels("mixed", (*shapes, SMALL[0]))
    assert "of DeepSeek-R1" in one.title
    assert [chart.title for chart in one.charts] == [layer for _, layer, _, _ in shapes]
    assert mixed.charts[0].title.startswith("DeepSeek-R1 ")


def test_one_m_per_shape_is_one_sentence_about_crossovers(tmp_path):
    report = report_of(tmp_path / "run", shapes=SMALL, Ms=(64,), schemes=("nf4-g64", "fp4-g64"))
    (block,) = report.sections[2].blocks
    assert isinstance(block, Text)
    assert block.text.startswith("No crossover: every shape was measured at one M, and a crossover needs two")
    assert "threshold" not in tables(report)
    nav = html.render(report).partition("<nav")[2].partition("</nav>")[0]
    assert nav.count("<a ") == len(report.sections)  # the list of contents has chapters only


def test_rows_of_what_bounds_the_cells_say_what_varies(tmp_path):
    def changes(row):
        return {"pass": "step"} if row["M"] == "8" else {}

    report = rewritten(
        tmp_path / "run", changes, shapes=SMALL[:1], Ms=(1, 8), schemes=("nf4-g64", "fp4-g64"), providers=PAIR
    )
    rows = [tuple(row[:2]) for row in texts(tables(report)["bound-shares"])[1:]]
    assert len(rows) == len(set(rows)) == 8
    assert {operands for _, operands in rows} == {
        f"{pass_} · bf16 · {scheme} · cold" for pass_ in ("fwd", "step") for scheme in ("nf4-g64", "fp4-g64")
    }


def test_medians_over_different_shapes_are_not_joined(tmp_path):
    """All three shapes at M = 1 and 2, two of them at 4, and one that is nowhere else at 8."""

    def skip(cell, round_):
        return {"up": cell.M > 4, "down": cell.M > 4, "square": cell.M == 4}[cell.layer] or (
            cell.M == 8 and cell.layer != "square"
        )

    report = report_of(tmp_path / "run", shapes=SMALL, Ms=(1, 2, 4, 8), providers=PAIR, skip=skip)
    (figure,) = [figure for name, figure in figures(report).items() if name.startswith("median-")]
    lines = [[point.x for point in line.points] for line in figure.charts[0].series]
    assert lines == [[1, 2, 4], [8]]  # 2 of 3 shapes in common, then none
    assert [entry.label for entry in figure.legend] == ["simt_4bit"]
    assert [point.label for line in figure.charts[0].series for point in line.points if point.label] == ["simt_4bit"]


def test_both_roofs_are_in_the_picture_however_far_the_cells_are(tmp_path):
    """Prefill far right of the ridge: 430 GFLOPS over 55 GB/s is 7.8 FLOP/byte."""
    report = report_of(tmp_path / "run", shapes=SMALL, Ms=(512, 1024))
    (figure,) = [figure for name, figure in figures(report).items() if name.startswith("roofline")]
    (chart,) = figure.charts
    slanted = [roof for roof in chart.roofs if roof.y0 < roof.y1]
    (level,) = [roof for roof in chart.roofs if roof.y0 == roof.y1]
    dram = max(slanted, key=lambda roof: roof.x1)
    assert abs(dram.x1 / (430e9 / 55e9) - 1) < 1e-9
    assert chart.x.low < level.x0 == min(roof.x1 for roof in slanted)
    for roof in chart.roofs:
        assert chart.x.low <= roof.x0 < roof.x1 <= chart.x.high
        assert chart.y.low * (1 - 1e-12) <= roof.y0 <= roof.y1 <= chart.y.high  # one begins at the edge
    assert len([tick for tick in chart.x.ticks if tick.label]) >= 3

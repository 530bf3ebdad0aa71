"""The map has one letter per cell, where its class is; colours are never alone."""

import re

import pytest
from rooflens.analysis.roofline.bounds import Bound
from rooflens.reports.figures import colours, svg
from rooflens.reports.figures.frames import frame
from rooflens.reports.sections.limits.regimes import regimes
from rooflens.reports.terms import BOUND_CODES as CODES

from .planted import exact, figures_of, records, synthetic, view_of

SHAPES = (("toy", "small", 64, 64), ("toy", "large", 16384, 16384))
MS = (1, 2, 4, 8, 16, 32)


def latency(cell):
    """A launch for the small shape, memory for the large one."""
    return 2.35e-6 if cell.N == 64 else 1.05 * cell.storage.compulsory_bytes(cell.problem) / synthetic.H200.read


def planted(**more):
    usual = {"machine": synthetic.H200, "shapes": SHAPES, "Ms": MS, "rounds": 2, "samples": 3}
    return usual | exact(simt_4bit=latency, dequant_blas=latency) | more


def test_every_cell_has_the_letter_of_its_class(tmp_path):
    view = view_of(tmp_path / "run", **planted())
    figure = figures_of(regimes(view))["regimes-map-bf16-nf4-g64-cold"]
    chart = figure.charts[0]
    assert [tick.label for tick in chart.y.ticks] == ["small", "large"]
    assert [tick.label for tick in chart.x.ticks] == [str(m) for m in MS]
    rows = {box.y0: "" for box in chart.boxes}
    for box in sorted(chart.boxes, key=lambda box: box.x0):
        rows[box.y0] += box.text
    assert rows[1.0] == "SSSSSS"  # the first shape is at the top
    assert rows[0.0].startswith("DDD")
    assert chart.alt.startswith("simt_4bit: at M=1 ")
    lines = re.findall(r'<text class="bt" x="([\d ]+)" y="[\d.]+">(\w+)</text>', svg.draw(chart, frame(chart)))
    assert [letters for _, letters in lines] == [rows[1.0], rows[0.0]]
    for places, letters in lines:
        assert [*map(int, places.split())] == sorted(map(int, places.split()))
        assert len(places.split()) == len(letters)
    assert {(row["N"], row["bound_class"]) for row in records(figure) if row["M"] == 1} == {
        (64, "launch"), (16384, "dram"),
    }  # fmt: skip


def test_two_maps_fit_beside_each_other(tmp_path):
    """A page 1000 pixels wide leaves 944, with 26 between two maps."""
    names = (("llama3.1-8b/mistral-7b", "gate/up", 64, 64), ("toy", "large", 16384, 16384))
    view = view_of(tmp_path / "run", **planted(shapes=names, Ms=(1, 4, 8, 16, 32, 64, 128, 256)))
    chart = figures_of(regimes(view))["regimes-map-bf16-nf4-g64-cold"].charts[0]
    least, most = map(float, re.findall(r"(?:min|max)-width:([\d.]+)px", svg.draw(chart, frame(chart))))
    assert 2 * least + 26 <= 944
    assert least == pytest.approx(0.85 * most, abs=0.1)


def test_letters_tell_all_classes_apart():
    assert set(CODES) == set(Bound)
    assert len(set(CODES.values())) == len(Bound)
    assert all(len(code) <= 2 for code in CODES.values())  # what a place of the map holds


@pytest.mark.parametrize("theme", colours.THEMES, ids=["light", "dark"])
def test_every_class_has_a_colour_on_which_black_is_readable(theme):
    assert set(theme.classes) == set(Bound)
    assert min(colours.contrast("#000000", colour) for colour in theme.classes.values()) >= 4.5
    assert len(set(theme.classes.values())) == len(Bound)


def test_further_slices_show_the_challenger_and_the_baseline_only(tmp_path):
    three = exact(simt_4bit=latency, blas=latency, dequant_blas=latency)
    figures = figures_of(regimes(view_of(tmp_path / "run", **planted(caches=("cold", "warm")) | three)))
    first, second = figures.values()
    assert [chart.title for chart in first.charts] == ["simt_4bit", "blas", "dequant_blas"]
    assert [chart.title for chart in second.charts] == ["simt_4bit", "dequant_blas"]
    assert second.detail
    assert regimes(view_of(tmp_path / "one", **planted(Ms=(1,)))) is None  # one M or few cells need no map
    assert regimes(view_of(tmp_path / "few", **planted(Ms=(1, 2), shapes=SHAPES[:1]))) is None

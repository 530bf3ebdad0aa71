"""In no figure of any report does a label cover a line, a marker or another label, and no colour means two things."""

import re
from itertools import combinations, pairwise

import pytest
from rooflens.analysis.frames.load import load_run
from rooflens.reports.build import build_report
from rooflens.reports.figures.chart import Figure
from rooflens.reports.figures.frames import frame
from rooflens.reports.figures.marks import GREY, colour_index
from rooflens.reports.figures.svg import draw
from rooflens.reports.presets import PRESETS

from . import golden_subjects
from .planted import synthetic

pytestmark = pytest.mark.slow

CHARACTER, HALF = 6.4, 4.0
"""Narrow letters, so that only what is certainly covered counts: width of one and half its height, in pixels."""

ELEVEN = (
    "dequant_blas", "simt_4bit", "gemv_4bit", "mma_4bit", "blas", "stock_triton", "bitsandbytes_gemm",
    "bitsandbytes_gemv", "split_k_4bit", "tiled_4bit", "looped_4bit",
)  # fmt: skip


@pytest.fixture(scope="module")
def figures(tmp_path_factory):
    """Figures of every kind of report, and of runs with eleven providers and of large M alone, by report and id."""
    folder = tmp_path_factory.mktemp("figures")
    golden_subjects.write_runs(folder)
    usual = synthetic.modelled_latency(synthetic.H200)
    synthetic.write_run(
        folder / "eleven",
        machine=synthetic.H200,
        providers=ELEVEN,
        Ms=(1, 16, 64, 256, 1024),
        rounds=2,
        samples=2,
        latency=lambda cell: usual(cell) * (1 + ELEVEN.index(cell.provider) / 4),
    )
    reports = {name: golden_subjects.report_of(folder, name) for name in PRESETS}
    reports["eleven"] = build_report(load_run(folder / "eleven"))
    synthetic.write_run(
        folder / "large",
        machine=synthetic.H200,
        providers=ELEVEN[:2],
        Ms=(4096, 8192),
        rounds=2,
        samples=2,
        latency=lambda cell: usual(cell) * (100 if cell.provider == "simt_4bit" else 1),
        columns=lambda cell, _: {"math_dtype": "fp32" if cell.provider == "simt_4bit" else "bf16"},
    )
    reports["large"] = build_report(load_run(folder / "large"))
    return {
        (name, block.id): block
        for name, report in reports.items()
        for section in report.walk()
        for block in section.blocks
        if isinstance(block, Figure)
    }


def test_what_is_drawn_lies_within_its_axes(figures):
    for name, figure in figures.items():
        for chart in figure.charts:
            drawn = {
                "roofs": [(x, chart.y.low) for roof in chart.roofs for x in (roof.x0, roof.x1)],
                "points": [(point.x, point.y) for series in chart.series for point in series.points],
                "boxes": [corner for box in chart.boxes for corner in ((box.x0, box.y0), (box.x1, box.y1))],
            }
            for kind, corners in drawn.items():
                assert all(_is_on(chart.x, x) and _is_on(chart.y, y) for x, y in corners), (name, kind)
    assert any(chart.roofs for chart in figures["large", "roofline-figure-bf16-nf4-g64-cold"].charts)


def _is_on(axis, value):
    slack = 1e-6 * (axis.high - axis.low)
    return axis.low - slack <= value <= axis.high + slack


@pytest.fixture(scope="module")
def drawings(figures):
    """(figure, SVG, whether it is a panel) of every chart."""
    return [
        (name, draw(chart, frame(chart, figure.multiples)), figure.multiples)
        for name, figure in figures.items()
        for chart in figure.charts
    ]


def flat_texts(drawn, letter, kinds):
    """Boxes (left, right, middle, text) of the texts of a drawing that are not turned."""
    found = []
    for kind, x, y, text in re.findall(rf'<text class="((?:{kinds})[^"]*)" x="([\d.]+)" y="([\d.]+)">([^<]*)', drawn):
        extent = letter * len(text)
        share = 1.0 if "end" in kind or "ty" in kind else 0.5 if "tx" in kind else 0.0
        left = float(x) - share * extent
        found.append((left, left + extent, float(y) - 4, text))
    return found


def overlapping(boxes):
    return [
        (one[3], other[3])
        for one, other in combinations(boxes, 2)
        if one[0] < other[1] and other[0] < one[1] and abs(one[2] - other[2]) < 2 * HALF
    ]


def lines_and_markers(drawn):
    """Points along every line of a drawing, a pixel apart, its markers among them."""
    for path in re.findall(r'<path class="(?:l s|roof|level)[^"]*" d="M([\d. LHM]+)', drawn):
        corners = [tuple(map(float, pair.split())) for pair in re.findall(r"[\d.]+ [\d.]+", path)]
        if across := re.fullmatch(r"([\d.]+) ([\d.]+)H([\d.]+)", path):
            corners = [(float(across[1]), float(across[2])), (float(across[3]), float(across[2]))]
        yield from corners
        for (x0, y0), (x1, y1) in pairwise(corners):
            steps = int(abs(x1 - x0) + abs(y1 - y0)) + 1
            yield from ((x0 + (x1 - x0) * n / steps, y0 + (y1 - y0) * n / steps) for n in range(steps))


def test_no_tick_touches_another(drawings):
    for name, drawn, panel in drawings:
        ticks = flat_texts(drawn, 5.5 if panel else 6.6, "tx|ty")
        assert not overlapping([tick for tick in ticks if tick[3]]), name


def test_no_label_covers_another_or_a_line(drawings):
    seen = 0
    for name, drawn, _ in drawings:
        labels = flat_texts(drawn, CHARACTER, "point|roof-label")
        seen += len(labels)
        assert not overlapping(labels), name
        drawn_points = list(lines_and_markers(drawn))
        for left, right, middle, text in flat_texts(drawn, CHARACTER, "point"):
            under = [(x, y) for x, y in drawn_points if left < x < right and abs(y - middle) < HALF]
            assert not under, (name, text)
    assert seen > 30


def test_a_colour_belongs_to_one_series_of_a_figure(figures):
    for name, figure in figures.items():
        kinds = [(entry.fill or colour_index(entry.style), entry.draw) for entry in figure.legend]
        assert len(kinds) == len(set(kinds)), name
        for chart in figure.charts:
            owners = {}
            for line in chart.series:
                if line.style < GREY:
                    assert owners.setdefault((line.style, line.draw), line.label) == line.label, name


def test_further_providers_are_grey_and_named_in_the_legend_only(figures):
    figure = next(figure for name, figure in figures.items() if name[0] == "eleven" and "roofline" in figure.id)
    assert [entry.label for entry in figure.legend][-1] == "in grey: split_k_4bit, tiled_4bit, looped_4bit"
    drawn = draw(figure.charts[0], frame(figure.charts[0]))
    assert f'class="l s{GREY}"' in drawn
    assert ">dequant_blas<" in drawn
    assert ">tiled_4bit<" not in drawn

"""A scan with planted campers shows them, and one without says what would have been found."""

import math

import pytest
from rooflens.plugins.camping.chapter import resonance
from rooflens.reports.figures.chart import Draw

from tests.reports.planted import SMALL, figures_of, records, synthetic, view_of

SIZES = range(2048, 6145, 64)
ODD_ONE = 3136


def latency(cell):
    seconds = 3.2e-6 + cell.N * cell.K * 0.5625 / 2e12
    if cell.provider == "simt_4bit":
        seconds *= (1.45 if cell.N == ODD_ONE else 1.0) * (1.25 if cell.N % 512 == 0 else 1.0)
    return seconds * (2 if cell.provider == "dequant_blas" else 1)


@pytest.fixture(scope="module")
def figure(tmp_path_factory):
    view = view_of(
        tmp_path_factory.mktemp("scan") / "run",
        machine=synthetic.H200,
        shapes=tuple(("toy", f"up N={size}", size, 4096) for size in SIZES),
        Ms=(1,),
        providers=("simt_4bit", "dequant_blas"),
        latency=latency,
        round_noise=0.003,
        samples=3,
        columns=lambda cell, round_: {"workgroups": cell.N // 8, "resident": 4, "process": round_},
    )
    (found,) = figures_of(resonance(view)).values()
    return found


def drawn(chart, draw):
    return [point for series in chart.series if series.draw is draw for point in series.points]


def test_rings_are_around_what_stands_out(figure):
    simt, blas = figure.charts
    rings = {point.x: point.label for point in drawn(simt, Draw.RINGS)}
    assert set(rings) >= {ODD_ONE, 2560, 4096, 5632}
    assert all(size == ODD_ONE or size % 512 == 0 for size in rings)
    assert rings[ODD_ONE].startswith("3136: 1.4")
    assert drawn(blas, Draw.RINGS) == []


def test_multiples_of_the_period_are_marked(figure):
    simt, blas = figure.charts
    assert [span.at for span in simt.spans] == [size for size in SIZES if size % 512 == 0]
    assert "multiples of 512 take 1.2" in simt.corner
    assert blas.spans == ()


def test_nothing_found_says_what_would_have_been(figure):
    assert figure.charts[1].corner.startswith("no size stands out; no slow period (p = ")
    assert "would have been found)" in figure.charts[1].corner
    assert figure.charts[1].corner in figure.alt


def test_the_data_have_every_size_of_both(figure):
    rows = records(figure)
    assert [row["size"] for row in rows if row["provider"] == "simt_4bit"] == list(SIZES)
    on_grid = [row["size"] for row in rows if row["provider"] == "simt_4bit" and row["on_grid"] == "true"]
    assert on_grid == [2048, 4096, 6144], "workgroups are N / 8: 256 at 2048"
    (odd,) = (row for row in rows if row["size"] == ODD_ONE and row["provider"] == "simt_4bit")
    assert (odd["stands_out"], odd["on_grid"]) == ("true", "false")
    assert math.isnan(odd["period"])
    assert odd["time_s"] == pytest.approx(1.45 * (3.2e-6 + ODD_ONE * 4096 * 0.5625 / 2e12), rel=0.02)


def test_a_sweep_of_shapes_is_no_scan(tmp_path):
    assert resonance(view_of(tmp_path / "run", shapes=SMALL, Ms=(1, 8), rounds=2, samples=2)) is None

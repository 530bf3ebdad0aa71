"""The strips show when the device was slowed down, and how far canary and telemetry moved."""

import pytest
from rooflens.reports.figures.chart import Draw
from rooflens.reports.model import Report
from rooflens.reports.render import html
from rooflens.reports.sections.conditions.drift import drift

from ..analysis.several_devices import fleet, gpu, noisy, reading
from .measured import WATCHED
from .planted import SMALL, figures_of, records, view_of

SHORT = {"shapes": SMALL[:1], "Ms": (1, 8), "rounds": 3, "samples": 3}


def figure_of(folder, **options):
    return figures_of(drift(view_of(folder, **(SHORT | WATCHED | options))))["drift-strips"]


def test_one_strip_per_quantity_that_was_recorded(tmp_path):
    """Only cells of M = 8 say power_cap, in each of three rounds a minute apart; the first began at 3:00:05."""
    figure = figure_of(tmp_path / "run")
    assert [chart.title for chart in figure.charts] == ["canary GEMM", "canary copy", "clock", "temperature", "power"]
    canary, of_copy, clock, *_ = figure.charts
    assert canary.corner == "3 readings, at most 4.1% from the median"
    assert clock.corner == "median 1.867 GHz, 1.755 GHz to 1.980 GHz"
    assert {chart.x.high for chart in figure.charts} == {canary.x.high}
    assert [bool(chart.x.label) for chart in figure.charts] == [False, False, False, False, True]
    (gemm,), (copy,) = canary.series, of_copy.series
    assert [(point.x, point.y) for point in gemm.points] == [(25, 0), (85, 0), (145, pytest.approx(0.041))]
    assert [point.y for point in copy.points] == [0, 0, 0]
    for chart in figure.charts:
        assert [(span.label, round(span.low)) for span in chart.spans] == [("power_cap", at) for at in (0, 60, 120)]
        assert [box.name for box in chart.boxes] == ["power_cap"] * 3  # not by shade alone
    assert "slowed down: power_cap" in [entry.label for entry in figure.legend]
    assert "power_cap in 25% of the readings" in figure.alt
    (line,) = clock.series
    assert line.draw is Draw.STROKE
    assert (min(low for _, low, _ in line.band), max(high for _, _, high in line.band)) == (1.755e9, 1.98e9)
    assert all(low <= point.y <= high for point, (_, low, high) in zip(line.points, line.band, strict=True))


def test_what_was_not_recorded_has_no_strip(tmp_path):
    assert drift(view_of(tmp_path / "none", **SHORT)) is None
    one = WATCHED["canary"][:1]
    assert drift(view_of(tmp_path / "one", **SHORT, canary=one)) is None
    only = figures_of(drift(view_of(tmp_path / "canary", **SHORT, canary=WATCHED["canary"])))["drift-strips"]
    assert (only.title, len(only.charts)) == ("Canary", 2)
    assert "median of the readings" not in only.how_to_read


def test_a_long_pause_is_cut_out_and_said(tmp_path):
    resumed = [*WATCHED["canary"], {"at": "2026-01-09T03:00:00Z", "process": 1, "gemm_s": 1e-3, "copy_s": 2e-3}]
    figure = figure_of(tmp_path / "run", canary=resumed)
    assert figure.charts[0].x.high == pytest.approx(145 + 600)  # after the last reading before it
    assert "over 10 min" in figure.how_to_read
    assert [span.at for span in figure.charts[0].spans if span.at is not None] == [pytest.approx(745)]


def test_a_week_of_readings_stays_small(tmp_path):
    many = {"telemetry": lambda cell, round_: [{"clock_hz": 1e9 + n} for n in range(200)]}
    few = drift(view_of(tmp_path / "few", **SHORT | WATCHED))
    section = drift(view_of(tmp_path / "many", **SHORT | WATCHED | many))
    figure = figures_of(section)["drift-strips"]
    assert len(figure.charts[2].series[0].points) <= 240
    assert len(records(figure)) <= 243
    assert all(len(html.render(Report("r", (), (chapter,), "g"))) < 100_000 for chapter in (few, section))


def of_devices(folder, count, readings=6, **options):
    """A run of so many devices; each measures the cells of its turn, and one worker of the first was restarted."""
    process_of = {"process": 0}

    def turn(cell, round_):
        process_of["process"] = (process_of["process"] + 1) % count
        return process_of["process"]

    entries = [gpu(0, [number], uuid=f"{number:08d}") for number in range(count)]
    entries[0]["processes"].append(count)
    canary = [*noisy([1 + number / 100 for number in range(count)], readings, 0.005), reading(9, process=count)]
    watched = {"telemetry": WATCHED["telemetry"], "Ms": (1, 4, 8)} | options
    return figures_of(drift(view_of(folder, **fleet(entries, canary, turn, **watched))))["drift-strips"]


def test_few_devices_have_a_line_each_with_its_name_and_colour(tmp_path):
    figure = of_devices(tmp_path, 3)
    assert [entry.label for entry in figure.legend][:3] == ["GPU-00000000", "GPU-00000001", "GPU-00000002"]
    assert [chart.title for chart in figure.charts][:3] == ["canary GEMM", "canary copy", "clock"]
    for chart in figure.charts:
        assert [series.style for series in chart.series] == [entry.style for entry in figure.legend[:3]] == [1, 2, 3]
    gemm = figure.charts[0].series
    assert [len(series.points) for series in gemm] == [7, 6, 6]  # both workers of the first device are one line
    for series in gemm:
        middle = sorted(point.y for point in series.points)[len(series.points) // 2]
        assert abs(middle) < 0.01  # each over its own median, although they differ by some percent
    assert {row["device"] for row in records(figure)} == {"GPU-00000000", "GPU-00000001", "GPU-00000002"}
    assert sum(row["source"] == "canary" for row in records(figure)) == 19
    assert "on the same device" in figure.how_to_read


def test_of_many_devices_as_many_are_drawn_as_there_are_colours(tmp_path):
    figure = of_devices(tmp_path, 9)
    assert figure.title == "Canary and telemetry over the run, 7 of 9 devices"
    assert [entry.style for entry in figure.legend[:7]] == [1, 2, 3, 4, 5, 6, 7]
    assert all(len(chart.series) == 7 for chart in figure.charts)

"""The waterfall adds up to the measured time, and says what takes it."""

from itertools import pairwise

import pytest
from rooflens.analysis.roofline.gaps import PARTS
from rooflens.reports.figures import svg
from rooflens.reports.figures.frames import frame
from rooflens.reports.sections.limits.gap import LEGEND, gap
from rooflens.reports.terms import GAP_PARTS as SAID

from .planted import exact, figures_of, records, synthetic, view_of

READ = synthetic.H200.read
LARGE = (("toy", "large", 16384, 16384),)


def twice_memory(cell):
    """Twice as long as its compulsory bytes take."""
    return 2 * cell.storage.compulsory_bytes(cell.problem) / READ


def options(**more):
    usual = {"machine": synthetic.H200, "shapes": LARGE, "Ms": (1, 8), "rounds": 2, "samples": 3}
    return usual | exact(simt_4bit=twice_memory, dequant_blas=lambda cell: 500e-6) | more


@pytest.fixture(scope="module")
def usual(tmp_path_factory):
    return figures_of(gap(view_of(tmp_path_factory.mktemp("gap"), **options())))


def test_the_shares_of_a_kernel_at_half_of_memory_speed(usual):
    """Both M are bound by memory, so that half of the time is ideal. A launch of 2.3 us hides behind it."""
    totals = usual["gap-totals-bf16-nf4-g64-cold"]
    simt, _ = records(totals)
    assert simt["provider"] == "simt_4bit"
    assert simt["ideal_share"] == pytest.approx(0.5, rel=1e-3)
    assert simt["residual_share"] == pytest.approx(0.5, rel=1e-3)
    assert totals.charts[0].alt == "simt_4bit: 50% ideal, most else is unexplained (50%)"
    weights = 16384 * 16384 * 0.5625  # bytes of NF4 with its scales; 2 per activation
    once = sum((weights + 2 * m * (16384 + 16384)) / READ for m in (1, 8))
    assert simt["time_s"] == pytest.approx(2 * once, rel=1e-6)


def test_bars_follow_each_other_and_end_at_the_measured_time(usual):
    for figure in usual.values():
        for chart in figure.charts:
            bars = sorted(chart.boxes, key=lambda box: -box.y0)  # from the top down
            assert bars[0].x0 == 0
            for upper, lower in pairwise(bars):
                assert lower.x0 == pytest.approx(upper.x1, rel=1e-9)
            assert bars[-1].x1 == pytest.approx(1.0, rel=1e-9)
            assert [tick.label for tick in chart.y.ticks] == [SAID[part] for part in PARTS]
            texts = [box.text for box in chart.boxes if box.text] + [remark.text for remark in chart.remarks]
            assert len(texts) == len(PARTS)  # every part has its number, or "unknown"


def test_a_clock_above_the_published_one_goes_back(tmp_path):
    """At M = 2048 the ideal is the published peak; the device ran 8.2 % above the clock of it (1.83 GHz)."""
    fast = {"clock_hz": 1.98e9}
    compute = exact(simt_4bit=lambda cell: cell.problem.flops / 700e12, dequant_blas=lambda cell: 5e-3)
    view = view_of(tmp_path / "run", **(options(Ms=(2048,), telemetry=lambda cell, round_: [fast]) | compute))
    figure = figures_of(gap(view))["gap-totals-bf16-nf4-g64-cold"]
    (simt, _), chart = records(figure), figure.charts[0]
    ideal = 700 / 989
    assert simt["ideal_share"] == pytest.approx(ideal, rel=1e-3)
    assert simt["clock_share"] == pytest.approx(ideal * (1.83 / 1.98 - 1), rel=2e-2)
    assert "−5%" in [remark.text for remark in chart.remarks]


def test_the_legend_has_the_colours_of_all_bars(usual):
    (figure,) = usual.values()
    assert [chart.title for chart in figure.charts] == ["simt_4bit", "dequant_blas"]
    assert {box.fill for chart in figure.charts for box in chart.boxes} <= {entry.fill for entry in LEGEND}
    assert "--f:var(--s3)" in svg.draw(figure.charts[0], frame(figure.charts[0], panel=True))


def test_without_ceilings_or_times_there_is_no_chapter(tmp_path):
    assert gap(view_of(tmp_path / "none", **options(ceilings=False))) is None
    assert gap(view_of(tmp_path / "failed", **options(failures=lambda cell: ("oom", "out of memory")))) is None

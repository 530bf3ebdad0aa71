"""Base beside head by model."""

import math
import re

import pytest
from rooflens.analysis.comparison.effects import Order
from rooflens.analysis.comparison.result import Side, compare_runs
from rooflens.analysis.frames.load import load_run
from rooflens.reports.figures.chart import Draw, Spacing
from rooflens.reports.model import Report
from rooflens.reports.render import html
from rooflens.reports.sections.comparison.dumbbell import dumbbell

from .planted import SMALL, figures_of, records, synthetic

VERSIONS = {"Ms": (1, 16), "rounds": 5, "samples": 3, "machine": synthetic.H200, "providers": ("simt_4bit",)}
GAIN = {"llama3.2-1b": 0.8, "qwen2.5-1.5b": 1.25}
"""Factor on the time of head, by model."""


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    folder, times = tmp_path_factory.mktemp("versions"), synthetic.modelled_latency(synthetic.H200)
    base = synthetic.write_run(folder / "base", seed=1, round_noise=1e-3, sample_noise=1e-3, **VERSIONS)
    head = synthetic.write_run(
        folder / "head", seed=2, round_noise=1e-3, sample_noise=1e-3,
        latency=lambda cell: times(cell) * GAIN.get(cell.model, 1.0), **VERSIONS,
    )  # fmt: skip
    sides = [(Side(path.name, str(path)), load_run(path)) for path in (base, head)]
    return dumbbell(compare_runs(*sides, Order.INTERLEAVED))


def test_base_and_head_lie_where_their_means_are(compared):
    (figure,) = figures_of(compared).values()
    rows = {str(row["model"]): row for row in records(figure)}
    flops = [2.0 * m * n * k for n, k in ((512, 2048), (2048, 8192)) for m in (1, 16)]
    cells = [
        synthetic.PlantedCell("llama3.2-1b", "x", n, k, m, 1, "bf16", "nf4-g64", "simt_4bit", "cold")
        for n, k in ((512, 2048), (2048, 8192)) for m in (1, 16)
    ]  # fmt: skip
    times = map(synthetic.modelled_latency(synthetic.H200), cells)
    truth = math.exp(sum(math.log(work / time) for work, time in zip(flops, times, strict=True)) / 4)
    model = rows["llama3.2-1b"]
    assert model["base_flops_per_s"] == pytest.approx(truth, rel=5e-3)
    assert model["head_flops_per_s"] == pytest.approx(truth / 0.8, rel=5e-3)
    assert model["time_ratio_head_over_base"] == pytest.approx(0.8, rel=3e-3)
    assert model["cases"] == 4
    assert list(rows)[-1] == "all of them"
    assert re.search(r"from \+2\S+ \(qwen2.5-1.5b\) to −20\S+ \(llama3.2-1b\)$", figure.alt)
    page = html.render(Report("r", (), (compared,), "g"))
    assert [remark.text in page for remark in figure.charts[0].remarks] == [True] * 6  # five models and all
    (chart,) = figure.charts
    rings, discs = (
        [point for series in chart.series if series.draw is draw for point in series.points]
        for draw in (Draw.RINGS, Draw.MARKS)
    )
    assert [point.x for point in rings] == [1.0] * 6
    assert [point.x for point in discs] == pytest.approx(
        [1 / row["time_ratio_head_over_base"] for row in rows.values()], rel=1e-9
    )


def test_models_that_changed_much_and_little_are_apart(tmp_path):
    times = synthetic.modelled_latency(synthetic.H200)
    latency = {"base": lambda cell: times(cell) * (1e3 if cell.model == "llama3.2-1b" else 2), "head": times}
    folders = [
        synthetic.write_run(tmp_path / name, latency=latency[name], round_noise=0.5, **VERSIONS) for name in latency
    ]
    (figure,) = figures_of(dumbbell(compare_runs(*[(Side(one.name, str(one)), load_run(one)) for one in folders],
                                                 Order.INTERLEAVED))).values()  # fmt: skip
    (chart,) = figure.charts
    assert chart.x.spacing is Spacing.LOG
    at = [point.x for series in chart.series if series.draw is Draw.MARKS for point in series.points]
    assert chart.x.low > min(1.0, *at) / 10
    assert chart.x.high < max(at) ** 1.5 * 10
    assert len(chart.x.ticks) <= 6


def test_cases_of_one_model_are_not_drawn(tmp_path):
    sides = []
    for name in ("base", "head"):
        folder = synthetic.write_run(tmp_path / name, shapes=SMALL[:1], **VERSIONS)
        sides.append((Side(name, str(folder)), load_run(folder)))
    assert dumbbell(compare_runs(*sides, Order.INTERLEAVED)) is None

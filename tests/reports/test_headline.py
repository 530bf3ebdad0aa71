"""What stands in the three cards: whole slices, no number that is not settled, and why there is none."""

import numpy as np
import pytest
from rooflens.analysis.crossover.curve import locate
from rooflens.analysis.frames.load import load_run
from rooflens.reports.build import build_report
from rooflens.reports.cells import wins_text
from rooflens.reports.model import KeyNumbers, Remarks

from .planted import exact, report_of, synthetic

ONE = (("toy", "up", 512, 2048),)
PAIR = ("simt_4bit", "dequant_blas")


def cards(report):
    block = next(block for block in report.sections[0].blocks if isinstance(block, KeyNumbers))
    return block.items


def by_m(simt, dequant):
    """Exact times per M: lists of seconds."""
    sizes = [2**power for power in range(len(simt))]
    at = {"simt_4bit": dict(zip(sizes, simt, strict=True)), "dequant_blas": dict(zip(sizes, dequant, strict=True))}
    return {"Ms": sizes, "shapes": ONE, **exact(**{name: lambda cell: at[cell.provider][cell.M] for name in PAIR})}


def test_the_lead_is_told_from_end_to_end_with_what_it_is_over(tmp_path):
    first, crossing, share = cards(report_of(tmp_path, **by_m([1e-3, 2e-3, 8e-3], [4e-3, 4e-3, 4e-3])))
    assert first.label == "simt_4bit over dequant_blas, bf16 · cold"
    assert (first.text, first.value) == ("4.00× at M=1 to 0.50× at M=4", pytest.approx(4))
    assert first.detail == (
        "2.00× at M=2; geometric mean over 1 shape (95% interval [4.00×, 4.00×] at M=1, [0.50×, "
        "0.50×] at M=4); best 4.00× (toy up (512×2048), M=1), worst 0.50× (toy up "
        "(512×2048), M=4); verified faster at 2 / 3 cells, slower at 1"
    )
    assert (crossing.text, crossing.value) == ("M~2.8", pytest.approx(2.83, rel=0.01))
    assert 0 < share.value < 1


def test_a_mean_that_is_not_told_from_1_has_its_mark_and_what_helps(tmp_path):
    alone, _, share = cards(report_of(tmp_path / "alone", **by_m([1e-3, 2e-3], [2e-3, 2e-3]), rounds=1))
    assert alone.text == "~2.00× at M=1 to ~1.00× at M=2"
    assert "more rounds" in alone.note
    assert share.text == "none"
    part = by_m([1e-3, 2e-3], [2e-3, 2e-3]) | {"skip": lambda cell, round_: round_ > 0}
    resumed, *_ = cards(report_of(tmp_path / "part", **part))
    assert "--resume" in resumed.note
    assert "more rounds" not in resumed.note


@pytest.mark.parametrize("order", [("fast", "slow"), ("slow", "fast")])
def test_the_new_kernel_of_three_sides_is_the_one_that_wins_wherever_it_is_listed(tmp_path, order):
    times = {"fast": 1e-3, "slow": 2e-3, "blas": 4e-3}
    options = exact(**{name: lambda cell: times[cell.provider] for name in (*order, "blas")})
    folder = synthetic.write_run(tmp_path, Ms=(1, 8), shapes=ONE, baseline="blas", challengers=order, **options)
    replaced, reference = cards(build_report(load_run(folder), "three-way"))
    assert (replaced.label, replaced.text) == ("slow ÷ fast (time)", "2.00×")
    assert (reference.label, reference.text) == ("blas (reference) ÷ fast (time)", "4.00×")


def test_others_follow_and_are_not_counted_in(tmp_path):
    options = exact(simt_4bit=2e-3, gemv_4bit=1e-3, dequant_blas=4e-3, blas=1e-6)
    report = report_of(tmp_path, Ms=(1,), shapes=ONE, challengers=("simt_4bit", "gemv_4bit"), **options)
    assert cards(report)[0].label.startswith("gemv_4bit over dequant_blas")
    others = next(block for block in report.sections[0].blocks if isinstance(block, Remarks))
    (told,) = (item for item in others.items if "at M=1" in item)
    assert told.startswith("simt_4bit, bf16 · cold: 2.00× at M=1")


def test_one_m_is_no_crossover(tmp_path):
    _, crossover, _ = cards(report_of(tmp_path / "run", **by_m([1e-3], [2e-3])))
    assert (crossover.text, crossover.value) == ("needs two M", None)
    assert crossover.detail.startswith("Only one M has a ratio, and a crossover takes two; sweep M")
    missing = by_m([1e-3, 1e-3], [2e-3, 2e-3]) | {"skip": lambda cell, _: cell.M == 2}
    _, crossover, _ = cards(report_of(tmp_path / "part", **missing))
    assert "--resume" in crossover.detail
    assert "sweep" not in crossover.detail


@pytest.mark.parametrize(
    ("winners", "text"),
    [
        ("ccuc", "every M but 4"),
        ("cucuc", "every M but 2, 8"),
        ("ccu", "M ≤ 2"),
        ("ucuci", "2 ≤ M ≤ 8 but 4"),
        ("iui", "no M"),
        ("c", ""),  # one M says nothing of a range
    ],
)
def test_a_challenger_wins_at_no_undecided_M(winners, text):
    """c, i, u: the challenger, the incumbent, or neither is verified faster at M = 1, 2, 4, ..."""
    y = np.array([{"c": -0.5, "i": 0.5, "u": 0.0}[winner] for winner in winners])
    sizes = 2 ** np.arange(len(y))
    found = locate(sizes, y, y - 0.1, y + 0.1)
    row = {"regions": found.regions, "undecided": found.undecided, "M_min": sizes[0], "M_max": sizes[-1]}
    row["status"] = found.status
    assert wins_text(row) == text

"""What stands in the three cards: whole slices, no number that is not settled, and why there is none."""

import pytest
from rooflens.reports.model import Bullets, KeyNumbers, Remarks

from .planted import exact, report_of, tables, texts

ONE = (("toy", "up", 512, 2048),)
PAIR = ("simt_4bit", "dequant_blas")
EXACT = {"round_noise": 0, "sample_noise": 0}


def cards(report):
    block = next(block for block in report.sections[0].blocks if isinstance(block, KeyNumbers))
    return block.items


def by_m(simt, dequant):
    """Exact times per M: lists of seconds."""
    sizes = [2**power for power in range(len(simt))]
    at = {"simt_4bit": dict(zip(sizes, simt, strict=True)), "dequant_blas": dict(zip(sizes, dequant, strict=True))}
    return {"Ms": sizes, "shapes": ONE, **exact(**{name: lambda cell: at[cell.provider][cell.M] for name in PAIR})}


def test_a_wide_interval_stands_in_place_of_a_number(tmp_path):
    def latency(cell):
        return 80e-3 if cell.provider == "dequant_blas" else 1e-3

    options = {"shapes": ONE, "Ms": (1,), "providers": PAIR, "latency": latency}
    rounds = iter([0.8, 1.2])
    uneven = options | {"latency": lambda cell: latency(cell) * (next(rounds) if cell.provider == "simt_4bit" else 1)}
    best, _, _ = cards(report_of(tmp_path / "wide", **uneven, rounds=2, **EXACT))
    assert best.text.startswith("[")
    assert best.text.endswith("×]")
    assert best.value is None
    assert best.detail.startswith("not settled: this 95% interval spans more than 2×; simt_4bit, toy up")
    assert "measure more rounds" in best.note
    settled, _, _ = cards(report_of(tmp_path / "calm", **options, rounds=3, round_noise=1e-3))
    assert settled.value == pytest.approx(80, rel=0.02)


def test_slower_everywhere_is_said_and_how_much_of_it_is_verified(tmp_path):
    slow = by_m([2e-3, 4e-3], [1e-3, 1e-3])
    best, _, _ = cards(report_of(tmp_path / "slow", **slow))
    assert best.text == "slower everywhere"
    assert best.detail.startswith("largest ratio 0.50×: simt_4bit, toy up (512×2048), M=1, fwd, bf16, nf4-g64, cold")
    alone, _, _ = cards(report_of(tmp_path / "alone", **slow, rounds=1))
    assert alone.text == "slower everywhere, not verified at 2 / 2 cells"


def test_a_tie_is_not_verified_and_not_slower(tmp_path):
    best, _, _ = cards(report_of(tmp_path / "run", **by_m([1e-3, 2e-3], [1e-3, 1e-3])))
    assert best.text == "none verified (largest ~1.00×)"


def test_the_card_says_that_a_larger_ratio_stands_in_a_grid(tmp_path):
    noise = iter([0.4, 1.0, 2.2])  # by round: 9 / (0.7 (0.4 2.2)^(1/3)) = 13.42 on the whole

    def latency(cell):
        if cell.provider == "dequant_blas":
            return 9e-3
        return 1e-3 if cell.M == 2 else 0.7e-3 * next(noise)

    options = {"shapes": ONE, "Ms": (1, 2), "providers": PAIR, "latency": latency, **EXACT}
    report = report_of(tmp_path / "run", **options, rounds=3)
    best, _, _ = cards(report)
    assert best.text == "9.00×"
    assert best.detail.endswith(
        "; ranked by the lower end of the interval, and the grids hold larger, less certain ratios"
    )
    assert "13" not in best.detail.partition("95%")[0]  # its interval is [1.61×, 112×]: it is no headline
    assert texts(tables(report)["speedup-bf16-nf4-g64-cold-simt-4bit"])[1][2] == "13×"


def test_without_a_challenger_both_cards_say_why(tmp_path):
    failures = {"failures": lambda cell: ("unsupported", "needs a GPU") if cell.provider == "simt_4bit" else None}
    report = report_of(tmp_path / "run", shapes=ONE, Ms=(1, 8), providers=PAIR, **failures)
    best, crossover, _ = cards(report)
    assert (best.text, crossover.text) == ("none", "none")
    assert best.detail == "No challenger can run on this device (simt_4bit: needs a GPU)."
    assert crossover.detail == "No challenger can run on this device."


def test_one_m_is_no_crossover(tmp_path):
    _, crossover, _ = cards(report_of(tmp_path / "run", **by_m([1e-3], [2e-3])))
    assert (crossover.text, crossover.value) == ("needs two M", None)
    assert crossover.detail.startswith("The shape was measured at one M, and a crossover needs two")


def test_a_probe_that_falls_short_is_told_among_the_bullets_and_makes_no_cell_impossible(tmp_path):
    canary = [
        {"at": f"2026-01-02T03:0{minute}:00Z", "process": 0, "gemm_s": time, "copy_s": 1e-3}
        for minute, time in enumerate((1e-3, 2.09e-3, 1e-3))
    ]

    def latency(cell):
        return 0.4 * cell.problem.flops / 430e9  # the planted peak of the CPU

    report = report_of(tmp_path / "run", shapes=ONE, Ms=(512, 1024), latency=latency, canary=canary, **EXACT)
    said = [item for block in report.sections[0].blocks if isinstance(block, Bullets | Remarks) for item in block.items]
    (told,) = [item for item in said if "probes are below" in item]
    assert "bf16 gemm peak (reached by" in told
    assert told.endswith("the canary's GEMM varied by 109% over the run: the device was busy")
    assert not [item for item in said if "faster than possible" in item]

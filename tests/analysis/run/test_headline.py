"""The whole pipeline on whole runs: the headline, coverage, and runs of which little is left."""

import math
import random
import subprocess
import sys

import pytest
from rooflens.analysis.frames.load import load_run
from rooflens.analysis.run.headline import headline
from rooflens.analysis.run.pipeline import analyze

from ..synthetic import H200, PlantedCell, write_run


def analyzed(tmp_path, **options):
    return analyze(load_run(write_run(tmp_path / "run", **options)))


def test_a_best_speedup_says_what_qualifies_it(tmp_path):
    def tuned(cell: PlantedCell, round_: int) -> dict[str, object]:
        return {"tuning": "cold"} if cell.provider == "simt_4bit" else {}

    assert headline(analyzed(tmp_path / "tuned", Ms=(1, 2), columns=tuned)).best.note.startswith("tuning differs: cold")
    assert headline(analyzed(tmp_path / "alike", Ms=(1, 2))).best.note == ""


def test_cells_that_were_timed_in_different_ways_are_told_of_the_run(tmp_path):
    def graph_for_small(cell: PlantedCell, round_: int) -> dict[str, object]:
        return {"timer": "graph"} if cell.M == 1 and cell.provider == "simt_4bit" else {}

    warnings = analyzed(tmp_path, Ms=(1, 2), caches=("cold", "warm"), columns=graph_for_small).warnings
    assert "cold cells differ in timer (host 42, graph 6): no ratio across them; use one --timer" in warnings
    assert not [text for text in warnings if "cold_by" in text]  # that warm cells have none is no difference
    assert not [text for text in analyzed(tmp_path / "alike", Ms=(1,)).warnings if "no ratio across" in text]


def test_the_three_numbers_of_a_planted_run(tmp_path):
    def latency(cell: PlantedCell) -> float:
        if cell.provider == "dequant_blas":
            return 8e-3
        if cell.provider == "blas":
            return 0.5e-3  # faster still, but no challenger
        return 1e-3 * cell.M * (0.5 if cell.layer == "k/v" and cell.model == "qwen2.5-1.5b" else 1)

    analysis = analyzed(tmp_path, latency=latency, round_noise=1e-4, sample_noise=1e-4)
    found = headline(analysis)
    assert found.best.ratio == pytest.approx(16, rel=1e-3)
    assert (found.best.provider, found.best.baseline, found.best.verified) == ("simt_4bit", "dequant_blas", True)
    assert (found.best.shape, found.best.M) == ("qwen2.5-1.5b k/v (256x1536)", 1)
    assert (found.best.dtype, found.best.cache, found.best.device) == ("bf16", "cold", "Planted CPU @ 2.10GHz")
    assert found.best.low < 16.01
    assert found.best.high > 15.99
    assert found.crossover.median_M == pytest.approx(8, rel=1e-3)
    assert (len(found.crossover.places), found.crossover.statuses) == (6, {"below": 6})
    assert (found.crossover.threshold.side, found.crossover.threshold.M) == ("below", 8)
    assert sum(share.share for share in found.shares) == pytest.approx(1)
    assert sum(share.cells for share in found.shares) == found.cells == found.passed == 6 * 9 * 4


def test_a_reference_never_heads_not_even_when_it_is_named_a_challenger(tmp_path):
    times = {"simt_4bit": 2e-3, "gemv_4bit": 4e-3, "blas": 1e-3, "dequant_blas": 8e-3}
    analysis = analyzed(
        tmp_path, Ms=(1, 2), challengers=("blas", "simt_4bit"), latency=lambda cell: times[cell.provider]
    )
    assert (analysis.run.challengers, analysis.challenger) == (("simt_4bit",), "simt_4bit")
    found = headline(analysis)
    assert found.best.provider == "simt_4bit"
    assert found.best.ratio == pytest.approx(4, rel=0.05)
    assert found.crossover.challenger == "simt_4bit"
    blas = analysis.speedups.loc[analysis.speedups["provider"] == "blas", "ratio"]
    assert blas.tolist() == pytest.approx([8] * 12, rel=0.1)  # it stands in the grids all the same
    assert found.best.largest < 5


def of(provider, verdict, reason=""):
    """Failures of one provider."""
    return {"failures": lambda cell: (verdict, reason) if cell.provider == provider else None}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            of("simt_4bit", "unsupported", "needs a GPU"),
            "no challenger can run on this device (simt_4bit: needs a GPU)",
        ),
        (of("simt_4bit", "oom", "3 GiB asked"), "no challenger has a time (simt_4bit: oom, 3 GiB asked)"),
        (of("dequant_blas", "crashed"), "the baseline dequant_blas has no time here: crashed"),
        ({"challengers": ()}, "no challenger is named in this run"),
        ({"challengers": ("blas",)}, "no challenger is named in this run"),
        ({"challengers": ("mma_4bit",)}, "no challenger (mma_4bit) was measured"),
        (
            {"columns": lambda cell, round_: {"timer": "graph"} if cell.provider == "simt_4bit" else {}},
            "no challenger has a time beside one of dequant_blas (timer differs: graph here, host for dequant_blas: "
            "measure both with one --timer)",
        ),
        ({}, ""),
    ],
)
def test_without_a_challenger_nothing_heads_and_the_reason_is_told(tmp_path, options, told):
    found = headline(analyzed(tmp_path, Ms=(1, 8), **options))
    assert found.uncompared == told
    assert (found.best is None) == (found.crossover is None) == bool(told)


def test_challengers_with_one_reason_are_named_together(tmp_path):
    failures = {"failures": lambda cell: ("unsupported", "needs a GPU") if "4bit" in cell.provider else None}
    analysis = analyzed(tmp_path, Ms=(1,), challengers=("simt_4bit", "gemv_4bit"), **failures)
    assert headline(analysis).uncompared == "no challenger can run on this device (simt_4bit, gemv_4bit: needs a GPU)"


def test_an_interval_over_a_factor_of_two_does_not_settle_a_number(tmp_path):
    def latency(cell: PlantedCell) -> float:
        return 80e-3 if cell.provider == "dequant_blas" else 1e-3

    rounds = iter([0.8, 0.8, 1.2, 1.2])  # two cells in each of two rounds

    def uneven(cell: PlantedCell) -> float:
        return latency(cell) * (next(rounds) if cell.provider == "simt_4bit" else 1)

    noisy = headline(
        analyzed(tmp_path / "noisy", rounds=2, round_noise=0, sample_noise=0, **SAYING, latency=uneven)
    ).best
    assert noisy.verified
    assert noisy.high > 2 * noisy.low > 2
    assert not noisy.settled
    calm = headline(analyzed(tmp_path / "calm", rounds=3, round_noise=0.01, **SAYING, latency=latency)).best
    assert calm.settled
    alone = headline(analyzed(tmp_path / "alone", rounds=1, **SAYING, latency=latency)).best
    assert (alone.low, alone.settled) == (None, False)


def test_the_best_is_ranked_by_its_lower_bound_and_the_largest_ratio_is_kept(tmp_path):
    drawn = random.Random(1)

    def latency(cell: PlantedCell) -> float:
        """Nine times faster for sure at M=2; at M=1 about ten times, give or take a factor that differs by round."""
        if cell.provider == "dequant_blas":
            return 9e-3
        return 1e-3 if cell.M == 2 else 0.9e-3 * math.exp(drawn.gauss(0, 0.3))

    found = headline(analyzed(tmp_path, round_noise=1e-4, sample_noise=1e-4, **SAYING, latency=latency)).best
    assert (found.M, found.ratio) == (2, pytest.approx(9, rel=1e-2))
    assert found.largest > 1.05 * found.ratio


def test_slower_everywhere_is_told_apart_from_not_verified(tmp_path):
    slow = {"latency": lambda cell: 1e-3 if cell.provider == "dequant_blas" else 2e-3}
    found = headline(analyzed(tmp_path / "slow", **SAYING, **slow)).best
    assert (found.slower_everywhere, found.verified, found.cells, found.slower) == (True, False, 2, 2)
    alone = headline(analyzed(tmp_path / "alone", **SAYING, **slow, rounds=1)).best
    assert (alone.slower_everywhere, alone.slower) == (True, 0)
    even = {"latency": lambda cell: 1e-3 if cell.provider == "dequant_blas" else 1e-3 * cell.M / 1.5}
    assert not headline(analyzed(tmp_path / "even", **SAYING, **even)).best.slower_everywhere


def test_headline_and_tables_are_the_same_objects(tmp_path):
    analysis = analyzed(tmp_path, caches=("warm", "cold"), dtypes=("fp16", "bf16"), Ms=(1, 16, 256))
    found = headline(analysis)
    assert found.crossover in analysis.medians
    assert (found.crossover.cache, found.crossover.dtype) == ("cold", "fp16")
    best = analysis.speedups.loc[analysis.speedups["provider"] == "simt_4bit", "ratio"].max()
    assert found.best.ratio == best


def test_the_first_challenger_that_passed_is_taken(tmp_path):
    def fails(cell: PlantedCell) -> tuple[str, str] | None:
        return ("unsupported", "needs a GPU") if cell.provider == "mma_4bit" else None

    options = {"Ms": (1, 64), "providers": ("mma_4bit", "simt_4bit", "dequant_blas"), "rounds": 1}
    challengers = ("absent", "mma_4bit", "simt_4bit")
    analysis = analyzed(tmp_path, **options, challengers=challengers, failures=fails)
    assert analysis.challenger == "simt_4bit"
    assert not any("mma_4bit" in warning for warning in analysis.warnings)  # unsupported is no fault
    assert analyzed(tmp_path, **options, challengers=challengers).challenger == "mma_4bit"


def test_an_unfinished_run_says_so_and_counts_failures_as_finished(tmp_path):
    def fails(cell: PlantedCell) -> tuple[str, str] | None:
        return ("oom", "out of memory") if cell.provider == "simt_4bit" and cell.M == 256 else None

    full = analyzed(tmp_path, Ms=(1, 256), failures=fails)
    assert "simt_4bit: 6 cells ended as oom; their rows say why" in full.warnings
    assert not any("--resume" in warning for warning in full.warnings)
    part = analyzed(tmp_path, Ms=(1, 256), skip=lambda cell, number: number == 2 and cell.M == 1)
    assert part.warnings[0] == "120 of 144 planned rounds are finished: resume with rooflens run --resume"


SAYING = {"Ms": (1, 2), "shapes": (("m", "l", 64, 96),)}
"""8 cells."""


def test_without_a_verified_speedup_the_largest_is_given_as_such(tmp_path):
    one_round = headline(analyzed(tmp_path, rounds=1, **SAYING, latency=lambda cell: 1e-3 * cell.M)).best
    assert (one_round.verified, one_round.low) == (False, None)
    ratios = analyzed(tmp_path / "again", rounds=1, **SAYING, latency=lambda cell: 1e-3 * cell.M).speedups
    assert one_round.ratio == ratios.loc[ratios["provider"] == "simt_4bit", "ratio"].max()


STOP = ": stop other work and measure again"


@pytest.mark.parametrize(
    ("disturbed", "told"),
    [
        (
            lambda cell: f"other processes used {10 * cell.M}% of the cores",
            [f"every cell was disturbed while measured, at worst: other processes used 20% of the cores{STOP}"],
        ),
        (
            lambda cell: f"{cell.M} other process{'es' if cell.M > 1 else ''} on the device; clock from 7 to 9 MHz",
            [
                "every cell was disturbed while measured, at worst: 2 other processes on the device, "
                f"clock from 7 to 9 MHz{STOP}"
            ],
        ),
        (  # there is nothing to stop
            lambda cell: "clock from 7 to 9 MHz" if cell.M == 1 else "thermal slowdown during 3 of 7 samples",
            [
                "every cell was disturbed while measured, at worst: clock from 7 to 9 MHz, "
                "thermal slowdown during 3 of 7 samples"
            ],
        ),
        (lambda cell: "clock from 7 to 9 MHz" if cell.M == 1 else "", []),
    ],
)
def test_what_disturbed_every_cell_is_said_of_the_run_and_marked_at_every_ratio(tmp_path, disturbed, told):
    analysis = analyzed(tmp_path, **SAYING, columns=lambda cell, round_: {"disturbed": disturbed(cell)})
    assert [text for text in analysis.warnings if "disturbed" in text] == told
    marked = analysis.speedups["note"].str.contains("disturbed while")
    assert marked.to_list() == [bool(told) or M == 1 for M in analysis.speedups["M"]]


@pytest.mark.parametrize(
    ("rounds", "others", "ratios"),
    [(3, "", "hold"), (1, "", "may have drifted"), (3, "3 other processes on the device", "some providers")],
)
def test_a_drift_is_told_as_what_it_means_for_times_and_for_ratios(tmp_path, rounds, others, ratios):
    """The first of two M is measured before the device slows down by 12 %, the second around it."""
    slower = "canary slowed down by 4.0 % (gemm), 12.0 % (copy)"
    said = {"columns": lambda cell, round_: {"disturbed": slower if cell.M == 2 else others}}
    (told,) = [text for text in analyzed(tmp_path, rounds=rounds, **SAYING, **said).warnings if "canary" in text]
    assert "up to 12 % around 4 of 8 cells: absolute times" in told
    assert ratios in told.rpartition(";")[2]


LITTLE = {
    "one M": {"Ms": (1,)},
    "one round": {"rounds": 1},
    "coarse timer": {"rounds": 6, "machine": H200, "quantum_s": 5e-7},
    "odd names": {"shapes": (("NA", 'a,"b" <c>', 64, 96),), "Ms": (1,), "providers": ("None", "dequant_blas")},
    "no baseline": {"providers": ("simt_4bit",), "Ms": (1, 2)},
    "no challenger": {"providers": ("dequant_blas",), "Ms": (1, 2)},
    "all failed": {"failures": lambda cell: ("crashed", "signal 11"), "Ms": (1, 2)},
    "failed baseline": {"failures": lambda c: ("oom", "") if c.provider == "dequant_blas" else None, "Ms": (1, 2)},
    "no ceilings": {"ceilings": False, "Ms": (1, 2)},
}
"""Options of runs of which little is left."""


@pytest.mark.parametrize("options", LITTLE.values(), ids=LITTLE)
def test_little_is_enough_and_what_is_missing_is_said(tmp_path, options):
    analysis = analyzed(tmp_path, **options)
    found = headline(analysis)
    assert found.cells == int((analysis.cells["verdict"] != "unsupported").sum()) > 0
    assert found.best is None or math.isfinite(found.best.ratio)
    missing = found.best is None or found.crossover is None or not found.shares
    assert analysis.warnings or not missing


def test_no_analysis_module_imports_torch_or_triton():
    code = (
        "import sys, importlib, pkgutil; sys.modules['torch'] = None; sys.modules['triton'] = None;"
        "import rooflens.analysis as package;"
        "names = [m.name for m in pkgutil.iter_modules(package.__path__)]; assert 'roofline' in names;"
        "[importlib.import_module('rooflens.analysis.' + name) for name in names]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

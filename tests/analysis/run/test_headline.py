"""The whole pipeline on whole runs: how challengers stand, and runs of which little is left."""

import numpy as np
import pytest
from rooflens.analysis.frames.coordinates import SETTING
from rooflens.analysis.frames.load import load_run
from rooflens.analysis.run.headline import headline
from rooflens.analysis.run.pipeline import analyze

from ..synthetic import PlantedCell, write_run

EXACT = {"round_noise": 0, "sample_noise": 0}
TIMES = {"slow": 2.0, "fast": 0.5, "dequant_blas": 1.0}
"""Seconds x 1e3 by provider."""


def analyzed(tmp_path, **options):
    return analyze(load_run(write_run(tmp_path / "run", **options)))


def planted(tmp_path, times, **options):
    """A run whose times in ms are `times` of a cell, or by provider."""
    latency = times if callable(times) else lambda cell: times[cell.provider]
    names = [name for name in TIMES if name != "dequant_blas"]
    usual = {"providers": tuple(TIMES), "challengers": names, "Ms": (1, 8), **EXACT}
    return analyzed(tmp_path, latency=lambda cell: 1e-3 * latency(cell), **usual | options)


def test_means_extremes_and_crossover_of_a_planted_run(tmp_path):
    """8 / M at every shape but one, where it is 16 / M; the reference is faster still, but no challenger."""

    def latency(cell: PlantedCell) -> float:
        return {"dequant_blas": 8.0, "blas": 0.5}.get(cell.provider, cell.M * (0.5 if cell.N == 256 else 1))

    providers = {"providers": ("fast", "dequant_blas", "blas"), "challengers": ("fast",), "Ms": (1, 2, 4, 32)}
    lead = headline(planted(tmp_path, latency, **providers)).lead
    assert (lead.challenger, lead.setting) == ("fast", ("fwd", "bf16", "nf4-g64", "cold"))
    mean = 2 ** (1 / 6)
    assert [one.M for one in lead.means] == [1, 2, 4, 32]
    assert [one.ratio for one in lead.means] == pytest.approx([8 * mean, 4 * mean, 2 * mean, mean / 4])
    assert [(one.shapes, one.asked) for one in lead.means] == [(6, 6)] * 4
    assert (lead.best.ratio, lead.best.shape, lead.best.M) == (pytest.approx(16), "qwen2.5-1.5b k/v (256x1536)", 1)
    assert (lead.worst.ratio, lead.worst.M) == (pytest.approx(0.25), 32)
    assert (lead.faster, lead.slower, lead.cells) == (18, 6, 24)
    assert lead.crossover.median_M == pytest.approx(8, rel=1e-3)
    assert (len(lead.crossover.places), lead.crossover.statuses) == (6, {"below": 6})


@pytest.mark.parametrize("order", [("slow", "fast", "even"), ("even", "slow", "fast")])
def test_the_order_of_a_suite_decides_nothing(tmp_path, order):
    times = TIMES | {"even": 1.0}
    analysis = planted(tmp_path, times, challengers=order, providers=(*order, "dequant_blas"), caches=("warm",))
    assert analysis.challengers == ("fast", "even", "slow")
    found = headline(analysis)
    assert found.lead.setting[3] == "warm", "where nothing else was measured"
    assert [one.challenger for one in found.standings] == ["fast", "even", "slow"]
    assert [one.means[0].ratio for one in found.standings] == pytest.approx([2, 1, 0.5])


def test_the_one_that_wins_most_problems_leads_and_among_equals_the_larger_mean(tmp_path):
    def once_huge(cell: PlantedCell) -> float:
        """`slow` wins at one shape by far, `fast` at the other five by little."""
        if cell.N == 256:
            return {"slow": 0.001, "fast": 0.9}.get(cell.provider, 1.0)
        return {"slow": 0.95, "fast": 0.9}.get(cell.provider, 1.0)

    assert planted(tmp_path / "most", once_huge).challengers == ("fast", "slow")
    losing = {"slow": 3.0, "fast": 1.5, "dequant_blas": 1.0}
    assert planted(tmp_path / "none", losing).challengers == ("fast", "slow")  # nobody wins
    files = {"slow": "/home/me/kernels.py", "fast": "rooflens/kernels/fourbit/simt.py"}
    own = {"providers": {name: {"role": "candidate", "file": files.get(name, "")} for name in TIMES}}
    assert planted(tmp_path / "own", TIMES, manifest=own).challengers == ("slow", "fast")
    declined = {"failures": lambda cell: ("unsupported", "needs a GPU") if cell.provider == "fast" else None}
    assert planted(tmp_path / "declined", TIMES, **declined).challengers == ("slow", "fast")


def test_every_number_is_of_one_challenger_in_one_setting(tmp_path):
    def latency(cell: PlantedCell) -> float:
        """Each setting has a factor of its own, so that a number of another one would be seen."""
        factor = (2 if cell.dtype == "fp16" else 1) * (5 if cell.cache == "warm" else 1)
        return {"dequant_blas": 1.0}.get(cell.provider, TIMES[cell.provider] * cell.M / 16 / factor)

    options = {"caches": ("warm", "cold"), "dtypes": ("fp16", "bf16"), "Ms": (1, 16, 256), "rounds": 3}
    found = headline(planted(tmp_path, latency, **options | {"round_noise": 1e-3}))
    analysis = planted(tmp_path / "again", latency, **options | {"round_noise": 1e-3})
    assert {one.setting[3] for one in found.standings} == {"cold"}
    assert [(one.challenger, one.setting[1]) for one in found.standings] == [
        ("fast", "fp16"), ("slow", "fp16"), ("fast", "bf16"), ("slow", "bf16"),
    ]  # fmt: skip
    for one in found.standings:
        rows = analysis.speedups
        rows = rows[(rows["provider"] == one.challenger) & (rows[[*SETTING]] == [*one.setting]).all(axis=1)]
        by_m = rows.groupby("M")["log_ratio"].mean()
        assert [mean.ratio for mean in one.means] == pytest.approx(np.exp(by_m).tolist())
        assert (one.best.ratio, one.worst.ratio) == (rows["ratio"].max(), rows["ratio"].min())
        assert (one.faster, one.slower) == tuple((rows["verdict"] == word).sum() for word in ("faster", "slower"))
        assert (one.crossover.challenger, one.crossover.setting) == (one.challenger, one.setting)
        wins = analysis.cells[analysis.cells["cell_id"].isin(rows.loc[rows["verdict"] == "faster", "cell_id"])]
        assert one.limit[1] == one.faster == len(wins)
        assert one.limit[0] == wins["fraction_of_bound"].median()


@pytest.mark.parametrize("own", [{}, {"Ms": []}], ids=["nothing is said of its own M", "it has none"])
def test_a_mean_knows_over_how_many_shapes_it_is(tmp_path, own):
    """At M=8 a shape failed, and another was not reached: a mean over four is no mean over six."""
    shapes = (("a", "up", 64, 96), ("b", "up", 64, 96), *((name, "up", 64 * n, 96) for n, name in enumerate("cdef", 2)))
    gone = {
        "failures": lambda cell: ("oom", "") if (cell.model, cell.M, cell.provider) == ("c", 8, "fast") else None,
        "skip": lambda cell, _: (cell.model, cell.M) == ("d", 8),
        "shapes": shapes,
        "manifest": {"shapes": [{"model": m, "layer": layer, "N": n, "K": k} | own for m, layer, n, k in shapes]},
    }
    lead = headline(planted(tmp_path, TIMES, **gone)).lead
    assert [(one.shapes, one.asked) for one in lead.means] == [(5, 5), (3, 5)]  # a and b are one GEMM, and one vote


def test_no_crossover_heads_where_no_side_is_verified(tmp_path):
    even = headline(planted(tmp_path / "even", TIMES | {"fast": 1.0, "slow": 1.0}, round_noise=0.001)).lead
    assert even.crossover is None
    alone = headline(planted(tmp_path / "alone", TIMES, rounds=1)).lead
    assert alone.crossover is None
    assert (alone.means[0].low, alone.means[0].verified) == (None, False)
    assert headline(planted(tmp_path / "one", TIMES, Ms=(8,))).lead.crossover is None


def test_the_limit_is_named_where_the_lead_wins(tmp_path):
    """A quarter of the speed of the planted memory at M=1, where only memory limits; slower than the baseline at 8."""

    def latency(cell: PlantedCell) -> float:
        least = 1e3 * cell.storage.compulsory_bytes(cell.problem) / 55e9
        return 9 * least if cell.provider == "dequant_blas" else (4 if cell.M == 1 else 40) * least

    lead = headline(planted(tmp_path, latency, challengers=("fast",))).lead
    assert (lead.faster, *lead.limit[1:]) == (6, 6, "memory")
    assert lead.limit[0] == pytest.approx(0.25, rel=0.02)
    assert headline(planted(tmp_path / "unknown", latency, ceilings=False)).lead.limit is None


def test_cells_that_were_timed_in_different_ways_are_told_of_the_run(tmp_path):
    def graph_for_small(cell: PlantedCell, round_: int) -> dict[str, object]:
        return {"timer": "graph"} if cell.M == 1 and cell.provider == "simt_4bit" else {}

    warnings = analyzed(tmp_path, Ms=(1, 2), caches=("cold", "warm"), columns=graph_for_small).warnings
    told = [text for text in warnings if "no ratio across" in text]
    assert told[0] == "cold cells differ in timer (host 42, graph 6): no ratio across them; use one timer"
    assert not [text for text in warnings if "cold_by" in text]  # that warm cells have none is no difference
    assert not [text for text in analyzed(tmp_path / "alike", Ms=(1,)).warnings if "no ratio across" in text]


def of(provider, verdict, reason=""):
    """Failures of one provider."""
    return {"failures": lambda cell: (verdict, reason) if cell.provider == provider else None}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            {
                "challengers": ("simt_4bit", "gemv_4bit"),
                "failures": lambda cell: ("unsupported", "needs a GPU") if "4bit" in cell.provider else None,
            },
            "no challenger can run on this device (simt_4bit, gemv_4bit: needs a GPU)",
        ),
        (of("simt_4bit", "oom", "3 GiB asked"), "no challenger has a time (simt_4bit: oom, 3 GiB asked)"),
        (of("dequant_blas", "crashed"), "the baseline dequant_blas has no time here: crashed"),
        ({"challengers": ()}, "no challenger is named in this run"),
        ({"challengers": ("mma_4bit",)}, "no challenger (mma_4bit) was measured"),
        (
            {"columns": lambda cell, round_: {"timer": "graph"} if cell.provider == "simt_4bit" else {}},
            "no challenger has a time beside one of dequant_blas (timer differs: graph here, host for dequant_blas: "
            "measure both with one timer)",
        ),
        ({}, ""),
    ],
)
def test_without_a_challenger_nothing_heads_and_the_reason_is_told(tmp_path, options, told):
    found = headline(analyzed(tmp_path, Ms=(1, 8), **options))
    assert found.uncompared == told
    assert (found.lead is None) == bool(told)


SAYING = {"Ms": (1, 2), "shapes": (("m", "l", 64, 96),)}
"""8 cells."""


STOP = ": stop other work and measure again"


@pytest.mark.parametrize(
    ("disturbed", "told"),
    [
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
def test_a_drift_is_told_as_what_it_means(tmp_path, rounds, others, ratios):
    """The first of two M is measured before the device slows down by 12 %, the second around it."""
    slower = "canary slowed down by 4.0 % (gemm), 12.0 % (copy)"
    said = {"columns": lambda cell, round_: {"disturbed": slower if cell.M == 2 else others}}
    (told,) = [text for text in analyzed(tmp_path, rounds=rounds, **SAYING, **said).warnings if "canary" in text]
    assert "up to 12% around 4 of 8 cells: absolute times" in told
    assert ratios in told.rpartition(";")[2]

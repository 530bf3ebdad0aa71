"""`rooflens.bench` of one call and of several: planted times, real ones, and what they are told of the device."""

import inspect
import math
import re
from dataclasses import replace

import pytest
import rooflens
import torch
from rooflens.analysis.frames.load import load_run
from rooflens.analysis.run.summarize import summarize
from rooflens.api import bench, sampling
from rooflens.harness.timing.cache import Flush
from rooflens.shapes.device import match_spec
from rooflens.shapes.errors import RooflensError, UsageError

from ..environments import ROOT

WARM = {"cold": False, "device": "cpu"}


def test_the_time_is_that_of_the_call(planted):
    timing = rooflens.bench(planted.call("gemm", 2e-3), **WARM)
    assert timing.name == "gemm"
    assert timing.median_s == pytest.approx(2e-3)
    assert timing.interval_s == pytest.approx((2e-3, 2e-3))
    assert (timing.timer, timing.cache, len(timing.rounds_s)) == ("host", "warm", 3)
    assert min(map(len, timing.rounds_s)) >= 50
    assert timing.tflops is timing.gb_per_s is timing.roof_fraction is None
    assert re.fullmatch(
        r"gemm: 2\.0+ ms  \[2\.0+, 2\.0+\] ms  \(3 rounds, 150 samples, warm, output not checked\)", str(timing)
    )


def test_one_round_has_no_interval(planted):
    alone = rooflens.bench(planted.call("gemm", 2e-3), **WARM, rounds=1)
    assert alone.interval_s is None
    assert "one round has no interval" in alone.warnings


def test_estimates_of_the_samples_of_a_run_are_those_of_its_cells():
    """One engine of statistics: what a run stored, given as samples of calls, has the same times and intervals."""
    run = load_run(ROOT / "docs" / "results" / "cpu-llm4bit-quick")
    cells = summarize(run).query("verdict == 'passed' and not impossible").set_index("cell_id")
    samples = run.samples[(run.samples["discarded"] == "") & run.samples["cell_id"].isin(cells.index)]
    given = {
        cell: [times.tolist() for _, times in rows.groupby("round")["time_s"]]
        for cell, rows in samples.groupby("cell_id", sort=False)
    }
    found = bench.estimates(given).loc[cells.index]
    for name in ("time_s", "time_low_s", "time_high_s"):
        assert found[name].to_numpy() == pytest.approx(cells[name].to_numpy(), rel=1e-9, nan_ok=True)


def test_a_cold_call_is_flushed_before_every_sample(planted, monkeypatch):
    flushed = []
    monkeypatch.setattr(Flush, "__init__", lambda self, device: setattr(self, "operations", 1))
    monkeypatch.setattr(Flush, "__call__", lambda self: flushed.append(planted.now_s))
    timing = rooflens.bench(planted.call("gemm", 2e-3), device="cpu", rounds=2)
    assert timing.cache == "cold"
    assert len(flushed) >= len(timing.samples_s) >= 100
    assert len(set(flushed)) >= 100  # between samples, not all at once


def test_arguments_are_passed_and_exceptions_pass_through():
    with pytest.raises(ZeroDivisionError):
        rooflens.bench(divmod, args=(1, 0), **WARM)
    timing = rooflens.bench(torch.mm, args=(torch.ones(64, 64), torch.ones(64, 64)), **WARM, rounds=2, budget_s=0.02)
    assert timing.name == "mm"
    assert 0 < timing.median_s < 1


def test_rates_and_the_roof_follow_from_published_ceilings(planted, monkeypatch):
    spec = _as_an_h200(monkeypatch)
    flops, moved = 2 * 4096**3, 3 * 4096**2 * 2
    at_half_the_peak = flops / spec.peak_flops["bf16"] * 2
    timing = rooflens.bench(
        planted.call("gemm", at_half_the_peak), device="cpu", cold=False, flops=flops, bytes=moved, dtype="bf16"
    )
    assert timing.tflops == pytest.approx(spec.peak_flops["bf16"] / 2e12, rel=1e-4)
    assert timing.gb_per_s == pytest.approx(moved / at_half_the_peak / 1e9, rel=1e-4)
    assert timing.roof_fraction == pytest.approx(0.5, rel=1e-4)
    assert not timing.warnings
    fast = rooflens.bench(planted.call("gemm", at_half_the_peak / 4), **WARM, flops=flops, dtype="bf16")
    assert any("faster than" in text for text in fast.warnings)
    assert fast.impossible
    calls = {"gemm": planted.call("gemm", at_half_the_peak), "fast": planted.call("fast", at_half_the_peak / 4)}
    assert rooflens.bench(calls, **WARM)["fast"].verdict == "faster"
    assert rooflens.bench(calls, **WARM, flops=flops, dtype="bf16")["fast"].verdict == "inconclusive"


@pytest.mark.parametrize("work", [{"flops": 1e9}, {"flops": 1e9, "bytes": 1e9}, {"bytes": 1e6}])
def test_a_roof_of_a_part_of_the_work_is_none(planted, monkeypatch, work):
    """Nobody knows the rate of an unnamed type, and no rate of caches is published: memory alone is no roof."""
    _as_an_h200(monkeypatch)
    timing = rooflens.bench(planted.call("gemm", 1e-3), **WARM, **work)
    assert timing.roof_s is timing.roof_fraction is None
    memory = rooflens.bench(planted.call("gemm", 1e-3), **WARM, bytes=1e9)
    assert memory.roof_s == pytest.approx(1e9 / 4.8e12)


def test_measured_ceilings_of_a_run_on_the_same_device_make_the_roof(planted, monkeypatch):
    folder = ROOT / "docs" / "results" / "h200-fp8-train-rounds"
    (peak,) = load_run(folder).ceilings.query("ceiling == 'peak' and dtype == 'fp8' and kind == 'measured'")["value"]
    work = {"flops": peak * 0.25e-3, "dtype": "fp8", "ceilings": folder}
    with pytest.raises(UsageError, match=r"those of NVIDIA H200, and this is"):
        rooflens.bench(planted.call("gemm", 1e-3), **WARM, **work)
    _as_an_h200(monkeypatch)
    assert rooflens.bench(planted.call("gemm", 1e-3), **WARM, **work).roof_fraction == pytest.approx(0.25, rel=1e-4)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"flops": -1}, "flops=-1"),
        ({"bytes": math.inf}, "bytes=inf"),
        ({"rounds": 0}, "protocol: rounds 0"),
        ({"dtype": "bfloat16"}, "did you mean bf16"),
        ({"dtype": torch.bfloat16}, "known: fp32"),
        ({"name": 3}, "a name is a text"),
        ({"name": "\x1b[31mred"}, "a name is a text"),
        ({"device": "tpu"}, "device"),
        ({"timer": "profiler"}, "use --set timer=host"),
        ({"ceilings": "nowhere.csv"}, "rooflens calibrate"),
    ],
)
def test_wrong_options_get_a_line(planted, options, words):
    with pytest.raises(UsageError) as error:
        rooflens.bench(planted.call("gemm", 2e-3), **WARM | options)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_do_bench_has_the_signature_of_tritons():
    testing = pytest.importorskip("triton.testing")
    theirs, ours = (inspect.signature(one.do_bench).parameters.values() for one in (testing, rooflens))
    assert [(one.name, one.default) for one in ours] == [(one.name, one.default) for one in theirs]


def test_do_bench_returns_milliseconds(planted):
    times = iter([2e-3] * 50 + [1e-3 * number for number in range(1, 12)] * 1000)
    call = planted.call("gemm", 1.0)
    gradient = torch.nn.Parameter(torch.ones(1))
    seen = []

    def timed():
        seen.append(gradient.grad)
        gradient.grad = torch.ones(1)
        planted.now_s += next(times) - 1.0
        return call()

    every = rooflens.do_bench(timed, warmup=99, rep=66, grad_to_none=[gradient], return_mode="all")
    assert seen == [None] * len(seen)
    assert len(seen) >= 50 + len(every)  # a warm-up of 2 ms each
    assert sum(every) >= 66 - 11
    assert {round(one) for one in every} == set(range(1, 12))


def test_do_bench_sums_up_as_tritons_does(planted):
    def timed(**how):
        return rooflens.do_bench(planted.call("gemm", 2e-3), warmup=1, rep=1, **how)

    singles = [timed(return_mode=mode) for mode in ("mean", "median", "min", "max")]
    assert [*singles, timed(quantiles=[0.5])] == pytest.approx([2] * 5, rel=1e-4)
    assert timed(quantiles=[0.2, 0.5, 0.8], return_mode="min") == pytest.approx([2] * 3, rel=1e-4)
    for how in ({"return_mode": "mode"}, {"quantiles": [2]}, {"quantiles": 0.5}):
        with pytest.raises(UsageError, match=r"unknown return_mode 'mode'|from 0 to 1"):
            timed(**how)


def test_verdicts_of_planted_factors(planted):
    calls = {
        "old": planted.call("old", 2e-3, round_sd=0.002),
        "half": planted.call("half", 1e-3, round_sd=0.002),
        "double": planted.call("double", 4e-3, round_sd=0.002),
        "alike": planted.call("alike", 2e-3, round_sd=0.002),
        "noisy": planted.call("noisy", 2e-3, round_sd=0.2),
    }
    found = rooflens.bench(calls, **WARM)
    verdicts = {name: str(change.verdict) for name, change in found.changes.items()}
    assert verdicts == {"half": "faster", "double": "slower", "alike": "same", "noisy": "inconclusive"}
    assert found["half"].ratio == pytest.approx(2, rel=0.01)
    low, high = found["double"].interval
    assert low < 0.5 < high
    assert found["noisy"].detectable > 0.1 > found["alike"].detectable
    assert found["half"].margin == pytest.approx(math.expm1(0.01))
    assert found.baseline == "old"
    text = str(found)
    assert text.splitlines()[1].split()[0] == "old"
    assert "2.00×" in text
    with pytest.raises(RooflensError, match="did you mean half"):
        found["haf"]


def test_calls_take_turns_within_rounds(planted):
    rooflens.bench({name: planted.call(name, 2e-3) for name in "ab"}, **WARM, rounds=4, check=False)
    untimed, rounds = "ab", ("ab", "ba", "ab", "ba")
    turns = "".join((untimed, *rounds))
    assert planted.order == [name for number, name in enumerate(turns) if turns[number - 1 : number] != name]


def test_rounds_end_within_the_time(planted):
    calls = {"a": planted.call("a", 2e-3), "b": planted.call("b", 2e-3)}
    few = rooflens.bench(calls, **WARM, within_s=0.7, rounds=30)
    assert 2 <= len(few.timings["a"].rounds_s) < 5
    assert len(rooflens.bench(calls, **WARM, within_s=1e-6).timings["a"].rounds_s) == 2


def test_a_page_escapes_names(planted):
    timing = rooflens.bench(planted.call("<b>", 2e-3), **WARM)
    found = rooflens.bench({"<b>": planted.call("a", 2e-3), "c": planted.call("c", 2e-3)}, **WARM)
    for page in (timing._repr_html_(), found._repr_html_()):
        assert "<table" in page
        assert "&lt;b&gt;" in page
        assert "<b>" not in page


@pytest.mark.parametrize(
    ("calls", "options", "words"),
    [
        ({"old": len}, {"name": "new"}, "name='new' is of one call"),
        ({"old": len}, {"baseline": "odl"}, "did you mean old"),
        ({}, {}, "nothing to measure"),
        ([len], {}, "or a dictionary by name"),
        ({"old": 3}, {}, "what is measured can be called"),
    ],
)
def test_what_cannot_be_compared_is_told(calls, options, words):
    with pytest.raises(UsageError, match=words):
        rooflens.bench(calls, **options, **WARM)


def _as_an_h200(monkeypatch):
    device = sampling.open_bench("cpu").device
    spec = match_spec("NVIDIA H200", "sm90")
    planted = replace(device, name="NVIDIA H200", spec=spec, llc_bytes=spec.l2_bytes)
    monkeypatch.setattr(sampling.open_bench("cpu"), "device", planted)
    return spec

"""From rounds to effects: pairing, statuses, sums of passes, and two runs that were not interleaved."""

import math

import numpy as np
import pandas as pd
import pytest
from rooflens.analysis.comparison.decide import Word
from rooflens.analysis.comparison.effects import Order, Status, Versions, align, measure_effects, status, sum_of_passes
from rooflens.analysis.frames.coordinates import DETAILS
from scipy import stats

from ..compared import DEFAULTS, versions

GENERATOR = np.random.default_rng(7)


def test_an_effect_is_the_mean_of_the_rounds_and_its_interval_students():
    differences = np.array([[0.02, 0.03, 0.01, 0.04]])
    half = stats.t.ppf(0.975, 3) * differences.std(ddof=1) / 2
    for rounds in (differences, np.insert(differences, 2, math.nan, axis=1)):  # a missing round costs only itself
        row = measure_effects(versions(rounds)).cases.iloc[0]
        assert row["effect"] == pytest.approx(0.025)
        assert (row["low"], row["high"]) == (pytest.approx(0.025 - half), pytest.approx(0.025 + half))
        assert (row["rounds"], row["freedom"]) == (4, 3)


def test_a_drift_of_the_device_hits_both_arms_and_cancels():
    """Times fall by a half over the run: interleaved rounds see no change, and say same."""
    rounds = 8
    drift = np.exp(-0.7 * np.arange(rounds) / rounds)
    quiet = versions(GENERATOR.normal(0, 0.001, (12, rounds)))
    quiet.rounds[["base_s", "head_s"]] *= drift[quiet.rounds["round"]][:, None]
    assert set(measure_effects(quiet).cases["word"]) == {Word.SAME}


VERDICTS = {
    ("passed", "passed"): Status.COMPARED,
    ("passed", "incorrect"): Status.BROKEN,
    ("passed", "crashed"): Status.BROKEN,
    ("incorrect", "passed"): Status.FIXED,
    ("passed", ""): Status.REMOVED,
    ("passed", "unsupported"): Status.REMOVED,
    ("", "passed"): Status.NEW,
    ("unsupported", "passed"): Status.NEW,
    ("oom", "oom"): Status.FAILED,
    ("unsupported", "unsupported"): Status.DECLINED,
}


def test_status():
    base, head = zip(*VERDICTS, strict=True)
    cases = versions(np.zeros((len(VERDICTS), 1)), base_verdict=base, head_verdict=head).cases
    assert status(cases).tolist() == [*VERDICTS.values()]


def test_what_is_not_compared_enters_no_decision():
    some = versions(np.full((3, 8), 0.1) + GENERATOR.normal(0, 0.001, (3, 8)), head_verdict=["passed", "incorrect", ""])
    found = measure_effects(some)
    assert found.cases["status"].tolist() == [Status.COMPARED, Status.BROKEN, Status.REMOVED]
    assert found.cases["word"].tolist() == [Word.SLOWER, "", ""]
    assert np.isnan(found.differences[1:]).all()
    assert np.isnan(found.cases["effect"].to_numpy()[1:]).all()


def test_each_pass_has_its_own_false_discovery_rate():
    """98 quiet dgrads beside 2 fwds: the fwd that is just proven by itself stays so."""
    effect = 0.01 + stats.t.isf(0.015, 7) * 0.01 / np.sqrt(8)
    noise = np.array([1, -1, 1, -1, 1, -1, 1, -1]) * 0.01 * np.sqrt(7 / 8)
    differences = np.vstack([effect + noise, noise, *[noise] * 7])
    alone = measure_effects(versions(differences, pass_=["fwd", "fwd", *["dgrad"] * 7]))
    together = measure_effects(versions(differences))
    assert alone.cases["word"].iloc[0] == Word.SLOWER
    assert together.cases["word"].iloc[0] == Word.INCONCLUSIVE


def test_the_times_of_two_passes_are_added_before_the_logarithm():
    passes = {"times": [100e-6, 300e-6], "pass_": ["fwd", "bwd"], "layer": "same"}
    for missing in (0.0, math.nan):  # a round that lacks one pass has no sum
        whole = sum_of_passes(versions([[0.1] * 3, [0.0, 0.0, missing]], **passes), ("fwd", "bwd"), "fwd+bwd")
        row = measure_effects(whole).cases.iloc[0]
        assert (row["pass"], row["flops"]) == ("fwd+bwd", 2e9)
        assert row["effect"] == pytest.approx(math.log((100 * math.exp(0.1) + 300) / 400))
        assert row["rounds"] == 3 - math.isnan(missing)
    alone = versions([[0.1, 0.1], [0.0, 0.0]], pass_=["fwd", "bwd"])  # of different layers
    assert sum_of_passes(alone, ("fwd", "bwd"), "fwd+bwd").cases.empty


@pytest.mark.parametrize(("true", "word"), [(0.008, Word.SAME), (0.06, Word.SLOWER)])
def test_a_coarse_timer_widens_the_margin(true, word):
    """Steps of 0.5 us at 20.2 us are 2.5 %: one step is no change, whatever the number of rounds."""
    step, time = 0.5e-6, 20.2e-6
    quiet = GENERATOR.normal(0, 0.0005, (2, 8))
    base, head = time * np.exp(quiet[0]), time * np.exp(true + quiet[1])
    rounded = [np.round(times / step) * step for times in (base, head)]
    differences = np.log(rounded[1] / rounded[0])
    row = measure_effects(versions(differences[None, :], times=rounded[0].mean(), resolution_s=step)).cases.iloc[0]
    assert row["margin"] == pytest.approx(0.01 + step / rounded[0].mean(), rel=0.01)
    assert row["word"] == word


def sequential(base, head):
    """One case, measured so often in base and in head: ln of their times over 100 us."""
    cases = versions([[0.0]], order=Order.SEQUENTIAL).cases
    times = pd.DataFrame({"base_s": pd.Series(1e-4 * np.exp(base)), "head_s": pd.Series(1e-4 * np.exp(head))})
    frame = times.assign(case=0, round=times.index)
    return measure_effects(Versions(cases, frame, Order.SEQUENTIAL)).cases.iloc[0]


def test_sequential_runs_are_judged_by_welch_with_a_threefold_margin():
    base, head = GENERATOR.normal(0, 0.004, 6), 0.05 + GENERATOR.normal(0, 0.002, 5)
    row = sequential(base, head)
    truth = stats.ttest_ind(head, base, equal_var=False).confidence_interval(0.95)
    assert (row["low"], row["high"]) == (pytest.approx(truth.low), pytest.approx(truth.high))
    assert row["margin"] == pytest.approx(0.03)


def test_few_sequential_rounds():
    for head, word in (([0.05] * 3, Word.SLOWER), ([0.001] * 3, Word.SAME)):  # without any scatter
        row = sequential([0.0] * 4, head)
        assert (row["word"], row["freedom"]) == (word, 2)
    single = sequential(GENERATOR.normal(0, 0.001, 8), [0.5])
    assert (single["word"], single["rounds"]) == (Word.INCONCLUSIVE, 0)
    assert math.isnan(single["low"])
    two = sequential(GENERATOR.normal(0, 0.001, 8), GENERATOR.normal(0, 0.001, 2))
    assert two["rounds"] == 3, "8 and 2 are known as well as 3.2 and 3.2"


@pytest.mark.parametrize(
    ("base", "head", "step"), [(0.0, 5e-7, 5e-7), (5e-7, 1e-7, 5e-7), (math.nan, 2e-7, 2e-7), (math.nan, math.nan, 0.0)]
)
def test_the_coarser_of_two_timers_sets_the_step(base, head, step):
    frames = [
        pd.DataFrame(
            [DEFAULTS | {"model": "m", "layer": "l", "verdict": "passed", "reason": "", "time_s": 1e-4}]
        ).assign(resolution_s=value, flops=1e9, impossible=False, **dict.fromkeys(DETAILS, ""))
        for value in (base, head)
    ]
    assert align(*frames)["resolution_s"].tolist() == [step]

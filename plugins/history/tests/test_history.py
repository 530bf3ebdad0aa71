"""Series over runs: what belongs together, what the canary takes out, and what a proposal says."""

import numpy as np
import pandas as pd
import pytest
from rooflens.analysis.frames.load import load_run
from rooflens.plugins.history.history import follow, gaps
from rooflens.plugins.history.run_story import CELL, KEY, TIMES, RunMark, Story, key_differences, observe
from rooflens.shapes.errors import UsageError
from rooflens.shapes.run_folder.manifest import StoredRepository

from tests.analysis.impossible import MS, PLANTED, PROVIDERS, SHAPES, planted, same
from tests.analysis.synthetic import CPU, H200, write_run

SHAPE = {"model": "m", "op": "gemm", "B": 1, "E": 1, "top_k": 1, "N": 4096, "K": 4096, "pass": "fwd", "dtype": "bf16"}
SETTING = {"scheme": "nf4-g64", "cache": "cold", "timer": "event", "cold_by": "flush", "tuning": "default"}
MACHINE = {"device": "GPU", "arch": "sm90", "driver": "580", "torch": "2.11", "triton": "3.6", "CUDA": "13"}
FACTS = {"role": "candidate", "source": "s", "artifact": "a", "config": "", "dispatched": "", "disturbed": ""}


def story(number, times, canary=1e-3, uuid="u", **values):
    """Run `number` (a day each) with time_s per layer 0, 1, ...; NaN: not measured. `values` override columns."""
    known = [(f"layer {index}", time) for index, time in enumerate(times) if not np.isnan(time)]
    cells = pd.DataFrame({"layer": [layer for layer, _ in known], "time_s": [time for _, time in known]})
    columns = {"M": 16, "provider": "mine", "HIP": "", "threads": "", "verdict": "passed", "resolution_s": np.nan}
    columns |= {"time_low_s": np.nan, "time_high_s": np.nan, "impossible": False}
    cells = cells.assign(**(SHAPE | SETTING | MACHINE | FACTS | columns | values))
    assert set(cells.columns) == {*CELL, *KEY, *FACTS, *TIMES, "verdict", "impossible"}
    name, code = f"r{number:02}", StoredRepository()
    return Story(RunMark(name, f"runs/{name}", _day(number), number, code, uuid, canary, canary), cells)


def _day(number):
    return str(pd.Timestamp("2026-01-01T03:00:00Z") + pd.Timedelta(days=number))


def noisy(generator, series, runs, noise=0.01):
    return 1e-4 * np.exp(noise * generator.normal(size=(runs, series)))


def test_a_device_that_drifts_with_its_canary_is_no_change_and_as_measured_it_is_one():
    times = noisy(np.random.default_rng(0), 12, 20)
    canary = np.full(20, 1e-3)
    times[10:] *= 1.05
    canary[10:] *= 1.05
    stories = [story(run, times[run], canary[run]) for run in range(20)]
    assert follow(stories).proposals == ()
    raw = follow(stories, raw=True)
    assert {one.after for one in raw.proposals} == {10}
    assert len(raw.proposals) >= 11


def test_a_step_is_proposed_between_its_runs_with_its_size_whatever_the_order_of_the_runs():
    times = noisy(np.random.default_rng(1), 12, 20)
    times[9:, 3] *= 1.05
    stories = [story(run, times[run], source="old" if run < 9 else "new", artifact=str(run)) for run in range(20)]
    history = follow(np.random.default_rng(2).permutation(np.array(stories, dtype=object)))
    assert [run.id for run in history.runs] == [f"r{run:02}" for run in range(20)]
    (one,) = history.proposals
    assert history.series.loc[one.series, "layer"] == "layer 3"
    assert (one.before, one.after) == (8, 9)
    assert one.earliest <= 8 < 9 <= one.latest
    assert one.low < 0.05 < one.high
    assert one.change == pytest.approx(0.05, abs=0.015)
    assert one.raw_change == pytest.approx(0.05, abs=0.015)
    assert one.remarks == ()
    assert 0 <= one.q <= 0.05


def test_a_change_that_only_the_canary_made_says_so():
    times = noisy(np.random.default_rng(3), 12, 20, 0.003)
    canary = np.where(np.arange(20) < 10, 1e-3, 1.05e-3)
    history = follow([story(run, times[run], canary[run]) for run in range(20)])
    assert len(history.proposals) == 12
    for one in history.proposals:
        assert "not in the times as measured: the canary moved, this cell did not" in one.remarks
        assert "same source on both sides" in one.remarks


def test_remarks_name_what_else_changed():
    times = np.full((12, 1), 1e-4)
    times[6:] *= 1.1
    stories = [
        story(run, times[run], uuid="one" if run < 6 else "two", config="" if run < 6 else '{"a": 1}', source=str(run))
        for run in range(12)
    ]
    history = follow(stories)
    (one,) = history.proposals
    expected = ("another configuration", "same compiled code on both sides", "another device of this model")
    assert one.remarks == expected
    assert "2 devices of the model GPU were measured: their series join" in history.notes


@pytest.mark.parametrize("name", [name for name in KEY if name != "HIP"])
def test_a_series_ends_where_its_key_changes(name):
    """Ten runs each at their own level: no change within either, and none between them."""
    times = noisy(np.random.default_rng(4), 2, 20, 0.003)
    times[10:] *= 1.3
    stories = [story(run, times[run], **{name: "old" if run < 10 else "new"}) for run in range(20)]
    history = follow(stories)
    assert history.proposals == ()
    assert history.series["runs"].tolist() == [10, 10, 10, 10]
    assert history.series["key"].tolist() == [0, 0, 1, 1]
    assert key_differences(*history.keys) == [f"{name} old -> new"]


def test_runs_of_two_machines_in_turn_are_two_whole_series():
    stories = [story(run, [1e-4 * (1 + run % 2)], device=f"GPU {run % 2}") for run in range(20)]
    history = follow(stories)
    assert history.series["runs"].tolist() == [10, 10]
    assert history.series["change"].tolist() == [0, 0]


def test_missing_cells_leave_gaps_and_do_not_shift_the_others():
    times = noisy(np.random.default_rng(5), 12, 24)
    times[12:, 0] *= 1.06
    times[[3, 11, 12, 20], 0] = np.nan
    history = follow([story(run, times[run]) for run in range(24)])
    assert history.series.loc[0, ["runs", "of"]].tolist() == [20, 24]
    (one,) = history.proposals
    assert (one.before, one.after) == (10, 13)


def test_a_run_without_a_canary_stays_as_measured_and_is_told():
    stories = [story(run, [2e-4], canary=None if run == 1 else 1e-3 * (1 + run)) for run in range(4)]
    history = follow(stories)
    assert history.points["value_s"].tolist() == pytest.approx([2e-4, 2e-4, 2e-4 / 3, 2e-4 / 4])
    assert history.points["time_s"].tolist() == [2e-4] * 4
    assert history.series["without_canary"].tolist() == [1]
    assert any("hold runs without a canary" in note for note in history.notes)


def test_the_canary_counts_as_the_geometric_mean_of_both_parts():
    marks = [(1e-3, 2e-3), (4e-3, 2e-3)]
    stories = [
        Story(RunMark(str(run), str(run), _day(run), run, "", "", *mark), story(run, [1e-4]).cells)
        for run, mark in enumerate(marks)
    ]
    assert follow(stories).points["value_s"].tolist() == pytest.approx([1e-4, 0.5e-4])


def test_a_canary_that_is_noisier_than_the_cells_is_told():
    generator = np.random.default_rng(6)
    times, canary = noisy(generator, 12, 12, 0.002), 1e-3 * np.exp(0.05 * generator.normal(size=12))
    (note,) = follow([story(run, times[run], canary[run]) for run in range(12)]).notes
    assert note.startswith("the canary scatters more than the cells")
    assert follow([story(run, times[run], canary[run]) for run in range(12)], raw=True).notes == ()


def test_a_cell_that_failed_since_is_told_with_its_run():
    stories = [story(run, [1e-4]) for run in range(5)]
    stories.append(story(5, [1e-4], verdict="incorrect", timer="", cold_by=""))
    history = follow(stories)
    assert history.series["failed"].tolist() == ["incorrect in r05"]
    again = follow([*stories, story(6, [1e-4])])
    assert again.series["failed"].tolist() == [""]


def test_times_that_something_disturbed_are_counted_and_told_at_a_change():
    moved = "other processes used 40 % of the cores"
    stories = [
        story(run, [1e-4 * (1.2 if run >= 6 else 1)], disturbed=moved if run >= 6 else "", source=str(run), artifact="")
        for run in range(12)
    ]
    history = follow(stories)
    assert [one.remarks for one in history.proposals] == [(f"disturbed after it: {moved}",)]
    assert "6 of 12 times were disturbed; rooflens report of a run says how" in history.notes


def test_what_changes_together_is_grouped_and_blamed_on_the_machine():
    stories = []
    for run in range(16):
        mine, theirs = (story(run, [1e-4 * (1.1 if run >= 8 else 1)] * 3, provider=name) for name in ("mine", "blas"))
        stories.append(Story(mine.run, pd.concat([mine.cells, theirs.cells])))
    (gap,) = gaps(follow(stories))
    assert (gap.before, gap.after, gap.earliest, gap.latest) == (7, 8, 7, 8)
    assert len(gap.proposals) == 6
    assert gap.remark.startswith("6 of 6 series change here, of 2 providers")
    (alone,) = gaps(follow(stories, providers=["mine"]))
    assert alone.remark == ""


@pytest.mark.parametrize(
    "stories, words",
    [
        ([story(0, [1e-4])], "1 run is no history"),
        ([story(0, [1e-4]), story(1, [np.nan, 1e-4])], "no cell has a time in two of them"),
        ([story(run, [1e-4], verdict="oom") for run in range(3)], "no cell has a time in two of them"),
        ([story(0, [1e-4]), story(1, [1e-4], driver="590", torch="2.12")], r"they differ in driver, torch$"),
    ],
    ids=["one run", "other cells", "all failed", "other versions"],
)
def test_nothing_in_common_says_what_differs(stories, words):
    with pytest.raises(UsageError, match=words):
        follow(stories)


@pytest.mark.slow
def test_quiet_suites_over_a_drifting_device_hold_no_proposals():
    """Noise 1 %, a device that wanders by 2 % and a canary that sees it with an error of 0.2 %."""
    generator = np.random.default_rng(7)
    wrong = 0
    for _ in range(20):
        drift = np.exp(np.cumsum(0.01 * generator.normal(size=12)))
        times = noisy(generator, 10, 12) * drift[:, None]
        canary = 1e-3 * drift * np.exp(0.002 * generator.normal(size=12))
        wrong += bool(follow([story(run, times[run], canary[run]) for run in range(12)]).proposals)
    assert wrong <= 1


# Run folders.


def stored(tmp_path, number, machine=H200, **what):
    usual = {"Ms": (1, 8), "rounds": 3, "samples": 3, "sample_noise": 0, "round_noise": 0, "providers": ("simt_4bit",)}
    usual |= {"baseline": "simt_4bit", "machine": machine}
    what.setdefault("manifest", {"created_at": _day(number)})
    return load_run(write_run(tmp_path / f"n{number}", **(usual | what)))


def test_a_run_tells_its_key_and_the_geometric_mean_of_its_round_medians(tmp_path):
    canary = [
        {"at": f"2026-01-02T03:0{i}:00Z", "process": 0, "gemm_s": g, "copy_s": 2e-3} for i, g in enumerate((1, 3, 2))
    ]
    run = stored(tmp_path, 0, canary=canary, latency=lambda cell: 1e-3, drift=lambda round_: (1, 8, 1)[round_])
    told = observe(run, "abc")
    assert told.cells["time_s"].tolist() == pytest.approx([2e-3] * len(told.cells))  # 8^(1/3) = 2
    first = told.cells.iloc[0]
    known = {"device": "NVIDIA H200", "arch": "sm90", "torch": "2.13.0", "triton": "3.9.0", "timer": "event"}
    assert {name: first[name] for name in KEY if first[name] and name in known} == known
    assert {first[name] for name in ("driver", "CUDA", "HIP", "threads")} == {""}
    assert (told.run.gemm_s, told.run.copy_s, told.run.commit) == (2.0, 2e-3, "abc")
    assert told.run.canary_s == pytest.approx((2.0 * 2e-3) ** 0.5)


def test_threads_are_in_the_key_of_a_cpu_only(tmp_path):
    manifest = {"created_at": _day(0), "threads": 2}
    assert set(observe(stored(tmp_path, 0, manifest=manifest)).cells["threads"]) == {""}
    assert set(observe(stored(tmp_path, 1, CPU, manifest=manifest)).cells["threads"]) == {"2"}


def test_a_run_without_a_time_of_its_own_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"created_at = 'yesterday' in run.json is not a time"):
        observe(stored(tmp_path, 0, manifest={"created_at": "yesterday"}))


def test_impossible_times_decide_nothing(tmp_path):
    told = []
    for name, seconds, scatter in (("a", 1e-7, 0.0), ("b", 2e-9, 0.3)):
        runs = [planted(tmp_path / name / f"r{day}", seconds, scatter, day) for day in (1, 2, 3)]
        told.append(follow([observe(run) for run in runs]))
    a, b = told
    assert len(a.points) == 3 * (len(SHAPES) * len(MS) * len(PROVIDERS) - PLANTED)
    same(a.points, b.points, "points")
    same(a.series, b.series, "series")
    assert (a.proposals, a.notes) == (b.proposals, b.notes)
    every = 3 * len(SHAPES) * len(MS) * len(PROVIDERS)
    told = f"{3 * PLANTED} of {every} times are excluded, because they are faster than the device allows"
    assert told in a.notes

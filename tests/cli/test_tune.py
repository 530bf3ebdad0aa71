"""`rooflens tune` with real processes: what is searched, what a fault costs, how it resumes, and what it says."""

import csv
import json
import os
import shutil
import time
from pathlib import Path

import pytest
from rooflens.api.measuring import TurnExecutor
from rooflens.harness.compare.runner import Turn
from rooflens.harness.sweep.deadline import Deadline
from rooflens.harness.worker.code_origin import Origin
from rooflens.shapes.errors import RooflensError
from rooflens.shapes.request import Request

from .tiny_runs import SUITE, events, fresh, read, rooflens, start, wait_until

FAULTY = Path(__file__).parents[1] / "harness" / "faulty_candidates.py"


HERE = ("--device", "cpu", "--set", "llc_bytes=1MiB,threads=1")
"""One thread: a product that waits for a second core of a busy machine is no faster than a sleep."""


def tune_args(*providers):
    flags = [part for name in providers for part in ("-p", name)]
    return ["tune", "tiny.toml", *HERE, "--providers", FAULTY, "-o", "out", *flags]


ONE = ("--filter", "M == 1 and layer == 'q'")


def verdicts(rows):
    return {json.loads(row["config"])["do"]: row["verdict"] for row in rows if row["config"] != "{}"}


def winners(rows):
    return [json.loads(row["config"])["do"] for row in rows if row["winner"] == "true"]


@pytest.mark.slow
def test_the_faster_configuration_wins_each_search_and_all_candidates_are_kept(place):
    done = rooflens(place, *tune_args("choosy"))
    rows = read(place, "tuning.csv")
    assert len(rows) == 2 * 6 * 2  # candidates x (2 shapes x 3 M) x searches
    assert winners(rows) == ["fast"] * 12
    slow = [row for row in rows if row["candidate"] == "0"]
    assert all(float(row["time_s"]) > 1e-2 for row in slow)
    assert {row["search"] for row in rows} == {"0", "1"}
    assert {row["error_ratio"] for row in rows} == {"0.0"}
    assert {row["verdict"] for row in rows} == {"passed"}
    assert all(float(row["time_low_s"]) <= float(row["time_s"]) <= float(row["time_high_s"]) for row in rows)
    manifest = json.loads((place / "out" / "run.json").read_text())
    assert manifest["processes"] == 2, "each search has a process of its own"
    assert manifest["planned_searches"] == 12
    assert "cells 6, searches 12" in done.stdout


def test_a_candidate_that_fails_costs_itself_only(place):
    done = rooflens(place, *tune_args("harmless", "deadly"), *ONE, "--searches", "1")
    rows = read(place, "tuning.csv")
    harmless, deadly = ([row for row in rows if row["provider"] == name] for name in ("harmless", "deadly"))
    assert verdicts(harmless) == {
        "slow": "passed", "fast": "passed", "wrong": "incorrect", "late_wrong": "incorrect",
        "raises": "runtime_error", "no_tile": "runtime_error", "oom": "oom",
    }  # fmt: skip
    assert verdicts(deadly) == {"slow": "passed", "crash": "crashed", "fast": "passed", "repacks": "runtime_error"}
    assert winners(harmless) == winners(deadly) == ["fast"]
    assert all((row["time_s"] == "") == (row["verdict"] != "passed") for row in rows)
    reasons = {json.loads(row["config"])["do"]: row["reason"] for row in rows}
    assert "SNR" in reasons["wrong"]
    assert reasons["crash"] == "worker killed by SIGSEGV"
    assert "changed the shared weights" in reasons["repacks"]
    assert "note: deadly do=crash: crashed in 1 of 1 search (worker killed by SIGSEGV)" in done.stderr
    assert (place / "out" / "events.log").read_text().count("restart the worker") == 2


@pytest.mark.slow
def test_a_candidate_that_hangs_ends_and_who_leaves_a_setting_changed_is_searched_after_the_others(place):
    rooflens(place, *tune_args("leaving", "hanging"), *ONE, "--searches", "1", "--set", "timeout_s=2s")
    rows = read(place, "tuning.csv")
    assert [row["provider"] for row in rows] == ["hanging", "hanging", "leaving", "leaving"]
    assert verdicts(rows[:2]) == {"hang": "timeout", "fast": "passed"}
    assert winners(rows[:2]) == ["fast"]
    assert {row["verdict"] for row in rows[2:]} == {"passed"}
    (told,) = (text for _, text in events(place) if text.startswith("restart the worker: leaving"))
    assert told == "restart the worker: leaving left umask at 7 instead of 18: it is measured after the others"


def line_of(text):
    return next(number for number, line in enumerate(FAULTY.read_text().splitlines(), 1) if text in line)


@pytest.mark.slow
def test_cells_without_a_winner_say_why_and_are_not_searched_again(place):
    arguments = [*tune_args("hopeless", "no_choice", "refuses", "confused"), *ONE, "--export", "tuned.csv"]
    done = rooflens(place, *arguments)
    rows = read(place, "tuning.csv")
    assert [(row["provider"], row["verdict"]) for row in rows if row["search"] == "0"] == [
        ("hopeless", "runtime_error"), ("hopeless", "incorrect"), ("no_choice", "passed"), ("refuses", "unsupported"),
        ("confused", "runtime_error"),
    ]  # fmt: skip
    assert {row["reason"] for row in rows if row["provider"] == "confused"} == {
        f"searching: KeyError: 'sm99' (faulty_candidates.py:{line_of('raise KeyError')})"
    }
    assert "note: refuses: unsupported in 2 of 2 searches (only on Tuesdays)" in done.stderr
    assert "note: hopeless do=wrong: incorrect in 2 of 2 searches (SNR" in done.stderr
    (exported,) = csv.DictReader((place / "tuned.csv").read_text().splitlines())
    assert (exported["libtype"], exported["kernelName"]) == ("no_choice", "no_choice")
    before = (place / "out" / "tuning.csv").read_bytes()
    rooflens(place, *arguments, "--resume")
    assert (place / "out" / "tuning.csv").read_bytes() == before


@pytest.mark.slow
def test_a_complete_table_is_shown_again_without_torch_and_without_a_worker(place):
    done = rooflens(place, *tune_args("choosy", "hopeless"), *ONE)
    files = {path: path.read_bytes() for path in (place / "out").iterdir()}
    (place / "no_torch").mkdir()
    (place / "no_torch" / "torch.py").write_text("raise ImportError('torch must not be imported here')\n")
    blocked = os.environ | {"PYTHONPATH": str(place / "no_torch")}
    again = fresh(place, "tune", "-o", "out", "--resume", "--export", "again.csv", env=blocked)
    assert again.stdout == done.stdout
    assert "note: hopeless: 1 cell without any winner" in again.stderr
    assert "1 row written to again.csv; 1 cell excluded: 1 without a winner (hopeless 1)" in again.stderr
    assert {path: path.read_bytes() for path in (place / "out").iterdir()} == files
    (place / "out" / "tuning.csv").write_text((place / "out" / "tuning.csv").read_text().rpartition("\n")[0][:-20])
    assert "torch must not be imported" in fresh(place, "tune", "-o", "out", "--resume", env=blocked, code=2).stderr
    rooflens(place, "tune", "-o", "out", "--resume")
    assert len(read(place, "tuning.csv")) == 8


@pytest.mark.slow
def test_one_gemm_under_two_names_is_searched_once(place):
    (place / "tiny.csv").write_text("model,layer,N,K\ntiny,q,48,128\nother,o,48,128\n")
    rooflens(place, *tune_args("choosy"), "-a", "M=1", "--searches", "1")
    assert len(read(place, "tuning.csv")) == 2


@pytest.mark.slow
@pytest.mark.exclusive
def test_a_killed_search_is_resumed_without_losing_or_repeating_a_finished_one(place):
    process = start(place, *tune_args("choosy"))
    path = place / "out" / "tuning.csv"
    wait_until(lambda: path.exists() and path.read_text().count("\n") >= 4, process, "the second search")
    process.kill()
    process.communicate()
    kept = path.read_text().splitlines(keepends=True)
    kept = kept[: 1 + (len(kept) - 1) // 2 * 2]  # whole searches have two rows
    torn = "f" * 16 + kept[-2][16:]  # the first of two rows, and a part of the second
    path.write_text("".join(kept) + torn + torn[:20])
    time.sleep(0.5)
    rooflens(place, "tune", "-o", "out", "--resume")
    lines = path.read_text().splitlines(keepends=True)
    assert lines[: len(kept)] == kept
    units = [(row["cell_id"], row["search"], row["candidate"]) for row in read(place, "tuning.csv")]
    assert len(units) == len(set(units)) == 24
    assert winners(read(place, "tuning.csv")) == ["fast"] * 12


@pytest.mark.slow
def test_max_time_ends_cleanly_and_more_searches_may_be_added(place):
    done = rooflens(place, *tune_args("hanging"), *ONE, "--max-time", "1ms")
    assert "give the same command again" in done.stderr
    rooflens(place, *tune_args("choosy"), *ONE, "--searches", "1")
    more = rooflens(place, *tune_args("choosy"), *ONE, "--searches", "3", "--resume", "--json")
    assert [row["search"] for row in read(place, "tuning.csv")] == ["0", "0", "1", "1", "2", "2"]
    (found,) = json.loads(more.stdout)["providers"]
    assert (found["provider"], found["cells"], found["searches"], found["changed"]) == ("choosy", 1, 3, 3)


@pytest.mark.slow
def test_real_kernels_of_this_cpu_are_tuned(place):
    (place / "real.toml").write_text(SUITE.replace('["dequant_blas"]\nbase', '["simd_4bit_cpu", "blas"]\nbase'))
    rooflens(place, "tune", "real.toml", *HERE, "--cache", "cold", "-a", "M=1,2", "-o", "out")
    rows = read(place, "tuning.csv")
    assert {row["provider"] for row in rows if row["verdict"] == "passed"} >= {"blas"}
    assert {row["cache"] for row in rows} == {"cold"}
    assert sum(row["winner"] == "true" for row in rows if row["provider"] == "blas") == 2 * 2 * 2


@pytest.mark.gpu
@pytest.mark.exclusive
def test_real_kernels_of_this_gpu_are_tuned(place):
    (place / "tiny.csv").write_text("model,layer,N,K\ntiny,q,1024,2048\n")
    (place / "real.toml").write_text(
        SUITE.replace('["dequant_blas"]\nbase', '["simt_4bit", "mma_4bit"]\nbase').replace("fp32", "bf16")
    )
    cold = ("--device", "cuda", "--cache", "cold")
    done = rooflens(place, "tune", "real.toml", *cold, "-a", "M=1,16", "-o", "out", "--export", "e.csv")
    rows = read(place, "tuning.csv")
    assert {row["verdict"] for row in rows} == {"passed"}, done.stderr
    assert sum(row["winner"] == "true" for row in rows) == 2 * 2 * 2
    assert any(int(row["candidates"]) > 1 for row in rows)
    assert len((place / "e.csv").read_text().splitlines()) == 3


def test_a_search_that_imports_from_the_working_tree_is_refused(place, tmp_path, monkeypatch):
    """What the first launch imports is not there yet when the worker starts."""
    folders = {name: tmp_path / name for name in ("tree", "environment", "working_tree")}
    for folder in folders.values():
        folder.mkdir()
    (folders["working_tree"] / "stray.py").write_text("")
    monkeypatch.setenv("STRAY", str(folders["working_tree"] / "stray.py"))
    for name in ("faulty_providers.py", "stray_providers.py"):
        shutil.copy(FAULTY.with_name(name), folders["tree"])
    kernel = folders["tree"] / "stray_providers.py"
    how = {"device": "cpu", "files": kernel, "to": place / "out", "filter_expression": ONE[1]}
    request = Request(suite=str(place / "tiny.toml"), providers="late", searches=1, protocol={"threads": 1}, **how)
    with TurnExecutor() as turns, pytest.raises(RooflensError, match="module stray comes from"):
        turns(Turn(request, origin=Origin(**folders)), print, Deadline())
    assert not (place / "out" / "tuning.csv").exists() or not read(place, "tuning.csv")

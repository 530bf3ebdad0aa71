"""`rooflens.measure` and `tune` store what the command line stores for the same request."""

import json
import shutil
from contextlib import chdir
from pathlib import Path

import pandas as pd
import pytest
import rooflens
from rooflens.api.planned import manifest, planned
from rooflens.harness.storage.store import RunStore
from rooflens.shapes.errors import UsageError
from rooflens.shapes.request import Request

from ..cli import tiny_runs
from ..cli.tiny_runs import FAULTY, run_args, write_suite
from ..harness.repositories import repository

ROOT = Path(__file__).parents[2]
TINY = {"device": "cpu", "llc_bytes": 1 << 20, "calibrate": False, "axes": {"M": [1, 2]}}

OF_THE_REQUEST = ("request", "suite", "seed", "baseline", "challengers", "rounds", "protocol", "planned_units")


def run_json(folder):
    return json.loads((folder / "run.json").read_text())


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """Measure the same by the command line and from Python; return the place, the run, and what was told."""
    place, told = write_suite(tmp_path_factory.mktemp("both")), []
    tiny_runs.rooflens(place, *run_args("right", "wrong", "dequant_blas"), "-a", "M=1,2", "--set", "budget_s=10ms")
    with chdir(place):
        providers = [FAULTY, "right", "wrong", "dequant_blas"]
        run = rooflens.measure("tiny.toml", providers=providers, budget_s=0.01, to="python", tell=told.append, **TINY)
    return place, run, told


def test_the_run_is_that_of_the_command_line(both):
    place, run, told = both
    stored, typed = run_json(place / "python"), run_json(place / "out")
    assert {name: stored[name] for name in OF_THE_REQUEST} == {name: typed[name] for name in OF_THE_REQUEST}
    here, there = (pd.read_csv(place / name / "cells.csv") for name in ("python", "out"))
    coordinates = ["cell_id", "round", "provider", "layer", "M", "verdict"]
    assert sorted(here[coordinates].itertuples(index=False)) == sorted(there[coordinates].itertuples(index=False))
    assert set(run.cells["M"]) == {1, 2}
    assert len(run.samples) == len(pd.read_csv(place / "python" / "samples.csv"))
    assert [line for line in told if line.startswith("wrong incorrect (tiny q")]


def test_its_run_json_names_a_command_that_measures_the_same(both):
    place, _, _ = both
    _, run, suite, *words = run_json(place / "python")["command"]
    assert (run, suite) == ("run", str(place / "tiny.toml"))
    words[words.index("--output") + 1] = str(place / "again")
    tiny_runs.rooflens(place, "run", suite, *words, "--dry-run")


def test_it_is_resumed_as_it_was_started(both):
    place, run, _ = both
    shapes = run_json(place / "python")["shapes"]
    again = rooflens.measure(to=place / "python", resume=True)
    assert again.samples.equals(run.samples)
    assert run_json(place / "python")["shapes"] == shapes
    with pytest.raises(UsageError, match=r"^--rounds changes what is measured, but --resume without SUITE"):
        rooflens.measure(to=place / "python", resume=True, rounds=3)


def test_a_run_of_an_earlier_version_is_refused_before_anything_is_written(tmp_path):
    kept = shutil.copytree(ROOT / "docs/results/cpu-llm4bit-quick", tmp_path / "kept")
    before = sorted(kept.rglob("*"))
    with pytest.raises(UsageError, match="begun by an earlier version"):
        rooflens.measure("llm4bit-quick", device="cpu", to=kept, resume=True)
    assert sorted(kept.rglob("*")) == before
    with pytest.raises(UsageError, match="is compressed: unpack"):
        RunStore.reopen(kept)


def test_without_a_provider_file_the_working_directory_counts_and_git_need_not_be_installed(tmp_path, monkeypatch):
    monkeypatch.chdir(repository(tmp_path / "repo", {"README": "kernels come from elsewhere"}))
    plan = planned(Request(suite="llm4bit-quick", device="cpu"))

    def stored():
        content = manifest(Path("out"), plan.suite, plan.request)
        plan.describe(content)
        return content.repository

    assert stored().top == str(Path.cwd().resolve())
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert stored() is None


def test_a_table_is_searched_and_pinned(tmp_path):
    place = write_suite(tmp_path)
    search = {
        "providers": [FAULTY.with_name("faulty_candidates.py"), "choosy"],
        "axes": {"M": 1},
        "filter_expression": "layer == 'q'",
        "to": place / "t",
    }
    tuned = rooflens.tune(place / "tiny.toml", searches=1, device="cpu", llc_bytes="1MiB", **search)
    assert tuned.complete
    assert set(tuned.table["provider"]) == {"choosy"}
    assert rooflens.tune(to=place / "t", resume=True) == tuned
    run = rooflens.measure(place / "tiny.toml", **{**TINY, **search, "to": place / "out", "tuned": tuned.folder})
    assert set(run.cells["tuning"]) == {"pinned"}


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"axis": {"M": [1]}}, "unknown argument 'axis': did you mean axes"),
        ({"jobs": "all"}, "--jobs 'all': write local for all devices"),
        ({"searches": 2}, "unknown argument 'searches'"),
        ({"suite": "llm4bit"}, "unknown argument 'suite'"),
        ({"providers": 5}, "providers 5: give a text"),
        ({"axes": {"N": [1]}}, "unknown axis of suite llm4bit-quick 'N'"),
    ],
)
def test_what_no_run_can_be_is_one_line(how, words):
    with pytest.raises(UsageError, match=words):
        rooflens.measure("llm4bit-quick", **how)


def test_ctrl_c_says_what_is_kept(tmp_path, monkeypatch):
    def interrupted(sweep, content):
        raise KeyboardInterrupt

    monkeypatch.setattr("rooflens.harness.sweep.sweep.Sweep.run", interrupted)
    with pytest.raises(KeyboardInterrupt) as error:
        rooflens.measure("llm4bit-quick", providers=["blas"], device="cpu", to=tmp_path / "run")
    assert error.value.__notes__[0].startswith(f"interrupted; 0 finished units are in {tmp_path / 'run'}: ")

"""Launches that do less than their work while they are timed: none of them is ranked as faster than an honest one."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from ...cli.tiny_runs import rooflens
from ...suite_files import suite_text

sys.path.insert(0, str(Path(__file__).parents[1]))  # as where a file of providers is loaded
import cheating_providers
import gpu_cheating_providers
from cheating_providers import HONEST

PROTOCOL = {"rounds": 4, "budget_s": 0.05, "timeout_s": 30.0}
"""With a reference of 3 ms, its share of this budget allows a second one in every round, on busy cores too."""

ON_THE_CPU = ("--device", "cpu", "--set", "llc_bytes=1MiB,threads=1")

NEARLY = 0.5
"""Share of the honest time that one which does all its work may take: the machine is shared with other tests."""


def suite_of(protocol=PROTOCOL):
    return suite_text("cheats", [HONEST], [4], protocol, dtypes=["bf16"], caches=["cold", "warm"])


def measured(folder, module, size, *options, protocol=PROTOCOL):
    """Measure all providers of a module; return cells.csv with the median time of each cell."""
    (folder / "cheats.toml").write_text(suite_of(protocol))
    (folder / "cheats.csv").write_text(f"model,layer,N,K\ntiny,q,{size},{size}\n")
    usual = ("--no-report", "--no-calibrate", "--providers", module.__file__)
    names = [word for provider in module.PROVIDERS for word in ("-p", provider.name)]
    done = rooflens(folder, "run", "cheats.toml", *usual, *names, *options, "-o", "out")
    assert done.returncode == 0, done.stderr
    cells = pd.read_csv(folder / "out" / "cells.csv", keep_default_na=False)
    samples = pd.read_csv(folder / "out" / "samples.csv")
    return cells.assign(time_s=cells["cell_id"].map(samples.groupby("cell_id")["time_s"].median()))


def fault(cells, name):
    """Say how a cheat got through: it passed, and took much less time than the honest one. "" when it did not."""
    honest = cells[cells["provider"] == HONEST].groupby("cache")["time_s"].median()
    mine = cells[cells["provider"] == name]
    for cache, found in mine.groupby("cache"):
        failed = set(found["verdict"]) - {"passed"}
        if failed - {"incorrect", "runtime_error"}:
            return f"{cache}: {found['reason'].tolist()}"
        if not failed and found["time_s"].iloc[0] < NEARLY * honest[cache]:
            return f"{cache}: passed in {found['time_s'].iloc[0]} s, and an honest one in {honest[cache]} s"
    return "" if len(mine) else "not measured"


def faults_of_the_honest(cells):
    """Reasons of the units of the honest one that did not pass, and how many are missing."""
    mine = cells[cells["provider"] == HONEST]
    missing = ["not measured"] * (2 * 4 - len(mine))
    return missing + mine[mine["verdict"] != "passed"]["reason"].tolist()


@pytest.fixture(scope="module")
def on_the_cpu(tmp_path_factory):
    """Launches that take longer than the 50 us of a late output that pass, on fast cores as well."""
    return measured(tmp_path_factory.mktemp("cheats"), cheating_providers, 2048, *ON_THE_CPU)


@pytest.fixture(
    scope="module",
    params=["profiler", *(pytest.param(timer, marks=pytest.mark.slow) for timer in ("event", "host", "graph"))],
)
def on_a_gpu(request, tmp_path_factory):
    options = ("--device", "cuda", "--set", f"timer={request.param}")
    return measured(tmp_path_factory.mktemp("cheats"), gpu_cheating_providers, 4096, *options)


@pytest.mark.slow
def test_the_honest_one_passes(on_the_cpu):
    assert faults_of_the_honest(on_the_cpu) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", cheating_providers.CHEATS)
def test_a_cheat_fails_or_has_done_its_work(on_the_cpu, name):
    """One that looks for changes finds some before every sample, and computes: then its time is an honest one."""
    assert fault(on_the_cpu, name) == ""


def only(*names):
    """Return the module of cheats with some of them."""
    chosen = [provider for provider in cheating_providers.PROVIDERS if provider.name in (HONEST, *names)]
    return SimpleNamespace(PROVIDERS=chosen, __file__=cheating_providers.__file__)


@pytest.mark.exclusive
def test_launches_that_are_timed_many_at_once_do_all_of_their_work(tmp_path):
    """Activations cannot change between those of one sample."""
    names = [name for name in cheating_providers.CHEATS if name.startswith("one_of_three")]
    for size in (256, 128, 64):  # the largest whose launches are too short for the clock, which depends on the CPU
        (folder := tmp_path / str(size)).mkdir()
        cells = measured(folder, only(*names), size, *ON_THE_CPU)
        at_once = cells[cells["provider"] == HONEST]["launches_per_sample"].astype(int).max()
        if at_once > 1:
            break
    assert at_once > 1
    assert faults_of_the_honest(cells) == []
    assert [fault(cells, name) for name in names] == ["", ""]


@pytest.mark.exclusive
def test_activations_that_come_once_only_are_seen_where_references_are_slow(tmp_path):
    """A part of the product is enough: the whole one would take many times what a round may take."""
    names = ("foresees_the_activations", "for_activations_that_come_again")
    many_samples = PROTOCOL | {"budget_s": 0.2}  # one of them computes in its first calls
    cells = measured(tmp_path, only(*names), 3072, *ON_THE_CPU, protocol=many_samples)
    assert faults_of_the_honest(cells) == []
    assert [fault(cells, name) for name in names] == ["", ""]


@pytest.mark.exclusive
def test_a_search_finds_them_as_well(tmp_path):
    """Its times are printed, and choose what runs."""
    names = ("keeps_its_result", "foresees_the_activations")
    (tmp_path / "cheats.toml").write_text(suite_of())
    (tmp_path / "cheats.csv").write_text("model,layer,N,K\ntiny,q,256,256\n")
    chosen = [word for name in (HONEST, *names) for word in ("-p", name)]
    usual = ("--providers", cheating_providers.__file__, "--searches", "1", *ON_THE_CPU)
    done = rooflens(tmp_path, "tune", "cheats.toml", *usual, *chosen, "-o", "out")
    assert done.returncode == 0, done.stderr
    rows = pd.read_csv(tmp_path / "out" / "tuning.csv").groupby("provider")["verdict"].agg(set)
    assert rows[HONEST] == {"passed"}
    assert rows["keeps_its_result"] == rows["foresees_the_activations"] == {"incorrect"}


@pytest.mark.exclusive
@pytest.mark.parametrize(
    ("control", "size", "others"), [("flush", 128, ("shares_its_result_among_copies",)), ("rotation", 512, ())]
)
def test_what_copies_of_the_operands_share_is_found(tmp_path, control, size, others):
    """A weight that is kept by shape is no cold one. Where there is one copy only, it is right, and as cold as any."""
    name = "keeps_its_weight_by_shape"
    cells = measured(tmp_path, only(name, *others), size, *ON_THE_CPU, "--set", f"cold_by={control}")
    assert cells[cells["provider"] == HONEST]["copies"].astype(int).max() > 1
    assert faults_of_the_honest(cells) == []
    assert [fault(cells, other) for other in others] == [""] * len(others)
    mine = cells[cells["provider"] == name].groupby("cache")["verdict"].agg(set)
    assert mine.to_dict() == {"cold": {"incorrect"}, "warm": {"passed"}}


@pytest.mark.slow
def test_who_keeps_what_was_computed_is_told_what_to_do(on_the_cpu):
    """Most of them act in good faith: the operands look as they did."""
    reasons = on_the_cpu["reason"][on_the_cpu["reason"].str.startswith("in a timed sample")]
    assert len(reasons) >= 10
    assert reasons.str.contains("by address or by `_version`, compute that in every launch").all()


@pytest.mark.gpu
def test_the_honest_one_passes_on_a_gpu(on_a_gpu):
    assert faults_of_the_honest(on_a_gpu) == []


@pytest.mark.gpu
@pytest.mark.parametrize("name", gpu_cheating_providers.CHEATS)
def test_a_cheat_on_a_gpu_fails_or_has_done_its_work(on_a_gpu, name):
    assert fault(on_a_gpu, name) == ""

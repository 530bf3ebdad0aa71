"""Builds of extensions that hang: their own time limit, what is left running, and the lock that is left."""

import signal
import time
from pathlib import Path

import pytest

from ..pace import patient
from .tiny_runs import ON_CPU, assert_gone, birth, read, rooflens, run_args, start, wait_until, write_suite

pytestmark = [pytest.mark.slow, pytest.mark.exclusive]

BUILDING = Path(__file__).parents[1] / "harness" / "building_providers.py"

COMPILER = "#!/bin/sh\nsleep 1000 & echo $$ $! >> compiler.new\nmv compiler.new compiler.pids\nwait\n"
"""Hangs, with a child of its own."""

ONE = ("--filter", "layer == 'q' and M == 1")

ARGUMENTS = (*run_args("builds", file=BUILDING), *ONE)


def limits(*more):
    """A build may take as long as a worker on a busy machine needs to start one."""
    return "--set", ",".join((f"build_timeout_s={patient(3)}s", *more))


def ended():
    return f"no end within {patient(3)} s; build_timeout_s sets the limit; "


@pytest.fixture
def place(tmp_path, monkeypatch):
    write_suite(tmp_path)
    (tmp_path / "compiler").write_text(COMPILER)
    (tmp_path / "compiler").chmod(0o755)
    monkeypatch.setenv("CXX", str(tmp_path / "compiler"))
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "extensions"))
    return tmp_path


def lock_of(place):
    return place / "extensions" / "mine" / "lock"


def compilers(place):
    """Return the compiler and its child that were started last, with their start times."""
    return {pid: birth(pid) for pid in map(int, (place / "compiler.pids").read_text().split())}


def reason(place):
    (row,) = read(place)
    assert row["verdict"] == "timeout"
    return row["reason"]


def test_a_build_that_hangs_ends_at_its_own_limit_and_its_lock_is_named_from_then_on(place, monkeypatch):
    monkeypatch.setenv("BUILD_AT", "prepare")
    rooflens(place, *ARGUMENTS, *limits("timeout_s=1s"))
    first = reason(place)
    assert first.startswith(f"prepare: {ended()}no process here holds ")
    assert f" {lock_of(place)}, " in first
    assert not any(compilers(place).values())
    monkeypatch.setenv("BUILD_AT", "launch")
    rooflens(place, *ARGUMENTS, *limits("timeout_s=1s"), "-o", "again")
    (row,) = read(place, out=place / "again")
    assert row["reason"].startswith("measure: no end within 1 s; timeout_s sets the limit; no process here holds ")
    assert f" {lock_of(place)}, " in row["reason"]
    assert lock_of(place).exists()


def test_an_interrupted_build_leaves_no_process_and_its_lock_is_named(place, monkeypatch):
    monkeypatch.setenv("BUILD_AT", "prepare")
    process = start(place, *ARGUMENTS)
    wait_until((place / "compiler.pids").exists, process, "the build")
    running = compilers(place)
    assert all(running.values())
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert_gone(running)
    assert f"no process here holds {lock_of(place)}, " in errors
    assert "--resume" in errors.splitlines()[-1]
    assert lock_of(place).exists()


def test_a_worker_whose_import_hangs_is_given_up(place, monkeypatch):
    monkeypatch.setenv("BUILD_AT", "import by the worker")
    began = time.monotonic()
    done = rooflens(place, *ARGUMENTS, *limits("timeout_s=1s"), code=1)
    assert time.monotonic() - began < 20 * patient(3)
    line = done.stderr.splitlines()[-1]
    assert f"could not be set up: import the providers: {ended()}" in line
    assert f"no process here holds {lock_of(place)}, " in line
    assert not any(compilers(place).values())


@pytest.mark.parametrize("command", [ARGUMENTS, ("bench", BUILDING)])
def test_an_import_that_hangs_is_one_line_and_leaves_nothing(place, monkeypatch, command):
    monkeypatch.setenv("BUILD_AT", "import")
    done = rooflens(place, *command, *limits(), code=2)
    (line,) = done.stderr.splitlines()
    assert f"{BUILDING}:" in line
    assert f"{ended()}no process here holds " in line
    assert not any(compilers(place).values())


def test_a_candidate_that_takes_too_long_to_build_costs_only_itself(place, monkeypatch):
    monkeypatch.setenv("BUILD_AT", "second candidate")
    arguments = ("tune", "tiny.toml", *ON_CPU, "--providers", BUILDING, "-p", "builds", "--searches", "1")
    rooflens(place, *arguments, "-o", "out", *limits("timeout_s=1s"), *ONE)
    found = {row["candidate"]: (row["verdict"], row["reason"]) for row in read(place, "tuning.csv")}
    assert found["0"][0] == "passed"
    assert found["1"][0] == "timeout"
    assert found["1"][1].startswith(f"{ended()}no process here holds ")
    assert not any(compilers(place).values())

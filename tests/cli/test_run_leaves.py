"""Providers that leave their process changed, in real workers: what their neighbours find, and what the table says."""

import json
import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from ..harness import leaving_providers
from ..harness.leaving_providers import CHANGES, HARMLESS, PACED, is_alive
from .tiny_runs import events, fresh, read, run_args, write_suite

pytestmark = pytest.mark.slow

HELPING = Path(leaving_providers.__file__).with_name("helping_providers.py")


def run(place, out, *providers):
    """Run some of the providers at M = 2, where they leave something, and at M = 3; return the rows of each."""
    arguments = run_args(*providers, file=leaving_providers.__file__, out=out)
    options = ("-a", "M=2,3", "--filter", "layer == 'q'", "--rounds", "3", "--set", "threads=2")
    # What pytest changes between tests is not what a provider has left.
    environment = {name: text for name, text in os.environ.items() if not name.startswith(("PYTEST_", "COLUMNS"))}
    fresh(place, *arguments, *options, env=environment)
    rows = read(place, out=place / out)
    return {name: [row for row in rows if row["provider"] == name] for name in providers}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return write_suite(tmp_path_factory.mktemp("leaves"))


@pytest.fixture(scope="module")
def alone(place):
    """The settings that a launch finds, in a run in which nobody leaves anything."""
    first, *others = found(run(place, "alone", "finds")["finds"])
    assert len(first["settings"]) > 60
    assert [one for one in others if one != first] == []
    return first


@pytest.fixture(scope="module")
def beside(place):
    """Rows of a run with providers that leave something changed."""
    return run(place, "beside", "restored", "leaves", "leaves_pace", "raises_in_a_thread", "finds")


def found(rows):
    assert len(rows) == 2 * 3
    assert {row["verdict"] for row in rows} == {"passed"}
    return [json.loads(row["config"]) for row in rows]


def test_nobody_finds_what_another_provider_has_left(beside, alone):
    assert [one for one in found(beside["finds"]) if one != alone] == []
    assert {row["reason"] for row in beside["finds"]} == {""}


def test_the_table_says_who_left_what(beside):
    for provider, changes, Ms in (("restored", HARMLESS, "2"), ("leaves", CHANGES, "23")):
        assert len(beside[provider]) == 2 * 3
        assert {row["verdict"] for row in beside[provider]} == {"passed"}
        for row in beside[provider]:
            named = {name for name in changes if f"left {name} " in row["reason"]}
            assert named == (set(changes) if row["M"] in Ms else set()), row["reason"]
    (failed,) = [row for row in beside["leaves_pace"] if row["verdict"] != "passed"]
    assert (failed["M"], failed["verdict"]) == ("2", "runtime_error")
    assert {name for name in PACED if f"left {name}" in failed["reason"]} == set(PACED)


def test_each_provider_that_leaves_something_costs_one_worker_and_is_measured_after_the_others(beside, place):
    told = [text for _, text in events(place, out="beside") if text.startswith("restart the worker: ")]
    assert {text.partition("worker: ")[2].partition(" left ")[0] for text in told} == {"leaves", "leaves_pace"}
    assert len(told) == 2
    assert all(text.endswith(": it is measured after the others") for text in told)
    others = {int(row["process"]) for name in ("restored", "raises_in_a_thread", "finds") for row in beside[name]}
    (process,) = {int(row["process"]) for row in beside["leaves"]}
    assert process >= max(others)


def test_what_a_thread_raises_is_the_verdict_of_the_cell_that_started_it(beside):
    (failed,) = [row for row in beside["raises_in_a_thread"] if row["verdict"] != "passed"]
    assert (failed["M"], failed["verdict"]) == ("2", "runtime_error")
    said = "measuring: a thread that it started raised ValueError: the second half is missing (leaving_providers.py:"
    assert failed["reason"].startswith(said)


def test_what_cannot_be_put_back_is_measured_after_the_others(place, alone):
    rows = run(place, "out", "finds", "leaves_for_good")
    assert len(rows["leaves_for_good"]) == 2 * 3
    assert {row["verdict"] for row in rows["leaves_for_good"]} == {"passed"}
    why = "measured after the others, as it left torch.get_num_interop_threads at 3 instead of 2"
    assert all(row["reason"].startswith(why) for row in rows["leaves_for_good"])
    assert [one for one in found(rows["finds"]) if one != alone] == []
    assert [row["process"] for row in rows["leaves_for_good"]] == 6 * ["1"]
    assert len([text for _, text in events(place) if text.startswith("restart the worker: leaves_for_good left")]) == 1


FLUSHES = """
#include <xmmintrin.h>
__attribute__((constructor)) static void flush(void) { _mm_setcsr(_mm_getcsr() | 0x8040); }
"""
"""What the linker adds to a library that is made with -ffast-math, by GCC 12 at least."""


@pytest.mark.skipif(platform.machine() != "x86_64" or not shutil.which("cc"), reason="needs a C compiler for x86-64")
def test_a_library_that_flushes_denormals_once_it_is_loaded_has_its_times(place):
    (place / "flush.c").write_text(FLUSHES)
    subprocess.run(["cc", "-shared", "-fPIC", "flush.c", "-o", "flush.so"], cwd=place, check=True)
    arguments = run_args("flushes", "sees", file=HELPING, out="fast")
    fresh(place, *arguments, "-a", "M=1,2,3", "--rounds", "2", env=os.environ | {"FLUSHING": str(place / "flush.so")})
    rows = read(place, out=place / "fast")
    fast, sees = ([row for row in rows if row["provider"] == name] for name in ("flushes", "sees"))
    assert len(fast) == len(sees) == 2 * 3 * 2
    assert {row["verdict"] for row in rows} == {"passed"}
    assert all("after the others, as it left flush_denormal at True" in row["reason"] for row in fast)
    assert {json.loads(row["config"])["flushes"] for row in sees} == {False}
    assert {row["reason"] for row in sees} == {""}
    assert {row["process"] for row in fast} == {"1"}


@pytest.mark.exclusive
def test_a_provider_may_have_a_pool_of_processes(place):
    arguments = run_args("pools", "keeps", file=HELPING, out="pools")
    fresh(place, *arguments, "--rounds", "2", "--filter", "layer == 'q'")
    rows = read(place, out=place / "pools")
    assert len(rows) == 2 * 3 * 2
    assert {(row["verdict"], row["reason"]) for row in rows} == {("passed", "")}


def test_descriptors_and_streams_that_a_provider_closes_are_open_for_the_next(place):
    rows = run(place, "closed", "closes_descriptors", "closes_streams", "talks")
    assert {row["verdict"] for name in rows for row in rows[name]} == {"passed"}
    for name, left in (("closes_descriptors", "standard output"), ("closes_streams", "sys.__stdout__.closed")):
        assert {f"left {left} " in row["reason"] for row in rows[name]} == {True}
    assert {row["reason"] for row in rows["talks"]} == {""}
    log = (place / "closed" / "worker.log").read_text()
    for text in ("printed at M=3", "written to a stream that was kept", "written to the descriptor"):
        assert text in log


@pytest.mark.exclusive
def test_processes_that_left_the_session_end_with_their_provider_or_the_worker(place):
    names = ("detaches", "daemonizes", "holds_a_pool", "detaches_and_crashes")
    bystander = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    try:
        rows = run(place, "processes", *names, "counts")
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()
    started = {name: (place / f"{name}.pids").read_text().split() for name in names}
    assert [len(started[name]) for name in names] == [3, 3, 3, 1]
    assert not any(is_alive(pid) for pids in started.values() for pid in pids)
    for name in names[:2]:
        reasons = {row["M"]: row["reason"] for row in rows[name]}
        assert "left a process running: " in reasons["2"], reasons
        assert reasons["3"] == ""
    assert not any("process" in row["reason"] for row in rows["holds_a_pool"])
    assert {row["reason"] for row in rows["counts"]} == {""}
    found = [json.loads(row["config"]) for row in rows["counts"]]
    assert max(one.get("holds_a_pool", 0) for one in found) > 0
    assert {one.get(name, 0) for one in found for name in ("detaches", "daemonizes")} == {0}

"""Kernels that crash, hang, run out of memory or lie, and runs that are killed: what is lost, and what is not."""

import json
import os
import signal
import time

import pytest
from rooflens.harness.storage.worker_log import MOST_BYTES

from ..harness import hanging_providers
from ..harness.hanging_providers import HANGING
from ..pace import patient
from .tiny_runs import (
    check_whole,
    events,
    fresh,
    read,
    rooflens,
    run_args,
    start,
    unconverged,
    verdicts,
    wait_for_rows,
    write_suite,
)

FAULTS = [
    ("crash", "crashed", "measure: worker killed by SIGSEGV"),
    ("wrong", "incorrect", "SNR"),
    ("late_wrong", "incorrect", "SNR"),
    ("raises", "runtime_error", "measuring: RuntimeError: shared memory exhausted second line (faulty_providers.py:"),
    ("oom", "oom", "allocate"),
    ("babbles", "crashed", "measure: worker ended, as it sent what is no message: longer than 256 MiB"),
    ("overwrites", "incorrect", "changed the shared weights"),
]
"""Providers that fail at M = 2 only."""


@pytest.fixture(scope="module")
def faults(tmp_path_factory):
    """Return a folder and the finished command: one run of all FAULTS."""
    place = write_suite(tmp_path_factory.mktemp("faults"))
    return place, rooflens(place, *run_args("right", *(name for name, _, _ in FAULTS)), "--filter", "layer == 'q'")


def test_a_fault_is_the_verdict_of_its_cell_and_costs_no_other(faults):
    place, done = faults
    for provider, verdict, reason in FAULTS:
        (row,) = [row for row in read(place) if (row["provider"], row["M"]) == (provider, "2")]
        assert (row["verdict"], row["samples"]) == (verdict, "")
        assert reason in row["reason"]
        assert reason.split(":")[0] in done.stderr
    found = verdicts(place)
    assert len(found) == 3 * (1 + len(FAULTS))
    assert {cell for cell, words in found.items() if words != {"passed"}} == {(name, 2) for name, _, _ in FAULTS}
    check_whole(place, cells=3 * (1 + len(FAULTS)) - len(FAULTS))


NEVER = [
    ("unwritten", "incorrect", "never written"),
    ("prepare_fails", "runtime_error", "prepare: ValueError: no such tile"),
    ("refuses", "unsupported", "only on Tuesdays"),
    ("stale", "incorrect", "SNR"),
    ("scribbles", "incorrect", "wrote into the activations"),
    ("repacks", "runtime_error", "changed the shared weights"),
    ("repacks_and_fails", "runtime_error", "changed the shared weights"),
    ("reshapes", "runtime_error", "changed memory, shape or type of a shared tensor"),
    ("differentiates", "runtime_error", "changed memory, shape or type of a shared tensor"),
]
"""Providers that never work."""


def test_providers_that_never_work_cost_no_neighbour(place):
    arguments = run_args("right", *(name for name, _, _ in NEVER))
    done = rooflens(place, *arguments, "--filter", "layer == 'q' and M == 1", "--strict", code=5)
    for provider, verdict, reason in NEVER:
        rows = [row for row in read(place) if row["provider"] == provider]
        assert [row["verdict"] for row in rows] == [verdict]
        assert all(reason in row["reason"] for row in rows), provider
    check_whole(place, cells=1)  # of the right one
    assert done.stderr.splitlines()[-1].startswith("rooflens: error: failed: ")


TIMEOUT_S, BUILD_TIMEOUT_S = 2.0, 10.0

HANGS = {"hang": "measure", "hang_prepare": "prepare", "hang_supports": "prepare", "stopped": "measure"}
"""Providers that hang, each in its own way, and in which phase that is."""


@pytest.mark.slow
@pytest.mark.exclusive
def test_a_hang_ends_within_two_seconds_of_the_time_limit_and_costs_no_neighbour(place):
    limits = ("--set", f"timeout_s={TIMEOUT_S:g}s,build_timeout_s={BUILD_TIMEOUT_S:g}s")
    fresh(place, *run_args("right", *HANGS), *limits, "--filter", "layer == 'q' and M <= 2")
    restarts = [at for at, text in events(place) if text.startswith("restart the worker")]
    assert len(restarts) == len(HANGS)
    found = verdicts(place)
    assert found.pop(("right", 2)) == {"passed"}
    for provider, phase in HANGS.items():
        assert found.pop((provider, 2)) == {"timeout"}
        (row,) = [row for row in read(place) if (row["provider"], row["M"]) == (provider, "2")]
        limit_s, option = (BUILD_TIMEOUT_S, "build_timeout_s") if phase == "prepare" else (TIMEOUT_S, "timeout_s")
        assert row["reason"] == f"{phase}: no end within {limit_s:g} s; {option} sets the limit"
        hung_at = float((place / f"{provider}.stamp").read_text())
        assert limit_s - 0.5 < next(at for at in restarts if at >= hung_at) - hung_at < limit_s + 2
    assert all(words == {"passed"} for words in found.values())
    check_whole(place, cells=6)


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [(), ("--jobs", "local:1")])
def test_a_failure_is_measured_again_once_its_cause_is_gone(place, jobs):
    """A licence server that was down, a neighbour that had the memory: the code of the kernel is the same."""
    rooflens(place, *run_args("licensed"), "--filter", "layer == 'q' and M <= 2", *jobs)
    assert verdicts(place) == {("licensed", 1): {"passed"}, ("licensed", 2): {"runtime_error"}}
    (place / "licence").touch()
    again = ("--retry", "timeout", "--retry", "runtime_error", "--set", "timeout_s=60s")
    done = rooflens(place, "run", "-o", "out", "--resume", "--no-report", *again, *jobs)
    assert "measure again what failed: 1 unit; events.log has the reasons" in done.stderr
    check_whole(place, cells=2)
    (event,) = [text for _, text in events(place) if text.startswith("retry")]
    assert event.startswith("retry round 0 of tiny tiny q gemm fwd")
    assert "runtime_error: prepare: RuntimeError: no licence" in event
    assert json.loads((place / "out" / "run.json").read_text())["protocol"]["timeout_s"] == 60.0


def test_the_end_names_what_failed_the_traceback_and_strict(faults):
    place, done = faults
    assert "traceback     out/worker.log\n" in done.stdout
    last = done.stderr.splitlines()[-1]
    assert last.startswith("note: failed: ")
    assert {f"{name} {verdict}" for name, verdict, _ in FAULTS} == set(
        last.removeprefix("note: failed: ").partition(";")[0].split(", ")
    )
    assert last.endswith("the exit code is 0, and 5 with --strict")
    challengers = json.loads((place / "out" / "run.json").read_text())["challengers"]
    candidates = [name for name, _, _ in FAULTS]  # of the file; `right` has another role
    assert sorted(challengers) == sorted([*candidates, "dequant_blas"])
    log = (place / "out" / "worker.log").read_text()
    assert "shared memory exhausted" in log
    assert "Fatal Python error: Segmentation fault" in log


@pytest.mark.slow
def test_whatever_ends_the_worker_is_a_verdict_of_its_cell_and_a_flood_goes_to_the_log(place):
    ending = ("exits", "sys_exits", "interrupts", "unwinds")
    done = fresh(place, *run_args("right", *ending, "floods"), "--filter", "layer == 'q'")
    found = verdicts(place)
    for provider in ending:
        assert found[provider, 2] in ({"crashed"}, {"runtime_error"})
        assert found[provider, 1] == found[provider, 3] == {"passed"}
        (row,) = [row for row in read(place) if (row["provider"], row["M"]) == (provider, "2")]
        assert row["reason"].startswith("measur")
        assert provider != "exits" or "exit code 0" in row["reason"]
    assert found["right", 2] == found["floods", 2] == {"passed"}
    assert len(read(place)) == len({(row["cell_id"], row["round"]) for row in read(place)})
    assert "flood flood" not in done.stdout + done.stderr
    log = (place / "out" / "worker.log").read_bytes()
    assert log.count(b"flood") > 1000
    assert len(log) <= MOST_BYTES


@pytest.mark.exclusive
@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_interruption_keeps_what_is_finished_and_says_how_to_go_on(place, number):
    process = start(place, *run_args("right", "dequant_blas"), *unconverged("100ms"))
    wait_for_rows(place, 2, process)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "--resume" in errors.splitlines()[-1]
    assert "Traceback" not in errors
    kept = read(place)
    assert len(kept) >= 2
    rooflens(place, "run", "-o", "out", "--resume", "--no-report", "--no-calibrate")
    assert read(place)[: len(kept)] == kept
    check_whole(place, cells=12)


@pytest.mark.slow
@pytest.mark.exclusive
def test_a_sigterm_to_the_whole_group_blames_no_kernel(place):
    """A batch system's way of ending a job: the worker gets the signal as well."""
    process = start(place, *run_args("right", "dequant_blas"), *unconverged("300ms"), start_new_session=True)
    wait_for_rows(place, 2, process)
    os.killpg(process.pid, signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert {row["verdict"] for row in read(place)} == {"passed"}


@pytest.mark.slow
@pytest.mark.exclusive
def test_fast_cells_leave_no_pause_and_are_interrupted_all_the_same(place):
    process = start(place, *run_args("right", "dequant_blas"), *unconverged("30ms"), "-a", "M=1..400")
    wait_for_rows(place, 2, process)
    before = len(read(place))
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert len(read(place)) - before <= 10


@pytest.mark.slow
@pytest.mark.exclusive
def test_max_time_ends_cleanly_with_a_reading_of_the_canary_and_strict_says_incomplete(place):
    arguments = (*run_args("right", "dequant_blas"), *unconverged("1s"))
    done = rooflens(place, *arguments, "--max-time", f"{patient(12)}s", "--strict", code=4)
    assert "--resume" in done.stderr
    rows, (*starts, last) = read(place), read(place, "canary.csv")
    assert 0 < len(rows) < 24
    assert starts[-1]["at"] <= rows[0]["started_at"] < rows[-1]["started_at"] <= last["at"]  # in milliseconds


@pytest.mark.slow
@pytest.mark.exclusive
def test_a_function_that_hangs_at_its_first_call_costs_its_limit_once(place):
    """Not the limit of a build, and not once per problem."""
    arguments = run_args("computes", *HANGING, file=hanging_providers.__file__)
    began = time.monotonic()
    fresh(place, *arguments, "--set", "timeout_s=4s")
    spent_s = time.monotonic() - began
    rows = read(place)
    problems = 2 * 3
    assert [row["verdict"] for row in rows if row["provider"] == "computes"] == 2 * problems * ["passed"]
    for name in HANGING:
        first, *others = (row for row in rows if row["provider"] == name)
        assert (first["verdict"], first["reason"]) == (
            "timeout",
            "measure: no end within 4 s; timeout_s sets the limit",
        )
        assert len(others) == problems - 1
        assert {row["verdict"] for row in others} == {"timeout"}
        assert all(row["reason"].startswith("not tried: it hung at M=") for row in others)
    assert len([text for _, text in events(place) if text.startswith("restart the worker")]) == len(HANGING)
    assert spent_s < 90  # three limits, and four starts of a worker on a machine that others use
    again = fresh(place, *arguments, "--set", "timeout_s=4s", "--resume")
    assert "restarted" not in again.stderr


@pytest.mark.slow
@pytest.mark.exclusive
def test_a_hang_does_not_outlast_a_time_budget(place):
    began, name = time.monotonic(), HANGING[-1]
    done = fresh(place, *run_args(name, file=hanging_providers.__file__), "--within", "15s", code=(0, 4))
    assert time.monotonic() - began < 15 + 5 + 8  # every wait has 5 s; the last is the end of the command
    assert f"measure {name} " in done.stderr
    assert "when the time of --within was over" in done.stderr
    assert not [row for row in read(place) if row["provider"] == name]

"""Kernels that crash, hang, run out of memory or lie, and runs that are killed: what is lost, and what is not."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .tiny_runs import SLOW, check_whole, read, rooflens, run_args, verdicts


@pytest.mark.parametrize(
    ("provider", "verdict", "reason"),
    [
        ("crash", "crashed", "measure: worker killed by SIGSEGV"),
        ("wrong", "incorrect", "SNR"),
        ("late_wrong", "incorrect", "SNR"),
        ("raises", "runtime_error", "measuring: RuntimeError: shared memory exhausted"),
        ("oom", "oom", "allocate"),
    ],
)
def test_a_fault_costs_its_cell_and_no_other(place, provider, verdict, reason):
    done = rooflens(place, *run_args("right", provider))
    assert done.returncode == 0, done.stderr
    found = verdicts(place)
    assert found.pop((provider, 2)) == {verdict}
    assert len(found) == 5
    assert all(words == {"passed"} for words in found.values())
    (row, *_) = [row for row in read(place) if row["verdict"] != "passed"]
    assert reason in row["reason"]
    assert row["samples"] == ""
    check_whole(place, cells=2 * 5)
    assert reason.split(":")[0] in done.stderr


@pytest.mark.parametrize(
    ("provider", "verdict", "reason"),
    [
        ("unwritten", "incorrect", "never written"),
        ("prepare_fails", "runtime_error", "prepare: ValueError: no such tile"),
        ("refuses", "unsupported", "only on Tuesdays"),
        ("stale", "incorrect", "SNR"),
        ("scribbles", "incorrect", "SNR"),
        ("repacks", "runtime_error", "changed the shared weights"),
    ],
)
def test_a_provider_that_never_works(place, provider, verdict, reason):
    assert rooflens(place, *run_args("right", provider)).returncode == 0
    found = verdicts(place)
    assert all(found[provider, m] == {verdict} for m in (1, 2, 3))
    assert all(found["right", m] == {"passed"} for m in (1, 2, 3))
    assert all(reason in row["reason"] for row in read(place) if row["verdict"] == verdict)


def test_a_hang_ends_at_the_time_limit(place):
    begin = time.monotonic()
    done = rooflens(place, *run_args("right", "hang"), "--timeout", "3s", "--filter", "layer == 'q'")
    assert done.returncode == 0, done.stderr
    assert verdicts(place)["hang", 2] == {"timeout"}
    check_whole(place, cells=5)
    rows = {row["verdict"]: row for row in read(place)}
    assert "no end within 3 s" in rows["timeout"]["reason"]
    assert time.monotonic() - begin < 120


def test_strict_makes_a_wrong_output_an_exit_code(place):
    done = rooflens(place, *run_args("right", "wrong"), "--strict")
    assert done.returncode == 5, done.stderr
    assert done.stderr.splitlines()[-1].startswith("rooflens: error: ")


def wait_for_rows(place, count, process):
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        path = place / "out" / "cells.csv"
        if path.exists() and path.read_text().count("\n") > count:
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    raise AssertionError("the run did not get going")


def start(place, *extra, **options):
    command = [sys.executable, "-m", "rooflens.cli", *map(str, run_args("right", "dequant_blas")), *extra]
    return subprocess.Popen(command, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def children(pid):
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True).stdout
    return [int(child) for child in listed.split()]


def test_killed_parent_loses_at_most_the_unit_in_flight_and_leaves_no_orphan(place):
    rng = random.Random(5)
    finished = {}
    for kills in range(3):
        process = start(place, *SLOW, "100ms", *(["--resume"] if kills else []))
        wait_for_rows(place, len(finished) + rng.randrange(1, 5), process)
        offspring = children(process.pid)
        process.kill()
        process.communicate()
        time.sleep(0.5)
        assert not [
            pid
            for pid in offspring
            if Path(f"/proc/{pid}/cmdline").exists() and b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]
        rows = {(row["cell_id"], row["round"]): row for row in read(place) if row["started_at"]}
        assert all(rows[unit] == row for unit, row in finished.items())
        finished = rows
    done = rooflens(place, *run_args("right", "dequant_blas"), *SLOW, "100ms", "--resume")
    assert done.returncode == 0, done.stderr
    rows = {(row["cell_id"], row["round"]): row for row in read(place)}
    assert all(rows[unit] == row for unit, row in finished.items())
    check_whole(place, cells=12)


def test_killed_worker_costs_the_unit_in_flight(place):
    process = start(place, *SLOW, "300ms")
    wait_for_rows(place, 2, process)
    for pid in children(process.pid):
        if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)
    _, errors = process.communicate(timeout=200)
    assert process.returncode == 0, errors
    assert "SIGKILL" in errors
    rows = read(place)
    assert sum(row["verdict"] == "crashed" for row in rows) <= 1
    assert {row["verdict"] for row in rows} <= {"passed", "crashed"}
    assert len({(row["provider"], row["layer"], row["M"]) for row in rows}) == 12


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interruption_keeps_what_is_finished_and_says_how_to_go_on(place, number):
    process = start(place, *SLOW, "300ms")
    wait_for_rows(place, 2, process)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "--resume" in errors.splitlines()[-1]
    assert "Traceback" not in errors
    kept = read(place)
    assert len(kept) >= 2
    resumed = rooflens(place, "run", "-o", "out", "--resume", "--no-report")
    assert resumed.returncode == 0, resumed.stderr
    assert read(place)[: len(kept)] == kept
    check_whole(place, cells=12)


def test_a_sigterm_to_the_whole_group_blames_no_kernel(place):
    """A batch system's way of ending a job: the worker gets the signal as well."""
    process = start(place, *SLOW, "300ms", start_new_session=True)
    wait_for_rows(place, 2, process)
    os.killpg(process.pid, signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert {row["verdict"] for row in read(place)} == {"passed"}


def test_fast_cells_leave_no_pause_and_are_interrupted_all_the_same(place):
    process = start(place, *SLOW, "30ms", "-a", "M=1..400")
    wait_for_rows(place, 2, process)
    before = len(read(place))
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert len(read(place)) - before <= 10


def test_max_time_ends_cleanly_and_strict_says_incomplete(place):
    done = rooflens(place, *run_args("right", "dequant_blas"), *SLOW, "3s", "--max-time", "25s", "--strict")
    assert done.returncode == 4, done.stderr
    assert "--resume" in done.stderr
    assert 0 < len(read(place)) < 24

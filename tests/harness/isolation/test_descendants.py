"""Processes of a worker end, however many others come and go, and whatever goes wrong in the search for them."""

import os
import subprocess
import sys
import time

import pytest
from rooflens.harness.isolation import descendants
from rooflens.harness.isolation.descendants import END_S, MARK, end, end_with_all, mark, worked_s

BREEDS = """
import os, subprocess, sys, time
os.setpgid(0, 0)
subprocess.Popen(["sleep", "1000"], start_new_session=True)
print("ready", flush=True)
while True:
    subprocess.run(["true"])
"""


@pytest.fixture
def worker():
    """A process that leads a group, has left a child in another session, and starts short-lived ones all the time."""
    process = subprocess.Popen([sys.executable, "-c", BREEDS], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    yield process
    process.kill()
    process.wait(10)
    process.stdout.close()


def is_alive(pid):
    return bool(descendants.birth(pid))


def test_a_worker_ends_with_its_processes_while_others_vanish(worker):
    (sleeper, *_) = descendants.children(worker.pid)
    with subprocess.Popen(["sh", "-c", "while :; do true & /bin/true & wait; done"], start_new_session=True) as others:
        end_with_all(worker.pid, mark(worker.pid))
        assert others.poll() is None
        os.killpg(others.pid, 9)
    assert worker.wait(END_S) == -9
    assert not is_alive(sleeper)


@pytest.mark.parametrize("step", ["numbers", "birth", "descendants", "_marked"])
def test_a_worker_that_was_stopped_is_killed_whatever_fails_after_that(worker, monkeypatch, step):
    marked, stopped = mark(worker.pid), []

    def fails(*_):
        with open(f"/proc/{worker.pid}/stat") as file:
            if (state := file.read().rpartition(") ")[2][0]) == "T":
                stopped.append(state)
                raise ProcessLookupError(3, "No such process")
        return actual(*_)

    actual = getattr(descendants, step)
    monkeypatch.setattr(descendants, step, fails)
    with pytest.raises(ProcessLookupError):
        end_with_all(worker.pid, marked)
    assert stopped
    assert worker.wait(END_S) == -9


@pytest.mark.parametrize("vanished", ["task", "children"])
def test_what_vanishes_between_two_steps_of_a_walk_has_no_children(monkeypatch, vanished):
    """What a listing names may be gone when it is read."""
    with subprocess.Popen(["sleep", "1000"]) as process:
        pid = process.pid
        process.kill()
    if vanished == "children":
        monkeypatch.setattr(descendants, "numbers", lambda folder: [pid])
    assert descendants.children(pid) == []
    assert worked_s(pid, itself=True) == 0


def test_the_wait_for_a_killed_child_has_a_limit(monkeypatch):
    monkeypatch.setattr(descendants, "END_S", 0.2)
    monkeypatch.setattr(descendants, "_signal", lambda pid, number: None)  # as one that hangs in a driver
    with subprocess.Popen(["sleep", "1000"]) as process:
        began = time.monotonic()
        end(process.pid)
        assert 0.2 <= time.monotonic() - began < 5
        process.kill()


def test_processor_time_is_that_of_the_process_and_of_what_it_started():
    burns = "import time\nwhile time.process_time() < 0.3: pass\n"
    before, own = worked_s(os.getpid(), itself=False), worked_s(os.getpid(), itself=True)
    subprocess.run([sys.executable, "-c", burns], check=True)
    assert worked_s(os.getpid(), itself=False) - before >= 0.29
    assert worked_s(os.getpid(), itself=True) - own >= 0.29


def test_what_bears_the_mark_ends_after_its_worker(monkeypatch):
    marked = {**os.environ, MARK: "1-1"}
    with subprocess.Popen(["sleep", "1000"], env=marked, start_new_session=True) as orphan:
        end_with_all(1 << 22, "1-1")
        assert orphan.wait(END_S) == -9

"""The time limit of what a command imports itself: what it raises, what it ends, and what it leaves as it was."""

import signal
import subprocess

import pytest
from rooflens.cli.shared.import_limit import import_limit

from .tiny_runs import assert_gone, birth, fresh, run_args, write_suite


def test_what_is_in_time_is_left_alone():
    before = signal.getsignal(signal.SIGALRM)
    with import_limit(100.0):
        pass
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_what_is_late_ends_with_all_that_it_started_and_nothing_else(tmp_path):
    compiler = f"sleep 1000 & echo $$ $! > {tmp_path}/pids; wait"
    late = r"no end within 0\.5 s; --build-timeout sets the limit"
    with subprocess.Popen(["sleep", "1000"]) as bystander:
        with pytest.raises(TimeoutError, match=late), import_limit(0.5):
            subprocess.run(["sh", "-c", compiler], check=True)
        started = (tmp_path / "pids").read_text().split()
        assert len(started) == 2
        assert_gone({int(pid): birth(pid) for pid in started if birth(pid)})
        assert bystander.poll() is None
        bystander.kill()


def test_a_file_whose_import_hangs_is_told_with_its_line_and_the_lock(tmp_path, monkeypatch):
    write_suite(tmp_path)
    lock = tmp_path / "extensions" / "mine" / "lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "extensions"))
    mine = tmp_path / "mine.py"
    mine.write_text("import time\n\ntime.sleep(1000)\n")
    done = fresh(tmp_path, *run_args("mine", file=mine), "--build-timeout", "500ms")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert f"--providers {mine}:3: TimeoutError: no end within 0.5 s; --build-timeout sets the limit; " in line
    assert f"no process here holds {lock}, " in line

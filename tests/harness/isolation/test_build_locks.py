"""Which locks of extension builds are told: those that nobody holds open, wherever torch looks for them."""

import subprocess
import sys
from pathlib import Path

import pytest
from rooflens.harness.isolation.build_locks import left_locks
from rooflens.harness.sweep.fault_attribution import limit_of, timed_out
from rooflens.harness.worker.messages import Begin, Interpreter
from rooflens.shapes.protocol import Protocol
from rooflens.shapes.verdict import Verdict
from torch.utils.cpp_extension import _get_build_directory
from torch.utils.file_baton import FileBaton


@pytest.fixture(params=["TORCH_EXTENSIONS_DIR", "XDG_CACHE_HOME", "HOME"])
def lock(request, tmp_path, monkeypatch):
    """Return the path of torch's lock for an extension, by torch itself."""
    for name in ("TORCH_EXTENSIONS_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(request.param, str(tmp_path))
    return f"{_get_build_directory('mine', verbose=False)}/lock"


def test_only_a_lock_that_nobody_holds_is_told(lock):
    assert left_locks() == []
    baton = FileBaton(lock)
    assert baton.try_acquire()
    assert left_locks() == []
    baton.release()
    assert left_locks() == []
    open(lock, "w").close()
    (told,) = left_locks()
    assert told.startswith(f"no process here holds {lock}, ")


def test_the_lock_of_another_process_is_told_once_that_was_killed(lock):
    code = "import os, sys, time\nos.open(sys.argv[1], os.O_CREAT | os.O_EXCL)\nprint(flush=True)\ntime.sleep(1000)"
    with subprocess.Popen([sys.executable, "-c", code, lock], stdout=subprocess.PIPE, text=True) as other:
        other.stdout.readline()
        assert left_locks() == []
        other.kill()
        other.wait()
        (told,) = left_locks()
    assert f" {lock}, " in told


def test_a_user_without_a_home_has_no_lock_there(monkeypatch):
    """As in a container that is told a number for its user: a time limit or Ctrl-C must not fail over this."""
    for name in ("TORCH_EXTENSIONS_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.getuid", lambda: 54321)
    assert left_locks() == []


@pytest.mark.parametrize(
    ("doing", "limit", "option"),
    [
        (Begin("prepare", ((0, 0),)), 7.0, "build_timeout_s"),
        (Begin("import the providers", ()), 7.0, "build_timeout_s"),
        (Begin("prepare", ((0, 0),), 1), 7.0, "build_timeout_s"),
        (Begin("try", ((0, 0),), 1), 3.0, "timeout_s"),
        (Begin("measure", ((0, 0),)), 3.0, "timeout_s"),
        (Begin("start the task", ()), 3.0, "timeout_s"),
    ],
)
def test_a_timeout_says_which_limit_it_was(doing, limit, option, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    protocol = Protocol(timeout_s=3.0, build_timeout_s=7.0)
    assert limit_of(protocol, doing, "it").within_s(0.0) == limit
    assert timed_out(protocol, doing) == (Verdict.TIMEOUT, f"no end within {limit:g} s; {option} sets the limit")


def test_a_version_builds_where_its_variables_say(tmp_path):
    (tmp_path / "mine").mkdir()
    (lock := tmp_path / "mine" / "lock").touch()
    version = Interpreter(Path(sys.executable), {"TORCH_EXTENSIONS_DIR": str(tmp_path)}, tmp_path, tmp_path / "log")
    _, reason = timed_out(Protocol(), Begin("measure", ((0, 0),)), version)
    assert f"; no process here holds {lock}, " in reason

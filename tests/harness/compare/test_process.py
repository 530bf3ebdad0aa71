"""Processes of an arm, played by one-line Python programs: how they end, and what of it a user is told."""

import os
import sys
import time

import pytest
from rooflens.harness.compare.process import run_command
from rooflens.shapes.errors import Interrupted, RooflensError, UsageError


@pytest.fixture
def play(tmp_path):
    """Run a program as "base, round 3"."""

    def run(program, should_stop=lambda: False, look=lambda: None):
        command = [sys.executable, "-c", program]
        variables = {"PATH": os.environ["PATH"], "PLANTED": "yes"}
        return run_command("base, round 3", command, tmp_path, variables, tmp_path / "log", should_stop, look)

    return run


def test_a_process_that_ends_well_has_run_in_its_folder_with_its_variables(play, tmp_path):
    assert play("import os; print(os.getcwd(), os.environ['PLANTED'], os.environ.get('HOME'))")
    assert (tmp_path / "log").read_text() == f"base, round 3\n{tmp_path} yes None\n"
    assert play("raise SystemExit(4)") is False, "stopped at its deadline: to be gone on with"


@pytest.mark.parametrize(
    ("program", "kind", "words"),
    [
        ("print('rooflens: error: no such'); print('and more'); raise SystemExit(2)", UsageError, "no such"),
        ("print('first'); print('last'); raise SystemExit(1)", RooflensError, "last"),
        ("raise SystemExit(7)", RooflensError, "exit code 7"),
        ("import os; os.kill(os.getpid(), 9)", RooflensError, "exit code -9"),
    ],
)
def test_a_failure_is_told_in_one_line(play, tmp_path, program, kind, words):
    with pytest.raises(kind) as raised:
        play(program)
    assert type(raised.value) is kind
    assert str(raised.value) == f"base, round 3: {words}; see {tmp_path / 'log'}"


def test_only_what_this_process_said_explains_its_failure(play, tmp_path):
    with pytest.raises(RooflensError, match="the first"):
        play("print('rooflens: error: the first'); raise SystemExit(1)")
    with pytest.raises(RooflensError, match="exit code 1"):
        play("raise SystemExit(1)")
    with pytest.raises(Interrupted, match=f"interrupted; finished rounds are in {tmp_path}"):
        play("raise SystemExit(130)")


def test_an_interrupt_ends_the_process_and_waits_for_what_it_stores(play, tmp_path):
    program = (
        "import signal, sys, time, pathlib\n"
        "def end(*_):\n    time.sleep(0.3); pathlib.Path('stored').write_text('all'); sys.exit(130)\n"
        "signal.signal(signal.SIGTERM, end); pathlib.Path('ready').touch(); time.sleep(60)"
    )
    began = time.monotonic()
    with pytest.raises(Interrupted, match="finished rounds are in"):
        play(program, should_stop=(tmp_path / "ready").exists)
    assert (tmp_path / "stored").read_text() == "all"
    assert time.monotonic() - began < 30


def test_whoever_looks_sees_it_run(play, tmp_path):
    seen = []
    play("import time; time.sleep(0.7)", look=lambda: seen.append((tmp_path / "log").exists()))
    assert len(seen) >= 2
    assert all(seen)


def test_a_failing_look_ends_the_process(play, tmp_path):
    def look():
        if (tmp_path / "ready").exists():
            raise OSError("disk gone")

    with pytest.raises(OSError, match="disk gone"):
        play(
            "import pathlib, os, time; pathlib.Path('pid').write_text(str(os.getpid())); os.rename('pid', 'ready'); "
            "time.sleep(60)",
            look=look,
        )
    process = int((tmp_path / "ready").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)

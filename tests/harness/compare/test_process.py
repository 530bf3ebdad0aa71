"""Commands of --setup, played by one-line Python programs: what is logged, and how they end."""

import os
import sys
import time

import pytest
from rooflens.harness.compare.process import run_logged
from rooflens.shapes.errors import Interrupted


@pytest.fixture
def play(tmp_path):
    """Run a program as "setup"."""

    def run(program, should_stop=lambda: False):
        variables = {"PATH": os.environ["PATH"], "PLANTED": "yes"}
        return run_logged("setup", [sys.executable, "-c", program], tmp_path, variables, tmp_path / "log", should_stop)

    return run


def test_a_command_runs_in_its_folder_with_its_variables_and_is_logged(play, tmp_path):
    said = f"{tmp_path} yes None"
    assert play("import os; print(os.getcwd(), os.environ['PLANTED'], os.environ.get('HOME'))") == (0, [said])
    assert play("print('no'); raise SystemExit(7)") == (7, ["no"]), "without what others have logged"
    assert (tmp_path / "log").read_text() == f"setup\n{said}\nsetup\nno\n"
    assert play("import os; os.kill(os.getpid(), 9)") == (-9, [])


def test_an_interrupt_ends_the_process_and_waits_for_what_it_stores(play, tmp_path):
    program = (
        "import signal, sys, time, pathlib\n"
        "def end(*_):\n    time.sleep(0.3); pathlib.Path('stored').write_text('all'); sys.exit(130)\n"
        "signal.signal(signal.SIGTERM, end); pathlib.Path('ready').touch(); time.sleep(60)"
    )
    began = time.monotonic()
    with pytest.raises(Interrupted):
        play(program, should_stop=(tmp_path / "ready").exists)
    assert (tmp_path / "stored").read_text() == "all"
    assert time.monotonic() - began < 30

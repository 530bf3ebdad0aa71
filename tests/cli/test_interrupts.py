"""Ctrl-C at random moments of a start: it is never lost, and nothing stays."""

import os
import random
import signal
import time
from pathlib import Path

import pytest

from .tiny_runs import assert_gone, birth, children, run_args, start, wait_until

pytestmark = pytest.mark.exclusive

MOMENTS = 20


def ready(process):
    """Whether Python has come as far as `main`: before, a signal is its own affair."""
    handled = next(line for line in Path(f"/proc/{process.pid}/status").read_text().split("\n") if "SigCgt" in line)
    return int(handled.split()[1], 16) >> (signal.SIGTERM - 1) & 1


@pytest.mark.slow
def test_a_ctrl_c_while_a_worker_starts_is_not_lost(place):
    moments = random.Random(7)
    for number in range(MOMENTS):
        process = start(place, *run_args(file=None), "-o", f"out{number}", "--rounds", "1000", start_new_session=True)
        wait_until(lambda process=process: ready(process), process, "the command")
        time.sleep(moments.uniform(0, 3.5))
        offspring = children(process.pid)
        os.killpg(process.pid, signal.SIGINT)
        output, errors = process.communicate(timeout=60)
        # a shell calls both 130; Python ends itself by the signal that came within an exec(), of a dataclass say
        assert process.returncode in (130, -signal.SIGINT), (number, output, errors)
        assert errors.splitlines()[-1].startswith("rooflens: error: interrupted")
        assert "Traceback" not in errors
        assert_gone(offspring)


def test_a_ctrl_c_in_the_moment_in_which_a_process_is_started_is_handled_after_it(place, monkeypatch):
    """It came while the signal was ignored, and the run went on."""
    (place / "sitecustomize.py").write_text(
        "import os, signal, subprocess\n"
        "class Pressed(subprocess.Popen):\n"
        "    def __init__(self, command, *more, **options):\n"
        "        super().__init__(command, *more, **options)\n"
        "        if 'child_process' in str(command):\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "subprocess.Popen = Pressed\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(place))
    process = start(place, *run_args(file=None))
    _, errors = process.communicate(timeout=100)
    assert process.returncode == 130, errors
    assert not birth(process.pid)

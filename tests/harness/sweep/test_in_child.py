"""What files do in a process of their own: how it ended is told, within the limits, and the caller goes on."""

import os
import signal
import struct
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from rooflens.harness.sweep.in_child import Declared, declared, in_child
from rooflens.harness.sweep.supervisor import SupervisedWorker, WorkerSetupError
from rooflens.harness.worker.messages import IMPORT_PHASE, MEASURE_PHASE, ChildCall
from rooflens.shapes.errors import UsageError
from rooflens.shapes.protocol import Protocol

from ...cli.tiny_runs import birth

LIMITS = Protocol(budget_s=0.1, timeout_s=1.5, build_timeout_s=12.0)


def call(act, *arguments, **more):
    return in_child(partial(act, *arguments), [], LIMITS, lambda what: None, **more)


def takes(seconds, phase, begin):
    begin(phase)
    time.sleep(seconds)
    return "done"


def burns(seconds, where, begin):
    """Compile, as it were: in this process, or in one that it starts."""
    code = f"import time\nend = time.monotonic() + {seconds}\nwhile time.monotonic() < end: pass\n"
    begin(MEASURE_PHASE)
    if where == "child":
        subprocess.run([sys.executable, "-c", code], check=True)
    else:
        exec(code)
    return "done"


def refuses(begin):
    raise UsageError("not so")


def test_a_value_and_an_error_come_back():
    assert call(takes, 0, MEASURE_PHASE) == "done"
    with pytest.raises(UsageError, match="not so"):
        call(refuses)


def answers(begin):
    return {"mine": 1}


def ends(how, begin):
    begin(IMPORT_PHASE)
    how()


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (partial(os._exit, 0), "process ended with exit code 0"),
        (partial(os._exit, 7), "process ended with exit code 7"),
        (partial(signal.raise_signal, signal.SIGABRT), "process killed by SIGABRT"),
    ],
)
def test_the_end_of_the_process_is_told(how, words):
    with pytest.raises(WorkerSetupError) as caught:
        call(ends, how)
    assert (caught.value.phase, caught.value.why) == (IMPORT_PHASE, words)


def test_an_answer_of_another_type_is_no_answer():
    with pytest.raises(WorkerSetupError, match="what is no answer"):
        call(answers, returns=dict[str, Declared])


@pytest.mark.exclusive
@pytest.mark.parametrize(("act", "arguments"), [(takes, (1000, MEASURE_PHASE)), (burns, (1000, "itself"))])
def test_a_launch_that_does_not_end_has_a_limit_whether_it_sleeps_or_works(act, arguments):
    began = time.monotonic()
    with pytest.raises(WorkerSetupError, match=r"no end within 1\.5 s; timeout_s"):
        call(act, *arguments)
    assert time.monotonic() - began < 8


@pytest.mark.exclusive
def test_a_launch_whose_compilers_are_at_work_has_the_limit_of_a_build():
    assert call(burns, 4.0, "child") == "done"


@pytest.mark.exclusive
def test_a_time_budget_cuts_a_wait_that_has_a_longer_limit(monkeypatch):
    limits = Protocol(timeout_s=1000)
    began = time.monotonic()
    with pytest.raises(WorkerSetupError, match="when the time of --within was over"):
        in_child(partial(takes, 1000, f"{MEASURE_PHASE} it"), [], limits, lambda what: None, within_s=1.0)
    assert time.monotonic() - began < 15  # every wait has 5 s


@pytest.mark.exclusive
def test_a_long_wait_says_what_it_is_for(monkeypatch):
    monkeypatch.setattr("rooflens.harness.sweep.supervisor.SILENT_S", 1.0)
    told = []
    assert in_child(partial(takes, 3, f"{MEASURE_PHASE} it"), [], Protocol(), told.append) == "done"
    told = [text for text in told if text.startswith(f"waiting for {MEASURE_PHASE} it: ")]
    assert 1 <= len(told) <= 3
    assert told[0].endswith(": 1 s of at most 120 s")


PICKLE = b"cos\nmkdir\n(S'made'\ntR."
"""It makes a folder in the process that unpickles it."""


def writes(connection, setup, log):
    """Write to the pipe itself what `setup.act` has, and stop."""
    os.write(connection.fileno(), setup.act)
    os.kill(os.getpid(), signal.SIGSTOP)


@pytest.mark.exclusive
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (struct.pack("!i", 1000) + b"half", "worker killed by SIGKILL"),
        (struct.pack("!i", len(PICKLE)) + PICKLE, "what is no message: Expecting value"),
        (b"\x7f" + b"\xff" * 99, "what is no message: longer than"),
    ],
)
def test_a_worker_that_writes_anything_but_messages_is_ended_and_runs_nothing_here(
    tmp_path, monkeypatch, content, words
):
    monkeypatch.setattr("rooflens.harness.sweep.supervisor.SETUP_TIMEOUT_S", 2.0)
    monkeypatch.chdir(tmp_path)
    began = time.monotonic()
    with pytest.raises(WorkerSetupError, match=words):
        SupervisedWorker(ChildCall(content, LIMITS), tmp_path / "log", lambda: False, enter=writes)
    assert time.monotonic() - began < 12
    assert not Path("made").exists()


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("import os\n\nos._exit(0)\n", "", "import: process ended with exit code 0"),
        ("import ctypes\nx = 1\nctypes.string_at(0)\n", ":3", "import: process killed by SIGSEGV"),
        ("import sys\n\nsys.exit(0)\n", ":3", "SystemExit: 0"),
    ],
)
def test_an_import_that_ends_its_process_is_one_line_with_the_file(tmp_path, text, line, words):
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(UsageError) as caught:
        declared([tmp_path / "mine.py"], 60.0, lambda what: None)
    assert str(caught.value) == f"--providers {tmp_path / 'mine.py'}{line}: {words}"


@pytest.mark.exclusive
@pytest.mark.parametrize("hang", ["time.sleep(1000)", "while True: pass", "ctypes.PyDLL(None).pause()"])
def test_an_import_that_hangs_ends_with_all_that_it_started(tmp_path, hang, monkeypatch):
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "extensions"))
    (tmp_path / "extensions" / "own").mkdir(parents=True)
    (tmp_path / "extensions" / "own" / "lock").touch()
    (tmp_path / "mine.py").write_text(
        "import ctypes, subprocess, time\n"
        f"with open({str(tmp_path / 'pid')!r}, 'w') as file:\n"
        "    file.write(str(subprocess.Popen(['sleep', '1000'], start_new_session=True).pid))\n"
        f"{hang}\n"
    )
    with pytest.raises(UsageError) as caught:
        declared([tmp_path / "mine.py"], 4.0, lambda what: None)
    said = f"--providers {tmp_path / 'mine.py'}:4: import: no end within 4 s; build_timeout_s sets the limit; "
    assert str(caught.value).startswith(said)
    assert "own/lock" in str(caught.value)
    assert not birth((tmp_path / "pid").read_text())


def test_a_file_says_what_its_providers_are(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from rooflens.kernels.provider import Provider, Role\n"
        "class Mine(Provider):\n"
        "    name, family, role = 'mine', 'fourbit', Role.UPSTREAM\n"
        "    def prepare(self, inputs, config=None): ...\n"
        "PROVIDERS = [Mine()]\n"
    )
    assert declared([tmp_path / "mine.py"], 60.0, lambda what: None) == {"mine": Declared("upstream", "fourbit")}


def test_an_import_that_hung_is_not_tried_with_another_worker():
    from rooflens.harness.sweep.supervisor import started_again

    starts = []

    def start():
        starts.append(1)
        raise WorkerSetupError(None, "no end", "log", hung=True)

    with pytest.raises(WorkerSetupError):
        started_again(start)
    assert len(starts) == 1

"""Where a child process imports from, runs and prints: as this process, or as the interpreter of a version says."""

import os
import signal
import sys
from functools import partial
from pathlib import Path

import pytest
from rooflens.api import measuring
from rooflens.harness.compare.runner import Turn
from rooflens.harness.sweep import child_process
from rooflens.harness.sweep.deadline import Deadline
from rooflens.harness.sweep.in_child import in_child
from rooflens.harness.sweep.supervisor import SupervisedWorker
from rooflens.harness.worker.messages import IMPORT_PHASE, ChildCall, Interpreter
from rooflens.shapes.errors import Interrupted
from rooflens.shapes.protocol import Protocol
from rooflens.shapes.request import Request

from ...environments import ROOT
from .test_in_child import takes


def surroundings(begin):
    print("printed")
    return [os.getcwd(), "/planted" in map(str, sys.path), "error::FutureWarning" in sys.warnoptions]


@pytest.fixture
def version(tmp_path):
    return Interpreter(Path(sys.executable), os.environ | {"PYTHONPATH": str(ROOT)}, tmp_path, tmp_path / "log")


def test_a_child_has_the_surroundings_of_its_parent_or_those_of_a_version(version, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path, Path("/planted")])
    monkeypatch.setattr(sys, "warnoptions", ["error::FutureWarning"])
    assert in_child(surroundings, (), Protocol(), str)[1:] == [True, True]
    its_own = in_child(surroundings, (), Protocol(), str, interpreter=version)
    assert its_own == [str(version.folder), False, False]
    assert version.log.read_text() == "printed\n"


def test_a_stop_ends_what_a_child_does():
    with pytest.raises(Interrupted):
        in_child(partial(takes, 1000, IMPORT_PHASE), (), Protocol(), str, should_stop=lambda: True)


def test_who_presses_ctrl_c_as_a_child_begins_leaves_none(tmp_path, monkeypatch):
    started, start = [], child_process._started
    monkeypatch.setattr(child_process, "_started", lambda *given: started.append(start(*given)) or started[0])
    monkeypatch.setattr(child_process, "mark", lambda pid: signal.raise_signal(signal.SIGINT) or "")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # workers of pytest-xdist ignore it
    with pytest.raises(KeyboardInterrupt):
        SupervisedWorker(ChildCall(surroundings, Protocol()), tmp_path / "log", lambda: False)
    signal.signal(signal.SIGINT, before)
    assert started[0][0].returncode == -signal.SIGKILL


def test_a_version_knows_its_providers_and_its_repository(version, monkeypatch):
    """A provider that --setup has installed is known to the interpreter of the version alone."""
    found = []
    monkeypatch.setattr(measuring, "measured", lambda plan, store, content, *_: found.append((plan, content)) or True)
    monkeypatch.chdir(ROOT)
    request = Request(suite="llm4bit-quick", providers=("plugged",), to=version.folder / "out")
    assert measuring.TurnExecutor()(Turn(request, interpreter=version), print, Deadline())
    ((plan, content),) = found
    assert {cell.provider for cell in plan.cells} == {"plugged"}
    assert content.repository is None, "that of its folder, which is in none"

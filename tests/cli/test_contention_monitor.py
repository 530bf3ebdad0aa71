"""What a run warns of at its start: others on the cores, others on the device."""

import io
import subprocess
import sys
from types import SimpleNamespace

import pytest
from rooflens.cli.run import contention_monitor
from rooflens.cli.run.contention_monitor import ContentionMonitor, HostLoad
from rooflens.harness.sweep.events import Finished, Started
from rooflens.harness.telemetry.linux import HostFacts
from rooflens.harness.telemetry.source import Reading
from rooflens.shapes.device import Device
from rooflens.shapes.run_folder.manifest import Manifest
from rooflens.shapes.verdict import Verdict


class Host:
    """The cores, used by others to a share of `elsewhere`."""

    def __init__(self, elsewhere):
        self._elsewhere = elsewhere

    def read(self):
        return Reading(busy_elsewhere=self._elsewhere)


class Store:
    """Telemetry rows of a run."""

    def __init__(self, *others):
        self._others = others

    def rows(self, table):
        assert table.name == "telemetry"
        return [{"other_processes": text} for text in self._others]


class Shape:
    label = "s"


def told(monkeypatch, kind="cpu", elsewhere=0.0, load=0.1, others=(), verdicts=(Verdict.PASSED,), done=0):
    """Return the lines of a run of two units."""
    monkeypatch.setattr(
        contention_monitor.linux, "describe", lambda: HostFacts(4, 4, None, load, None, None, None, None)
    )
    cores = HostLoad(Host(elsewhere), sleep=lambda seconds: None)
    stream = io.StringIO()
    with ContentionMonitor(stream, Manifest(device=Device(kind=kind)), Store(*others), cores) as watch:
        watch(Started(2, done))
        for verdict in verdicts:
            cell = SimpleNamespace(provider="p", shape=Shape(), problem="x", scheme="y", cache="warm")
            watch(Finished(1, cell, verdict))
    return [line.removeprefix("warning: ") for line in stream.getvalue().splitlines() if line.startswith("warning: ")]


@pytest.mark.parametrize(
    ("seen", "begins"),
    [
        ({}, []),
        ({"elsewhere": 0.5}, ["others use 50 % of the cores"]),
        ({"load": 9.0}, []),  # of the past: nobody works now
        ({"elsewhere": None, "load": 3.0}, ["load 3.0 on 4 cores"]),
        ({"elsewhere": 0.5, "kind": "cuda"}, []),
        ({"load": 9.0, "kind": "cuda"}, ["load 9.0 on 4 cores over the last minute: launches wait"]),
        ({"kind": "cuda", "others": ("0", "1")}, ["another process is on the device: its work disturbs timings"]),
        ({"kind": "cuda", "others": ("3",)}, ["3 other processes are on the device"]),
        ({"kind": "cuda", "others": ("",)}, []),
        ({"kind": "cuda", "others": ("3",), "verdicts": [Verdict.OOM]}, []),
        ({"kind": "cuda", "others": ("3",), "verdicts": [Verdict.PASSED] * 2}, ["3 other processes"]),
        ({"elsewhere": 0.5, "done": 2, "verdicts": ()}, []),  # nothing is measured
    ],
)
def test_a_run_warns_of_what_the_doctor_would(monkeypatch, seen, begins):
    found = told(monkeypatch, **seen)
    assert len(found) == len(begins)
    assert all(line.startswith(words) for line, words in zip(found, begins, strict=True))


@pytest.mark.parametrize(("passed", "waits"), [(0.0, 0.26), (0.2, 0.06), (3.0, 0.0)])
def test_only_what_is_missing_of_the_window_is_waited_for(passed, waits):
    times, slept = iter([10.0, 10.0 + passed]), []
    HostLoad(Host(0.1), clock=lambda: next(times), sleep=slept.append).busy_elsewhere()
    assert slept == [pytest.approx(waits)]


def test_python_ends_only_after_what_is_imported_meanwhile():
    """Of a worker that cannot start: a thread that imports while the interpreter goes down can crash it."""
    code = (
        "import sys, time\nfrom rooflens.cli.run.contention_monitor import HostLoad, ContentionMonitor\n"
        "from rooflens.shapes.run_folder.manifest import Manifest\n"
        "def importing():\n    time.sleep(0.3)\n    print('imported')\n"
        "with ContentionMonitor(sys.stderr, Manifest(), None, HostLoad(), meanwhile=importing):\n    sys.exit(1)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (1, "imported\n")

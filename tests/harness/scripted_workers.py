"""Workers that answer a script in place of a process, and an observer that keeps what it is told."""

from copy import deepcopy
from dataclasses import replace

from rooflens.harness.plan.plan import plan
from rooflens.harness.storage.store import RunStore
from rooflens.harness.sweep.events import Doing, Finished, Grown, Remarked, Started
from rooflens.harness.sweep.supervisor import WorkerEndedError, WorkerTimeoutError
from rooflens.harness.timing.samples import Samples
from rooflens.harness.worker.messages import (
    Begin,
    Calibrate,
    Calibrated,
    CanaryTaken,
    Done,
    Ready,
    SearchResult,
    Stored,
    TakeCanary,
    UnitResult,
    Work,
)
from rooflens.harness.worker.search import Candidate, Search
from rooflens.shapes import suite
from rooflens.shapes.device import Device
from rooflens.shapes.protocol import Protocol
from rooflens.shapes.run_folder.manifest import Manifest, StoredProvider
from rooflens.shapes.verdict import Verdict

DEVICE = Device("cpu", 0, "test", "", "x86-64", 2, 32 << 20, 1 << 20, 1 << 34)
PROTOCOL = Protocol(rounds=2)
DIED = WorkerEndedError("worker killed by SIGSEGV")
HUNG = WorkerTimeoutError("no answer before the time limit")


class Silent:
    """Observer that keeps what it is told."""

    def __init__(self):
        self.remarks, self.done, self.totals = [], [], []
        self.total = self.before = self.units = 0

    def __call__(self, event):
        match event:
            case Started():
                self.total, self.before = event.total, event.finished
            case Doing():
                self.done.append(event.what)
            case Finished():
                self.units += event.units
            case Grown():
                self.totals.append(event.total)
            case Remarked():
                self.remarks.append(event.text)


def opened(folder):
    """The store of a run that is begun or resumed, and its run.json."""
    resumed = (folder / "run.json").exists()
    store = RunStore.reopen(folder) if resumed else RunStore.create(folder)
    return store, store.read_manifest() if resumed else Manifest()


def cells_of(providers, shapes=1, condition="M == 1", **changes):
    """Cells of the first shapes of a suite."""
    quick = suite.load("llm4bit-quick").override(providers=providers)
    return plan(replace(quick, shapes=quick.shapes[:shapes], **changes), condition)


def passed(index, number):
    columns = {"order": 0, "verdict": "passed", "samples": 1, "started_at": "now"}
    return UnitResult(index, number, columns, Samples((1e-3,)))


def tries(index, candidate):
    return Begin("try", ((index, 0),), candidate)


def tuned(index):
    """A search whose second candidate wins."""
    rows = tuple(
        Candidate({"n": n}, Verdict.PASSED, time_s=time_s, samples=10) for n, time_s in enumerate((2e-6, 1e-6))
    )
    return SearchResult(index, Search(rows, 1, 1.0).columns())


class Workers:
    """Each worker in turn answers its script; an exception in it is how that worker ends. After the last one, all
    work is done without a fault. `works` are the tasks that they were given; `hook(worker, work)` is called before.
    """

    def __init__(self, *scripts, sources=(), calibration=None, hook=lambda worker, work: None):
        self._scripts = list(scripts)
        self._calibration = calibration
        self._sources = list(sources)
        self.hook = hook
        self.begun = 0
        self.works = []

    def __call__(self, setup, *_):
        self.begun += 1
        script = self._scripts.pop(0) if self._scripts else None
        source = self._sources.pop(0) if self._sources else "source"
        worker = Worker(setup, script, source, self)
        worker.calibration, self._calibration = self._calibration, None
        return worker


class Worker:
    def __init__(self, setup, script, source, workers=None):
        providers = {name: StoredProvider(role="candidate", source=source, file="my.py") for name in setup.providers}
        self.ready = Ready(DEVICE, {}, providers, "host", "flush", "default", "unknown", 2)
        self.script, self._workers = script, workers or Workers()
        self.answers = []
        self.calibrations = 0

    def send(self, message):
        if isinstance(message, Stored):
            return
        if isinstance(message, Work):
            self._workers.works.append(deepcopy(message))  # as a pipe does
            self._workers.hook(self, message)
        if self.script is not None:
            self.answers = list(self.script)
        elif isinstance(message, Calibrate):
            self.calibrations += 1
            if self.calibration:
                self.answers = [self.calibration]
                return
            low = f"measured llc bandwidth of {self.calibrations}.5 GB/s is low: busy?"
            steps = Begin("ceiling 1 of 2: dram read bandwidth"), Begin("ceiling 2 of 2: launch floors")
            self.answers = [*steps, Calibrated([], {"low": low})]
        elif isinstance(message, TakeCanary):
            self.answers = [CanaryTaken([{"at": "now", "gemm_s": 2e-3, "copy_s": 1e-3}])]
        elif isinstance(message, Work):
            units = [(index, number) for index, rounds in enumerate(message.rounds) for number in rounds]
            if message.searches_only:
                pairs = [(tries(index, 0), tuned(index)) for index, _ in units]
            else:
                pairs = [(Begin("measure", (unit,)), passed(*unit)) for unit in units]
            self.answers = [*(answer for pair in pairs for answer in pair), Done()]

    def receive(self, limit):
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def kill(self):
        pass

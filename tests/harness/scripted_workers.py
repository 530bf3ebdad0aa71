"""Workers that answer a script in place of a process, and an observer that keeps what it is told."""

from rooflens.harness.sweep.supervisor import WorkerEndedError, WorkerTimeoutError
from rooflens.harness.timing.samples import Samples
from rooflens.harness.worker.messages import (
    Begin,
    Calibrate,
    Calibrated,
    CanaryTaken,
    Done,
    Ready,
    Step,
    Stored,
    TakeCanary,
    UnitResult,
    Work,
)
from rooflens.shapes.device import Device
from rooflens.shapes.protocol import Protocol
from rooflens.shapes.run_folder.manifest import StoredProvider

DEVICE = Device("cpu", 0, "test", "", "x86-64", 2, 32 << 20, 1 << 20, 1 << 34)
PROTOCOL = Protocol(rounds=2)
DIED = WorkerEndedError("worker killed by SIGSEGV")
HUNG = WorkerTimeoutError("no answer before the time limit")


class Silent:
    """Observer that keeps what it is told."""

    def __init__(self):
        self.remarks, self.done, self.totals = [], [], []
        self.total = self.before = self.units = 0

    def started(self, total_units, finished_units):
        self.total, self.before = total_units, finished_units

    def doing(self, what):
        self.done.append(what)

    def finished(self, cell, verdict, reason, units):
        self.units += units

    def grown(self, total_units):
        self.totals.append(total_units)

    def remark(self, text):
        self.remarks.append(text)


def passed(index, number):
    columns = {"order": 0, "verdict": "passed", "samples": 1, "started_at": "now"}
    return UnitResult(index, number, columns, Samples((1e-3,)))


class Workers:
    """Each worker in turn answers its script; an exception in it is how that worker ends. After the last one, all
    work is done without a fault.
    """

    def __init__(self, *scripts, sources=(), calibration=None):
        self._scripts = list(scripts)
        self._calibration = calibration
        self._sources = list(sources)
        self.begun = 0

    def __call__(self, setup, *_):
        self.begun += 1
        script = self._scripts.pop(0) if self._scripts else None
        source = self._sources.pop(0) if self._sources else "source"
        worker = Worker(setup, script, source)
        worker.calibration, self._calibration = self._calibration, None
        return worker


class Worker:
    def __init__(self, setup, script, source):
        providers = {name: StoredProvider(role="candidate", source=source, file="my.py") for name in setup.providers}
        self.ready = Ready(DEVICE, {}, providers, "host", "flush", "default", "unknown", 2)
        self._script, self.is_unscripted = script, script is None
        self.answers = []
        self.calibrations = 0

    def send(self, message):
        if isinstance(message, Stored):
            return
        if self._script is not None:
            self.answers = list(self._script)
        elif isinstance(message, Calibrate):
            self.calibrations += 1
            if self.calibration:
                self.answers = [self.calibration]
                return
            low = f"measured llc bandwidth of {self.calibrations}.5 GB/s is low: busy?"
            self.answers = [
                Step(1, 2, "dram read bandwidth"),
                Step(2, 2, "launch floors"),
                Calibrated([], {"low": low}),
            ]
        elif isinstance(message, TakeCanary):
            self.answers = [CanaryTaken([{"at": "now", "gemm_s": 2e-3, "copy_s": 1e-3}])]
        elif isinstance(message, Work):
            units = [(index, number) for index, rounds in enumerate(message.rounds) for number in rounds]
            self.answers = [answer for unit in units for answer in (Begin("measure", (unit,)), passed(*unit))]
            self.answers.append(Done())

    def receive(self, limit):
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def kill(self):
        pass

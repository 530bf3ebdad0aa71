"""The sweep against scripted workers: who is blamed for a fault, when it gives up, what a restart may change."""

import collections
import csv
import dataclasses
import json
import sys
import types
from typing import ClassVar

import pytest
from rooflens.harness import session as sessions
from rooflens.harness import sweep as sweeps
from rooflens.harness.blame import MOST_FRUITLESS
from rooflens.harness.messages import (
    REFERENCE_PHASE,
    Begin,
    Calibrate,
    CanaryTaken,
    Ceilings,
    Done,
    ProviderInfo,
    Ready,
    Result,
    Samples,
    Setup,
    Step,
    Stored,
    TakeCanary,
    Work,
)
from rooflens.harness.plan import plan, spread
from rooflens.harness.store import RunStore
from rooflens.harness.supervisor import WorkerEndedError, WorkerTimeoutError
from rooflens.harness.sweep import Sweep
from rooflens.harness.time_budget import MOST_ROUNDS, TimeBudget
from rooflens.shapes import suite
from rooflens.shapes.device import Device
from rooflens.shapes.errors import RooflensError, UsageError
from rooflens.shapes.protocol import Protocol

DEVICE = Device("cpu", 0, "test", "", "x86-64", 2, 32 << 20, 1 << 20, 1 << 34)
PROTOCOL = Protocol(rounds=2)
DIED = WorkerEndedError("worker killed by SIGSEGV")
HUNG = WorkerTimeoutError("no answer before the time limit")


class Silent:
    """Observer that keeps what it is told."""

    def __init__(self):
        self.remarks, self.done, self.totals = [], [], []

    def started(self, total_units, finished_units):
        self.total = total_units

    def doing(self, what):
        self.done.append(what)

    def finished(self, cell, verdict, reason, units):
        pass

    def grown(self, total_units):
        self.totals.append(total_units)

    def remark(self, text):
        self.remarks.append(text)


def passed(index, number):
    columns = {"order": 0, "verdict": "passed", "samples": 1, "started_at": "now"}
    return Result(index, number, columns, Samples((1e-3,)))


class Workers:
    """Each worker in turn answers its script; an exception in it is how that worker ends. After the last one, all
    work is done without a fault.
    """

    def __init__(self, *scripts, sources=(), calibration=None):
        self._scripts = list(scripts)
        self._calibration = calibration
        self._sources = list(sources)
        self.begun = 0

    def __call__(self, setup, log, should_stop):
        self.begun += 1
        script = self._scripts.pop(0) if self._scripts else None
        source = self._sources.pop(0) if self._sources else "source"
        worker = Worker(setup, script, source)
        worker.calibration, self._calibration = self._calibration, None
        return worker


class Worker:
    def __init__(self, setup, script, source):
        providers = {name: ProviderInfo("candidate", source, "my.py") for name in setup.providers}
        self.ready = Ready(DEVICE, {}, providers, "host", "flush", "default", "unknown", 2)
        self._script = script
        self._answers = []
        self.calibrations = 0

    def send(self, message):
        if isinstance(message, Stored):
            return
        if self._script is not None:
            self._answers = list(self._script)
        elif isinstance(message, Calibrate):
            self.calibrations += 1
            if self.calibration:
                self._answers = [self.calibration]
                return
            low = f"measured llc bandwidth of {self.calibrations}.5 GB/s is low: busy?"
            self._answers = [Step(1, 2, "dram read bandwidth"), Step(2, 2, "launch floors"), Ceilings([], [low])]
        elif isinstance(message, TakeCanary):
            self._answers = [CanaryTaken({"at": "now", "gemm_s": 2e-3, "copy_s": 1e-3})]
        elif isinstance(message, Work):
            units = [(index, number) for index, rounds in enumerate(message.rounds) for number in rounds]
            self._answers = [answer for unit in units for answer in (Begin("measure", (unit,)), passed(*unit))]
            self._answers.append(Done())

    def receive(self, deadline):
        answer = self._answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def kill(self):
        pass


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Return `run(workers)`: sweep one problem with two providers, and return the rows of cells.csv."""

    def call(workers, calibrate=False, more=None, deadline=None):
        monkeypatch.setattr(sessions, "SupervisedWorker", workers)
        quick = suite.load("llm4bit-quick").override(axes={"M": (1,)}, providers=("blas", "dequant_blas"))
        cells = plan(dataclasses.replace(quick, shapes=quick.shapes[:1]))
        setup = Setup("cpu", None, None, PROTOCOL, ("blas", "dequant_blas"), ())
        folder = tmp_path / "run"
        resumed = (folder / "run.json").exists()
        with RunStore.reopen(folder) if resumed else RunStore.create(folder) as store:
            observer = Silent()
            manifest = store.read_manifest() if resumed else {}
            further = more(cells, manifest) if more else None
            assert Sweep(store, cells, setup, observer, calibrate, deadline=deadline, more=further).run(manifest)
        with (folder / "cells.csv").open(newline="") as file:
            return list(csv.DictReader(file)), observer, json.loads((folder / "run.json").read_text())

    return call


def units(rows):
    return sorted((row["provider"], row["round"], row["verdict"]) for row in rows)


ALL_PASSED = [
    (provider, number, "passed") for provider in ("blas", "dequant_blas") for number in ("0", "1")
]  # fmt: skip


def test_a_fault_is_the_unit_in_flight(run):
    rows, _, _ = run(Workers([Begin("measure", ((1, 0),)), DIED]))
    assert units(rows) == [*ALL_PASSED[:2], ("dequant_blas", "0", "crashed")]
    assert rows[0]["reason"] == "measure: worker killed by SIGSEGV"


@pytest.mark.parametrize("end", [DIED, HUNG])
def test_a_fault_after_a_result_blames_nobody_and_stores_nothing_twice(run, end):
    rows, _, _ = run(Workers([Begin("measure", ((0, 0),)), passed(0, 0), end]))
    assert units(rows) == ALL_PASSED


@pytest.mark.parametrize("end", [DIED, HUNG])
def test_workers_that_never_begin_end_the_sweep(run, end):
    workers = Workers(*[[end]] * 99)
    with pytest.raises(RooflensError, match="before they began"):
        run(workers)
    assert workers.begun == MOST_FRUITLESS + 1


def test_code_that_changes_during_the_sweep_is_not_taken_for_the_old(run):
    with pytest.raises(UsageError, match="source of provider blas was old and is new now"):
        run(Workers([Begin("measure", ((0, 0),)), DIED], sources=["old", "new"]))


def test_a_calibration_that_kills_the_worker_costs_the_ceilings_only(run):
    rows, observer, _ = run(Workers(calibration=DIED), calibrate=True)
    assert units(rows) == ALL_PASSED
    assert any("no ceilings" in remark for remark in observer.remarks)


def test_ceilings_are_counted_and_what_both_calibrations_remark_is_told_once(run, tmp_path):
    _, observer, _ = run(Workers(), calibrate=True)
    steps = [what for what in observer.done if what.startswith("ceiling ")]
    assert steps == ["ceiling 1 of 2: dram read bandwidth", "ceiling 2 of 2: launch floors"] * 2
    assert observer.remarks == ["measured llc bandwidth of 1.5 GB/s is low: busy?"]
    events = (tmp_path / "run" / "events.log").read_text()
    assert "1.5 GB/s is low" in events
    assert "2.5 GB/s is low" in events


def test_every_worker_has_a_number_of_its_own_over_restarts_and_resumes(run):
    first = [Begin("measure", ((0, 0),)), passed(0, 0), DIED]
    second = [Begin("measure", ((0, 1),)), passed(0, 1), Begin("measure", ((1, 0),)), KeyboardInterrupt("pulled")]
    with pytest.raises(BaseException, match="pulled"):
        run(Workers(first, second))
    rows, _, manifest = run(Workers())
    assert [row["process"] for row in rows] == ["0", "1", "2", "2"]
    assert manifest["processes"] == 3


def at(cells, m):
    """The cells of the sweep at another M."""
    return tuple(dataclasses.replace(cell, problem=dataclasses.replace(cell.problem, M=m)) for cell in cells)


def asking(*batches, seen=None):
    """Ask for the cells at each M of one batch after another, then for none."""

    def begin(cells, content):
        left = list(batches)

        def more():
            if seen is not None:
                seen.append((content["planned_units"], len(content.get("asked", []))))
            if not left:
                return ()
            sizes = left.pop(0)
            content.setdefault("asked", []).extend(sizes)
            return tuple(cell for m in sizes for cell in at(cells, m))

        return more

    return begin


def test_further_cells_are_measured_batch_by_batch_and_counted(run):
    seen = []
    rows, observer, manifest = run(Workers(), more=asking([5, 7], [6], seen=seen))
    assert [row["M"] for row in rows] == [m for m in "1576" for _ in range(4)]  # two providers, two rounds
    assert seen == [(4, 0), (12, 2), (16, 3)]
    assert observer.totals == [12, 16]
    assert manifest["planned_units"] == 16


def test_what_asks_again_for_cells_of_the_plan_is_not_heard(run):
    rows, observer, manifest = run(Workers(), more=asking([1], [1, 5], [5]))
    assert [row["M"] for row in rows] == ["1"] * 4
    assert (observer.totals, manifest["planned_units"]) == ([], 4)


def test_further_cells_stand_in_run_json_before_they_are_measured(run, tmp_path):
    stored = [Begin("measure", ((0, 0),)), KeyboardInterrupt("pulled")]

    class Dying(Workers):
        """Its only worker does the sweep, and is lost with the parent at the first further M."""

        def __call__(self, setup, log, should_stop):
            worker = super().__call__(setup, log, should_stop)
            send = worker.send

            def sent(message):
                if isinstance(message, Work) and message.task.problem.M == 5:
                    worker._script = stored
                send(message)

            worker.send = sent
            return worker

    with pytest.raises(BaseException, match="pulled"):
        run(Dying(), more=asking([5]))
    manifest = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (manifest["planned_units"], manifest["asked"]) == (8, [5])


def test_a_deadline_before_anything_further_is_asked_for_leaves_it_to_the_next_call(run, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(sessions.time, "monotonic", lambda: clock[0])

    def late(cells, content):
        def more():
            raise AssertionError("asked after the deadline")

        return more

    class Slow(Workers):
        def __call__(self, setup, log, should_stop):
            worker = super().__call__(setup, log, should_stop)
            send = worker.send

            def sent(message):
                clock[0] += 10 * isinstance(message, Work)
                send(message)

            worker.send = sent
            return worker

    rows, _, _ = run(Slow(), more=late, deadline=11.5)
    assert units(rows) == ALL_PASSED


@pytest.fixture
def within(tmp_path, monkeypatch):
    """Return `within(seconds)`: sweep four problems with two providers for so long on a clock that only units move."""
    clock = types.SimpleNamespace(now=0.0)
    fake = types.SimpleNamespace(monotonic=lambda: clock.now)
    monkeypatch.setattr(sessions, "time", fake)
    monkeypatch.setattr(sweeps, "time", fake)

    class Ticking(Worker):
        """A unit takes 0.5 s or what it may sample, the preparation of a task 1 s."""

        budgets: ClassVar[list[float]] = []

        def send(self, message):
            if isinstance(message, Stored):
                return
            super().send(message)
            if isinstance(message, Work):
                self.budgets.append(message.budget_s)
                self._answers.insert(0, Begin(REFERENCE_PHASE, ()))

        def receive(self, deadline):
            answer = super().receive(deadline)
            if isinstance(answer, Begin) and answer.phase == REFERENCE_PHASE:
                clock.now += 1.0
            elif isinstance(answer, Result):
                clock.now += 0.5
            return answer

    def call(seconds, rounds=MOST_ROUNDS):
        monkeypatch.setattr(sessions, "SupervisedWorker", lambda setup, log, stop: Ticking(setup, None, "source"))
        quick = suite.load("llm4bit-quick").override(providers=("blas", "dequant_blas"))
        cells = spread(plan(dataclasses.replace(quick, shapes=quick.shapes[:2]), "M <= 4"))
        setup = Setup("cpu", None, None, PROTOCOL, ("blas", "dequant_blas"), ())
        manifest = {"protocol": {}, "rounds": PROTOCOL.rounds}
        folder = tmp_path / "run"
        with RunStore.reopen(folder) if folder.exists() else RunStore.create(folder) as store:
            manifest = store.read_manifest() | manifest if (folder / "run.json").exists() else manifest
            clock.now = 0.0
            sweep = Sweep(store, cells, setup, Silent(), False, deadline=seconds, budget=TimeBudget(seconds, rounds))
            complete = sweep.run(manifest)
            counts = collections.Counter(cell for cell, _ in store.verdicts)
        return complete, manifest, sorted(counts.values()), clock.now, Ticking.budgets

    return call


def test_a_time_budget_is_filled_with_rounds_of_every_cell(within):
    """4 problems x (1 s + 2 providers x 0.5 s x 2 rounds) = 12 s; then 4 s of preparation and 4 s for each round."""
    complete, manifest, counts, now, _ = within(40.0)
    assert complete
    assert 25.0 <= now <= 40.0
    assert min(counts) == manifest["rounds"] == manifest["protocol"]["rounds"] >= 5
    assert manifest["planned_units"] == 8 * manifest["rounds"]


def test_too_short_a_time_leaves_whole_problems_for_later(within):
    complete, manifest, counts, now, _ = within(8.0)
    assert not complete
    assert now <= 8.0
    assert manifest["rounds"] == 2
    assert counts == [2] * len(counts)
    assert 0 < len(counts) < 8


def test_a_finished_run_goes_on_with_further_rounds(within):
    assert within(1000.0, rounds=3)[1]["rounds"] == 3
    complete, manifest, counts, _, _ = within(30.0)
    assert complete
    assert manifest["rounds"] == min(counts) > 3
    assert manifest["planned_units"] == 8 * manifest["rounds"]


def test_a_first_problem_that_fails_does_not_stop_the_clock(within, monkeypatch):
    failing = Result(0, 0, {"order": 0, "verdict": "runtime_error", "reason": "boom", "started_at": "now"}, Samples())
    monkeypatch.setattr(
        sys.modules[__name__], "passed", lambda index, number: dataclasses.replace(failing, index=index, round=number)
    )
    complete, _, counts, now, _ = within(4.0)
    assert not complete
    assert now <= 4.0
    assert len(counts) < 8


def test_one_problem_is_measured_in_however_short_a_time(within):
    complete, _, counts, now, _ = within(0.1)
    assert not complete
    assert counts == [2, 2]
    assert now == 3.0


def test_the_rounds_that_a_user_allows_end_a_sweep_early(within):
    complete, manifest, counts, now, _ = within(1000.0, rounds=3)
    assert complete
    assert (manifest["rounds"], counts) == (3, [3] * 8)
    assert now < 30.0


def test_units_sample_for_a_shorter_time_when_there_is_little_of_it(within):
    _, _, _, _, budgets = within(40.0)
    assert budgets[0] == PROTOCOL.budget_s
    assert all(0 < budget <= PROTOCOL.budget_s for budget in budgets)

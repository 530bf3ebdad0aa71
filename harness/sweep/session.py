"""One device at work: send tasks to its worker, commit the results, replace a worker after a fault."""

import json
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, cast

from ...shapes.errors import RooflensError
from ...shapes.run_folder.columns import CANARY, TUNING
from ...shapes.run_folder.manifest import WORKER_LOG, Manifest
from ...shapes.verdict import Verdict
from ..plan.plan import Cell, Task, static_columns
from ..storage.manifest import describe
from ..storage.store import RunStore
from ..telemetry.clock import CLOCK
from ..worker.messages import (
    CANARY_PHASE,
    REFERENCE_PHASE,
    Begin,
    Calibrate,
    Calibrated,
    CanaryTaken,
    ChosenConfig,
    Done,
    Failure,
    Ready,
    Refused,
    SearchResult,
    Setup,
    Stored,
    TakeCanary,
    UnitResult,
    Work,
)
from .believed import wrong_answer, wrong_with
from .child_process import Child
from .cluster import Place
from .deadline import Deadline, OutOfTimeError
from .events import Doing, Finished, Observer, Remarked
from .fault_attribution import FaultAttribution, Limit, limit_of, locks_of, timed_out, what
from .supervisor import LateError, Start, SupervisedWorker, WorkerEndedError, WorkerTimeoutError, started_again
from .time_budget import TaskCost

CALIBRATION_TIMEOUT_S = 300.0

END_S = 2.0
"""Time before a deadline that is reserved for a clean end: the last reading of the canary."""


@dataclass(slots=True)
class Session:
    """A worker, and those that replace it after a fault, on one device. `turn_to` sets where units are stored.

    A unit is a round of a cell; while `searching`, the search of this number, which nothing else is measured with.

    No task begins within `end_s` of the deadline. `start_process` does so where the device is; in a run of several
    devices that is `place`. Every wait raises OutOfTimeError and Interrupted as `deadline` says; committed units stay.
    A provider that hung is not tried again.
    """

    setup: Setup
    observer: Observer
    deadline: Deadline = field(default_factory=Deadline)
    end_s: float = END_S
    place: Place | None = None
    start_process: Start = Child
    searching: int | None = None
    cost: TaskCost = field(default_factory=TaskCost, init=False)
    """Of the last task."""
    store: RunStore = field(init=False)
    manifest: Manifest = field(default_factory=Manifest, init=False)
    process: int = field(default=0, init=False)
    """Number of the current worker process, as in the column `process`."""
    _worker: SupervisedWorker | None = field(default=None, init=False)
    searches: set[tuple[str, int]] = field(default_factory=set, init=False)
    """Those that are stored."""
    _canary_faults: int = field(default=0, init=False)
    _is_idle: bool = field(default=False, init=False)
    _since: float | None = field(default=None, init=False)
    _remarked: set[str] = field(default_factory=set, init=False)
    _hung: dict[str, str] = field(default_factory=dict, init=False)
    """Why a provider is not tried again."""
    _last: dict[str, str] = field(default_factory=dict, init=False)
    """What a provider leaves changed: it is measured after the others, in a worker that measures nothing after it."""

    def turn_to(self, store: RunStore, manifest: Manifest) -> None:
        """Store in `store` from here on; `manifest` is its run.json, which this session completes."""
        self.store, self.manifest = store, manifest
        self.searches = store.searches()

    def start(self) -> Ready:
        """Start the first worker; return what it found. `turn_to` comes first."""
        self._worker = self._supervised()
        return self.ready

    @property
    def ready(self) -> Ready:
        """What the current worker reported at its start."""
        assert self._worker
        return cast(Ready, self._worker.ready)

    def end(self) -> None:
        """Kill the worker."""
        if self._worker:
            self._worker.kill()

    def cut_short(self) -> None:
        """Kill the worker in the middle of its work, and report what that has left behind."""
        self.end()
        self.remark(*locks_of(self.setup.interpreter))

    def describe(self, again: bool = False) -> None:
        """Complete run.json, or check that device, software and code are the same, and number the worker process.

        `again`: it replaces one that ended.
        """
        with self.store.alone:
            place = (self.place.host, self.place.index) if self.place else None
            describe(self.manifest, self.ready, place, again)
            self.process = self.manifest.processes
            self.manifest.processes += 1
            self.store.write_manifest(self.manifest)

    def missing(self, cells: Sequence[Cell]) -> list[tuple[int, ...]]:
        """Units to do per cell: none after a final failure, else those without a commit row."""
        if (number := self.searching) is not None:
            return [() if (cell.id, number) in self.searches else (number,) for cell in cells]
        return self.store.missing(cells, self.setup.protocol.rounds)

    def measure(self, task: Task, budget_s: float | None = None, alone: str = "") -> None:
        """Finish one task, with as many workers as it takes; `budget_s` None is that of the protocol.

        Providers that come after the others are left to `measure_last`, which measures nothing but `alone`.
        """
        self.stop_if_enough()
        self.cost, faults = TaskCost(), FaultAttribution()
        self._skip_hung(task)
        while any(missing := self._missing_now(task, alone)):
            work = self._work(task, missing, faults, budget_s)
            self._send(replace(work, alone=alone, left=self._last.get(alone, "")))
            faults.in_flight = Begin("start the task", ())
            self._since = time.monotonic()
            try:
                while not isinstance(message := self._receive(task, faults.in_flight), Done):
                    self._take(task, message, faults)
                before = missing, len(self._last), str(faults.failed_candidates)
                if message.failure:
                    faults.fail_candidate(message.failure)
                if message.restart:
                    self._last |= message.left
                missing = self._missing_now(task, alone)
                is_stuck = before == (missing, len(self._last), str(faults.failed_candidates))
                if is_stuck if message.restart else any(missing) and not self.deadline.is_over(self.end_s):
                    self._disbelieve("the task is not done")
                if message.restart:
                    moved = [f"{name} {left}: it is measured after the others" for name, left in message.left.items()]
                    self._restart("; ".join(moved) or "a fault left the process, the device or the operands unusable")
                elif any(self.missing(task.cells)):
                    self.stop_if_enough()
            except LateError as error:
                self.remark(f"{what(task, faults.in_flight)}: {error}")
                raise OutOfTimeError from None
            except WorkerTimeoutError:
                self._fault(task, faults, timed_out(self.setup.protocol, faults.in_flight, self.setup.interpreter))
                self._skip_hung(task)
            except WorkerEndedError as error:
                self._fault(task, faults, (Verdict.CRASHED, str(error)))

    def _work(
        self, task: Task, missing: Sequence[tuple[int, ...]], faults: FaultAttribution, budget_s: float | None
    ) -> Work:
        return Work(
            task,
            tuple(missing),
            chosen=self._chosen(task.cells),
            failed_candidates=faults.failed_candidates,
            canary=self._canary_faults == 0,
            budget_s=budget_s,
            searches_only=self.searching is not None,
        )

    def measure_last(self, tasks: Sequence[Task], budget_s: float | None = None) -> None:
        """Measure the providers that leave their process changed, in these tasks, which are finished else."""
        for name in self._last:
            if any(any(self._missing_now(task, name)) for task in tasks):
                for task in tasks:
                    self.measure(task, budget_s, name)
                self.replace_worker()

    def _missing_now(self, task: Task, alone: str) -> list[tuple[int, ...]]:
        missing = zip(task.cells, self.missing(task.cells), strict=True)
        return [
            rounds if (cell.provider == alone if alone else cell.provider not in self._last) else ()
            for cell, rounds in missing
        ]

    def _skip_hung(self, task: Task) -> None:
        """Give what is missing of providers that hung the verdict without another wait."""
        for index, (cell, rounds) in enumerate(zip(task.cells, self.missing(task.cells), strict=True)):
            if rounds and (why := self._hung.get(cell.provider)):
                columns = {"verdict": Verdict.TIMEOUT.value, "reason": f"not tried: {why}"}
                self._commit(task, UnitResult(index, rounds[0], columns))

    def stop_if_enough(self) -> None:
        """Raise OutOfTimeError while the worker is free to take the last reading of the canary."""
        if self.deadline.is_over(self.end_s):
            self._is_idle = True
            raise OutOfTimeError

    def calibrate(self, cells: Sequence[Cell], within_s: float | None = None) -> None:
        """Measure the ceilings of what `cells` need; the store keeps the better of this and an earlier calibration."""
        self.observer(Doing("measure the ceilings of this device"))
        schemes = dict.fromkeys(cell.scheme for cell in cells)
        types = dict.fromkeys((*(one.dtype.value for one in schemes), *(one.math_dtype for one in schemes)))
        if any(name.startswith("mxfp") for name in types):  # some kernels multiply payload and scale apart
            types["fp8"] = None
        answer = self._ask(Calibrate(tuple(types), within_s), "no ceilings")
        if isinstance(answer, Calibrated):
            self.store.add_ceilings(answer.rows)
            for key, remark in answer.remarks.items():
                # The closing calibration may repeat a remark with other figures: those are only in events.log.
                self.remark(remark, aloud=key not in self._remarked)
                self._remarked.add(key)

    def last_canary(self) -> None:
        """At the deadline, take the last reading if the worker is free to; the clock may run over by `END_S`."""
        self.deadline.at = math.inf
        if self._worker and self._is_idle and self._canary_faults == 0:
            self._send(TakeCanary())
            with suppress(WorkerEndedError, WorkerTimeoutError):
                self._keep(self._worker.receive(Limit(CANARY_PHASE, END_S)))

    def end_canary(self) -> None:
        """Take the last reading: the worker takes the others by itself."""
        if not self._canary_faults:
            self.observer(Doing(CANARY_PHASE))
            self._keep(self._ask(TakeCanary(), "no canary"))

    def remark(self, *remarks: str, aloud: bool = True) -> None:
        """Write to events.log and, if `aloud`, report to the observer."""
        for remark in remarks:
            self.store.event(f"{self.place}: {remark}" if self.place else remark)
            if aloud:
                self.observer(Remarked(remark))

    def _restart(self, why: str) -> None:
        self.remark(f"restart the worker: {why}", aloud=False)
        self.observer(Remarked(f"worker restarted: {why}"))
        self.replace_worker()

    def replace_worker(self) -> None:
        """Replace the worker by a new one."""
        self.end()
        self._worker = None
        self._worker = started_again(self._supervised)
        self.describe(again=True)  # a kernel file may have been edited

    def _supervised(self) -> SupervisedWorker:
        return SupervisedWorker(
            self.setup,
            self.store.folder / WORKER_LOG,
            self.deadline.check,
            lambda what: self.observer(Doing(what)),
            self.start_process,
        )

    def _ask(self, message: Any, without: str) -> Any:
        """Send a request that is not about a cell; None when the worker did not survive it."""
        assert self._worker
        self._send(message)
        deadline = time.monotonic() + CALIBRATION_TIMEOUT_S
        what = without.removeprefix("no ")
        try:
            while isinstance(answer := self._worker.receive(Limit(what, deadline - time.monotonic())), Begin):
                self.observer(Doing(answer.phase))
            if wrong := wrong_answer(answer, message):
                self._disbelieve(wrong)
            return answer
        except (WorkerEndedError, WorkerTimeoutError) as error:
            self._restart(f"{without}: {error}")
            return None

    def _keep(self, taken: Any) -> None:
        """Store readings of the canary, if that is what came."""
        if not isinstance(taken, CanaryTaken):
            return
        self.remark(*filter(None, [taken.remark]))
        self.store.append(CANARY, [row | {"process": self.process} for row in taken.rows])

    def _disbelieve(self, why: str) -> NoReturn:
        """End a worker that code of its providers speaks for."""
        self.end()
        raise WorkerEndedError(f"worker ended, as it sent what cannot be true: {why}")

    def _take(self, task: Task, message: Any, faults: FaultAttribution) -> None:
        """Act on one message of the worker."""
        if isinstance(message, Refused) and self.setup.origin:
            raise RooflensError(message.message)
        if wrong := wrong_with(message, task, faults.in_flight, self.setup.protocol):
            self._disbelieve(wrong)
        if isinstance(message, UnitResult | SearchResult):
            self._refuse_second(task, message, faults.in_flight)
        if isinstance(message, Begin):
            if message.phase == REFERENCE_PHASE and self._since is not None:
                self.cost.prepared_s += time.monotonic() - self._since
                self._since = None
            faults.begun(message)
            self.observer(Doing(what(task, message)))
        elif isinstance(message, UnitResult):
            self._commit(task, message, answer=Stored(self.deadline.is_over(self.end_s)))
            faults.futile = 0
        elif isinstance(message, SearchResult):
            self._store_search(task.cells[message.index], message.rows)
            self._send(Stored(self.deadline.is_over(self.end_s)))
        elif isinstance(message, CanaryTaken):
            self._keep(message)

    def _refuse_second(self, task: Task, message: UnitResult | SearchResult, doing: Begin) -> None:
        """Disbelieve a result that is not due; of two of the same unit, neither is kept."""
        cell = task.cells[message.index]
        number = message.round if isinstance(message, UnitResult) else self.searching
        if self.setup.protocol.tuning == "cold" if number is None else number in self.missing([cell])[0]:
            return
        if isinstance(message, UnitResult) and (message.index, message.round) in doing.units:
            unit = cell.id, message.round
            if self.store.verdicts.get(unit) == Verdict.PASSED:
                self.store.retry({unit})
        self._disbelieve(f"another result of round {number}")

    def _store_search(self, cell: Cell, rows: Sequence[Mapping[str, Any]]) -> None:
        """Store a search: a unit, or one of tuning=cold, whose winner is used in all rounds of the cell."""
        name, number = cell.id, self.searching
        if number is None:
            number = sum(searched == name for searched, _ in self.searches)
        device = self.ready.device
        static = {column: value for column, value in cell.fields.items() if column in TUNING.names}
        static |= {"cell_id": name, "search": number, "source": self.ready.providers[cell.provider].source}
        static |= {"arch": device.arch, "compute_units": device.compute_units}
        self.store.append(TUNING, [{**static, **row} for row in rows])
        self.searches.add((name, number))
        if self.searching is not None:
            best = next((row for row in rows if row["winner"]), rows[0])
            self.observer(Finished(1, cell, Verdict(best["verdict"]), best["reason"]))

    def _chosen(self, cells: Sequence[Cell]) -> dict[int, ChosenConfig]:
        """Return the stored winners, so that all rounds of a cell run the same configuration."""
        if self.setup.protocol.tuning != "cold" or self.searching is not None:
            return {}
        won = {row["cell_id"]: row for row in self.store.rows(TUNING) if row["winner"] == "true"}
        return {
            index: ChosenConfig(json.loads(row["config"]), "cold", int(row["candidates"]), float(row["search_s"]))
            for index, cell in enumerate(cells)
            if (row := won.get(cell.id))
        }

    def _fault(self, task: Task, faults: FaultAttribution, failure: Failure) -> None:
        """Give the units in flight their verdict and continue with a new worker.

        A unit whose result came in before the fault keeps it: nothing was in flight then.
        """
        doing = faults.in_flight.phase if faults.in_flight.candidate is None else what(task, faults.in_flight)
        reason = f"{doing}: {failure[1]}"
        if doing == CANARY_PHASE:
            self._canary_faults += 1
            self.remark(f"no canary from here on: {failure[1]}")
        lost: set[str] = set()
        units = faults.units(task, failure)
        for index, number in units:
            if number in self.missing([task.cells[index]])[0]:
                self._commit(task, UnitResult(index, number, {"verdict": failure[0].value, "reason": reason}))
                lost.add(task.cells[index].provider)
        faults.changed_nothing(failure, is_so=bool(units) and not lost)
        if failure[0] is Verdict.TIMEOUT and len(lost) == 1:
            why = f"it hung at {task.problem} ({reason}); --resume --retry timeout tries it again"
            self._hung |= dict.fromkeys(lost, why)
        self._restart(reason)

    def _commit(self, task: Task, result: UnitResult, answer: Stored | None = None) -> None:
        """Store a unit; `answer` is what the worker waits for, if it does.

        What fails for a whole cell that is searched is a search without candidates.
        """
        cell = task.cells[result.index]
        if self.searching is not None:
            from ..worker.search import nothing_to_search

            failed = Verdict(result.columns["verdict"]), result.columns["reason"]
            self._store_search(cell, nothing_to_search(*failed).columns())
            if answer:
                self._send(answer)
            return
        info = self.ready.providers[cell.provider]
        row = {
            "cell_id": cell.id,
            "round": result.round,
            "order": 0,
            "process": self.process,
            "role": info.role,
            "source": info.source,
            "seed": self.setup.protocol.seed,
            "started_at": CLOCK.now(),
            **static_columns(cell),
            **result.columns,
        }
        if row["role"] != info.role:
            self._is_reference(cell.provider)
        verdict = Verdict(row["verdict"])
        left = len(self.missing([cell])[0])
        self.store.commit(row, result.samples, (lambda: self._send(answer)) if answer else lambda: None)
        self.observer(Finished(left if verdict.is_final else 1, cell, verdict, row.get("reason", "")))
        if result.samples.counting:
            self.cost.sampled_s += row.get("elapsed_s", 0.0)
            self.cost.units += 1

    def _is_reference(self, provider: str) -> None:
        """Remark once that a provider counts as a reference although it does not declare itself one."""
        entry = self.manifest.providers[provider]
        if not entry.decoded:
            entry.decoded = True
            self.remark(
                f"{provider} asked for a decoded operand in prepare() or once, so that its launch does not pay for "
                "decoding: it counts as a reference, which wins nowhere; write role = Role.REFERENCE, or decode in the "
                "launch"
            )

    def _send(self, message: Any) -> None:
        assert self._worker
        self._worker.send(message)

    def _receive(self, task: Task, doing: Begin) -> Any:
        assert self._worker
        latest = None if self.deadline.is_strict else self.deadline.at  # a strict one ends every wait itself
        return self._worker.receive(limit_of(self.setup.protocol, doing, what(task, doing), latest))

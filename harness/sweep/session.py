"""One device at work: send tasks to its worker, commit the results, replace a worker after a fault."""

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...shapes import tuned
from ...shapes.errors import RooflensError
from ...shapes.median import median
from ...shapes.run_folder.columns import CANARY, TUNING
from ...shapes.run_folder.manifest import WORKER_LOG, Manifest
from ...shapes.verdict import Verdict
from ..isolation.build_locks import left_locks
from ..plan.plan import Cell, Task, cell_id, static_columns
from ..storage.manifest import describe
from ..storage.store import RunStore
from ..storage.tuning_table import recover, tuning_columns
from ..telemetry.clock import CLOCK
from ..worker.messages import (
    CANARY_PHASE,
    REFERENCE_PHASE,
    Begin,
    Calibrate,
    Calibrated,
    CanaryTaken,
    CandidateBegun,
    CandidateFailed,
    ChosenConfig,
    Done,
    Failure,
    Ready,
    Refused,
    SearchResult,
    Setup,
    Step,
    Stored,
    TakeCanary,
    UnitResult,
    Work,
)
from .fault_attribution import FaultAttribution, Limit, limit_of, timed_out, what
from .observer import SweepObserver
from .supervisor import LateError, SupervisedWorker, WorkerEndedError, WorkerTimeoutError, started_again

CALIBRATION_TIMEOUT_S = 300.0

END_S = 2.0
"""Time before a deadline that is reserved for a clean end: the last reading of the canary."""


class OutOfTimeError(Exception):
    """The time limit is over."""


@dataclass(slots=True)
class Session:
    """A worker, and those that replace it after a fault, on one device. `turn_to` sets where units are stored.

    `deadline` is a monotonic time, None without a limit; no task begins within `end_s` of it. `log` is where the worker
    prints, None for a file beside the stored tables. `timed` receives the median of every unit in seconds. Every wait
    raises OutOfTimeError at the deadline and Interrupted when `should_stop` says so; committed units stay. Without a
    deadline, no provider is waited for after `latest` (`limit_of`). One that hung is not tried again.
    """

    setup: Setup
    observer: SweepObserver
    should_stop: Callable[[], bool] = lambda: False
    deadline: float | None = None
    log: Path | None = None
    timed: Callable[[Cell, float], object] = lambda cell, time_s: None
    end_s: float = END_S
    latest: float | None = None
    prepared_s: float = field(default=0.0, init=False)
    sampled_s: float = field(default=0.0, init=False)
    """Seconds of all tasks so far before their first round, and of all units while sampling."""
    store: RunStore = field(init=False)
    manifest: Manifest = field(default_factory=Manifest, init=False)
    process: int = field(default=0, init=False)
    """Number of the current worker process, as in the column `process`."""
    ids: dict[Cell, str] = field(default_factory=dict, init=False)
    _worker: SupervisedWorker | None = field(default=None, init=False)
    _searches: Counter[str] = field(default_factory=Counter, init=False)
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
        self._searches = Counter(name for name, _ in recover(store))

    def start(self, process: int = 0) -> Ready:
        """Start the first worker, as process number `process`; return what it found. `turn_to` comes first."""
        self.process = process
        self._worker = self._supervised()
        return self.ready

    @property
    def ready(self) -> Ready:
        """What the current worker reported at its start."""
        assert self._worker
        ready: Ready = self._worker.ready
        return ready

    def end(self) -> None:
        """Kill the worker."""
        if self._worker:
            self._worker.kill()

    def cut_short(self) -> None:
        """Kill the worker in the middle of its work, and report what that has left behind."""
        self.end()
        self.remark(*left_locks())

    def identify(self, cells: Sequence[Cell]) -> None:
        """Give each cell its identity on this device."""
        ready = self.ready
        # "auto" is not another timer, or another way to a cold cache, than its choice.
        protocol = replace(self.setup.protocol, timer=ready.timer, cold_by=ready.cold_by)
        table = tuned.load(self.setup.tuned) if self.setup.tuned else None
        for cell in cells:
            key = cell.problem, cell.scheme, cell.provider, cell.cache
            pinned = table.lookup(ready.device, *key) if table else None
            self.ids[cell] = cell_id(cell, ready.providers[cell.provider].source, ready.device, protocol, pinned)

    def describe(self) -> None:
        """Complete run.json, or on resume check that device, software and code are the same."""
        describe(self.manifest, self.ready)
        self.manifest.processes = self.process + 1
        self.store.write_manifest(self.manifest)

    def missing(self, cells: Sequence[Cell]) -> list[tuple[int, ...]]:
        """Rounds to do per cell: none after a final failure, else those without a commit row."""
        rounds = range(self.setup.protocol.rounds)
        missing = []
        for cell in cells:
            stored = [self.store.verdicts.get((self.ids[cell], number)) for number in rounds]
            failed = any(verdict and Verdict(verdict).is_final for verdict in stored)
            missing.append(() if failed else tuple(number for number in rounds if stored[number] is None))
        return missing

    def measure(self, task: Task, budget_s: float | None = None, alone: str = "") -> None:
        """Finish one task, with as many workers as it takes; `budget_s` None is that of the protocol.

        Providers that come after the others are left to `measure_last`, which measures nothing but `alone`.
        """
        self.stop_if_enough()
        faults = FaultAttribution()
        self._skip_hung(task)
        while any(missing := self._missing_now(task, alone)):
            work = self._work(task, missing, faults, budget_s)
            self._send(replace(work, alone=alone, left=self._last.get(alone, "")))
            faults.in_flight = Begin("start the task", ())
            self._since = time.monotonic()
            try:
                while not isinstance(message := self._receive(task, faults.in_flight), Done):
                    self._take(task, message, faults)
                if message.restart:
                    self._last |= message.left
                    moved = [f"{name} {left}: it is measured after the others" for name, left in message.left.items()]
                    self._restart("; ".join(moved) or "a fault left the process, the device or the operands unusable")
                elif any(self.missing(task.cells)):
                    self.stop_if_enough()
            except LateError as error:
                self.remark(f"{what(task, faults.in_flight)}: {error}")
                raise OutOfTimeError from None
            except WorkerTimeoutError:
                self._fault(task, faults, timed_out(self.setup.protocol, faults.in_flight))
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
        if self._is_enough():
            self._is_idle = True
            raise OutOfTimeError

    def calibrate(self, cells: Sequence[Cell], within_s: float | None = None) -> None:
        """Measure the ceilings of what `cells` need; the store keeps the better of this and an earlier calibration."""
        self.observer.doing("measure the ceilings of this device")
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
        self.deadline = None
        if self._worker and self._is_idle and self._canary_faults == 0:
            self._send(TakeCanary())
            with suppress(WorkerEndedError, WorkerTimeoutError):
                answer = self._worker.receive(Limit(CANARY_PHASE, END_S))
                if isinstance(answer, CanaryTaken):
                    self._keep(answer)

    def end_canary(self) -> None:
        """Take the last reading: the worker takes the others by itself."""
        if self._canary_faults:
            return
        self.observer.doing(CANARY_PHASE)
        answer = self._ask(TakeCanary(), "no canary")
        if isinstance(answer, CanaryTaken):
            self._keep(answer)

    def remark(self, *remarks: str, aloud: bool = True) -> None:
        """Write to events.log and, if `aloud`, report to the observer."""
        for remark in remarks:
            self.store.event(remark)
            if aloud:
                self.observer.remark(remark)

    def _restart(self, why: str) -> None:
        self.end()
        self.store.event(f"restart the worker: {why}")
        self.observer.remark(f"worker restarted: {why}")
        self.replace_worker()

    def replace_worker(self) -> None:
        """Replace the worker by a new one."""
        self.end()
        self._worker = None
        self._worker = worker = started_again(self._supervised)
        describe(self.manifest, worker.ready)  # a kernel file may have been edited
        self.process += 1
        self.manifest.processes = self.process + 1
        self.store.write_manifest(self.manifest)

    def _supervised(self) -> SupervisedWorker:
        log = self.log or self.store.folder / WORKER_LOG
        return SupervisedWorker(self.setup, log, self._stop_requested, self.observer.doing)

    def _ask(self, message: Any, without: str) -> Any:
        """Send a request that is not about a cell; None when the worker did not survive it."""
        assert self._worker
        self._send(message)
        deadline = time.monotonic() + CALIBRATION_TIMEOUT_S
        what = without.removeprefix("no ")
        try:
            while isinstance(answer := self._worker.receive(Limit(what, deadline - time.monotonic())), Step):
                self.observer.doing(f"ceiling {answer.number} of {answer.total}: {answer.what}")
            return answer
        except (WorkerEndedError, WorkerTimeoutError) as error:
            self._restart(f"{without}: {error}")
            return None

    def _keep(self, taken: CanaryTaken) -> None:
        """Store readings of the canary."""
        self.remark(*filter(None, [taken.remark]))
        self.store.append(CANARY, [row | {"process": self.process} for row in taken.rows])

    def _take(self, task: Task, message: Any, faults: FaultAttribution) -> None:
        """Act on one message of the worker."""
        if isinstance(message, Begin | CandidateBegun):
            if isinstance(message, Begin) and message.phase == REFERENCE_PHASE and self._since is not None:
                self.prepared_s += time.monotonic() - self._since
                self._since = None
            faults.begun(message)
            self.observer.doing(what(task, message))
        elif isinstance(message, UnitResult):
            self._commit(task, message, answer=Stored(self._is_enough()))
        elif isinstance(message, SearchResult):
            self._store_search(task.cells[message.index], message)
            self._send(Stored(self._is_enough()))
        elif isinstance(message, CandidateFailed):
            faults.fail_candidate((message.verdict, message.reason))
        elif isinstance(message, CanaryTaken):
            self._keep(message)
        elif isinstance(message, Refused):
            raise RooflensError(message.message)

    def _is_enough(self) -> bool:
        """Tell whether the remaining time suffices only for a clean end."""
        return self.deadline is not None and time.monotonic() >= self.deadline - self.end_s

    def _store_search(self, cell: Cell, found: SearchResult) -> None:
        """Store a search of --tuning cold, whose winner is used in all rounds of the cell."""
        number = self._searches[self.ids[cell]]
        static = tuning_columns(cell, self.ready) | {"cell_id": self.ids[cell], "search": number}
        self.store.append(TUNING, [{**static, **row} for row in found.rows])
        self._searches[self.ids[cell]] += 1

    def _chosen(self, cells: Sequence[Cell]) -> dict[int, ChosenConfig]:
        """Return the stored winners, so that all rounds of a cell run the same configuration."""
        if self.setup.protocol.tuning != "cold":
            return {}
        won = {row["cell_id"]: row for row in self.store.rows(TUNING) if row["winner"] == "true"}
        return {
            index: ChosenConfig(json.loads(row["config"]), "cold", int(row["candidates"]), float(row["search_s"]))
            for index, cell in enumerate(cells)
            if (row := won.get(self.ids[cell]))
        }

    def _fault(self, task: Task, faults: FaultAttribution, failure: Failure) -> None:
        """Give the units in flight their verdict and continue with a new worker.

        A unit whose result came in before the fault keeps it: nothing was in flight then.
        """
        doing = faults.in_flight.phase if isinstance(faults.in_flight, Begin) else what(task, faults.in_flight)
        reason = f"{doing}: {failure[1]}"
        if doing == CANARY_PHASE:
            self._canary_faults += 1
            self.remark(f"no canary from here on: {failure[1]}")
        lost: set[str] = set()
        for index, number in faults.units(task, failure):
            if (self.ids[task.cells[index]], number) not in self.store.verdicts:
                self._commit(task, UnitResult(index, number, {"verdict": failure[0].value, "reason": reason}))
                lost.add(task.cells[index].provider)
        if failure[0] is Verdict.TIMEOUT and len(lost) == 1:
            why = f"it hung at {task.problem} ({reason}); --resume --retry timeout tries it again"
            self._hung |= dict.fromkeys(lost, why)
        self._restart(reason)

    def _commit(self, task: Task, result: UnitResult, answer: Stored | None = None) -> None:
        """Store a unit; `answer` is what the worker waits for, if it does."""
        cell = task.cells[result.index]
        info = self.ready.providers[cell.provider]
        row = {
            "cell_id": self.ids[cell],
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
        self.observer.finished(cell, verdict, row.get("reason", ""), left if verdict.is_final else 1)
        if counting := result.samples.counting:
            self.sampled_s += row.get("elapsed_s", 0.0)
            self.timed(cell, median(counting))

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

    def _receive(self, task: Task, doing: Begin | CandidateBegun) -> Any:
        assert self._worker
        return self._worker.receive(limit_of(self.setup.protocol, doing, what(task, doing), self.latest))

    def _stop_requested(self) -> bool:
        if self.deadline is not None and time.monotonic() >= self.deadline:
            raise OutOfTimeError
        return self.should_stop()

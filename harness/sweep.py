"""Run the planned cells: hand tasks to the worker, commit what comes back, restart it after a fault, resume."""

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from ..shapes import tuned
from ..shapes.columns import CANARY, TUNING
from ..shapes.errors import Interrupted, RooflensError, UsageError
from ..shapes.verdict import Verdict
from .blame import MOST_FRUITLESS, Blame, what
from .manifest import description, refuse_mixture
from .messages import (
    CANARY_PHASE,
    Begin,
    Calibrate,
    CanaryTaken,
    Ceilings,
    Chosen,
    Done,
    Failure,
    Ready,
    Refused,
    Result,
    Setup,
    Spoilt,
    Step,
    Stored,
    TakeCanary,
    Trying,
    Tuned,
    Work,
)
from .observer import Observer
from .plan import Cell, Task, cell_id, static_columns, tasks
from .store import RunStore
from .supervisor import SupervisedWorker, WorkerEndedError, WorkerSetupError, WorkerTimeoutError
from .tuning_table import recover, tuning_columns

WORKER_LOG = "worker.log"
"""What the worker and the libraries in it print."""

CALIBRATION_TIMEOUT_S = 300.0

_DIGITS = re.compile(r"[\d.]+")

END_S = 2.0
"""What --max-time keeps back for a clean end: the last reading of the canary."""


@dataclass(slots=True)
class Sweep:
    """One invocation of `rooflens run` on a run folder. `deadline` is a monotonic time, None without --max-time.

    `more` is asked, when everything is measured, for further cells that follow from what is stored; no more: the end.
    What it changes in the manifest is stored together with the plan, before the first of them is measured.
    """

    store: RunStore
    cells: tuple[Cell, ...]
    setup: Setup
    observer: Observer
    calibrate: bool = True
    should_stop: Callable[[], bool] = lambda: False
    deadline: float | None = None
    more: Callable[[], tuple[Cell, ...]] | None = None
    _worker: SupervisedWorker | None = None
    _ids: dict[Cell, str] = field(default_factory=dict)
    _searches: Counter[str] = field(default_factory=Counter)
    _canary_faults: int = 0
    _is_idle: bool = False
    _processes: int = 0
    _manifest: dict[str, Any] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)

    def run(self, manifest: dict[str, Any]) -> bool:
        """Measure what is missing. Returns True when everything is finished, False when --max-time ended it.

        `manifest` is completed with device, environment and providers and stored before the first cell. Raises
        Interrupted on Ctrl-C; whatever happens, committed units stay.
        """
        self.observer.doing("start the worker: import torch and the providers, find the device")
        try:
            self._manifest = manifest
            ready = self._start()
            self._identify(self.cells, ready)
            self._describe(ready)
            self._searches = Counter(name for name, _ in recover(self.store))
            total, missing = len(self.cells) * self.setup.protocol.rounds, sum(map(len, self._missing(self.cells)))
            self.observer.started(total, total - missing)
            if missing:
                self._remark(*filter(None, [ready.remark]))
                self._calibrate()
            batch = self.cells
            while batch:
                for task in tasks(batch):
                    self._stop_if_enough()
                    self._task(task)
                batch = self._further()
                missing += len(batch)
            if missing:
                self._end_canary()
                self._calibrate()
        except OutOfTimeError:
            self.store.event("stopped at --max-time")
            self._last_canary()
            return bool(self._ids) and not any(self._missing(self.cells))
        except Interrupted:
            self.store.event("interrupted")
            raise
        finally:
            if self._worker:
                self._worker.kill()
        return True

    def _identify(self, cells: Sequence[Cell], ready: Ready) -> None:
        # "auto" is not another timer, or another way to a cold cache, than its choice.
        protocol = replace(self.setup.protocol, timer=ready.timer, cold_by=ready.cold_by)
        table = tuned.load(self.setup.tuned) if self.setup.tuned else None
        for cell in cells:
            source, where = (
                ready.providers[cell.provider].source,
                (cell.problem, cell.scheme, cell.provider, cell.cache),
            )
            pinned = table.lookup(ready.device, *where) if table else None
            self._ids[cell] = cell_id(cell, source, ready.device, protocol, pinned)

    def _further(self) -> tuple[Cell, ...]:
        """Make what `more` asks for a part of the plan."""
        if self.more is None:
            return ()
        self._stop_if_enough()
        assert self._worker
        fresh = tuple(cell for cell in self.more() if cell not in self._ids)
        self._identify(fresh, self._worker.ready)
        self.cells += fresh
        self._count_planned()
        self.store.write_manifest(self._manifest)
        if fresh:
            self.observer.grown(len(self.cells) * self.setup.protocol.rounds)
        return fresh

    def _start(self) -> Ready:
        self._processes = self._manifest.get("processes", 0)
        self._worker = SupervisedWorker(self.setup, self.store.folder / WORKER_LOG, self._stop_requested)
        return self._worker.ready

    def _restart(self, why: str) -> None:
        """Replace the worker; one that dies while it starts is replaced too, but not for ever."""
        assert self._worker
        self._worker.kill()
        self._worker = None
        self.store.event(f"restart the worker: {why}")
        self.observer.remark(f"worker restarted: {why}")
        self._worker = worker = self._started()
        refuse_mixture(self._manifest, description(worker.ready))  # a kernel file may be edited meanwhile
        self._processes += 1
        self._manifest["processes"] = self._processes + 1
        self.store.write_manifest(self._manifest)

    def _started(self) -> SupervisedWorker:
        for _ in range(MOST_FRUITLESS):
            with suppress(WorkerSetupError):
                return SupervisedWorker(self.setup, self.store.folder / WORKER_LOG, self._stop_requested)
        return SupervisedWorker(self.setup, self.store.folder / WORKER_LOG, self._stop_requested)

    def _describe(self, ready: Ready) -> None:
        """Complete run.json, or on resume make sure that it speaks of the same device, software and code."""
        manifest, found = self._manifest, description(ready)
        if "device" in manifest:
            refuse_mixture(manifest, found)
        else:
            manifest |= found
        self._count_planned()
        manifest["processes"] = self._processes + 1
        self.store.write_manifest(manifest)

    def _count_planned(self) -> None:
        cells = {*self._ids.values(), *(unit[0] for unit in self.store.verdicts)}
        self._manifest["planned_units"] = len(cells) * self.setup.protocol.rounds

    def _calibrate(self) -> None:
        """Measure the ceilings, and keep the better of this and an earlier calibration of the run."""
        assert self._worker
        if not self.calibrate:
            return
        self.observer.doing("measure the ceilings of this device")
        schemes = dict.fromkeys(cell.scheme for cell in self.cells)
        types = dict.fromkeys((*(one.dtype.value for one in schemes), *(one.math_dtype for one in schemes)))
        if any(name.startswith("mxfp") for name in types):  # some kernels multiply payload and scale apart
            types["fp8"] = None
        answer = self._ask(Calibrate(tuple(types)), "no ceilings")
        if isinstance(answer, Ceilings):
            self.store.add_ceilings(answer.rows)
            for remark in answer.remarks:
                # The closing calibration says the same of other figures: events.log has them, the reader knows.
                self._remark(remark, aloud=_DIGITS.sub("", remark) not in self._told)
                self._told.add(_DIGITS.sub("", remark))

    def _last_canary(self) -> None:
        """At --max-time, take the last reading if the worker is free to; the clock may run over by `END_S`."""
        self.deadline = None
        if self._worker and self._is_idle and self._canary_faults == 0:
            self._worker.send(TakeCanary())
            with suppress(WorkerEndedError, WorkerTimeoutError):
                answer = self._receive(END_S)
                if isinstance(answer, CanaryTaken):
                    self._keep(answer)

    def _end_canary(self) -> None:
        """Take the last reading: the worker takes the others by itself."""
        if self._canary_faults:
            return
        self.observer.doing(CANARY_PHASE)
        answer = self._ask(TakeCanary(), "no canary")
        if isinstance(answer, CanaryTaken):
            self._keep(answer)

    def _ask(self, message: Any, without: str) -> Any:
        """Put a question that is not about a cell; None when the worker did not survive it."""
        assert self._worker
        self._worker.send(message)
        deadline = time.monotonic() + CALIBRATION_TIMEOUT_S
        try:
            while isinstance(answer := self._worker.receive(deadline), Step):
                self.observer.doing(f"ceiling {answer.number} of {answer.total}: {answer.what}")
            return answer
        except (WorkerEndedError, WorkerTimeoutError) as error:
            self._restart(f"{without}: {error}")
            return None

    def _keep(self, taken: CanaryTaken) -> None:
        """Store a reading of the canary, and how far it has drifted over the run."""
        if taken.row is None:
            self._remark(taken.remark)
            return
        self.store.append(CANARY, [taken.row | {"process": self._processes}])
        readings = self.store.rows(CANARY)
        self._manifest["canary_drift"] = {
            name: _drift(readings, f"{name}_s", str(self.store.folder / CANARY.file)) for name in ("gemm", "copy")
        }
        self.store.write_manifest(self._manifest)

    def _remark(self, *remarks: str, aloud: bool = True) -> None:
        for remark in remarks:
            self.store.event(remark)
            if aloud:
                self.observer.remark(remark)

    def _missing(self, cells: Sequence[Cell]) -> list[tuple[int, ...]]:
        """Rounds to do per cell: none after a final failure, else those without a commit row."""
        rounds = range(self.setup.protocol.rounds)
        missing = []
        for cell in cells:
            stored = [self.store.verdicts.get((self._ids[cell], number)) for number in rounds]
            failed = any(verdict and Verdict(verdict).is_final for verdict in stored)
            missing.append(() if failed else tuple(number for number in rounds if stored[number] is None))
        return missing

    def _task(self, task: Task) -> None:
        """Bring one task to its end, over as many workers as it takes."""
        blame = Blame()
        while any(missing := self._missing(task.cells)):
            assert self._worker
            canary = self._canary_faults == 0
            self._worker.send(Work(task, tuple(missing), self._chosen(task.cells), blame.spoilt, canary))
            blame.in_flight = Begin("start the task", ())
            try:
                while not isinstance(message := self._receive(self.setup.protocol.timeout_s), Done):
                    self._take(task, message, blame)
                if message.restart:
                    self._restart("a fault left the device or the operands unusable")
                elif any(self._missing(task.cells)):
                    self._stop_if_enough()
            except WorkerTimeoutError:
                limit = f"no end within {self.setup.protocol.timeout_s:g} s; --timeout sets the limit"
                self._fault(task, blame, (Verdict.TIMEOUT, limit))
            except WorkerEndedError as error:
                self._fault(task, blame, (Verdict.CRASHED, str(error)))

    def _take(self, task: Task, message: Any, blame: Blame) -> None:
        """Act on one message of the worker."""
        assert self._worker
        if isinstance(message, Begin | Trying):
            blame.begun(message)
            self.observer.doing(what(task, message))
        elif isinstance(message, Result):
            self._commit(task, message, answer=Stored(self._is_enough()))
        elif isinstance(message, Tuned):
            self._store_search(task.cells[message.index], message)
            self._worker.send(Stored(self._is_enough()))
        elif isinstance(message, Spoilt):
            blame.spoil((message.verdict, message.reason))
        elif isinstance(message, CanaryTaken):
            self._keep(message)
        elif isinstance(message, Refused):
            raise RooflensError(message.message)

    def _stop_if_enough(self) -> None:
        if self._is_enough():
            self._is_idle = True
            raise OutOfTimeError

    def _is_enough(self) -> bool:
        """Tell whether the time that is left is only enough for a clean end."""
        return self.deadline is not None and time.monotonic() >= self.deadline - END_S

    def _store_search(self, cell: Cell, found: Tuned) -> None:
        """Keep a search of --tuning cold: its rows belong to the run, and its winner to all rounds of the cell."""
        assert self._worker
        number = self._searches[self._ids[cell]]
        static = tuning_columns(cell, self._worker.ready) | {"cell_id": self._ids[cell], "search": number}
        self.store.append(TUNING, [{**static, **row} for row in found.rows])
        self._searches[self._ids[cell]] += 1

    def _chosen(self, cells: Sequence[Cell]) -> dict[int, Chosen]:
        """Winners that are stored already, so that no round of a cell runs another configuration than the first."""
        if self.setup.protocol.tuning != "cold":
            return {}
        won = {row["cell_id"]: row for row in self.store.rows(TUNING) if row["winner"] == "true"}
        return {
            index: Chosen(json.loads(row["config"]), "cold", int(row["candidates"]), float(row["search_s"]))
            for index, cell in enumerate(cells)
            if (row := won.get(self._ids[cell]))
        }

    def _fault(self, task: Task, blame: Blame, failure: Failure) -> None:
        """Give the units in flight their verdict and go on with a new worker.

        A unit whose result came in before the fault keeps it: nothing was in flight then.
        """
        doing = blame.in_flight.phase if isinstance(blame.in_flight, Begin) else what(task, blame.in_flight)
        reason = f"{doing}: {failure[1]}"
        if doing == CANARY_PHASE:
            self._canary_faults += 1
            self._remark(f"no canary from here on: {failure[1]}")
        for index, number in blame.units(task, failure):
            if (self._ids[task.cells[index]], number) not in self.store.verdicts:
                self._commit(task, Result(index, number, {"verdict": failure[0].value, "reason": reason}))
        self._restart(reason)

    def _commit(self, task: Task, result: Result, answer: Stored | None = None) -> None:
        """Store a unit; `answer` is what the worker waits for, if it does."""
        cell = task.cells[result.index]
        assert self._worker
        info = self._worker.ready.providers[cell.provider]
        row = {
            "cell_id": self._ids[cell],
            "round": result.round,
            "order": 0,
            "process": self._processes,
            "role": info.role,
            "source": info.source,
            "seed": self.setup.protocol.seed,
            "started_at": _now(),
            **static_columns(cell),
            **result.columns,
        }
        verdict = Verdict(row["verdict"])
        left = len(self._missing([cell])[0])
        worker = self._worker
        self.store.commit(row, result.samples, (lambda: worker.send(answer)) if answer else lambda: None)
        self.observer.finished(cell, verdict, row.get("reason", ""), left if verdict.is_final else 1)

    def _receive(self, timeout_s: float) -> Any:
        assert self._worker
        return self._worker.receive(time.monotonic() + timeout_s)

    def _stop_requested(self) -> bool:
        if self.deadline is not None and time.monotonic() >= self.deadline:
            raise OutOfTimeError
        return self.should_stop()


class OutOfTimeError(Exception):
    """--max-time is over."""


def _drift(readings: Sequence[Mapping[str, str]], column: str, where: str) -> float:
    """Largest over smallest time, less one."""
    try:
        times = [float(row[column]) for row in readings]
        return max(times) / min(times) - 1
    except (TypeError, ValueError, ZeroDivisionError):
        raise UsageError(f"{where}, column {column}: a time is not a positive number; delete its line") from None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")

"""Run the planned cells: hand tasks to the worker, commit what comes back, restart it after a fault, resume."""

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any
from typing import Protocol as Interface

from ..shapes.columns import CANARY, TUNING
from ..shapes.errors import Interrupted, RooflensError
from ..shapes.verdict import Verdict
from .manifest import description, refuse_mixture
from .messages import (
    Begin,
    Calibrate,
    CanaryTaken,
    Ceilings,
    Chosen,
    Done,
    Ready,
    Result,
    Setup,
    Stored,
    TakeCanary,
    Tuned,
    Work,
)
from .plan import Cell, Task, cell_id, static_columns, tasks
from .store import RunStore
from .supervisor import SupervisedWorker, WorkerEndedError, WorkerSetupError, WorkerTimeoutError
from .tuning_table import recover, tuning_columns

WORKER_LOG = "worker.log"
"""What the worker and the libraries in it print."""

CALIBRATION_TIMEOUT_S = 300.0

MOST_FRUITLESS = 3
"""Workers that may end one after another without having begun anything, before the sweep gives up."""


class Observer(Interface):
    """Whoever shows the progress."""

    def started(self, total_units: int, finished_units: int) -> None:
        """Tell how many (cell, round) units there are, and how many were stored by an earlier run."""

    def doing(self, what: str) -> None:
        """Tell what the worker is doing now."""

    def finished(self, cell: Cell, verdict: Verdict, reason: str, units: int) -> None:
        """Tell that a unit was stored; `units` counts it and the rounds that its failure makes needless."""

    def remark(self, text: str) -> None:
        """Pass on something worth a line: a restart, a refused ceiling."""


@dataclass(slots=True)
class Sweep:
    """One invocation of `rooflens run` on a run folder. `deadline` is a monotonic time, None without --max-time."""

    store: RunStore
    cells: tuple[Cell, ...]
    setup: Setup
    observer: Observer
    calibrate: bool = True
    should_stop: Callable[[], bool] = lambda: False
    deadline: float | None = None
    _worker: SupervisedWorker | None = None
    _ids: dict[Cell, str] = field(default_factory=dict)
    _searches: Counter[str] = field(default_factory=Counter)
    _processes: int = 0
    _manifest: dict[str, Any] = field(default_factory=dict)

    def run(self, manifest: dict[str, Any]) -> bool:
        """Measure what is missing. Returns True when everything is finished, False when --max-time ended it.

        `manifest` is completed with device, environment and providers and stored before the first cell. Raises
        Interrupted on Ctrl-C; whatever happens, committed units stay.
        """
        self.observer.doing("start the worker: import torch and the providers, find the device")
        try:
            self._manifest = manifest
            ready = self._start()
            # "auto" is not another timer, or another way to a cold cache, than its choice.
            protocol = replace(self.setup.protocol, timer=ready.timer, cold_by=ready.cold_by)
            tuned = hashlib.sha256(self.setup.tuned.read_bytes()).hexdigest()[:16] if self.setup.tuned else ""
            self._ids = {
                cell: cell_id(cell, ready.providers[cell.provider].source, ready.device, protocol, tuned)
                for cell in self.cells
            }
            self._describe(ready)
            self._searches = Counter(name for name, _ in recover(self.store))
            total, missing = len(self.cells) * self.setup.protocol.rounds, sum(map(len, self._missing(self.cells)))
            self.observer.started(total, total - missing)
            if missing:
                self._calibrate()
            for task in tasks(self.cells):
                self._task(task)
            if missing:
                self._end_canary()
                self._calibrate()
        except OutOfTimeError:
            self.store.event("stopped at --max-time")
            return False
        except Interrupted:
            self.store.event("interrupted")
            raise
        finally:
            if self._worker:
                self._worker.kill()
        return True

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
        manifest["planned_units"] = len({*self._ids.values(), *(unit[0] for unit in self.store.verdicts)})
        manifest["planned_units"] *= self.setup.protocol.rounds
        manifest["processes"] = self._processes + 1
        self.store.write_manifest(manifest)

    def _calibrate(self) -> None:
        """Measure the ceilings, and keep the better of this and an earlier calibration of the run."""
        assert self._worker
        if not self.calibrate:
            return
        self.observer.doing("measure the ceilings of this device")
        dtypes = tuple(dict.fromkeys(cell.scheme.dtype for cell in self.cells))
        answer = self._ask(Calibrate(dtypes), "no ceilings")
        if isinstance(answer, Ceilings):
            self.store.add_ceilings(answer.rows)
            self._remark(*answer.remarks)

    def _end_canary(self) -> None:
        """Take the last reading: the worker takes the others by itself."""
        self.observer.doing("time the canary")
        answer = self._ask(TakeCanary(), "no canary")
        if isinstance(answer, CanaryTaken):
            self._keep(answer)

    def _ask(self, message: Any, without: str) -> Any:
        """Put a question that is not about a cell; None when the worker did not survive it."""
        assert self._worker
        self._worker.send(message)
        try:
            return self._receive(CALIBRATION_TIMEOUT_S)
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
        self._manifest["canary_drift"] = {name: _drift(readings, f"{name}_s") for name in ("gemm", "copy")}
        self.store.write_manifest(self._manifest)

    def _remark(self, *remarks: str) -> None:
        for remark in remarks:
            self.store.event(remark)
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
        fruitless, forgiven = 0, set[str]()
        while any(missing := self._missing(task.cells)):
            assert self._worker
            self._worker.send(Work(task, tuple(missing), self._chosen(task.cells)))
            in_flight = Begin("start the task", ())
            try:
                while True:
                    message = self._receive(self.setup.protocol.timeout_s)
                    if isinstance(message, Begin):
                        in_flight, fruitless = message, 0
                        self.observer.doing(_what(task, message))
                    elif isinstance(message, Result):
                        self._commit(task, message, answer=True)
                    elif isinstance(message, Tuned):
                        self._store_search(task.cells[message.index], message)
                        self._worker.send(Stored())
                    elif isinstance(message, CanaryTaken):
                        self._keep(message)
                    elif isinstance(message, Done):
                        break
                if message.restart:
                    self._restart("a fault left the device or the operands unusable")
            except WorkerTimeoutError:
                limit = f"no end within {self.setup.protocol.timeout_s:g} s; --timeout sets the limit"
                fruitless = self._fault(task, in_flight, Verdict.TIMEOUT, limit, fruitless, forgiven)
            except WorkerEndedError as error:
                fruitless = self._fault(task, in_flight, Verdict.CRASHED, str(error), fruitless, forgiven)

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

    def _fault(
        self, task: Task, in_flight: Begin, verdict: Verdict, why: str, fruitless: int, forgiven: set[str]
    ) -> int:
        """Give the units in flight their verdict and go on with a new worker. Returns `fruitless`, counted on.

        A unit whose result came in before the fault keeps it: nothing was in flight then. A phase that several
        providers share (their operands, their reference) is nobody's fault yet: it is tried once more, and is then in
        `forgiven`.
        """
        if fruitless == MOST_FRUITLESS:
            raise RooflensError(f"{MOST_FRUITLESS + 1} workers in a row ended before they began: {why}")
        reason = f"{in_flight.phase}: {why}"
        shared = len({task.cells[index].provider for index, _ in in_flight.units}) > 1
        if shared and in_flight.phase not in forgiven:
            forgiven.add(in_flight.phase)
        else:
            for index, number in in_flight.units:
                if (self._ids[task.cells[index]], number) not in self.store.verdicts:
                    self._commit(task, Result(index, number, {"verdict": verdict.value, "reason": reason}))
        self._restart(reason)
        return fruitless + 1

    def _commit(self, task: Task, result: Result, answer: bool = False) -> None:
        """Store a unit; `answer` tells the worker, which waits for that."""
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
        self.store.commit(row, result.samples, (lambda: worker.send(Stored())) if answer else lambda: None)
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


def _drift(readings: Sequence[Mapping[str, str]], column: str) -> float:
    """Largest over smallest time, less one."""
    times = [float(row[column]) for row in readings]
    return max(times) / min(times) - 1


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _what(task: Task, begin: Begin) -> str:
    if len(begin.units) == 1:
        return f"{begin.phase} {task.cells[begin.units[0][0]]}"
    providers = {task.cells[index].provider for index, _ in begin.units}
    who = next(iter(providers)) if len(providers) == 1 else f"{len(begin.units)} cells of"
    return f"{begin.phase} {who} {task.cells[0].shape.label} {task.problem}"

"""Search the configurations of the planned cells, each search in a process of its own; resume, and survive faults.

A unit is one (cell, search); its rows of tuning.csv are its commit. A candidate that crashes or hangs the worker gets
that verdict, and the search begins anew without it in the next worker.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...shapes.errors import Interrupted, RooflensError
from ...shapes.run_folder.columns import TUNING
from ...shapes.run_folder.manifest import WORKER_LOG, Manifest
from ...shapes.tuned import Key
from ...shapes.verdict import Verdict
from ..isolation.build_locks import left_locks
from ..plan.plan import Cell, Task, cell_id, tasks
from ..storage.manifest import describe
from ..storage.store import RunStore
from ..storage.tuning_table import SearchUnit, recover, tuning_columns
from ..worker.messages import Begin, Done, Failure, Ready, Refused, Result, Setup, Spoilt, Stored, Trying, Tune, Tuned
from ..worker.search import nothing_to_search
from .fault_attribution import Blame, limit_s, timed_out, what
from .observer import Observer
from .session import OutOfTimeError
from .supervisor import SupervisedWorker, WorkerEndedError, WorkerTimeoutError, started_again


@dataclass(slots=True)
class TuningSweep:
    """One invocation of `rooflens tune` on a run folder. `deadline` is a monotonic time, None without --max-time.

    Cells of one GEMM under two names are one cell here: the first of them is searched.
    """

    store: RunStore
    cells: tuple[Cell, ...]
    setup: Setup
    observer: Observer
    searches: int
    should_stop: Callable[[], bool] = lambda: False
    deadline: float | None = None
    _worker: SupervisedWorker | None = None
    _ids: dict[Cell, str] = field(default_factory=dict)
    _finished: set[SearchUnit] = field(default_factory=set)
    _manifest: Manifest = field(default_factory=Manifest)

    def run(self, manifest: Manifest) -> bool:
        """Search what is missing. Returns True when everything is finished, False when --max-time ended it.

        `manifest` is completed with device, environment and providers and stored before the first search. Raises
        Interrupted on Ctrl-C; whatever happens, finished searches stay.
        """
        self._manifest = manifest
        self._finished = recover(self.store)
        try:
            self._start()
            for number in range(self.searches):
                if any(self._open(task, number) for task in tasks(tuple(self._ids))):
                    self._search(number)
            self._manifest.complete_searches = len(self._finished)
            self.store.write_manifest(self._manifest)
        except OutOfTimeError:
            self._cut_short("stopped at --max-time")
            return False
        except Interrupted:
            self._cut_short("interrupted")
            raise
        finally:
            self._end()
        return True

    def _search(self, number: int) -> None:
        """Run search `number` of every cell that misses it, in a worker that has searched nothing before."""
        if self._worker is None:
            self._start()
        for task in tasks(tuple(self._ids)):
            self._task(task, number)
        self._end()

    def _start(self) -> None:
        """Start a worker; the first one decides what the run is about, or confirms it."""
        self.observer.doing("start the worker: import torch and the providers, find the device")
        # A first worker that cannot start says what is wrong with the setup; of a later one it may be an accident.
        self._worker = started_again(self._supervised) if self._ids else self._supervised()
        ready = self._worker.ready
        describe(self._manifest, ready)
        if not self._ids:
            self._ids = identify(self.cells, ready, self.setup)
            planned = len(self._ids) * self.searches
            self._manifest.planned_searches = planned
            mine = {(name, number) for name in self._ids.values() for number in range(self.searches)}
            self.observer.started(planned, len(self._finished & mine))
        self._manifest.complete_searches = None
        self._manifest.processes += 1
        self.store.write_manifest(self._manifest)

    def _supervised(self) -> SupervisedWorker:
        return SupervisedWorker(self.setup, self.store.folder / WORKER_LOG, self._stop_requested)

    def _end(self) -> None:
        if self._worker:
            self._worker.kill()
        self._worker = None

    def _cut_short(self, why: str) -> None:
        self.store.event(why)
        self._end()
        for lock in left_locks():
            self.store.event(lock)
            self.observer.remark(lock)

    def _restart(self, why: str) -> None:
        self.store.event(f"restart the worker: {why}")
        self.observer.remark(f"worker restarted: {why}")
        self._end()
        self._start()

    def _open(self, task: Task, number: int) -> tuple[int, ...]:
        """Cells of `task` whose search `number` is missing."""
        return tuple(index for index, cell in enumerate(task.cells) if (self._ids[cell], number) not in self._finished)

    def _task(self, task: Task, number: int) -> None:
        """Bring search `number` of one task to its end, over as many workers as it takes."""
        blame = Blame()
        while missing := self._open(task, number):
            assert self._worker
            self._worker.send(Tune(task, missing, number, blame.spoilt))
            blame.in_flight = Begin("start the task", ())
            try:
                while not isinstance(message := self._receive(blame), Done):
                    self._take(task, number, message, blame)
                if message.restart:
                    self._restart("a fault left the process, the device or the operands unusable")
            except WorkerTimeoutError:
                self._fault(task, number, blame, timed_out(self.setup.protocol, blame.in_flight))
            except WorkerEndedError as error:
                self._fault(task, number, blame, (Verdict.CRASHED, str(error)))

    def _take(self, task: Task, number: int, message: Any, blame: Blame) -> None:
        """Act on one message of the worker."""
        assert self._worker
        if isinstance(message, Begin | Trying):
            blame.begun(message)
            self.observer.doing(what(task, message))
        elif isinstance(message, Tuned):
            self._commit(task, message.index, number, message.rows)
            self._worker.send(Stored())
            blame.in_flight = Begin("go on", ())
        elif isinstance(message, Result):
            failure = Verdict(message.columns["verdict"]), message.columns["reason"]
            self._commit(task, message.index, number, nothing_to_search(*failure).columns())
            self._worker.send(Stored())
        elif isinstance(message, Spoilt):
            blame.spoil((message.verdict, message.reason))
        elif isinstance(message, Refused):
            raise RooflensError(message.message)

    def _fault(self, task: Task, number: int, blame: Blame, failure: Failure) -> None:
        """Give what was in flight its verdict, a candidate or else whole cells, and go on with a new worker."""
        doing = what(task, blame.in_flight)
        for index, _ in blame.units(task, failure):
            if index in self._open(task, number):
                assert isinstance(blame.in_flight, Begin)
                reason = f"{blame.in_flight.phase}: {failure[1]}"
                self._commit(task, index, number, nothing_to_search(failure[0], reason).columns())
        self._restart(f"{doing}: {failure[1]}")

    def _commit(self, task: Task, index: int, number: int, rows: Sequence[Mapping[str, Any]]) -> None:
        """Store the rows of one search in one piece."""
        assert self._worker
        cell, ready = task.cells[index], self._worker.ready
        static = tuning_columns(cell, ready) | {"cell_id": self._ids[cell], "search": number}
        self.store.append(TUNING, [{**static, **row} for row in rows])
        self._finished.add((self._ids[cell], number))
        best = next((row for row in rows if row["winner"]), rows[0])
        self.observer.finished(cell, Verdict(best["verdict"]), best["reason"], 1)

    def _receive(self, blame: Blame) -> Any:
        assert self._worker
        return self._worker.receive(time.monotonic() + limit_s(self.setup.protocol, blame.in_flight))

    def _stop_requested(self) -> bool:
        if self.deadline is not None and time.monotonic() >= self.deadline:
            raise OutOfTimeError
        return self.should_stop()


def identify(cells: Iterable[Cell], ready: Ready, setup: Setup) -> dict[Cell, str]:
    """Cell ids of the distinct cells: what differs in nothing but the name of its model is tuned once."""
    protocol = replace(setup.protocol, timer=ready.timer, cold_by=ready.cold_by)
    distinct: dict[Key, Cell] = {}
    for cell in cells:
        distinct.setdefault(Key.of(ready.device, cell.problem, cell.scheme, cell.provider, cell.cache), cell)
    return {
        cell: cell_id(cell, ready.providers[cell.provider].source, ready.device, protocol) for cell in distinct.values()
    }

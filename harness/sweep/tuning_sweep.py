"""Search the configurations of the planned cells, each search in a fresh worker; resume, and survive faults.

A unit is one (cell, search); its rows of tuning.csv are its commit. A candidate that crashes or hangs the worker gets
that verdict, and the search begins again without it in the next worker.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...shapes.device import Device
from ...shapes.errors import Interrupted
from ...shapes.run_folder.columns import TUNING
from ...shapes.run_folder.manifest import Manifest
from ...shapes.tuned import Key
from ...shapes.verdict import Verdict
from ..plan.plan import Cell, Task, tasks
from ..storage.store import RunStore
from ..storage.tuning_table import SearchUnit, recover, tuning_columns
from ..worker.messages import Begin, SearchResult, Setup, Stored, UnitResult, Work
from ..worker.search import nothing_to_search
from .fault_attribution import FaultAttribution
from .observer import SweepObserver
from .session import OutOfTimeError, Session


@dataclass(slots=True)
class TuningSweep:
    """One invocation of `rooflens tune` on a run folder. `deadline` is a monotonic time, None without --max-time.

    Cells of one GEMM under two names are one cell: the first of them is searched.
    """

    store: RunStore
    cells: tuple[Cell, ...]
    setup: Setup
    observer: SweepObserver
    searches: int
    should_stop: Callable[[], bool] = lambda: False
    deadline: float | None = None

    def run(self, manifest: Manifest) -> bool:
        """Search what is missing. Returns True when everything is finished, False when --max-time ended it.

        `manifest` is completed with device, environment and providers and stored before the first search. Raises
        Interrupted on Ctrl-C; whatever happens, finished searches stay.
        """
        session = _SearchSession(self.setup, self.observer, self.should_stop, self.deadline, end_s=0.0)
        session.turn_to(self.store, manifest)
        try:
            self.observer.doing("start the worker: import torch and the providers, find the device")
            session.start(manifest.processes)
            cells = distinct(self.cells, session.ready.device)
            session.identify(cells)
            planned = {(session.ids[cell], number) for cell in cells for number in range(self.searches)}
            manifest.planned_searches, manifest.complete_searches = len(planned), None
            session.describe()
            self.observer.started(len(planned), len(session.finished & planned))
            for session.number in range(self.searches):
                session.search(cells)
            manifest.complete_searches = len(session.finished)
            self.store.write_manifest(manifest)
        except (OutOfTimeError, Interrupted) as error:
            is_over = isinstance(error, OutOfTimeError)
            self.store.event("stopped at --max-time" if is_over else "interrupted")
            session.cut_short()
            if not is_over:
                raise
            return False
        finally:
            session.end()
        return True


@dataclass(slots=True)
class _SearchSession(Session):
    """A session whose rounds are searches; `number` is the current one."""

    number: int = field(default=0, init=False)
    finished: set[SearchUnit] = field(default_factory=set, init=False)
    _is_used: bool = field(default=False, init=False)

    def turn_to(self, store: RunStore, manifest: Manifest) -> None:
        self.store, self.manifest = store, manifest
        self.finished = recover(store)

    def search(self, cells: Iterable[Cell]) -> None:
        """Run the current search of every cell that misses it, in a worker that has searched nothing before."""
        missing = [task for task in tasks(tuple(cells)) if any(self.missing(task.cells))]
        if missing and self._is_used:
            self.replace_worker()
        self._is_used = self._is_used or bool(missing)
        for task in missing:
            self.measure(task)
        self.measure_last(missing)

    def missing(self, cells: Sequence[Cell]) -> list[tuple[int, ...]]:
        return [() if (self.ids[cell], self.number) in self.finished else (self.number,) for cell in cells]

    def _work(
        self, task: Task, missing: Sequence[tuple[int, ...]], faults: FaultAttribution, budget_s: float | None
    ) -> Work:
        return Work(task, tuple(missing), failed_candidates=faults.failed_candidates, searches_only=True)

    def _take(self, task: Task, message: Any, faults: FaultAttribution) -> None:
        Session._take(self, task, message, faults)
        if isinstance(message, SearchResult):
            faults.in_flight = Begin("continue the searches", ())

    def _commit(self, task: Task, result: UnitResult, answer: Stored | None = None) -> None:
        """Store what fails for a whole cell as a search without candidates."""
        verdict, reason = Verdict(result.columns["verdict"]), result.columns["reason"]
        self._store_search(
            task.cells[result.index], SearchResult(result.index, nothing_to_search(verdict, reason).columns())
        )
        if answer:
            self._send(answer)

    def _store_search(self, cell: Cell, found: SearchResult) -> None:
        rows: Sequence[Mapping[str, Any]] = found.rows
        static = tuning_columns(cell, self.ready) | {"cell_id": self.ids[cell], "search": self.number}
        self.store.append(TUNING, [{**static, **row} for row in rows])
        self.finished.add((self.ids[cell], self.number))
        best = next((row for row in rows if row["winner"]), rows[0])
        self.observer.finished(cell, Verdict(best["verdict"]), best["reason"], 1)


def distinct(cells: Iterable[Cell], device: Device) -> tuple[Cell, ...]:
    """Return the cells without those that differ from an earlier one in nothing but the name of the model."""
    found: dict[Key, Cell] = {}
    for cell in cells:
        found.setdefault(Key.of(device, cell.problem, cell.scheme, cell.provider, cell.cache), cell)
    return tuple(found.values())

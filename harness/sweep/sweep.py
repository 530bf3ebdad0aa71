"""Run the planned cells on one device: what is missing, further cells and rounds, and the end.

With `searches`, the configurations of each cell are searched instead, so many times. A candidate that crashes or hangs
the worker gets that verdict, and the search begins again without it in the next worker.
"""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ...shapes.errors import Interrupted
from ...shapes.run_folder.manifest import Manifest
from ...shapes.verdict import Verdict
from ..plan.plan import Cell, Task, distinct, tasks
from ..storage.store import RunStore
from ..worker.messages import Setup
from .child_process import Child
from .cluster import Place
from .deadline import Deadline, OutOfTimeError
from .events import Doing, Grown, Observer, Started, measured_again
from .session import END_S, Session
from .supervisor import Start
from .time_budget import TimeBudget

CALIBRATION_SHARE, CALIBRATION_S, LEAST_CALIBRATION_S = 1 / 10, 10.0, 2.0
"""Limits on the time for the ceilings: the share and seconds of a time budget, and the seconds once it is over."""


@dataclass(slots=True)
class Sweep:
    """One invocation of `rooflens run` or `rooflens tune` on a run folder.

    When everything is measured, `more` returns further cells that follow from the results; none ends the sweep. Its
    changes of the manifest are stored together with the plan, before the first of them is measured.

    With a `budget`, all cells get a first round before any gets a second. The rounds of the protocol are the minimum:
    further ones follow while they fit before the deadline. The first problem is measured even if the start takes all of
    the time.

    `retry` has the verdicts with which planned cells are measured again. Of `searches`, each has a fresh worker; cells
    of one GEMM under two names are one cell: the first of them is searched. `place` and `start_process` are as of
    `Session`.
    """

    store: RunStore
    cells: tuple[Cell, ...]
    setup: Setup
    observer: Observer
    calibrate: bool = True
    deadline: Deadline = field(default_factory=Deadline)
    more: Callable[[], tuple[Cell, ...]] | None = None
    budget: TimeBudget | None = None
    retry: tuple[str, ...] = ()
    searches: int = 0
    place: Place | None = None
    start_process: Start = Child
    _session: Session = field(init=False)
    _has_begun: bool = field(default=False, init=False)
    _is_calibrated: bool = field(default=False, init=False)
    _began: float = field(init=False)
    _least_rounds: int = field(init=False)

    def run(self, manifest: Manifest) -> bool:
        """Measure what is missing. Returns True when everything is finished, False when --max-time ended it.

        `manifest` is completed with device, environment and providers and stored before the first cell. Raises
        Interrupted on Ctrl-C; whatever happens, committed units stay.
        """
        self._began, self._least_rounds = time.monotonic(), self.setup.protocol.rounds
        self.observer(Doing("start the worker: import torch and the providers, find the device"))
        self.deadline.is_strict = self.budget is None
        end_s = 0.0 if self.searches else END_S
        self._session = session = Session(
            *(self.setup, self.observer, self.deadline), end_s=end_s, place=self.place, start_process=self.start_process
        )
        session.turn_to(self.store, manifest)
        try:
            session.start()
            if self.searches:
                self._search_all()
            else:
                self._measure_all()
        except OutOfTimeError:
            self.store.event("stopped at --within" if self.budget else "stopped at --max-time")
            if not self.searches:
                session.last_canary()
            session.cut_short()
            return self._has_begun and not (self._missing(self.cells) and self._is_short())
        except Interrupted:
            self.store.event("interrupted")
            session.cut_short()
            raise
        finally:
            session.end()
        return True

    def _measure_all(self) -> None:
        session = self._session
        self._has_begun = True
        if self.budget:
            self._plan_rounds(max(1, min(self.budget.most_rounds, self._stored_rounds())))
        self._count_planned()
        session.describe()
        if count := self.store.forget(self.cells, self.retry):  # device and code are known to be the same now
            self.observer(measured_again(count))
        total, missing = len(self.cells) * self.setup.protocol.rounds, self._missing(self.cells)
        self.observer(Started(total, total - missing))
        if missing:
            session.remark(*filter(None, [session.ready.remark]))
        batch = self.cells
        while batch:
            self._measure(batch)
            batch = self._further() or self._further_rounds()
            missing += len(batch)
        if missing:
            session.end_canary()
            if self.budget is None:
                self._calibrate()

    def _search_all(self) -> None:
        session, manifest = self._session, self._session.manifest
        self.cells = distinct(self.cells, session.ready.device)
        planned = {(cell.id, number) for cell in self.cells for number in range(self.searches)}
        manifest.planned_searches, manifest.complete_searches = len(planned), None
        session.describe()
        self.observer(Started(len(planned), len(session.searches & planned)))
        is_used = False
        for session.searching in range(self.searches):
            missing = [task for task in tasks(self.cells) if any(session.missing(task.cells))]
            if missing and is_used:
                session.replace_worker()
            is_used = is_used or bool(missing)
            for task in missing:
                session.measure(task)
            session.measure_last(missing)
        manifest.complete_searches = len(session.searches)
        self.store.write_manifest(manifest)

    def _measure(self, cells: tuple[Cell, ...]) -> None:
        """Measure all tasks of `cells`, and the ceilings after the first, whose times the user waits for."""
        left = self._missing(cells)
        later = len(cells) * max(0, self._least_rounds - self.setup.protocol.rounds)
        for task in tasks(cells):
            rounds = [len(numbers) for numbers in self._session.missing(task.cells)]
            if self.budget is None:
                self._session.measure(task)
            else:
                self._measure_within(self.budget, task, rounds, left + later)
            left -= sum(rounds)
            if any(rounds) and not self._is_calibrated:
                self._calibrate()
        most_s = self.setup.protocol.budget_s
        if self.budget:
            most_s = self.budget.sampling_s(self.deadline.left_s, self._missing(cells), most_s)
        self._session.measure_last(tasks(cells), most_s)

    def _measure_within(self, budget: TimeBudget, task: Task, rounds: list[int], left: int) -> None:
        """Measure one task, of which `rounds` are missing, in its share of the time for `left` units; note its cost."""
        begun = time.monotonic()
        self._session.measure(task, budget.sampling_s(self.deadline.left_s, left, self.setup.protocol.budget_s))
        cost = self._session.cost
        cost.wall_s, cost.rounds = time.monotonic() - begun, max(rounds)
        budget.took(cost, sum(rounds))
        if any(rounds):
            self.deadline.is_strict = True

    def _calibrate(self) -> None:
        """Measure the ceilings; with a time budget, within their share of it or what is left."""
        self._is_calibrated = True
        if not self.calibrate:
            return
        if self.budget is None:
            self._session.calibrate(self.cells)
            return
        left = max(LEAST_CALIBRATION_S, self.deadline.left_s)
        within_s = min(CALIBRATION_S, CALIBRATION_SHARE * (self.deadline.at - self._began), left)
        strict, self.deadline.is_strict = self.deadline.is_strict, False
        try:
            self._session.calibrate(self.cells, within_s)
        finally:
            self.deadline.is_strict = strict

    def _further(self) -> tuple[Cell, ...]:
        """Add the cells of `more` to the plan, once there is something to conclude from."""
        if self.more is None or self.setup.protocol.rounds < self._least_rounds:
            return ()
        session = self._session
        session.stop_if_enough()
        known = {*self.cells}
        fresh = tuple(cell for cell in self.more() if cell not in known)
        if fresh:
            self.cells += fresh
            self._replan()
        else:
            self.store.write_manifest(session.manifest)
        return fresh

    def _further_rounds(self) -> tuple[Cell, ...]:
        """Plan another round of all cells up to the minimum, then as many as fit."""
        if self.budget is None:
            return ()
        rounds = self.setup.protocol.rounds
        fit = 1
        if rounds >= self._least_rounds:
            fit = self.budget.rounds_that_fit(self.deadline.left_s, rounds, self._open_tasks())
        if not fit:
            return ()
        self.budget.begin_pass()
        self._set_rounds(rounds + fit)
        self._session.remark(f"rounds of every cell: {rounds} finished, {fit} to follow", aloud=False)
        return self.cells

    def _open_tasks(self) -> int:
        """Number of tasks that could have a further round."""
        failed = self._failed()
        return sum(any(cell.id not in failed for cell in task.cells) for task in tasks(self.cells))

    def _stored_rounds(self) -> int:
        """Number of rounds stored of every cell that has not failed."""
        failed, stored = self._failed(), Counter(name for name, _ in self.store.verdicts)
        return min((stored[cell.id] for cell in self.cells if cell.id not in failed), default=0)

    def _failed(self) -> set[str]:
        return {name for (name, _), verdict in self.store.verdicts.items() if Verdict(verdict).is_final}

    def _set_rounds(self, rounds: int) -> None:
        """Set the number of rounds, and store the plan."""
        self._plan_rounds(rounds)
        self._replan()

    def _plan_rounds(self, rounds: int) -> None:
        self.setup = replace(self.setup, protocol=replace(self.setup.protocol, rounds=rounds))
        self._session.setup = self.setup
        self._session.manifest.rounds = self._session.manifest.protocol.rounds = rounds

    def _replan(self) -> None:
        self._count_planned()
        self.store.write_manifest(self._session.manifest)
        self.observer(Grown(len(self.cells) * self.setup.protocol.rounds))

    def _is_short(self) -> bool:
        """Tell whether the time was too short for the minimum of rounds.

        Otherwise the plan becomes the rounds that all cells have.
        """
        if self.budget is None:
            return True
        for rounds in range(max(self._least_rounds, self.setup.protocol.rounds), self._least_rounds - 1, -1):
            self._set_rounds(rounds)
            if not self._missing(self.cells):
                return False
        return True

    def _missing(self, cells: tuple[Cell, ...]) -> int:
        return sum(map(len, self._session.missing(cells)))

    def _count_planned(self) -> None:
        manifest = self._session.manifest
        manifest.planned_units = self.store.planned_units(self.cells, manifest.rounds or self.setup.protocol.rounds)

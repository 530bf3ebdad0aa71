"""Run the planned cells on one device: what is missing, further cells and rounds, and the end."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...shapes.errors import Interrupted
from ...shapes.run_folder.manifest import Manifest
from ...shapes.verdict import Verdict
from ..plan.plan import Cell, Task, tasks
from ..storage.store import RunStore
from ..worker.messages import Setup
from .observer import SweepObserver
from .session import OutOfTimeError, Session
from .time_budget import TaskCost, TimeBudget

CALIBRATION_SHARE, CALIBRATION_S, LEAST_CALIBRATION_S = 1 / 10, 10.0, 2.0
"""Limits on the time for the ceilings: the share and seconds of a time budget, and the seconds once it is over."""


@dataclass(slots=True)
class Sweep:
    """One invocation of `rooflens run` on a run folder. `deadline` is a monotonic time, None without a limit.

    When everything is measured, `more` returns further cells that follow from the results; none ends the sweep. Its
    changes of the manifest are stored together with the plan, before the first of them is measured.

    With a `budget`, all cells get a first round before any gets a second. The rounds of the protocol are the minimum:
    further ones follow while they fit before its deadline. The first problem is measured even if the start takes all of
    the time. `half_width` estimates from the medians of all units, by cell, the precision of a ratio after a number of
    rounds.

    `retry` has the verdicts with which planned cells are measured again.
    """

    store: RunStore
    cells: tuple[Cell, ...]
    setup: Setup
    observer: SweepObserver
    calibrate: bool = True
    should_stop: Callable[[], bool] = lambda: False
    deadline: float | None = None
    more: Callable[[], tuple[Cell, ...]] | None = None
    budget: TimeBudget | None = None
    retry: tuple[str, ...] = ()
    half_width: Callable[[Mapping[str, Sequence[float]], int], float | None] = lambda times_s, rounds: None
    _session: Session = field(init=False)
    _times: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list), init=False)
    _is_calibrated: bool = field(default=False, init=False)
    _began: float = field(init=False)
    _least_rounds: int = field(init=False)

    def run(self, manifest: Manifest) -> bool:
        """Measure what is missing. Returns True when everything is finished, False when --max-time ended it.

        `manifest` is completed with device, environment and providers and stored before the first cell. Raises
        Interrupted on Ctrl-C; whatever happens, committed units stay.
        """
        self._began, self._least_rounds = time.monotonic(), self.setup.protocol.rounds
        self.observer.doing("start the worker: import torch and the providers, find the device")
        deadline = None if self.budget else self.deadline
        self._session = session = Session(
            *(self.setup, self.observer, self.should_stop, deadline),
            timed=self._record_time,
            latest=self.budget.deadline if self.budget else None,
        )
        session.turn_to(self.store, manifest)
        try:
            ready = session.start(manifest.processes)
            session.identify(self.cells)
            if self.budget:
                self._plan_rounds(max(1, min(self.budget.most_rounds, self._stored_rounds())))
            self._count_planned()
            session.describe()
            self._forget_failures()
            total, missing = len(self.cells) * self.setup.protocol.rounds, self._missing(self.cells)
            self.observer.started(total, total - missing)
            if missing:
                session.remark(*filter(None, [ready.remark]))
            batch = self.cells
            while batch:
                self._measure(batch)
                batch = self._further() or self._further_rounds()
                missing += len(batch)
            if missing:
                session.end_canary()
                if self.budget is None:
                    self._calibrate()
        except OutOfTimeError:
            self.store.event("stopped at --within" if self.budget else "stopped at --max-time")
            session.last_canary()
            session.cut_short()
            return bool(session.ids) and not (self._missing(self.cells) and self._is_short())
        except Interrupted:
            self.store.event("interrupted")
            session.cut_short()
            raise
        finally:
            session.end()
        return True

    def _forget_failures(self) -> None:
        """Mark the failures of `retry` for measurement, now that device and code are known to be the same.

        Cells outside of the plan stay as they are.
        """
        planned = set(self._session.ids.values())
        if units := {unit for unit in self.store.ended_with(self.retry) if unit[0] in planned}:
            self.store.retry(units)
            count = f"{len(units)} unit{'s' * (len(units) > 1)}"
            self.observer.remark(f"measure again what failed: {count}; events.log has the reasons")

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
            most_s = self.budget.sampling_s(time.monotonic(), self._missing(cells), most_s)
        self._session.measure_last(tasks(cells), most_s)

    def _measure_within(self, budget: TimeBudget, task: Task, rounds: list[int], left: int) -> None:
        """Measure one task, of which `rounds` are missing, in its share of the time for `left` units; note its cost."""
        session = self._session
        begun, units = time.monotonic(), self._timed_units()
        prepared_s, sampled_s = session.prepared_s, session.sampled_s
        session.measure(task, budget.sampling_s(begun, left, self.setup.protocol.budget_s))
        cost = TaskCost(
            wall_s=time.monotonic() - begun,
            prepared_s=session.prepared_s - prepared_s,
            sampled_s=session.sampled_s - sampled_s,
            units=self._timed_units() - units,
            rounds=max(rounds),
        )
        budget.took(cost, sum(rounds))
        if any(rounds):
            session.deadline = self.deadline

    def _calibrate(self) -> None:
        """Measure the ceilings; with a time budget, within their share of it or what is left."""
        self._is_calibrated = True
        if not self.calibrate:
            return
        if self.budget is None:
            self._session.calibrate(self.cells)
            return
        left = max(LEAST_CALIBRATION_S, self.budget.deadline - time.monotonic())
        within_s = min(CALIBRATION_S, CALIBRATION_SHARE * (self.budget.deadline - self._began), left)
        deadline, self._session.deadline = self._session.deadline, None
        try:
            self._session.calibrate(self.cells, within_s)
        finally:
            self._session.deadline = deadline

    def _further(self) -> tuple[Cell, ...]:
        """Add the cells of `more` to the plan, once there is something to conclude from."""
        if self.more is None or self.setup.protocol.rounds < self._least_rounds:
            return ()
        session = self._session
        session.stop_if_enough()
        fresh = tuple(cell for cell in self.more() if cell not in session.ids)
        session.identify(fresh)
        if fresh:
            self.cells += fresh
            self._replan()
        else:
            self.store.write_manifest(session.manifest)
        return fresh

    def _further_rounds(self) -> tuple[Cell, ...]:
        """Plan another round of all cells up to the minimum, then as many as fit, and estimate their precision."""
        if self.budget is None:
            return ()
        rounds = self.setup.protocol.rounds
        fit = 1
        if rounds >= self._least_rounds:
            fit = self.budget.rounds_that_fit(time.monotonic(), rounds, self._open_tasks())
        if not fit:
            return ()
        self.budget.begin_pass()
        self._set_rounds(rounds + fit)
        width = self.half_width(self._times, rounds + fit)
        precision = "" if width is None else f": intervals of ratios of about ±{width:.1%}"
        self._session.remark(f"rounds of every cell: {rounds} finished, {fit} to follow{precision}", aloud=False)
        return self.cells

    def _open_tasks(self) -> int:
        """Number of tasks that could have a further round."""
        failed = self._failed()
        return sum(any(self._session.ids[cell] not in failed for cell in task.cells) for task in tasks(self.cells))

    def _stored_rounds(self) -> int:
        """Number of rounds stored of every cell that has not failed."""
        failed, stored = self._failed(), Counter(name for name, _ in self.store.verdicts)
        return min((stored[name] for name in self._session.ids.values() if name not in failed), default=0)

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
        self.observer.grown(len(self.cells) * self.setup.protocol.rounds)

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

    def _record_time(self, cell: Cell, time_s: float) -> None:
        self._times[self._session.ids[cell]].append(time_s)

    def _timed_units(self) -> int:
        return sum(map(len, self._times.values()))

    def _missing(self, cells: tuple[Cell, ...]) -> int:
        return sum(map(len, self._session.missing(cells)))

    def _count_planned(self) -> None:
        cells = {*self._session.ids.values(), *(unit[0] for unit in self.store.verdicts)}
        self._session.manifest.planned_units = len(cells) * self.setup.protocol.rounds

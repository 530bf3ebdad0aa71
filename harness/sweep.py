"""Run the planned cells on one device: what is missing, what follows from it, and how it ends."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..shapes.errors import Interrupted
from .messages import Setup
from .observer import Observer
from .plan import Cell, tasks
from .session import OutOfTimeError, Session
from .store import RunStore


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
    _session: Session = field(init=False)

    def run(self, manifest: dict[str, Any]) -> bool:
        """Measure what is missing. Returns True when everything is finished, False when --max-time ended it.

        `manifest` is completed with device, environment and providers and stored before the first cell. Raises
        Interrupted on Ctrl-C; whatever happens, committed units stay.
        """
        self.observer.doing("start the worker: import torch and the providers, find the device")
        self._session = session = Session(self.setup, self.observer, self.should_stop, self.deadline)
        session.turn_to(self.store, manifest)
        try:
            ready = session.start(manifest.get("processes", 0))
            session.identify(self.cells)
            self._count_planned()
            session.describe()
            total, missing = len(self.cells) * self.setup.protocol.rounds, sum(map(len, session.missing(self.cells)))
            self.observer.started(total, total - missing)
            if missing:
                session.remark(*filter(None, [ready.remark]))
                self._calibrate()
            batch = self.cells
            while batch:
                for task in tasks(batch):
                    session.measure(task)
                batch = self._further()
                missing += len(batch)
            if missing:
                session.end_canary()
                self._calibrate()
        except OutOfTimeError:
            self.store.event("stopped at --max-time")
            session.last_canary()
            return bool(session.ids) and not any(session.missing(self.cells))
        except Interrupted:
            self.store.event("interrupted")
            raise
        finally:
            session.end()
        return True

    def _calibrate(self) -> None:
        if self.calibrate:
            self._session.calibrate(self.cells)

    def _further(self) -> tuple[Cell, ...]:
        """Make what `more` asks for a part of the plan."""
        if self.more is None:
            return ()
        session = self._session
        session.stop_if_enough()
        fresh = tuple(cell for cell in self.more() if cell not in session.ids)
        session.identify(fresh)
        self.cells += fresh
        self._count_planned()
        self.store.write_manifest(session.manifest)
        if fresh:
            self.observer.grown(len(self.cells) * self.setup.protocol.rounds)
        return fresh

    def _count_planned(self) -> None:
        cells = {*self._session.ids.values(), *(unit[0] for unit in self.store.verdicts)}
        self._session.manifest["planned_units"] = len(cells) * self.setup.protocol.rounds

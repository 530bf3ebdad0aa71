"""Run the planned cells on several devices: all cells of a problem on one, so that their ratios are of that device."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ...shapes.errors import Interrupted
from ...shapes.run_folder.columns import CELLS
from ...shapes.run_folder.manifest import Manifest
from ..plan.plan import Cell, Task, tasks
from ..storage.manifest import device_of
from ..storage.store import RunStore
from ..worker.messages import Setup
from .cluster import Machine, Place, Target
from .deadline import Deadline, OutOfTimeError
from .devices import Devices, Station
from .events import Grown, Observer, Started, measured_again
from .part_queue import Item, PartQueue
from .session import Session


def parts_of(cells: Sequence[Cell]) -> tuple[Item, ...]:
    """Divide a plan, in its order, into tasks. Cells of one problem form one even if they are not neighbours."""
    found: dict[Any, list[Cell]] = {}
    for task in tasks(tuple(cells)):
        cell = task.cells[0]
        found.setdefault((cell.shape, cell.problem, cell.scheme), []).extend(task.cells)
    return tuple(Item(key, (key[0], key[2]), str(key[1]), Task(tuple(members))) for key, members in found.items())


@dataclass(slots=True)
class DeviceSweep:
    """As `Sweep`, on the devices of `target`; see `Devices`.

    What a device has stored of a problem it alone completes: another one measures all of it again.
    """

    store: RunStore
    cells: tuple[Cell, ...]
    setup: Setup
    observer: Observer
    target: Target
    calibrate: bool = True
    deadline: Deadline = field(default_factory=Deadline)
    more: Callable[[], tuple[Cell, ...]] | None = None
    retry: tuple[str, ...] = ()
    unmeasured: str = ""
    _manifest: Manifest = field(init=False)
    _owners: dict[str, Hashable] = field(default_factory=dict, init=False)
    """Device by cell of which something is stored."""

    def run(self, manifest: Manifest) -> bool:
        """Measure what is missing; True when all is stored. `manifest` is completed and stored before the first cell.

        Raises Interrupted on Ctrl-C, and RooflensError where no device can measure; whatever happens, committed units
        stay.
        """
        self._manifest = manifest
        processes = {process: device_of(one) for one in manifest.devices for process in one.processes or ()}
        self._owners = {row["cell_id"]: processes.get(int(row["process"])) for row in self.store.rows(CELLS)}
        if count := self.store.forget(self.cells, self.retry):
            self.observer(measured_again(count))
        self._plan()
        parts = parts_of(self.cells)
        total, missing = len(self.cells) * self._rounds, sum(map(self._missing, parts))
        self.observer(Started(total, total - missing))
        queue, begun = self._open(parts)
        devices = Devices(
            *(self.target, PartQueue(queue, begun), self._station, self.observer, self.deadline),
            more=self._further,
            note=self.store.event,
        )
        try:
            devices.measure()
        except OutOfTimeError:
            self.store.event("stopped at --max-time")
        except Interrupted:
            self.store.event("interrupted")
            raise
        finally:
            self.unmeasured = devices.unmeasured
        return not any(map(self._missing, parts_of(self.cells)))

    @property
    def _rounds(self) -> int:
        return self.setup.protocol.rounds

    def _plan(self) -> None:
        self._manifest.planned_units = self.store.planned_units(self.cells, self._rounds)
        self.store.write_manifest(self._manifest)

    def _missing(self, part: Item) -> int:
        return sum(map(len, self.store.missing(part.content.cells, self._rounds)))

    def _open(self, parts: Sequence[Item]) -> tuple[list[Item], dict[Hashable, Hashable]]:
        """Return the parts that miss something, and the device by key of those that one has begun."""
        missing = [part for part in parts if self._missing(part)]
        owners = ((part.key, self._owners.get(cell.id)) for part in missing for cell in part.content.cells)
        return missing, {key: owner for key, owner in owners if owner}

    def _further(self) -> tuple[Item, ...]:
        """Add the cells of `more` to the plan."""
        if self.more is None:
            return ()
        known = {*self.cells}
        fresh = tuple(cell for cell in self.more() if cell not in known)
        self.cells += fresh
        self._plan()
        if fresh:
            self.observer(Grown(len(self.cells) * self._rounds))
        return parts_of(fresh)

    @contextmanager
    def _station(self, place: Place, machine: Machine, observer: Observer, deadline: Deadline) -> Iterator[Station]:
        setup = replace(self.setup, device=place.device)
        session = Session(setup, observer, deadline, place=place, start_process=machine.start)
        session.turn_to(self.store, self._manifest)
        calibrated = self.cells if self.calibrate else ()
        try:
            device = device_of(place.found(session.start().device))
            session.describe()
            session.remark(*filter(None, [session.ready.remark]))
            if calibrated:
                session.calibrate(calibrated)
            yield device, partial(self._measure, session, device)
            session.end_canary()
            if calibrated:
                session.calibrate(calibrated)
        except OutOfTimeError:
            session.last_canary()
            session.cut_short()
            raise
        except Interrupted:
            session.cut_short()
            raise
        finally:
            session.end()

    def _measure(self, session: Session, device: Hashable, part: Item) -> None:
        """Measure what is missing of a task: all of it, if another device has begun it."""
        cells = part.content.cells
        with self.store.alone:
            if not any(session.missing(cells)):
                return  # the other one was lost before it could say so
            others = {cell.id for cell in cells if self._owners.get(cell.id, device) != device}
            self.store.retry({unit for unit in self.store.verdicts if unit[0] in others})
            self._owners.update((cell.id, device) for cell in cells)
        session.measure(part.content)
        session.measure_last((part.content,))

"""Run the planned cells on several devices: all cells of a problem on one, so that their ratios are of that device."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property

from ...shapes.errors import Interrupted, RooflensError
from ...shapes.run_folder.columns import CELLS
from ...shapes.run_folder.manifest import Manifest
from ..plan.plan import Cell, Task, tasks
from ..storage.manifest import device_of
from ..storage.store import RunStore
from ..worker.messages import Setup
from .cluster import Cluster, Machine, Place
from .deadline import Deadline, OutOfTimeError
from .devices import Devices
from .events import Grown, Observer, Started, measured_again
from .part_queue import PartQueue
from .session import Session


@dataclass(frozen=True)
class TaskPart:
    """One task of the plan."""

    task: Task

    @cached_property
    def key(self) -> Hashable:
        """Its problem."""
        cell = self.task.cells[0]
        return cell.shape, cell.problem, cell.scheme

    @property
    def weight(self) -> Hashable:
        """Problems of one weight share operands."""
        cell = self.task.cells[0]
        return cell.shape, cell.scheme

    def __str__(self) -> str:
        return str(self.task.problem)


def parts_of(cells: Sequence[Cell]) -> tuple[TaskPart, ...]:
    """Divide a plan, in its order. Cells of one problem form one part even if they are not neighbours."""
    found: dict[Hashable, TaskPart] = {}
    for task in tasks(tuple(cells)):
        part = TaskPart(task)
        known = found.get(part.key)
        found[part.key] = TaskPart(Task((*known.task.cells, *task.cells))) if known else part
    return tuple(found.values())


@dataclass(slots=True)
class DeviceSweep:
    """As `Sweep`, on the devices of `places` that are of architecture `arch`; see `Devices`.

    What a device has stored of a problem it alone completes: another one measures all of it again.
    """

    store: RunStore
    cells: tuple[Cell, ...]
    setup: Setup
    observer: Observer
    places: Cluster
    arch: str
    calibrate: bool = True
    deadline: Deadline = field(default_factory=Deadline)
    more: Callable[[], tuple[Cell, ...]] | None = None
    retry: tuple[str, ...] = ()
    most: int | None = None
    patience_s: float = 60.0
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
            *(self.places, self.arch, PartQueue(queue, begun), self._station, self.observer, self.deadline),
            most=self.most, patience_s=self.patience_s, more=self._further, note=self.store.event,
        )  # fmt: skip
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

    def _missing(self, part: TaskPart) -> int:
        return sum(map(len, self.store.missing(part.task.cells, self._rounds)))

    def _open(self, parts: Sequence[TaskPart]) -> tuple[list[TaskPart], dict[Hashable, Hashable]]:
        """Return the parts that miss something, and the device by key of those that one has begun."""
        missing = [part for part in parts if self._missing(part)]
        owners = ((part.key, self._owners.get(cell.id)) for part in missing for cell in part.task.cells)
        return missing, {key: owner for key, owner in owners if owner}

    def _further(self) -> tuple[TaskPart, ...]:
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
    def _station(self, place: Place, machine: Machine, observer: Observer, deadline: Deadline) -> Iterator["_Station"]:
        setup = replace(self.setup, device=place.device)
        session = Session(setup, observer, deadline, place=place, start_process=machine.start)
        session.turn_to(self.store, self._manifest)
        try:
            ready = session.start()
            if ready.device.arch != place.arch:
                raise RooflensError(
                    f"its device is {ready.device.arch}, not {place.arch}: start one Ray node per architecture, each "
                    "with its own visible devices"
                )
            session.describe()
            session.remark(*filter(None, [ready.remark]))
            device = device_of(replace(ready.device, host=place.host, slot=place.index))
            station = _Station(session, device, self._owners, self.cells if self.calibrate else ())
            station.calibrate()
            yield station
        except OutOfTimeError:
            session.last_canary()
            session.cut_short()
            raise
        except Interrupted:
            session.cut_short()
            raise
        finally:
            session.end()


@dataclass(slots=True)
class _Station:
    """The session of one device."""

    session: Session
    device: Hashable
    owners: dict[str, Hashable]
    cells: tuple[Cell, ...]

    def measure(self, part: TaskPart) -> None:
        """Measure what is missing of a task: all of it, if another device has begun it."""
        store, cells = self.session.store, part.task.cells
        with store.alone:
            if not any(self.session.missing(cells)):
                return  # the other one was lost before it could say so
            others = {cell.id for cell in cells if self.owners.get(cell.id, self.device) != self.device}
            store.retry({unit for unit in store.verdicts if unit[0] in others})
            self.owners.update((cell.id, self.device) for cell in cells)
        self.session.measure(part.task)
        self.session.measure_last((part.task,))

    def calibrate(self) -> None:
        """Measure the ceilings of what is planned, if any."""
        if self.cells:
            self.session.calibrate(self.cells)

    def finish(self) -> None:
        """Take the last reading of the canary, and the ceilings once more."""
        self.session.end_canary()
        self.calibrate()

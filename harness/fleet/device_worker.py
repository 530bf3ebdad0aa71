"""One device at work, where Ray put it: sessions as in `rooflens run`, but each job is stored apart and sent home."""

import os
import shutil
import time
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from ...shapes.errors import Interrupted, RooflensError
from ...shapes.run_folder.manifest import WORKER_LOG, Manifest, StoredShape, StoredStation
from ..plan.plan import Cell
from ..storage.store import RunStore
from ..storage.tables import reported
from ..storage.worker_log import take
from ..sweep.observer import Observer
from ..sweep.session import OutOfTimeError, Session
from ..telemetry.clock import CLOCK
from ..worker.messages import Setup
from .device_registry import earlier_stations
from .jobs import Job
from .protocol import AnyStation, Order, Parcel, Slot, StationObserver
from .result_archive import packed_folder, unpack

TUNED = "tuned.csv"

OPENING_S = 900.0
"""A station may take so long to open: torch from a slow disk, and the ceilings."""


@dataclass(frozen=True, slots=True)
class Brief:
    """What every station of an architecture is told before its first job.

    `manifest` is what run.json says before the device is known, `tuned` the text of a tuned table, `cells` what the
    ceilings have to cover (none: no calibration).
    """

    setup: Setup
    manifest: Manifest
    tuned: str | None
    cells: tuple[Cell, ...]

    @property
    def device(self) -> str:
        """See `AnyBrief`."""
        return self.setup.device

    @property
    def rounds(self) -> int:
        """See `AnyBrief`."""
        return self.setup.protocol.rounds

    @property
    def silence_s(self) -> float:
        """See `AnyBrief`."""
        return max(self.setup.protocol.timeout_s, self.setup.protocol.build_timeout_s)

    @property
    def opening_s(self) -> float:
        """See `AnyBrief`."""
        return OPENING_S

    @property
    def closes_at_once(self) -> bool:
        """See `AnyBrief`: it measures the ceilings again."""
        return False

    def station(
        self,
        slot: Slot,
        name: str,
        scratch: Path,
        observer: StationObserver,
        should_stop: Callable[[], bool],
        remarks: Sequence[str],
    ) -> AnyStation:
        """See `AnyBrief`."""
        return Station(self, slot, name, scratch, observer, should_stop, remarks)


class Heard:
    """Observer that passes everything on, and keeps the remarks: they go home with the parcel."""

    def __init__(self, observer: Observer, remarks: list[str]) -> None:
        self._remarks = remarks
        self.started, self.doing, self.finished = observer.started, observer.doing, observer.finished
        self.grown, self._pass_on = observer.grown, observer.remark

    def remark(self, text: str) -> None:
        """Keep a remark."""
        self._remarks.append(text)
        self._pass_on(text)

    def take(self) -> list[str]:
        """Return the remarks since the last time."""
        taken, self._remarks = self._remarks, []
        return taken


class Station:
    """Measures jobs on the device of `slot`. What it stores meanwhile lies in `scratch`, and goes with `close`."""

    def __init__(
        self,
        brief: Brief,
        slot: Slot,
        name: str,
        scratch: Path,
        observer: Observer,
        should_stop: Callable[[], bool] = lambda: False,
        remarks: Sequence[str] = (),
    ) -> None:
        self._heard = Heard(observer, list(remarks))
        self._brief, self._slot, self.name = brief, slot, name
        self._scratch, self._should_stop = scratch, should_stop
        self._log = scratch / WORKER_LOG
        self._session: Session | None = None

    def open(self) -> Parcel:
        """Start the worker and measure the ceilings; the parcel says what was found.

        Raises RooflensError when there is no such device, or its software or the providers cannot be loaded.
        """
        with reported(self._scratch):
            self._scratch.mkdir(parents=True, exist_ok=True)
        setup = self._brief.setup
        if self._brief.tuned is not None:
            with reported(self._scratch):
                (self._scratch / TUNED).write_text(self._brief.tuned, encoding="utf-8")
            setup = replace(setup, tuned=self._scratch / TUNED)
        self._session = session = Session(setup, self._heard, self._should_stop, log=self._log)

        def begin() -> None:
            ready = session.start()
            refuse_other_device(ready.device.arch, self._slot)
            session.describe()
            session.remark(*filter(None, [ready.remark]))
            if self._brief.cells:
                session.calibrate(self._brief.cells)

        return self._stored("open", (), begin)

    def measure(self, order: Order) -> Parcel:
        """Measure a job to its end, or until its time is over or a stop is asked for: then it is sent home in part."""
        job = order.job
        assert isinstance(job, Job)
        session, cells = self._opened(), job.task.cells
        session.deadline = None if order.seconds is None else time.monotonic() + order.seconds

        def work() -> None:
            session.identify(cells)
            session.describe()
            session.measure(job.task)

        return self._stored(job.key, cells, work, order.earlier)

    def close(self) -> Parcel:
        """Take the last canary and ceilings, end the worker, and remove the scratch folder."""
        session = self._opened()
        session.deadline = None

        def finish() -> None:
            session.describe()
            session.end_canary()
            if self._brief.cells:
                session.calibrate(self._brief.cells)

        try:
            return self._stored("close", (), finish)
        finally:
            self.end()

    def end(self) -> None:
        """End the worker at once, whatever it does, and remove what it stored here."""
        if self._session:
            self._session.end()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _opened(self) -> Session:
        if self._session is None:
            raise ValueError("the station is not open")
        return self._session

    def _stored(self, key: str, cells: tuple[Cell, ...], act: Callable[[], None], earlier: bytes = b"") -> Parcel:
        """Let the session store in a folder of its own while it does `act`, and pack that."""
        session, name = self._opened(), key if cells else f"{self.name}-{key}"
        folder = self._scratch / key
        shutil.rmtree(folder, ignore_errors=True)
        began = time.monotonic()
        if earlier:
            self._unpacked(earlier, folder)
        with RunStore.reopen(folder) if earlier else RunStore.create(folder) as store:
            before = store.read_manifest() if earlier else None
            others = earlier_stations(before) if before else []
            mine, spent_s = (others[-1].until, before.of_station.elapsed_s) if before else (0, 0.0)
            session.turn_to(store, self._manifest(name, cells, before))
            session.process += mine  # those of the part keep their numbers
            try:
                act()
            except OutOfTimeError:
                session.remark("stopped at --max-time", aloud=False)
                session.last_canary()
            except Interrupted:
                session.remark("interrupted", aloud=False)
            finally:
                session.process -= mine
            session.manifest.station = StoredStation(
                name=self.name,
                host=self._slot.host,
                slot=self._slot.index,
                elapsed_s=time.monotonic() - began + spent_s,
                remarks=self._heard.take(),
                earlier=others,
            )
            store.write_manifest(session.manifest)
            parcel = packed_folder(folder, {WORKER_LOG: take(self._log)})
        shutil.rmtree(folder, ignore_errors=True)
        return Parcel(name, parcel)

    def _manifest(self, name: str, cells: tuple[Cell, ...], before: Manifest | None) -> Manifest:
        """Return what run.json of a shard says; of an earlier part, `before` says what was found."""
        manifest = before or Manifest(id=name, created_at=CLOCK.now("seconds"))
        for one in fields(Manifest):
            stated = getattr(self._brief.manifest, one.name)
            if stated and one.name not in ("id", "created_at"):
                setattr(manifest, one.name, deepcopy(stated))
        manifest.shapes = [StoredShape(**asdict(shape)) for shape in dict.fromkeys(cell.shape for cell in cells)]
        manifest.planned_units = len(cells) * self._brief.setup.protocol.rounds
        manifest.station = None
        return manifest

    def _unpacked(self, parcel: bytes, folder: Path) -> None:
        with reported(folder):
            folder.mkdir(parents=True)
            for name, content in unpack(parcel, folder.name).items():
                (folder / name).write_bytes(content)


def refuse_other_device(arch: str, slot: Slot) -> None:
    """Raise RooflensError unless a device of this architecture is what the slot says."""
    if arch != slot.arch:
        raise RooflensError(
            f"its device is {arch}, not {slot.arch}: start one Ray node per architecture, each with its own visible "
            "devices"
        )


def take_cores(slot: Slot) -> None:
    """Confine this process and its children to the slot's part of the cores, so that slots of a CPU do not meet.

    Raises RooflensError when there are more slots than cores.
    """
    cores = sorted(os.sched_getaffinity(0))
    each = len(cores) // slot.count
    if not each:
        raise RooflensError(f"{slot.host} has {len(cores)} cores for {slot.count} slots: ask for at most {len(cores)}")
    os.sched_setaffinity(0, cores[slot.index * each : (slot.index + 1) * each])

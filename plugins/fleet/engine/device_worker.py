"""The worker of a sweep: sessions as in `rooflens run`, but each job is stored apart, packed and returned."""

import math
import shutil
import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace

from ....harness.plan.plan import Cell
from ....harness.storage.store import RunStore
from ....harness.storage.tables import reported
from ....harness.storage.worker_log import take
from ....harness.sweep.deadline import Deadline, OutOfTimeError
from ....harness.sweep.events import Event, Remarked
from ....harness.sweep.session import Session
from ....harness.telemetry.clock import CLOCK
from ....shapes.errors import Interrupted
from ....shapes.run_folder.manifest import WORKER_LOG, Manifest
from .device_registry import earlier_workers
from .jobs import SweepJob
from .protocol import Assignment, DeviceWorker, ResultArchive, WorkerSpec
from .result_archive import files_of, pack, unpack


@dataclass(frozen=True)
class SweepWorkerSpec(WorkerSpec):
    """`cells` are what the ceilings have to cover (none: no calibration)."""

    cells: tuple[Cell, ...]

    @property
    def worker(self) -> type["SweepWorker"]:
        """The class of its workers."""
        return SweepWorker


@dataclass
class SweepWorker(DeviceWorker[SweepWorkerSpec]):
    """Measures jobs in one session."""

    _session: Session | None = field(default=None, init=False)

    def open(self) -> ResultArchive:
        """Start the worker process and measure the ceilings.

        Raises RooflensError when there is no such device, or its software or the providers cannot be loaded.
        """
        with reported(self.scratch):
            self.scratch.mkdir(parents=True, exist_ok=True)
        deadline = Deadline(should_stop=self.should_stop)
        self._session = session = Session(self.spec.setup, self._observe, deadline, self.scratch / WORKER_LOG)

        def begin() -> None:
            ready = session.start()
            self.refuse_other_device(ready.device.arch)
            session.describe()
            session.remark(*filter(None, [ready.remark]))
            if self.spec.cells:
                session.calibrate(self.spec.cells)

        return self._stored("open", (), begin)

    def measure(self, assignment: Assignment) -> ResultArchive:
        """Measure a job to its end, or in part when its time is over or a stop is requested."""
        job = assignment.job
        assert isinstance(job, SweepJob)
        session, cells = self._opened(), job.task.cells
        session.deadline.at = math.inf if assignment.seconds is None else time.monotonic() + assignment.seconds

        def work() -> None:
            session.describe()
            session.forget(cells, self.spec.retry)
            session.measure(job.task)
            session.measure_last((job.task,))

        return self._stored(job.key, cells, work, assignment.earlier)

    def close(self) -> ResultArchive:
        """Take the last canary and ceilings, end the worker process, and remove the scratch folder."""
        session = self._opened()
        session.deadline.at = math.inf

        def finish() -> None:
            session.describe()
            session.end_canary()
            if self.spec.cells:
                session.calibrate(self.spec.cells)

        try:
            return self._stored("close", (), finish)
        finally:
            self.end()

    def end(self) -> None:
        """Kill the worker process, whatever it does, and remove what it stored here."""
        if self._session:
            self._session.end()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def _observe(self, event: Event) -> None:
        """Pass an event on; remarks are kept for the next archive."""
        if isinstance(event, Remarked):
            self.remarks.append(event.text)
        self.observer(event)

    def _opened(self) -> Session:
        if self._session is None:
            raise ValueError("the worker is not open")
        return self._session

    def _stored(
        self, key: str, cells: tuple[Cell, ...], act: Callable[[], None], earlier: bytes = b""
    ) -> ResultArchive:
        """Run `act` with the session storing in a folder of its own, and pack that folder."""
        session, name = self._opened(), key if cells else f"{self.name}-{key}"
        folder = self.scratch / key
        shutil.rmtree(folder, ignore_errors=True)
        began = time.monotonic()
        if earlier:
            with reported(folder):
                folder.mkdir(parents=True)
                for file, content in unpack(earlier, folder.name).items():
                    (folder / file).write_bytes(content)
        with RunStore.reopen(folder) if earlier else RunStore.create(folder) as store:
            before = store.read_manifest() if earlier else None
            others = earlier_workers(before)  # their processes keep their numbers
            offset, spent_s = (others[-1].until, before.of_station.elapsed_s) if before else (0, 0.0)
            session.turn_to(store, self._manifest(name, cells, before))
            session.process += offset
            try:
                act()
            except OutOfTimeError:
                session.remark("stopped at --max-time", aloud=False)
                session.last_canary()
            except Interrupted:
                session.remark("interrupted", aloud=False)
            finally:
                session.process -= offset
            session.manifest.station = replace(self.described(time.monotonic() - began + spent_s), earlier=others)
            store.write_manifest(session.manifest)
            content = pack(files_of(folder) | {WORKER_LOG: take(self.scratch / WORKER_LOG)})
        shutil.rmtree(folder, ignore_errors=True)
        return ResultArchive(name, content)

    def _manifest(self, name: str, cells: tuple[Cell, ...], before: Manifest | None) -> Manifest:
        """Return run.json of a shard; `before` is that of an earlier part, which keeps what was found."""
        manifest = before or Manifest(id=name, created_at=CLOCK.now("seconds"))
        for one in fields(Manifest):
            stated = getattr(self.spec.manifest, one.name)
            if stated and one.name not in ("id", "created_at"):
                setattr(manifest, one.name, deepcopy(stated))
        manifest.shapes = list(dict.fromkeys(cell.shape for cell in cells))
        manifest.planned_units = len(cells) * self.spec.setup.protocol.rounds
        manifest.station = None
        return manifest

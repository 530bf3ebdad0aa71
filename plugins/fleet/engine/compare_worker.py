"""The worker of a comparison: rounds of all arms in turn, chunk by chunk."""

import shutil
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from ....api.measuring import TurnExecutor
from ....harness.compare.runner import LOG, CompareRunner
from ....harness.compare.spec import CompareSpec, read_state, suite_hash, version, write_state
from ....harness.compare.worktrees import Repository
from ....harness.storage.manifest import describe
from ....harness.storage.tables import reported
from ....harness.sweep.events import Doing
from ....harness.sweep.supervisor import SETUP_TIMEOUT_S, SupervisedWorker
from ....harness.telemetry.clock import CLOCK
from ....shapes.errors import Interrupted, RooflensError
from ....shapes.run_folder.manifest import MANIFEST, WORKER_LOG, Manifest, read_manifest
from .compare_store import WORKER_FILE
from .jobs import Chunk
from .protocol import OPENING_S, Assignment, DeviceWorker, ResultArchive, WorkerSpec
from .result_archive import files_of, pack, unpack

BUILDING_S = 3600.0
"""Most time for --setup, which may build what the kernels are part of."""


@dataclass(frozen=True)
class CompareWorkerSpec(WorkerSpec):
    """What all workers of a comparison share; its `setup` has no providers.

    what      the comparison; `cells` are set per chunk
    place     name of the folder for checkouts and environments, in the scratch folder of the worker
    tables    texts of the tuned tables, by the paths in `what.tables`
    """

    what: CompareSpec
    place: str
    tables: Mapping[str, str] = field(default_factory=dict)

    closes_at_once = True

    def on(self, device: str) -> Self:
        """Return the same for a device, which arms are told by their request."""
        what = replace(self.what, request=(self.what.request or {}) | {"device": device})
        return replace(super().on(device), what=what)

    @property
    def silence_s(self) -> float:
        """Longest time for which a worker may report nothing: every round starts the worker process."""
        return max(super().silence_s, SETUP_TIMEOUT_S)

    @property
    def opening_s(self) -> float:
        """Most time that a worker may take to open."""
        return OPENING_S + (BUILDING_S if self.what.setup else 0.0)

    @property
    def worker(self) -> type["CompareWorker"]:
        """The class of its workers."""
        return CompareWorker


@dataclass
class CompareWorker(DeviceWorker[CompareWorkerSpec]):
    """Measures chunks; leaves nothing behind in `scratch` unless it is killed."""

    _manifest: Manifest = field(default_factory=Manifest, init=False)
    _preparing: CompareRunner | None = field(default=None, init=False)
    _turns: TurnExecutor = field(init=False)

    def __post_init__(self) -> None:
        self._what, self._turns = self.spec.what, TurnExecutor()

    def open(self) -> ResultArchive:
        """Find the device, check the versions out and set them up.

        Raises RooflensError when the repository is not accessible, the device is another one, or --setup fails.
        """
        with self._cleaning_up():
            self._refuse_unreachable()
            with reported(self.scratch):
                self.scratch.mkdir(parents=True, exist_ok=True)
                self.scratch = self.scratch.resolve()  # modules are known by their real paths
                self._what = replace(self._what, tables=self._tables())
            self._manifest = self._described()
            self._preparing = self._runner("open", self._what)
            self._preparing.prepare(self.should_stop)
            return self._record("open")

    def measure(self, assignment: Assignment) -> ResultArchive:
        """Measure a chunk to its end or in part; after a part, clean up, because nothing more will be assigned."""
        chunk = assignment.job
        assert isinstance(chunk, Chunk)
        folder = self.scratch / chunk.key
        began = time.monotonic()
        deadline = None if assignment.seconds is None else began + assignment.seconds
        with self._cleaning_up():
            with reported(self.scratch):
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                what = replace(self._what, cells=[*chunk.rows], rounds=chunk.rounds)
                earlier_s = _unpacked(assignment.earlier, folder, what)
            runner = self._runner(chunk.key, what)
            try:
                complete = runner.run(self.should_stop, deadline)
            except Interrupted:
                complete = False
            finally:
                runner.release()
            archive = self._chunk(chunk, folder, earlier_s + time.monotonic() - began)
            shutil.rmtree(folder, ignore_errors=True)
            if not complete:
                self.end()
            return archive

    def close(self) -> ResultArchive:
        """Leave nothing behind."""
        try:
            return self._record("close")
        finally:
            self.end()

    def end(self) -> None:
        """Remove checkouts, environments and stored results."""
        if self._preparing:
            self._preparing.clean_up()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def _runner(self, name: str, what: CompareSpec) -> CompareRunner:
        """Return one whose results are in a folder of this name; all share checkouts and environments."""
        checkouts = self.scratch / self.spec.place
        return CompareRunner(self.scratch / name, what, self.observer, self._turns, checkouts, self.spec.retry)

    @contextmanager
    def _cleaning_up(self) -> Iterator[None]:
        """After an error, leave nothing behind, and name no file of this machine that no longer exists."""
        try:
            yield
        except RooflensError as error:
            text = str(error)
            for folder in self.scratch.glob("*/"):
                text = text.replace(f"; see {folder / LOG}", "").replace(str(folder / LOG), "its log")
            self.end()
            raise error.saying(text) from None

    def _refuse_unreachable(self) -> None:
        """Raise RooflensError unless the repository, its commits and the suite are the same on this host."""
        top, host = Path(self._what.repository), socket.gethostname()
        if not top.is_dir():
            raise RooflensError(
                f"the repository {top} is not on {host}: every node must reach it by the same path, as on a shared "
                "file system"
            )
        repository = Repository(top)
        for arm, commit in self._what.commits.items():
            if not repository.has(commit):
                raise RooflensError(
                    f"{top} on {host} lacks {version(arm)} ({commit[:12]}): it is another clone; fetch the commit "
                    "there, or share one repository"
                )
        if suite_hash(self._what.suite) != self._what.suite_hash:
            raise RooflensError(f"suite {self._what.suite} is another one on {host}: share the file, or copy it there")

    def _tables(self) -> dict[str, str]:
        """Write the tuned tables to this machine; return the paths by arm."""
        local = {path: self.scratch / f"table-{number}.csv" for number, path in enumerate(self.spec.tables)}
        for path, text in self.spec.tables.items():
            local[path].write_text(text, encoding="utf-8")
        return {arm: str(local[path]) for arm, path in self._what.tables.items()}

    def _described(self) -> Manifest:
        """Start a worker process to find out what device this is."""
        self.observer(Doing("find the device"))
        worker = SupervisedWorker(self.spec.setup, self.scratch / WORKER_LOG, self.should_stop)
        worker.kill()
        self.refuse_other_device(worker.ready.device.arch)
        manifest = deepcopy(self.spec.manifest)
        describe(manifest, worker.ready)
        return manifest

    def _record(self, kind: str) -> ResultArchive:
        """Pack what opens and closes a worker: the device, and the output of --setup."""
        created_at, worker = CLOCK.now("seconds"), self.described(0.0)
        manifest = replace(self._manifest, shapes=[], planned_units=0, created_at=created_at, station=worker)
        files = {MANIFEST: manifest.to_text().encode()}
        log = self.scratch / "open" / LOG
        if kind == "open" and log.is_file():
            files[LOG] = log.read_bytes()
        return ResultArchive(f"{self.name}-{kind}", pack(files))

    def _chunk(self, chunk: Chunk, folder: Path, elapsed_s: float) -> ResultArchive:
        """Pack the run folders of all arms that have begun, with their progress."""
        state = read_state(folder)
        assert state
        finished = {arm: sum(name == arm for _, name in state.done) for arm in self._what.commits}
        worker = replace(
            self.described(elapsed_s),
            session=f"{self.name} {chunk.key}",
            rounds=min(finished.values()),
            steps=len(state.done),
        )
        files = {WORKER_FILE: worker.to_text().encode()}
        for arm in self._what.commits:
            path = folder / arm / MANIFEST
            if path.is_file():
                manifest = replace(read_manifest(path), station=replace(worker, finished=finished[arm]))
                arm_files = files_of(folder / arm) | {MANIFEST: manifest.to_text().encode()}
                files |= {f"{arm}/{name}": text for name, text in arm_files.items()}
        if (folder / LOG).is_file():
            files[LOG] = (folder / LOG).read_bytes()
        return ResultArchive(chunk.key, pack(files))


def _unpacked(earlier: bytes, folder: Path, what: CompareSpec) -> float:
    """Unpack what this device has measured of a chunk before; return the seconds that it took."""
    if not earlier:
        return 0.0
    done, elapsed_s = set(), 0.0
    for arm in what.commits:
        (folder / arm).mkdir()
        for file, text in unpack(earlier, folder.name, arm).items():
            (folder / arm / file).write_bytes(text)
        worker = read_manifest(folder / arm / MANIFEST).of_station
        done |= {(number, arm) for number in range(worker.finished or 0)}
        elapsed_s = worker.elapsed_s
    write_state(folder, what, done)
    return elapsed_s

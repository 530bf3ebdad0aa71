"""One device at work on a comparison: rounds of all arms in processes of their own, chunk by chunk."""

import shutil
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...shapes.errors import Interrupted, RooflensError
from ...shapes.run_folder.manifest import MANIFEST, WORKER_LOG, Manifest, StoredStation, read_manifest
from ..compare.replay import write_rows
from ..compare.runner import LOG, Comparing
from ..compare.spec import Comparison, read_state, suite_hash, version, write_state
from ..compare.worktrees import Repository
from ..storage.manifest import describe
from ..storage.tables import reported
from ..sweep.supervisor import SETUP_TIMEOUT_S, SupervisedWorker
from ..telemetry.clock import CLOCK
from ..worker.messages import Setup
from .chunks import Chunk
from .compare_store import SHARD, STATION_FILE, shard_of
from .device_worker import OPENING_S, refuse_other_device
from .protocol import AnyStation, Order, Parcel, Slot, StationObserver
from .result_archive import entries, pack, packed_folder, unpack

BUILDING_S = 3600.0
"""--setup may take so long: it may build what the kernels are of."""


@dataclass(frozen=True, slots=True)
class ComparisonBrief:
    """What every station of a comparison is told.

    what      the comparison; `only` is that of each chunk
    tables    texts of the tuned tables, by the paths that `what.tables` has
    setup     of the worker that says what the device is; it has no providers
    manifest  what run.json of every arm says before the device is known
    place     name of the folder that checkouts and environments are in, below that of the station
    """

    what: Comparison
    setup: Setup
    manifest: Manifest
    place: str
    tables: Mapping[str, str] = field(default_factory=dict)

    @property
    def device(self) -> str:
        """See `AnyBrief`."""
        return self.setup.device

    @property
    def rounds(self) -> int:
        """See `AnyBrief`."""
        return self.what.rounds

    @property
    def silence_s(self) -> float:
        """See `AnyBrief`: every round begins with a start of the worker."""
        return max(self.setup.protocol.timeout_s, self.setup.protocol.build_timeout_s, SETUP_TIMEOUT_S)

    @property
    def opening_s(self) -> float:
        """See `AnyBrief`."""
        return OPENING_S + (BUILDING_S if self.what.setup else 0.0)

    @property
    def closes_at_once(self) -> bool:
        """See `AnyBrief`."""
        return True

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
        return ComparingStation(self, slot, name, scratch, observer, should_stop, remarks)


class _Watch:
    """Observer of `Comparing`: only what is new is a sign of life."""

    def __init__(self, observer: StationObserver) -> None:
        self._observer = observer
        self._last = ("", -1, -1)

    def started(self, finished: int) -> None:
        """Begin a chunk."""

    def doing(self, what: str) -> None:
        """Pass on what is prepared."""
        self._observer.doing(what)

    def measuring(self, arm: str, number: int, rows: int) -> None:
        """Pass on how far a round is."""
        if self._last != (arm, number, rows):
            self._last = arm, number, rows
            self._observer.doing(f"round {number + 1} of {arm}: {rows} units stored")

    def finished(self, arm: str, number: int) -> None:
        """Count a round."""
        self._observer.home(1)


class ComparingStation:
    """Measures chunks on the device of `slot`, and leaves nothing behind in `scratch` unless it is killed."""

    def __init__(
        self,
        brief: ComparisonBrief,
        slot: Slot,
        name: str,
        scratch: Path,
        observer: StationObserver,
        should_stop: Callable[[], bool] = lambda: False,
        remarks: Sequence[str] = (),
    ) -> None:
        self._brief, self._slot, self.name = brief, slot, name
        self._scratch, self._should_stop = scratch, should_stop
        self._watch, self._remarks = _Watch(observer), list(remarks)
        self._what = brief.what
        self._manifest = Manifest()
        self._preparing: Comparing | None = None

    def open(self) -> Parcel:
        """Find the device, check the versions out and set them up.

        Raises RooflensError when the repository is not here, the device is another one, or --setup fails.
        """
        with self._ending():
            self._refuse_unreachable()
            with reported(self._scratch):
                self._scratch.mkdir(parents=True, exist_ok=True)
                self._scratch = self._scratch.resolve()  # modules are known by their real paths
                self._what = replace(self._what, tables=self._tables())
            self._manifest = self._described()
            self._preparing = Comparing(self._scratch / "open", self._what, self._watch, self._checkouts)
            self._preparing.prepare()
            return self._record("open")

    def measure(self, order: Order) -> Parcel:
        """Measure a chunk to its end, or in part: then what is prepared here goes, as nothing more is asked for."""
        chunk = order.job
        assert isinstance(chunk, Chunk)
        folder = self._scratch / chunk.key
        began = time.monotonic()
        deadline = None if order.seconds is None else began + order.seconds
        with self._ending():
            with reported(self._scratch):
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                what = replace(self._what, only=str(write_rows(folder / "only.json", chunk.rows)), rounds=chunk.rounds)
                earlier_s = _unpacked(order.earlier, folder, what)
            comparing = Comparing(folder, what, self._watch, self._checkouts)
            try:
                complete = comparing.run(self._should_stop, deadline)
            except Interrupted:
                complete = False
            finally:
                comparing.release()
            parcel = self._chunk(chunk, folder, earlier_s + time.monotonic() - began)
            shutil.rmtree(folder, ignore_errors=True)
            if not complete:
                self.end()
            return parcel

    def close(self) -> Parcel:
        """Leave nothing behind."""
        try:
            return self._record("close")
        finally:
            self.end()

    def end(self) -> None:
        """Remove checkouts, environments and what is stored here."""
        if self._preparing:
            self._preparing.clean_up()
        shutil.rmtree(self._scratch, ignore_errors=True)

    @property
    def _checkouts(self) -> Path:
        return self._scratch / self._brief.place

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """Leave nothing behind after an error, and name no file of this machine that is gone then."""
        try:
            yield
        except RooflensError as error:
            text = str(error)
            for folder in self._scratch.glob("*/"):
                text = text.replace(f"; see {folder / LOG}", "").replace(str(folder / LOG), "its log")
            self.end()
            raise type(error)(text) from None

    def _refuse_unreachable(self) -> None:
        """Raise RooflensError unless the repository, with its commits, and the suite are here as they are there."""
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
        """Write the tuned tables here; return the paths by arm."""
        here = {path: self._scratch / f"table-{number}.csv" for number, path in enumerate(self._brief.tables)}
        for path, text in self._brief.tables.items():
            here[path].write_text(text, encoding="utf-8")
        return {arm: str(here[path]) for arm, path in self._what.tables.items()}

    def _described(self) -> Manifest:
        """Ask a worker what device this is."""
        self._watch.doing("find the device")
        worker = SupervisedWorker(self._brief.setup, self._scratch / WORKER_LOG, self._should_stop)
        worker.kill()
        refuse_other_device(worker.ready.device.arch, self._slot)
        manifest = deepcopy(self._brief.manifest)
        describe(manifest, worker.ready)
        return manifest

    def _record(self, kind: str) -> Parcel:
        """What opens and closes a station: the device, and what --setup printed."""
        created_at, station = CLOCK.now("seconds"), self._station(0.0)
        manifest = replace(self._manifest, shapes=[], planned_units=0, created_at=created_at, station=station)
        files = {MANIFEST: manifest.to_text().encode()}
        log = self._scratch / "open" / LOG
        if kind == "open" and log.is_file():
            files[LOG] = log.read_bytes()
        return Parcel(f"{self.name}-{kind}", pack(files))

    def _chunk(self, chunk: Chunk, folder: Path, elapsed_s: float) -> Parcel:
        """Pack the run folders of all arms, as far as they are begun, and say how far that is."""
        state = read_state(folder)
        assert state
        finished = {arm: sum(name == arm for _, name in state.done) for arm in self._what.commits}
        station = replace(
            self._station(elapsed_s),
            session=f"{self.name} {chunk.key}",
            rounds=min(finished.values()),
            steps=len(state.done),
        )
        files = {STATION_FILE: station.to_text().encode()}
        for arm in self._what.commits:
            path = folder / arm / MANIFEST
            if path.is_file():
                manifest = replace(read_manifest(path), station=replace(station, finished=finished[arm]))
                files[shard_of(arm)] = packed_folder(folder / arm, {MANIFEST: manifest.to_text().encode()})
        if (folder / LOG).is_file():
            files[LOG] = (folder / LOG).read_bytes()
        return Parcel(chunk.key, pack(files))

    def _station(self, elapsed_s: float) -> StoredStation:
        remarks, self._remarks = self._remarks, []
        host, slot = self._slot.host, self._slot.index
        return StoredStation(name=self.name, host=host, slot=slot, elapsed_s=elapsed_s, remarks=remarks)


def _unpacked(earlier: bytes, folder: Path, what: Comparison) -> float:
    """Lay out what this device has measured of a chunk before; return the seconds that it took."""
    if not earlier:
        return 0.0
    done, elapsed_s = set(), 0.0
    for name, content in entries(earlier, folder.name).items():
        arm = name.removesuffix(SHARD)
        if arm not in what.commits:
            continue
        (folder / arm).mkdir()
        for file, text in unpack(content, name).items():
            (folder / arm / file).write_bytes(text)
        station = read_manifest(folder / arm / MANIFEST).of_station
        done |= {(number, arm) for number in range(station.finished or 0)}
        elapsed_s = station.elapsed_s
    write_state(folder, what, done)
    return elapsed_s

"""What comes home of a comparison: a chunk is a parcel with a shard for each arm, and it is stored in all of them.

    FOLDER/compare.json      what is compared
    FOLDER/ARM               a run folder with its shards, as `Landing` keeps them
    FOLDER/compare.log       what checkouts, --setup and the measuring processes printed, chunk by chunk

A chunk counts when all arms have its shard, from one and the same station: what a crash left of one is removed, and
the chunk is measured again.
"""

import os
from collections.abc import Hashable, Iterable, Mapping
from contextlib import ExitStack, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path

from ...shapes.errors import UsageError
from ...shapes.files.json_file import parse_object
from ...shapes.run_folder.manifest import MANIFEST, SHARDS, Manifest, StoredStation, glance
from ...shapes.verdict import Verdict
from ..compare.runner import LOG
from ..compare.spec import Comparison, balanced, write_state
from ..storage.lock import locked
from ..storage.merge_conflicts import different_conditions
from ..storage.shards import Shard, manifest_of
from ..storage.tables import reported
from ..telemetry.clock import CLOCK
from .chunks import Chunk
from .jobs import AnyJob, Coordinates
from .protocol import Parcel
from .result_archive import SUFFIX, entries, pack, unpack
from .result_store import Landing

SHARD = ".zip"

STATION_FILE = "station.json"
"""What a parcel of a chunk says of its station, even when no arm is begun."""


def shard_of(arm: str) -> str:
    """Name of an arm's shard in a parcel."""
    return f"{arm}{SHARD}"


@dataclass(frozen=True, slots=True)
class Record:
    """What came home without rows of any arm: of a station that opens or closes, or that stopped before it began."""

    manifest: Manifest
    verdicts: Mapping[Coordinates, Mapping[int, Verdict]] = field(default_factory=dict)
    reasons: Mapping[Coordinates, str] = field(default_factory=dict)

    @property
    def elapsed_s(self) -> float:
        """Seconds that the station spent on it."""
        return self.manifest.of_station.elapsed_s


class Arms:
    """The only writer of the folder of a comparison by a fleet; holds its lock until `close`. An `arch_queue.Store`."""

    def __init__(self, folder: Path, what: Comparison, manifest: Manifest, chunks: Iterable[Chunk]) -> None:
        """Begin a comparison, or resume what is in `folder`; `manifest` is what every arm's run.json says."""
        self.folder, self.what = folder, what
        self.jobs: dict[str, AnyJob] = {chunk.key: chunk for chunk in chunks}
        self._first: Shard | None = None
        with reported(folder):
            folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as held:
            held.callback(os.close, locked(folder))
            with reported(folder):
                _remove_halves(folder, list(what.commits), self.jobs)
            self._landings: dict[str, Landing] = {}
            for arm in what.commits:
                self._landings[arm] = Landing(folder / arm, _arm_manifest(manifest, folder / arm), self.jobs.values())
                held.callback(self._landings[arm].release)
            self._write_state()
            self._held = held.pop_all()

    @property
    def done(self) -> Mapping[str, float]:
        """Seconds of each chunk that is here as a whole."""
        return self._any.done

    @property
    def begun(self) -> Mapping[str, Hashable]:
        """The device of each chunk that is here in part."""
        return self._any.begun

    def open_jobs(self) -> list[AnyJob]:
        """Return the chunks that are not here as a whole."""
        return self._any.open_jobs()

    def earlier(self, job: AnyJob) -> bytes:
        """Return what is here of a chunk that is begun."""
        return pack({shard_of(arm): landing.earlier(job) for arm, landing in self._landings.items()})

    def land(self, parcel: Parcel) -> "Record":
        """Store a chunk in all arms, or what a station says of itself.

        Raises UsageError when it is not of this comparison; then nothing of it is stored.
        """
        files = entries(parcel.content, parcel.key)
        self._log(parcel.key, files)
        if parcel.key not in self.jobs:
            manifest = manifest_of(files.get(MANIFEST, b""), Path(parcel.key) / MANIFEST)
            self._refuse_other_conditions(manifest)
            return Record(manifest)
        parts = {arm: files[shard_of(arm)] for arm in self._landings if shard_of(arm) in files}
        if len(parts) == len(self._landings):
            shards = {arm: Parcel(parcel.key, content) for arm, content in parts.items()}
            read = {arm: self._landings[arm].read(shard) for arm, shard in shards.items()}
            for arm, landing in self._landings.items():
                landing.keep(read[arm], shards[arm])
        station = parse_object(files[STATION_FILE], parcel.key)
        return Record(Manifest(station=StoredStation.read(station, parcel.key)))

    def event(self, text: str) -> None:
        """Note what happened."""
        self._append(f"{CLOCK.now()} {text}\n".encode())

    def close(self) -> None:
        """Complete the run folders and let go of them."""
        try:
            self._write_state()
            for landing in self._landings.values():
                landing.finish()
        finally:
            self._held.close()

    @property
    def _any(self) -> Landing:
        """All arms agree in what is done and begun."""
        return next(iter(self._landings.values()))

    def _write_state(self) -> None:
        """Say in compare.json what is done: all rounds, once all chunks are here."""
        done = () if self.open_jobs() else balanced(list(self.what.commits), self.what.rounds)
        with reported(self.folder):
            write_state(self.folder, self.what, tuple(done))

    def _refuse_other_conditions(self, manifest: Manifest) -> None:
        shard = Shard(Path(manifest.of_station.host), manifest, (), {})
        self._first = self._first or shard
        for obstacle in different_conditions(self._first, shard):
            raise UsageError(obstacle.reason)

    def _log(self, key: str, files: Mapping[str, bytes]) -> None:
        if text := files.get(LOG):
            self._append(f"--- {key}\n".encode() + text)

    def _append(self, text: bytes) -> None:
        with suppress(OSError), (self.folder / LOG).open("ab") as file:  # a full disk is told by what must be stored
            file.write(text)


def _arm_manifest(manifest: Manifest, folder: Path) -> Manifest:
    """What run.json of an arm says from the start; when and how it began is kept from an earlier call."""
    stated, earlier = deepcopy(manifest), glance(folder)
    stated.id, stated.folder = folder.name, str(folder)
    if earlier.created_at and earlier.command:
        stated.created_at, stated.command = earlier.created_at, earlier.command
    return stated


def _remove_halves(folder: Path, arms: list[str], jobs: Mapping[str, AnyJob]) -> None:
    """Remove shards that not all arms have from the same station: a crash came between them.

    Shards of no job go as well: a replay is of other cases when there are more rounds to choose them by.
    """
    paths = {arm: {path.name: path for path in (folder / arm / SHARDS).glob(f"*{SUFFIX}")} for arm in arms}
    for name in set().union(*paths.values()):
        shards = [paths[arm][name] for arm in arms if name in paths[arm]]
        is_whole = len(shards) == len(arms) and len({_station(shard) for shard in shards}) == 1
        if not is_whole or name.removesuffix(SUFFIX) not in jobs:
            for shard in shards:
                shard.unlink()


def _station(shard: Path) -> str:
    manifest = manifest_of(unpack(shard.read_bytes(), str(shard)).get(MANIFEST, b""), shard / MANIFEST)
    return manifest.of_station.name

"""The results of a comparison by a fleet: each chunk is one archive with a run folder per arm.

    FOLDER/compare.json      what is compared
    FOLDER/shards/KEY.zip    the chunks
    FOLDER/ARM               the rows of an arm in all chunks, as `ResultStore` keeps them
    FOLDER/compare.log       output of checkouts and --setup, and what was told of the rounds, chunk by chunk

A chunk is stored in all arms or in none: its archive is moved into place whole.
"""

import os
from collections.abc import Collection, Hashable, Iterable, Mapping
from contextlib import ExitStack, suppress
from copy import deepcopy
from itertools import chain
from pathlib import Path

from ....harness.compare.runner import LOG
from ....harness.compare.spec import CompareSpec, balanced, write_state
from ....harness.storage.lock import locked
from ....harness.storage.merge_conflicts import different_conditions
from ....harness.storage.shards import Shard, manifest_of
from ....harness.storage.tables import reported
from ....harness.telemetry.clock import CLOCK
from ....shapes.errors import UsageError
from ....shapes.files.json_file import parse_object
from ....shapes.run_folder.manifest import COMPARISON, MANIFEST, SHARDS, Manifest, StoredWorker, glance
from .jobs import Chunk, Job, JobResult
from .protocol import ResultArchive
from .result_archive import SUFFIX, entries
from .result_store import ResultStore

WORKER_FILE = "station.json"
"""Describes the worker in the archive of a chunk, even when no arm has begun."""


class CompareStore:
    """The only writer of the folder of a comparison by a fleet; holds its lock until `close`."""

    def __init__(self, folder: Path, what: CompareSpec, manifest: Manifest, chunks: Iterable[Chunk]) -> None:
        """Begin a comparison, or resume the one in `folder`; `manifest` is common to run.json of all arms."""
        self.folder, self.what = folder, what
        self.jobs: dict[str, Job] = {chunk.key: chunk for chunk in chunks}
        self._first: Shard | None = None
        with reported(folder):
            folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as held:
            held.callback(os.close, locked(folder))
            if (folder / COMPARISON).exists():
                self._remove_others()
            self._stores: dict[str, ResultStore] = {}
            for arm in what.commits:
                self._stores[arm] = ResultStore(folder / arm, _of_arm(manifest, folder / arm), self.jobs.values(), arm)
                held.callback(self._stores[arm].release)
            self._write_state()
            self._held = held.pop_all()

    @property
    def done(self) -> Mapping[str, float]:
        """Seconds of each chunk that is stored as a whole."""
        return self._any.done

    @property
    def begun(self) -> Mapping[str, Hashable]:
        """The device of each chunk that is stored in part."""
        return self._any.begun

    def open_jobs(self) -> list[Job]:
        """Return the chunks that are not stored as a whole."""
        return self._any.open_jobs()

    def retry(self, verdicts: Collection[str]) -> int:
        """Reopen the complete chunks with units of these verdicts in some arm; each arm logs its own."""
        failed = [store.failed(verdicts) for store in self._stores.values()]
        keys = set().union(*failed)
        pairs = zip(self._stores.values(), failed, strict=True)
        return sum(store.reopen(keys, chain.from_iterable(own.values())) for store, own in pairs)

    def earlier(self, job: Job) -> bytes:
        """Return what is stored of a chunk that has begun."""
        return self._any.earlier(job)

    def add_result(self, archive: ResultArchive) -> JobResult:
        """Store a chunk in all arms, or note what a worker reports of itself.

        Raises UsageError when it is not of this comparison; then nothing of it is stored.
        """
        files = entries(archive.content, archive.key)
        if text := files.get(LOG):
            self._append(f"--- {archive.key}\n".encode() + text)
        if archive.key not in self.jobs:
            manifest = manifest_of(files.get(MANIFEST, b""), Path(archive.key) / MANIFEST)
            shard = Shard(Path(manifest.of_station.host), manifest, (), {})
            self._first = self._first or shard
            for conflict in different_conditions(self._first, shard):
                raise UsageError(conflict.reason)
            return JobResult(manifest, {}, {})
        if all(f"{arm}/{MANIFEST}" in files for arm in self._stores):
            read = [store.read(archive.key, archive.content) for store in self._stores.values()]
            for store, content in zip(self._stores.values(), read, strict=True):
                store.keep(content, archive)
        worker = StoredWorker.read(parse_object(files[WORKER_FILE], archive.key), archive.key)
        return JobResult(Manifest(station=worker), {}, {})

    def event(self, text: str) -> None:
        """Append a line to compare.log."""
        self._append(f"{CLOCK.now()} {text}\n".encode())

    def close(self) -> None:
        """Complete the run folders and release their locks."""
        try:
            self._write_state()
            for store in self._stores.values():
                store.finish()
        finally:
            self._held.close()

    @property
    def _any(self) -> ResultStore:
        """All arms agree on what is done and begun."""
        return next(iter(self._stores.values()))

    def _write_state(self) -> None:
        """Write compare.json; all rounds are done once all chunks are stored."""
        done = () if self.open_jobs() else balanced(list(self.what.commits), self.what.rounds)
        with reported(self.folder):
            write_state(self.folder, self.what, tuple(done))

    def _remove_others(self) -> None:
        """Remove shards of no job: a replay has other jobs when more rounds select other cases."""
        with reported(self.folder):
            for path in (self.folder / SHARDS).glob(f"chunk-*{SUFFIX}"):
                if path.name.removesuffix(SUFFIX) not in self.jobs:
                    path.unlink()

    def _append(self, text: bytes) -> None:
        with (
            suppress(OSError),
            (self.folder / LOG).open("ab") as file,
        ):  # a full disk is reported by the stores
            file.write(text)


def _of_arm(manifest: Manifest, folder: Path) -> Manifest:
    """Return run.json of an arm as it begins; when and how it began is kept from an earlier call."""
    own, earlier = deepcopy(manifest), glance(folder)
    own.id, own.folder = folder.name, str(folder)
    if earlier.created_at and earlier.command:
        own.created_at, own.command = earlier.created_at, earlier.command
    return own

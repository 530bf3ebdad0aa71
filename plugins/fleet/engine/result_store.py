"""The results of a sweep, kept twice: each archive as a shard, and all of them as a run folder, readable at any time.

    RUN/shards/KEY.zip    one archive each, synced and moved into place: what counts
    RUN/cells.csv, ...    the rows of the shards, appended on arrival; rebuilt from the shards by every `ResultStore`

A shard that holds only a part of its job joins the tables when the sweep ends and nothing has replaced it: its device
may still complete it, or another one measure all of it.
"""

import io
import os
import time
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from itertools import chain
from pathlib import Path
from typing import Any

from ....harness.plan.plan import MODEL_FIELDS
from ....harness.storage.lock import locked
from ....harness.storage.manifest import union
from ....harness.storage.merge_conflicts import KnownCode, different_conditions
from ....harness.storage.shards import ALWAYS, Shard, manifest_of, parsed
from ....harness.storage.store import better_of, ceilings_of, refuse_foreign
from ....harness.storage.tables import fields, replace, reported
from ....harness.storage.worker_log import trim
from ....harness.telemetry.clock import CLOCK
from ....shapes.errors import UsageError
from ....shapes.files.csv_file import csv_text
from ....shapes.run_folder.columns import CANARY, CEILINGS, CELLS, TABLES, TableSchema
from ....shapes.run_folder.manifest import EVENTS, MANIFEST, SHARDS, WORKER_LOG, Manifest, StoredFleet
from ....shapes.run_folder.retries import Retry
from ....shapes.verdict import Verdict
from .device_registry import DeviceRegistry, device_of
from .jobs import Coordinates, Job, JobResult, SweepJob
from .protocol import ResultArchive
from .result_archive import SUFFIX, unpack

MANIFEST_EVERY_S = 2.0

_NUMBERED = (CELLS, CANARY)
"""Tables that name worker processes, which are renumbered for the run."""

_READ = [CELLS.names.index(name) for name in ("round", "verdict", "reason", *MODEL_FIELDS)]
"""Columns of cells.csv that the fleet reads."""

_HOW_MUCH = ("rounds", "caches", "target_ci", "min_samples", "budget_s")
"""Settings that may change when a sweep is resumed, as in `rooflens run`."""


@dataclass(frozen=True, slots=True)
class StoredShard(JobResult):
    """A shard with its files."""

    key: str
    files: Mapping[str, bytes]


class ResultStore:
    """The only writer of the run folder of a fleet; holds its lock until `close`.

    `jobs` is the plan by key; with `part`, archives hold a run folder of that name beside others, and lie next to
    `folder`. `done` has the seconds of each job that is stored as a whole, `begun` the device of each
    that is stored in part or measured again.
    """

    def __init__(self, folder: Path, manifest: Manifest, jobs: Iterable[Job], part: str = "") -> None:
        """Begin a run, or resume the one in `folder`. `manifest` is completed and becomes run.json.

        Raises UsageError for shards that are damaged, or that are not of one run.
        """
        self.folder, self.manifest, self._part = folder, manifest, part
        self._shards = (folder.parent if part else folder) / SHARDS
        self._events = self._shards / f"{part}{EVENTS}"
        self.jobs = {job.key: job for job in jobs}
        self._retried = set[str]()
        self._written = 0.0
        with reported(folder):
            folder.mkdir(parents=True, exist_ok=True)
            self._shards.mkdir(exist_ok=True)
        self._lock = locked(folder)
        try:
            if not (folder / MANIFEST).exists():
                refuse_foreign(folder)
            self._rebuild()
        except BaseException:
            self.release()
            raise

    def add(self, jobs: Iterable[Job]) -> None:
        """Add jobs to the plan, and store that."""
        self.jobs |= {job.key: job for job in jobs}
        self.write_manifest()

    def open_jobs(self) -> list[Job]:
        """Return the jobs that are not stored as a whole, in the order of the plan."""
        return [job for key, job in self.jobs.items() if key not in self.done]

    def failed(self, verdicts: Collection[str]) -> dict[str, list[str]]:
        """Return the complete jobs with units of these verdicts: by key, the units with their reasons.

        Not those with cells that are no longer planned: another device would not measure these again.
        """
        found: dict[str, list[str]] = {}
        for shard in map(self._stored, self.done if verdicts else ()):
            job = self.jobs[shard.key]
            if isinstance(job, SweepJob) and not shard.verdicts.keys() <= job.cells.keys():
                continue
            for place, rounds in shard.verdicts.items():
                for number, verdict in rounds.items():
                    if verdict.value in verdicts:
                        unit = Retry.of(number, place, verdict.value, shard.reasons[place])
                        found.setdefault(shard.key, []).append(str(unit))
        return found

    def retry(self, verdicts: Collection[str]) -> int:
        """Reopen the complete jobs with units of these verdicts, and return how many units these are."""
        failed = self.failed(verdicts)
        return self.reopen(failed, chain.from_iterable(failed.values()))

    def reopen(self, keys: Collection[str], units: Iterable[str]) -> int:
        """Reopen complete jobs, and log and count `units`. A shard is replaced only by one with all of its job."""
        units = [*units]
        for unit in units:
            self.event(unit)
        self._retried |= {*keys}
        if keys:
            self._rebuild()
        return len(units)

    def earlier(self, job: Job) -> bytes:
        """Return the shard that holds a part of `job`, b"" if there is none."""
        if job.key not in self.begun:
            return b""
        with reported(self.folder):
            return self._path(job.key).read_bytes()

    def add_result(self, archive: ResultArchive) -> StoredShard:
        """Store an archive, and its rows in the tables.

        Raises UsageError when it does not belong to this run: other software, other code, another model of the device.
        """
        shard = self.read(archive.key, archive.content)
        self.keep(shard, archive)
        return shard

    def read(self, key: str, content: bytes) -> StoredShard:
        """Parse an archive. Raises UsageError when it is damaged, or not of this run and its job."""
        where = self._path(key)
        files = unpack(content, str(where), self._part)
        manifest = manifest_of(files.get(MANIFEST, b""), where / MANIFEST)
        verdicts: dict[Coordinates, dict[int, Verdict]] = {}
        reasons: dict[Coordinates, str] = {}
        for line, row in _rows(files, CELLS, where):
            number, verdict, reason, *place = (row[column] for column in _READ)
            rounds = verdicts.setdefault(tuple(place), {})
            try:
                if int(number) in rounds:
                    raise UsageError(f"{where / CELLS.file} line {line}: duplicate round {number} of a cell")
                rounds[int(number)] = Verdict(verdict)
                if rounds[int(number)] is not Verdict.PASSED:
                    reasons[tuple(place)] = reason
            except ValueError:
                raise UsageError(f"{where / CELLS.file} line {line}: not a row of {CELLS.file}") from None
        shard = StoredShard(manifest, verdicts, reasons, key, files)
        self._check(shard)
        return shard

    def keep(self, content: StoredShard, archive: ResultArchive) -> None:
        """Store an archive that was read, unless it holds no more of its job than an earlier one."""
        job = self.jobs.get(content.key)
        if job and job.missing(content) >= self._missing.get(content.key, job.units):
            return
        with reported(self.folder):
            replace(self._path(archive.key), archive.content)
        self._retried.discard(content.key)
        self._take(content)
        if time.monotonic() - self._written >= MANIFEST_EVERY_S:
            self.write_manifest()

    def write_manifest(self) -> None:
        """Replace run.json."""
        planned = sum(
            self._planned[key] if key in self._planned else job.planned(None) for key, job in self.jobs.items()
        )
        self._registry.describe(self.manifest)
        self.manifest.planned_units = planned
        stated = self.manifest.fleet or StoredFleet()
        self.manifest.fleet = replace_fields(stated, jobs=len(self.jobs), done=len(self.done))
        with reported(self.folder):
            replace(self.folder / MANIFEST, self.manifest.to_text())
        self._written = time.monotonic()

    def event(self, text: str) -> None:
        """Append a line to events.log, and to the copy among the shards from which that is rebuilt."""
        line = f"{CLOCK.now()} {text}\n".encode()
        with suppress(OSError):  # a full disk is reported by the stores
            _append(self.folder / EVENTS, line)
            _append(self._events, line)

    def close(self) -> None:
        """Finish, and release the lock."""
        try:
            self.finish()
        finally:
            self.release()

    def finish(self) -> None:
        """Add the shards that hold a part of their job, and sync the tables."""
        for key in list(self.begun):
            self._append_rows(self._stored(key))
        self.write_manifest()
        with reported(self.folder):
            for table in TABLES:
                if (path := self.folder / table.file).exists():
                    _sync(path)

    def release(self) -> None:
        """Release the lock at once."""
        os.close(self._lock)

    def _path(self, key: str) -> Path:
        return self._shards / f"{key}{SUFFIX}"

    def _rebuild(self) -> None:
        """Rebuild the tables from the shards."""
        self.done: dict[str, float] = {}
        self.begun: dict[str, Hashable] = {}
        self._registry, self._code = DeviceRegistry(), KnownCode()
        self._first: Shard | None = None
        self._ceilings: list[Mapping[str, Any]] = []
        self._planned: dict[str, int] = {}
        self._missing: dict[str, int] = {}
        with reported(self.folder):
            for table in TABLES:
                (self.folder / table.file).unlink(missing_ok=True)
                if table in ALWAYS:
                    replace(self.folder / table.file, csv_text(table.names, []))
            if (self.folder / MANIFEST).exists():  # else the logs are not of a run
                for name in (EVENTS, WORKER_LOG):
                    (self.folder / name).unlink(missing_ok=True)
            if self._events.exists():
                _append(self.folder / EVENTS, self._events.read_bytes())
            keys = sorted(path.name.removesuffix(SUFFIX) for path in self._shards.glob(f"*{SUFFIX}"))
        for key in keys:
            self._take(self._stored(key))
        self.write_manifest()

    def _stored(self, key: str) -> StoredShard:
        with reported(self.folder):
            archive = self._path(key).read_bytes()
        return self.read(key, archive)

    def _check(self, content: StoredShard) -> None:
        """Raise UsageError unless the shard is of this run, and its cells of its job."""
        job = self.jobs.get(content.key)
        if job and not all(map(job.holds, content.verdicts)):
            raise UsageError(f"{self._path(content.key)} holds cells of another problem: delete it")
        manifest, worker = content.manifest, content.worker
        how: dict[str, Any] = dict.fromkeys(_HOW_MUCH) | {"timer": manifest.timer, "cold_by": manifest.cold_by}
        protocol = replace_fields(manifest.protocol, **how)  # "auto" is what it chose
        where = Path(f"{worker.host} slot {worker.slot}")
        shard = Shard(where, replace_fields(manifest, rounds=None, protocol=protocol), (), {})
        if self._first is None:
            self._first = shard
        for conflict in (*different_conditions(self._first, shard), *self._code.differences(shard)):
            raise UsageError(conflict.reason)

    def _take(self, content: StoredShard) -> None:
        """Register a stored shard, and append its rows unless it holds only a part of its job."""
        self._registry.add(content.manifest)
        self.manifest.challengers = union(one.challengers for one in (self.manifest, content.manifest))
        job = self.jobs.get(content.key)
        if job and (missing := job.missing(content) or int(job.key in self._retried)):
            self.begun[job.key] = device_of(content.manifest)
            self._missing[job.key] = missing
            return
        if job:
            self.begun.pop(job.key, None)
            self._missing.pop(job.key, None)
            self.done[job.key] = content.worker.elapsed_s
            self._planned[job.key] = job.planned(content.manifest)
        self._append_rows(content)

    def _append_rows(self, content: StoredShard) -> None:
        """Append the rows of a shard to the tables: samples before the rows that commit them."""
        where = self._path(content.key)
        with reported(self.folder):
            for table in sorted(TABLES, key=lambda table: table is CELLS):
                if table.file not in content.files:
                    continue
                if table is CEILINGS:
                    self._add_ceilings(content, where)
                    continue
                if table in _NUMBERED:
                    rows = self._numbered(content, table, where)
                else:
                    rows = content.files[table.file].partition(b"\n")[2]
                if rows:
                    path = self.folder / table.file
                    if not path.exists():
                        replace(path, csv_text(table.names, []))
                    _append(path, rows)
            host = content.worker.host
            if events := content.files.get(EVENTS):
                lines = (line.partition(" ") for line in events.decode(errors="replace").splitlines())
                _append(self.folder / EVENTS, "".join(f"{at} {host}: {text}\n" for at, _, text in lines).encode())
            if log := content.files.get(WORKER_LOG):
                _append(self.folder / WORKER_LOG, f"--- {host}, {content.key}\n".encode() + log)
                trim(self.folder / WORKER_LOG)

    def _numbered(self, content: StoredShard, table: TableSchema, where: Path) -> bytes:
        """Return the rows of a table with worker processes numbered for the run."""
        at, rows = table.names.index("process"), []
        for line, row in _rows(content.files, table, where):
            try:
                row[at] = str(self._registry.process(content.manifest, int(row[at])))
            except ValueError:
                raise UsageError(f"{where / table.file} line {line}: not a row of {table.file}") from None
            rows.append(row)
        return csv_text(None, rows).encode()

    def _add_ceilings(self, content: StoredShard, where: Path) -> None:
        found = ceilings_of(_rows(content.files, CEILINGS, where), where / CEILINGS.file)
        if not found:
            return
        better = better_of(self._ceilings, found)
        if better == self._ceilings:  # so for most devices of a large fleet
            return
        self._ceilings = better
        rows = (fields(CEILINGS, row) for row in self._ceilings)
        replace(self.folder / CEILINGS.file, csv_text(CEILINGS.names, rows))


def _rows(files: Mapping[str, bytes], table: TableSchema, where: Path) -> Iterator[tuple[int, list[str]]]:
    return parsed(io.BytesIO(files.get(table.file, b"")), where / table.file, table)


def _append(path: Path, content: bytes) -> None:
    with path.open("ab") as file:
        file.write(content)


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())

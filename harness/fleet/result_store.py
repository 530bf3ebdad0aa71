"""What comes home, kept twice: every parcel as a shard, and all of them as one run folder that can be read at any time.

    RUN/shards/KEY.zip    one parcel each, synced and moved into place: what counts
    RUN/cells.csv, ...    the rows of the shards, appended as they come; made anew from the shards by every `Landing`

A shard that holds only a part of its job joins the tables when the sweep ends and nothing has replaced it by then: its
device may still complete it, or another one measure all of it.
"""

import io
import os
import time
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from pathlib import Path
from typing import Any

from ...shapes.errors import UsageError
from ...shapes.files.csv_file import csv_text
from ...shapes.run_folder.columns import CANARY, CEILINGS, CELLS, TABLES, Table
from ...shapes.run_folder.manifest import EVENTS, MANIFEST, SHARDS, WORKER_LOG, Manifest, StoredFleet
from ...shapes.verdict import Verdict
from ..plan.plan import MODEL_FIELDS
from ..storage.lock import locked
from ..storage.manifest import union
from ..storage.merge_conflicts import KnownCode, different_conditions
from ..storage.shards import ALWAYS, Shard, manifest_of, parsed
from ..storage.store import better_of, ceilings_of
from ..storage.tables import fields, replace, reported
from ..storage.worker_log import trim
from ..telemetry.clock import CLOCK
from .device_registry import Roster, device_of
from .jobs import AnyJob, Coordinates, Verdicts
from .protocol import Parcel
from .result_archive import SUFFIX, unpack

MANIFEST_EVERY_S = 2.0

_NUMBERED = (CELLS, CANARY)
"""Tables that name worker processes: those of a station get the numbers that they have in the run."""

_READ = [CELLS.names.index(name) for name in ("round", "verdict", "reason", *MODEL_FIELDS)]
"""Where a row of cells.csv has what the fleet must know of it."""


_HOW_MUCH = ("rounds", "caches", "target_ci", "min_samples", "budget_s")
"""Settings that may change when a sweep goes on, as in `rooflens run`: `AnyJob.missing` sees to what is to do then."""


@dataclass(frozen=True, slots=True)
class Content:
    """A shard as it was read: its files, and by cell the verdicts of its rounds and the reason of the last failure."""

    key: str
    files: Mapping[str, bytes]
    manifest: Manifest
    verdicts: Verdicts
    reasons: Mapping[Coordinates, str]

    @property
    def elapsed_s(self) -> float:
        """Seconds that the station spent on it."""
        return self.manifest.of_station.elapsed_s


class Landing:
    """The only writer of the run folder of a fleet; holds its lock until `close`.

    `jobs` is the plan by key; `done` has the seconds of each job that a shard holds as a whole, `begun` the device of
    each that a shard holds in part.
    """

    def __init__(self, folder: Path, manifest: Manifest, jobs: Iterable[AnyJob]) -> None:
        """Begin a run, or resume with the shards that are in `folder`. `manifest` is completed and becomes run.json.

        Raises UsageError for shards that are damaged, or that are not of one run.
        """
        self.folder, self.manifest = folder, manifest
        self.jobs = {job.key: job for job in jobs}
        self.done: dict[str, float] = {}
        self.begun: dict[str, Hashable] = {}
        self._roster, self._code = Roster(), KnownCode()
        self._first: Shard | None = None
        self._ceilings: list[Mapping[str, Any]] = []
        self._planned: dict[str, int] = {}
        self._missing: dict[str, int] = {}
        self._written = 0.0
        with reported(folder):
            (folder / SHARDS).mkdir(parents=True, exist_ok=True)
        self._lock = locked(folder)
        try:
            self._rebuild()
        except BaseException:
            self.release()
            raise

    def add(self, jobs: Iterable[AnyJob]) -> None:
        """Add jobs to the plan, and store that."""
        self.jobs |= {job.key: job for job in jobs}
        self.write_manifest()

    def open_jobs(self) -> list[AnyJob]:
        """Return the jobs that no shard holds as a whole, in the order of the plan."""
        return [job for key, job in self.jobs.items() if key not in self.done]

    def earlier(self, job: AnyJob) -> bytes:
        """Return the shard that holds a part of `job`, b"" without one."""
        if job.key not in self.begun:
            return b""
        with reported(self.folder):
            return self._path(job.key).read_bytes()

    def land(self, parcel: Parcel) -> Content:
        """Store a parcel, and its rows in the tables. It survives from here on.

        Raises UsageError when it does not belong to this run: other software, other code, another model of the device.
        """
        content = self.read(parcel)
        self.keep(content, parcel)
        return content

    def read(self, parcel: Parcel) -> Content:
        """Parse a parcel and check that it is of this run, as `land` does; nothing is stored yet."""
        return self._read(parcel.key, parcel.content)

    def keep(self, content: Content, parcel: Parcel) -> None:
        """Store a parcel that was read; not one that holds no more of its job than an earlier one, or nothing."""
        job = self.jobs.get(content.key)
        if job and job.missing(content) >= self._missing.get(content.key, job.units):
            return
        with reported(self.folder):
            replace(self._path(parcel.key), parcel.content)
        self._take(content)
        if time.monotonic() - self._written >= MANIFEST_EVERY_S:
            self.write_manifest()

    def write_manifest(self) -> None:
        """Replace run.json."""
        planned = sum(
            self._planned[key] if key in self._planned else job.planned(None) for key, job in self.jobs.items()
        )
        self._roster.describe(self.manifest)
        self.manifest.planned_units = planned
        stated = self.manifest.fleet or StoredFleet()
        self.manifest.fleet = replace_fields(stated, jobs=len(self.jobs), done=len(self.done))
        with reported(self.folder):
            replace(self.folder / MANIFEST, self.manifest.to_text())
        self._written = time.monotonic()

    def event(self, text: str) -> None:
        """Append a line to events.log, and to the one among the shards from which that is made anew."""
        line = f"{CLOCK.now()} {text}\n".encode()
        with suppress(OSError):  # a full disk is told by what must be stored
            _append(self.folder / EVENTS, line)
            _append(self.folder / SHARDS / EVENTS, line)

    def close(self) -> None:
        """Finish, and let go of the folder."""
        try:
            self.finish()
        finally:
            self.release()

    def finish(self) -> None:
        """Add what is left of shards that hold a part, and wait for the disk."""
        for key in list(self.begun):
            self._append_rows(self._stored(key))
        self.write_manifest()
        with reported(self.folder):
            for table in TABLES:
                if (path := self.folder / table.file).exists():
                    _sync(path)

    def release(self) -> None:
        """Let go of the folder at once."""
        os.close(self._lock)

    def _path(self, key: str) -> Path:
        return self.folder / SHARDS / f"{key}{SUFFIX}"

    def _rebuild(self) -> None:
        """Make the tables from the shards that are there."""
        with reported(self.folder):
            for table in TABLES:
                (self.folder / table.file).unlink(missing_ok=True)
                if table in ALWAYS:
                    replace(self.folder / table.file, csv_text(table.names, []))
            for name in (EVENTS, WORKER_LOG):
                (self.folder / name).unlink(missing_ok=True)
            if (own := self.folder / SHARDS / EVENTS).exists():
                _append(self.folder / EVENTS, own.read_bytes())
            keys = sorted(path.name.removesuffix(SUFFIX) for path in (self.folder / SHARDS).glob(f"*{SUFFIX}"))
        for key in keys:
            self._take(self._stored(key))
        self.write_manifest()

    def _stored(self, key: str) -> Content:
        with reported(self.folder):
            parcel = self._path(key).read_bytes()
        return self._read(key, parcel)

    def _read(self, key: str, parcel: bytes) -> Content:
        """Parse a parcel. Raises UsageError when it is damaged, or not of this run and its job."""
        where = self._path(key)
        files = unpack(parcel, str(where))
        manifest = manifest_of(files.get(MANIFEST, b""), where / MANIFEST)
        verdicts: dict[Coordinates, dict[int, Verdict]] = {}
        reasons: dict[Coordinates, str] = {}
        for line, row in _rows(files, CELLS, where):
            number, verdict, reason, *place = (row[column] for column in _READ)
            rounds = verdicts.setdefault(tuple(place), {})
            try:
                if int(number) in rounds:
                    raise UsageError(
                        f"{where / CELLS.file} line {line}: round {number} of this cell stands there twice"
                    )
                rounds[int(number)] = Verdict(verdict)
                if rounds[int(number)] is not Verdict.PASSED:
                    reasons[tuple(place)] = reason
            except ValueError:
                raise UsageError(f"{where / CELLS.file} line {line}: not a row of {CELLS.file}") from None
        content = Content(key, files, manifest, verdicts, reasons)
        self._check(content)
        return content

    def _check(self, content: Content) -> None:
        """Raise UsageError unless the shard is of this run, and its cells of its job."""
        job = self.jobs.get(content.key)
        if job and not all(map(job.holds, content.verdicts)):
            raise UsageError(f"{self._path(content.key)} holds cells of another problem: delete it")
        manifest, station = content.manifest, content.manifest.of_station
        how: dict[str, Any] = dict.fromkeys(_HOW_MUCH) | {"timer": manifest.timer, "cold_by": manifest.cold_by}
        protocol = replace_fields(manifest.protocol, **how)  # "auto" is what it chose
        where = Path(f"{station.host} slot {station.slot}")
        shard = Shard(where, replace_fields(manifest, rounds=None, protocol=protocol), (), {})
        if self._first is None:
            self._first = shard
        for obstacle in (*different_conditions(self._first, shard), *self._code.differences(shard)):
            raise UsageError(obstacle.reason)

    def _take(self, content: Content) -> None:
        """Note what a stored shard completes, and append its rows unless it holds only a part of its job."""
        self._roster.add(content.manifest)
        self.manifest.challengers = union((self.manifest.challengers, content.manifest.challengers))
        job = self.jobs.get(content.key)
        if job and (missing := job.missing(content)):
            self.begun[job.key] = device_of(content.manifest)
            self._missing[job.key] = missing
            return
        if job:
            self.begun.pop(job.key, None)
            self._missing.pop(job.key, None)
            self.done[job.key] = content.elapsed_s
            self._planned[job.key] = job.planned(content.manifest)
        self._append_rows(content)

    def _append_rows(self, content: Content) -> None:
        """Append to every table what the shard has for it: samples before the rows that commit them."""
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
            host = content.manifest.of_station.host
            if events := content.files.get(EVENTS):
                lines = (line.partition(" ") for line in events.decode(errors="replace").splitlines())
                _append(self.folder / EVENTS, "".join(f"{at} {host}: {text}\n" for at, _, text in lines).encode())
            if log := content.files.get(WORKER_LOG):
                _append(self.folder / WORKER_LOG, f"--- {host}, {content.key}\n".encode() + log)
                trim(self.folder / WORKER_LOG)

    def _numbered(self, content: Content, table: Table, where: Path) -> bytes:
        """Return the rows of a table with the run's numbers of the worker processes."""
        at, rows = table.names.index("process"), []
        for line, row in _rows(content.files, table, where):
            try:
                row[at] = str(self._roster.process(content.manifest, int(row[at])))
            except ValueError:
                raise UsageError(f"{where / table.file} line {line}: not a row of {table.file}") from None
            rows.append(row)
        return csv_text(None, rows).encode()

    def _add_ceilings(self, content: Content, where: Path) -> None:
        found = ceilings_of(_rows(content.files, CEILINGS, where), where / CEILINGS.file)
        if not found:
            return
        better = better_of(self._ceilings, found)
        if better == self._ceilings:  # as with most devices of a large fleet: no file is replaced for them
            return
        self._ceilings = better
        rows = (fields(CEILINGS, row) for row in self._ceilings)
        replace(self.folder / CEILINGS.file, csv_text(CEILINGS.names, rows))


def _rows(files: Mapping[str, bytes], table: Table, where: Path) -> Iterator[tuple[int, list[str]]]:
    return parsed(io.BytesIO(files.get(table.file, b"")), where / table.file, table)


def _append(path: Path, content: bytes) -> None:
    with path.open("ab") as file:
        file.write(content)


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())

"""The run folder: `run.json`, `cells.csv`, `samples.csv`, `ceilings.csv`, `events.log`.

A unit is one (cell, round). Its samples are appended first, then its commit row in cells.csv, each synced to disk: a
unit counts when its commit row is whole and its samples are there. Opening a folder cuts off what an interrupted writer
left: a torn last line, samples without a commit row, and (after a loss of power) a commit row without its samples.
"""

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import wraps
from itertools import zip_longest
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar, cast

from ...shapes.errors import RooflensError, UsageError
from ...shapes.files.csv_file import csv_text
from ...shapes.files.stored_file import compressed
from ...shapes.run_folder.columns import CANARY, CEILINGS, CELLS, SAMPLES, TABLES, TELEMETRY, TUNING, TableSchema
from ...shapes.run_folder.manifest import EVENTS, MANIFEST, Manifest, read_manifest
from ...shapes.run_folder.retries import Retry
from ...shapes.verdict import Verdict
from ..plan.plan import MODEL_FIELDS, Cell
from ..telemetry.clock import CLOCK
from ..timing.samples import Samples
from .lock import LOCK, locked
from .recovery import Unit, committed, cut_orphans, cut_torn_line, cut_unbacked, last_moment, sample_counts
from .tables import append, fields, make_folder, replace, reported, rows_of, written_to

WHEN_NEEDED = (TELEMETRY, CANARY, TUNING)
"""Tables that are created with their first row; the others are in every run folder."""


_Method = TypeVar("_Method", bound=Callable[..., Any])


def _alone(method: _Method) -> _Method:
    """Let one thread at a time call this method of a store, and others with this mark."""

    @wraps(method)
    def call(store: "RunStore", *arguments: Any) -> Any:
        with store.alone:
            return method(store, *arguments)

    return cast(_Method, call)


class RunStore:
    """The only writer of a run folder; holds its lock from `create` or `reopen` until `close`.

    The threads of several devices store in one: who reads something and writes what follows from it holds `alone`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.alone = folder, RLock()
        self._lock = locked(folder)
        self.verdicts: dict[Unit, str] = {}
        self._existed: set[str] = set()
        self._kept: list[str] = []

    @classmethod
    def create(cls, folder: Path) -> "RunStore":
        """Start an empty run. Raises UsageError when the folder holds a run already.

        What a start leaves that failed before its manifest (no such device, an early Ctrl-C) is not a run.
        """
        try:
            make_folder(folder)
        except OSError as error:
            raise RooflensError(f"cannot write to {folder}: {error.strerror or error}; choose another -o") from error
        existed = {path.name for path in folder.iterdir()}
        store = cls(folder)
        store._existed = existed
        try:
            if (folder / MANIFEST).exists() or _holds_rows(folder / CELLS.file):
                raise UsageError(f"{folder} holds a run already: add --resume to resume it, or choose another -o")
            refuse_foreign(folder)
        except UsageError:
            store.close()
            raise
        with reported(folder):
            for table in TABLES:
                if table not in WHEN_NEEDED:
                    (folder / table.file).write_text(csv_text(table.names, []), encoding="utf-8")
        return store

    @classmethod
    def reopen(cls, folder: Path) -> "RunStore":
        """Resume a run: recover the tables and read which units are finished."""
        if not (folder / MANIFEST).is_file():
            raise UsageError(f"{folder} holds no run to resume: it has no {MANIFEST}; omit --resume to start one")
        if not (folder / CELLS.file).exists() and compressed(folder / CELLS.file):
            raise UsageError(f"{folder} is compressed: unpack its tables to resume it")
        store = cls(folder)
        try:
            manifest = store.read_manifest()
            refuse_merged(folder, manifest)
        except UsageError:
            store.close()
            raise
        with reported(folder):
            for table in TABLES:
                if table not in WHEN_NEEDED or (folder / table.file).exists():
                    cut_torn_line(folder / table.file, table)
            cut_unbacked(folder / CELLS.file, sample_counts(folder / SAMPLES.file))
            store.verdicts = committed(folder / CELLS.file)
            store._cut_orphans()
        CLOCK.go_on_after(last_moment(folder))
        return store

    @_alone
    def ended_with(self, verdicts: Collection[str]) -> set[Unit]:
        """Return the units that have one of `verdicts`."""
        return {unit for unit, verdict in self.verdicts.items() if verdict in verdicts}

    def missing(self, cells: Sequence[Cell], rounds: int) -> list[tuple[int, ...]]:
        """Rounds to do per cell, see `missing_rounds`."""
        return missing_rounds(self.verdicts, cells, rounds)

    @_alone
    def planned_units(self, cells: Iterable[Cell], rounds: int) -> int:
        """Number of units when `cells` are planned beside what is stored."""
        return len({*(cell.id for cell in cells), *(unit[0] for unit in self.verdicts)}) * rounds

    @_alone
    def forget(self, cells: Iterable[Cell], verdicts: Collection[str]) -> int:
        """Make the failures of `cells` with one of `verdicts` to do again; return their number."""
        planned = {cell.id for cell in cells}
        if units := {unit for unit in self.ended_with(verdicts) if unit[0] in planned}:
            self.retry(units)
        return len(units)

    @_alone
    def retry(self, units: Collection[Unit]) -> None:
        """Make these units, if any, to do again.

        Their rows leave cells.csv, so that none counts twice; events.log has each with its reason before.
        """
        if not units:
            return
        kept = []
        for _, row in rows_of(self.folder / CELLS.file):
            if (row["cell_id"], int(row["round"])) in units:
                place = (row[name] for name in MODEL_FIELDS)
                self.event(str(Retry.of(row["round"], place, row["verdict"], row["reason"])))
            else:
                kept.append([row[name] for name in CELLS.names])
        with reported(self.folder):
            replace(self.folder / CELLS.file, csv_text(CELLS.names, kept))
            self.verdicts = committed(self.folder / CELLS.file)
            self._cut_orphans()

    def _cut_orphans(self) -> None:
        for table in (SAMPLES, TELEMETRY):
            if (self.folder / table.file).exists():
                cut_orphans(self.folder / table.file, self.verdicts)

    def read_manifest(self) -> Manifest:
        """Return what run.json says."""
        path = self.folder / MANIFEST
        try:
            return read_manifest(path)
        except FileNotFoundError as error:
            raise UsageError(f"{path}: {error}") from None

    @_alone
    def write_manifest(self, manifest: Manifest) -> None:
        """Replace run.json as a whole."""
        with reported(self.folder):
            replace(self.folder / MANIFEST, manifest.to_text())

    @_alone
    def add_ceilings(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Merge ceilings into ceilings.csv: of each, the better measurement stays."""
        path = self.folder / CEILINGS.file
        with reported(self.folder):
            stored = ceilings_of(((line, list(row.values())) for line, row in rows_of(path)), path)
            merged = [fields(CEILINGS, row) for row in better_of(stored, rows)]
            replace(path, csv_text(CEILINGS.names, merged))

    @_alone
    def append(self, table: TableSchema, rows: Iterable[Mapping[str, Any]]) -> None:
        """Append rows to a table that is not committed unit by unit, in one piece."""
        with reported(self.folder):
            self._begin(table)
            append(self.folder / table.file, csv_text(None, (fields(table, row) for row in rows)))

    @_alone
    def rows(self, table: TableSchema) -> list[dict[str, str]]:
        """Return what a table holds, as text; one that was never begun holds nothing."""
        path = self.folder / table.file
        return [row for _, row in rows_of(path)] if table not in WHEN_NEEDED or path.exists() else []

    @_alone
    def searches(self) -> set[Unit]:
        """Return the (cell_id, search) of searches that are stored as a whole, whose rows were appended together.

        The rows of one that an interrupted writer left are cut off.
        """
        groups: dict[Unit, list[dict[str, str]]] = {}
        path = self.folder / TUNING.file
        for line, row in enumerate(self.rows(TUNING), start=2):
            if not all(row[name].isdecimal() for name in ("search", "candidates")):
                raise UsageError(f"{path} line {line}: not a row of {path.name}; repair it or delete the line")
            groups.setdefault((row["cell_id"], int(row["search"])), []).append(row)
        whole = {unit for unit, rows in groups.items() if len(rows) == int(rows[0]["candidates"])}
        if len(whole) < len(groups):
            kept = ([row[name] for name in TUNING.names] for unit in groups if unit in whole for row in groups[unit])
            with reported(self.folder):
                replace(path, csv_text(TUNING.names, kept))
        return whole

    def commit(
        self, row: Mapping[str, Any], samples: Samples, when_written: Callable[[], object] = lambda: None
    ) -> None:
        """Store one unit: its samples, then its row of cells.csv. Raises RooflensError when the disk refuses.

        `when_written` is called when it will survive this process, before the disk is waited for.
        """
        unit = (row["cell_id"], row["round"])
        where = {"cell_id": unit[0], "round": unit[1]}
        columns = zip_longest(samples.times_s, samples.discarded, samples.host_s, samples.event_s, samples.kernels_s)
        timings = (
            fields(
                SAMPLES,
                {**where, "index": i, "time_s": t, "host_time_s": h, "event_time_s": e, "kernels_s": k, "discarded": d},
            )
            for i, (t, d, h, e, k) in enumerate(columns)
        )
        said = (fields(TELEMETRY, where | reading) for reading in samples.telemetry)
        parts = ((SAMPLES, timings), (TELEMETRY, said), (CELLS, [fields(CELLS, row)]))
        texts = [(table, text) for table, rows in parts if (text := csv_text(None, rows))]
        with reported(self.folder), ExitStack() as files:
            with self.alone:
                if unit in self.verdicts:
                    raise ValueError(f"unit {unit} is stored already")
                for table, _ in texts:
                    self._begin(table)
                written = [written_to(files, self.folder / table.file, text) for table, text in texts]
                self.verdicts[unit] = str(row["verdict"])
            when_written()
            for file in written:
                os.fsync(file.fileno())

    def _begin(self, table: TableSchema) -> None:
        """Create a table that not every run has, with its header as a whole."""
        path = self.folder / table.file
        if table in WHEN_NEEDED and not path.exists():
            replace(path, csv_text(table.names, []))

    def keep(self, name: str, text: str) -> Path:
        """Keep what the run depends on in a file of its folder, unless it is there already; return its path."""
        path = self.folder / name
        if not path.exists():
            with reported(self.folder):
                replace(path, text)
            self._kept.append(name)
        return path

    @_alone
    def event(self, text: str) -> None:
        """Append a line to the log of this run: worker restarts, faults, interruptions."""
        with reported(self.folder), (self.folder / EVENTS).open("a", encoding="utf-8") as file:
            file.write(f"{CLOCK.now()} {text}\n")

    def close(self) -> None:
        """Release the lock."""
        os.close(self._lock)

    def __enter__(self) -> "RunStore":
        return self

    def __exit__(self, *exc: object) -> None:
        if not self.verdicts and not (self.folder / MANIFEST).exists():
            self._discard()
        self.close()

    def _discard(self) -> None:
        """Leave no trace of a run that never began (no such device, say), unless a worker logged something."""
        names = [*(table.file for table in TABLES), EVENTS, LOCK, *self._kept]
        names += [path.name for path in self.folder.glob("*.log") if path.stat().st_size == 0]
        for name in set(names) - self._existed:
            (self.folder / name).unlink(missing_ok=True)
        with suppress(OSError):  # other files of the user's
            self.folder.rmdir()


def missing_rounds(verdicts: Mapping[Unit, str], cells: Sequence[Cell], rounds: int) -> list[tuple[int, ...]]:
    """Rounds to do per cell, of stored units: none after a final failure, else those without a commit row."""
    missing = []
    for cell in cells:
        stored = [verdicts.get((cell.id, number)) for number in range(rounds)]
        failed = any(verdict and Verdict(verdict).is_final for verdict in stored)
        missing.append(() if failed else tuple(number for number, verdict in enumerate(stored) if verdict is None))
    return missing


def refuse_merged(folder: Path, manifest: Manifest) -> None:
    """Raise UsageError when a run was merged: its plan is that of its shards, each with options of its own."""
    if manifest.shards:
        names = ", ".join(shard.folder for shard in manifest.shards)
        raise UsageError(f"{folder} was merged: resume its shards ({names}), then merge them again")


def ceilings_of(numbered: Iterable[tuple[int, Sequence[str]]], path: Path) -> list[Mapping[str, Any]]:
    """Return rows of ceilings.csv with their values as numbers; `path` is for messages."""
    found: list[Mapping[str, Any]] = []
    for line, row in numbered:
        try:
            named = dict(zip(CEILINGS.names, row, strict=True))
            found.append({**named, "value": float(named["value"])})
        except (TypeError, ValueError):
            raise UsageError(f"{path} line {line}, column value: not a number; delete the line") from None
    return found


def better_of(first: Iterable[Mapping[str, Any]], second: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Keep the better row of each ceiling: what the device did once it can do, disturbance only lowers it."""
    best: dict[tuple[str, ...], Mapping[str, Any]] = {}
    for row in (*first, *second):
        key = tuple(row[name] for name in ("ceiling", "level", "pattern", "dtype", "kind"))
        sign = -1 if row["ceiling"] == "launch" else 1
        if key not in best or sign * row["value"] > sign * best[key]["value"]:
            best[key] = row
    return list(best.values())


def refuse_foreign(folder: Path) -> None:
    """Raise UsageError when a folder without a run has a table that holds more than a start leaves that failed."""
    for table in TABLES:
        path = folder / table.file
        if path.exists() and path.read_bytes() not in (b"", csv_text(table.names, []).encode()):
            raise UsageError(f"{path} would be overwritten: move it away, or choose another -o")


def _holds_rows(path: Path) -> bool:
    return path.exists() and path.read_bytes().count(b"\n") > 1

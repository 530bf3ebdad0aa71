"""The run folder: `run.json`, `cells.csv`, `samples.csv`, `ceilings.csv`, `events.log`.

A unit is one (cell, round). Its samples are appended first, then its commit row in cells.csv, each synced to disk: a
unit counts when its commit row is whole. Opening a folder cuts off what an interrupted writer left: a torn last line,
and samples without a commit row.
"""

import csv
import fcntl
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any

from ..shapes.columns import CEILINGS, CELLS, SAMPLES, TABLES, TELEMETRY, Kind, Table
from ..shapes.errors import RooflensError, UsageError
from ..shapes.verdict import Verdict
from .messages import Samples

MANIFEST = "run.json"
EVENTS = "events.log"
LOCK = ".lock"

SHARDS = "shards"
"""Key of run.json that only a merged run has: what it was merged from."""

Unit = tuple[str, int]
"""(cell_id, round)."""


class RunStore:
    """The only writer of a run folder; holds its lock from `create` or `reopen` until `close`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = _locked(folder)
        self.verdicts: dict[Unit, str] = {}

    @classmethod
    def create(cls, folder: Path) -> "RunStore":
        """Start an empty run. Raises UsageError when the folder holds a run already.

        What a start leaves that failed before its manifest (no such device, an early Ctrl-C) is not a run.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RooflensError(f"cannot write to {folder}: {error.strerror or error}; choose another -o") from error
        store = cls(folder)
        if (folder / MANIFEST).exists() or _holds_rows(folder / CELLS.file):
            store.close()
            raise UsageError(f"{folder} holds a run already: add --resume to go on with it, or choose another -o")
        with _reported(folder):
            for table in TABLES:
                (folder / table.file).write_text(_csv_text(table.names, []), encoding="utf-8")
        return store

    @classmethod
    def reopen(cls, folder: Path) -> "RunStore":
        """Go on with a run: recover the tables and read which units are finished."""
        if not (folder / MANIFEST).is_file():
            raise UsageError(f"{folder}: no {MANIFEST} there, so no run to resume; leave out --resume to start one")
        store = cls(folder)
        try:
            refuse_merged(folder, store.read_manifest())
        except UsageError:
            store.close()
            raise
        with _reported(folder):
            for table in TABLES:
                _cut_torn_line(folder / table.file, table)
            store.verdicts = _committed(folder / CELLS.file)
            for table in (SAMPLES, TELEMETRY):
                _cut_orphans(folder / table.file, store.verdicts)
        return store

    def read_manifest(self) -> dict[str, Any]:
        """Return the content of run.json."""
        path = self.folder / MANIFEST
        try:
            manifest = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UsageError(f"{path}: {error}") from None
        if not isinstance(manifest, dict):
            raise UsageError(f"{path}: a JSON object is expected")
        return manifest

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Replace run.json as a whole."""
        with _reported(self.folder):
            _replace(self.folder / MANIFEST, json.dumps(manifest, indent=1) + "\n")

    def add_ceilings(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Merge ceilings into ceilings.csv: of each, the better measurement stays."""
        path = self.folder / CEILINGS.file
        with _reported(self.folder):
            stored = [{**row, "value": _ceiling_value(path, line, row)} for line, row in _rows(path)]
            merged = [_fields(CEILINGS, row) for row in better_of(stored, rows)]
            _replace(path, _csv_text(CEILINGS.names, merged))

    def append(self, table: Table, rows: Iterable[Mapping[str, Any]]) -> None:
        """Append rows to a table that is not committed unit by unit, in one piece."""
        with _reported(self.folder):
            _append(self.folder / table.file, _csv_text(None, (_fields(table, row) for row in rows)))

    def rows(self, table: Table) -> list[dict[str, str]]:
        """Return what a table holds, as text."""
        return [row for _, row in _rows(self.folder / table.file)]

    def commit(self, row: Mapping[str, Any], samples: Samples) -> None:
        """Store one unit: its samples, then its row of cells.csv. Raises RooflensError when the disk refuses."""
        unit = (row["cell_id"], row["round"])
        if unit in self.verdicts:
            raise ValueError(f"unit {unit} is stored already")
        where = {"cell_id": unit[0], "round": unit[1]}
        columns = zip_longest(samples.times_s, samples.discarded, samples.host_s, samples.spans_s)
        timings = (
            _fields(SAMPLES, {**where, "index": i, "time_s": t, "host_time_s": h, "span_s": s, "discarded": d})
            for i, (t, d, h, s) in enumerate(columns)
        )
        with _reported(self.folder):
            if samples.times_s:
                _append(self.folder / SAMPLES.file, _csv_text(None, timings))
            if samples.telemetry:
                said = (_fields(TELEMETRY, where | reading) for reading in samples.telemetry)
                _append(self.folder / TELEMETRY.file, _csv_text(None, said))
            _append(self.folder / CELLS.file, _csv_text(None, [_fields(CELLS, row)]))
        self.verdicts[unit] = str(row["verdict"])

    def event(self, text: str) -> None:
        """Append a line to the log of this run: worker restarts, faults, interruptions."""
        stamp = datetime.now(UTC).isoformat(timespec="milliseconds")
        with _reported(self.folder), (self.folder / EVENTS).open("a", encoding="utf-8") as file:
            file.write(f"{stamp} {text}\n")

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
        """Leave no trace of a run that never began (no such device, say), unless a worker left its last words."""
        names = (*(table.file for table in TABLES), EVENTS, LOCK)
        empty = [path for path in self.folder.glob("*.log") if path.stat().st_size == 0]
        for path in (*(self.folder / name for name in names), *empty):
            path.unlink(missing_ok=True)
        with suppress(OSError):  # other files of the user's
            self.folder.rmdir()


@contextmanager
def _reported(folder: Path) -> Iterator[None]:
    """Turn an OSError into one line that names the folder and the way out."""
    try:
        yield
    except OSError as error:
        raise _disk_error(folder, error) from error


def _disk_error(folder: Path, error: OSError) -> RooflensError:
    return RooflensError(
        f"cannot write to {folder}: {error.strerror or error}; everything committed before is kept: "
        "free some space or fix the permissions, then run again with --resume"
    )


def refuse_merged(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Raise UsageError when a run was merged: its plan is that of its shards, each with options of its own."""
    if shards := manifest.get(SHARDS):
        names = ", ".join(str(shard["folder"]) for shard in shards)
        raise UsageError(f"{folder} was merged: go on with its shards ({names}), then merge them again")


@contextmanager
def reading(folder: Path) -> Iterator[None]:
    """Keep writers out of a run while it is read, and change nothing in its folder.

    Raises UsageError when one is in. A folder without a lock file (a copy of a run) has no writer.
    """
    try:
        handle = os.open(folder / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        yield
        return
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"{folder} is being written by a rooflens run: wait until that has ended") from None
        except OSError as error:
            raise RooflensError(f"cannot lock {folder}: {error.strerror or error}; copy it to another disk") from error
        yield
    finally:
        os.close(handle)


def _locked(folder: Path) -> int:
    """Take the folder's lock; the kernel releases it when the process ends, however it ends."""
    try:
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise _disk_error(folder, error) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.read(handle, 64).decode(errors="replace").strip() or "unknown"
        os.close(handle)
        raise UsageError(
            f"{folder} is being written by another rooflens run (process {owner}): wait, or choose another -o"
        ) from None
    except OSError as error:  # a network file system without locks
        os.close(handle)
        raise _disk_error(folder, error) from error
    os.ftruncate(handle, 0)
    os.pwrite(handle, str(os.getpid()).encode(), 0)
    return handle


def better_of(first: Iterable[Mapping[str, Any]], second: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Keep the better row of each ceiling: what the device did once it can do, disturbance only lowers it."""
    best: dict[tuple[str, ...], Mapping[str, Any]] = {}
    for row in (*first, *second):
        key = tuple(row[name] for name in ("ceiling", "level", "pattern", "dtype", "kind"))
        sign = -1 if row["ceiling"] == "launch" else 1
        if key not in best or sign * row["value"] > sign * best[key]["value"]:
            best[key] = row
    return list(best.values())


def _fields(table: Table, row: Mapping[str, Any]) -> list[str]:
    if unknown := set(row) - set(table.names):
        raise ValueError(f"not in the schema of {table.file}: {', '.join(sorted(unknown))}")
    return [_text(column.kind, row.get(column.name)) for column in table.columns]


def _text(kind: Kind, value: Any) -> str:
    if value is None or value == "" or value != value:  # NaN is unknown
        return ""
    if kind is Kind.JSON:
        return json.dumps(value, sort_keys=True, separators=(",", ":"))
    if kind is Kind.BOOL:
        return "true" if value else "false"
    if kind is Kind.FLOAT:
        return repr(float(value))
    return str(value)


def _csv_text(header: Sequence[str] | None, rows: Iterable[Sequence[str]]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    if header:
        writer.writerow(header)
    # A line break inside a field would make a torn line look whole.
    writer.writerows([field.replace("\r", " ").replace("\n", " ") for field in row] for row in rows)
    return buffer.getvalue()


def _append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8", newline="") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _replace(path: Path, text: str) -> None:
    partial = path.with_name(f".{path.name}.partial")
    with partial.open("w", encoding="utf-8", newline="") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def _holds_rows(path: Path) -> bool:
    return path.exists() and path.read_bytes().count(b"\n") > 1


def _rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Rows of a table with their line numbers; raises UsageError where it is no CSV in UTF-8."""
    line = 1
    try:
        with path.open("rb") as file:
            for line, row in enumerate(csv.DictReader(raw.decode() for raw in file), start=2):
                yield line, row
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{path} line {line + 1}: {error}; restore the file from a copy") from None


def _ceiling_value(path: Path, line: int, row: Mapping[str, str]) -> float:
    try:
        return float(row["value"])
    except (TypeError, ValueError):
        raise UsageError(f"{path} line {line}, column value: not a number; delete the line") from None


def _cut_torn_line(path: Path, table: Table) -> None:
    if not path.exists() or path.stat().st_size == 0:
        path.write_text(_csv_text(table.names, []), encoding="utf-8")
        return
    with path.open("rb+") as file:
        end = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - (1 << 16))
            file.seek(start)
            newline = file.read(end - start).rfind(b"\n")
            if newline >= 0:
                file.truncate(start + newline + 1)
                break
            end = start
    with path.open(encoding="utf-8", errors="replace", newline="") as text:
        header = next(csv.reader(text), [])
    if tuple(header) != table.names:
        raise UsageError(
            f"{path} line 1: its columns are not those of this rooflens version; resume with the version that wrote it"
        )


def _committed(path: Path) -> dict[Unit, str]:
    verdicts: dict[Unit, str] = {}
    for line, row in _rows(path):
        try:
            verdicts[row["cell_id"], int(row["round"])] = Verdict(row["verdict"]).value
        except (TypeError, ValueError):
            raise UsageError(f"{path} line {line}: not a row of {path.name}; mend it or delete the line") from None
    return verdicts


def _cut_orphans(path: Path, committed: Mapping[Unit, str]) -> None:
    """Drop the samples at the end that no commit row follows; units are appended one after another."""
    keep = 0
    with path.open("rb") as file:
        position = len(file.readline())
        keep = position
        for count, line in enumerate(file, start=2):
            position += len(line)
            try:
                cell, number, _ = line.decode().split(",", 2)
                unit = cell, int(number)
            except ValueError:  # of the decoding as well
                raise UsageError(f"{path} line {count}: not a row of {path.name}; restore it from a copy") from None
            if unit in committed:
                keep = position
    os.truncate(path, keep)

"""A run folder as a merge reads it: nothing in it is changed, and what an interrupted writer left is not seen."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from ...shapes.errors import UsageError, quote
from ...shapes.files import csv_file
from ...shapes.files.stored_file import open_table
from ...shapes.run_folder.columns import CEILINGS, CELLS, SAMPLES, TABLES, TableSchema
from ...shapes.run_folder.manifest import MANIFEST, Manifest, read_manifest
from ..plan.plan import MODEL_FIELDS
from .lock import reading
from .recovery import Unit

REQUIRED = (
    *("suite", "rounds", "planned_units", "created_at", "device", "environment", "providers", "shapes", "protocol"),
)
"""Keys of run.json that a merge needs."""

ALWAYS = (CELLS, SAMPLES, CEILINGS)
"""Tables that every run folder has; the others may be absent."""


class Commit(NamedTuple):
    """What a merge must know of one finished unit: where its row stands, and which coordinates it speaks of."""

    line: int
    unit: Unit
    coordinates: tuple[str, ...]
    process: int
    identity: str


@dataclass(frozen=True)
class Shard:
    """One of the runs to merge. `per_cell` has the cell ids of each table that speaks of cells but not of rounds."""

    folder: Path
    manifest: Manifest
    commits: Sequence[Commit]
    per_cell: Mapping[str, frozenset[str]]

    @cached_property
    def units(self) -> frozenset[Unit]:
        """The finished (cell_id, round) units."""
        return frozenset(commit.unit for commit in self.commits)

    @cached_property
    def uuids(self) -> Mapping[int, str]:
        """UUID of the device of each worker process; without an entry, that of the run."""
        return {process: one.uuid for one in self.manifest.devices for process in one.processes or ()}

    def uuid(self, commit: Commit) -> str:
        """UUID of the device that measured a unit."""
        return self.uuids.get(commit.process, self.manifest.of_device.uuid)

    @property
    def processes(self) -> int:
        """Number of worker processes that its rows may name, counted from 0."""
        highest = max((commit.process for commit in self.commits), default=-1)
        return max(self.manifest.processes, highest + 1)


@contextmanager
def opened(folders: Sequence[Path]) -> Iterator[tuple[Shard, ...]]:
    """Read shards, sorted by `in_order`, and keep writers out of them meanwhile.

    Raises UsageError with the file and line of what cannot be read, or when a run is being written.
    """
    with ExitStack() as held:
        for folder in folders:
            held.enter_context(reading(folder))
        yield in_order([_read(folder) for folder in folders])


def in_order(shards: Sequence[Shard]) -> tuple[Shard, ...]:
    """Sort shards by their start: what is made of them does not depend on the order in which they were named."""
    return tuple(sorted(shards, key=lambda one: (one.manifest.made_at, one.folder.name, str(one.folder))))


def rows(folder: Path, table: TableSchema) -> Iterator[tuple[int, list[str]]]:
    """Yield the whole rows of one table with their line numbers; a last line without a line break is skipped.

    Raises UsageError where the file is not of this schema. A table that may be absent has no rows then.
    """
    path = folder / table.file
    file = open_table(path)
    if file is None:
        if table in ALWAYS:
            raise UsageError(f"{folder}: {table.file} is missing; copy the whole run folder")
        return
    with file:
        for line, row in csv_file.records((raw for raw in file if raw.endswith(b"\n")), path):
            if line == 1 and tuple(row) != table.names:
                raise UsageError(
                    f"{path} line 1: its columns are not those of this rooflens version; merge with the version "
                    "that wrote it"
                )
            if len(row) != len(table.columns):
                raise UsageError(
                    f"{path} line {line}: {len(row)} fields where {len(table.columns)} belong; restore the file from a "
                    "copy"
                )
            if line > 1:
                yield line, row


def _read(folder: Path) -> Shard:
    manifest = _manifest(folder)
    per_cell = {
        table.name: frozenset(row[table.names.index("cell_id")] for _, row in rows(folder, table))
        for table in TABLES
        if "cell_id" in table.names and "round" not in table.names
    }
    return Shard(folder, manifest, _commits(folder), per_cell)


def _commits(folder: Path) -> list[Commit]:
    positions = [CELLS.names.index(name) for name in MODEL_FIELDS]
    cell, number, process, identity = map(CELLS.names.index, ("cell_id", "round", "process", "identity"))
    commits = []
    for line, row in rows(folder, CELLS):
        try:
            unit = row[cell], int(row[number])
            commits.append(Commit(line, unit, tuple(row[at] for at in positions), int(row[process]), row[identity]))
        except ValueError:
            raise UsageError(f"{folder / CELLS.file} line {line}: not a row of {CELLS.file}; repair it first") from None
    return commits


def _manifest(folder: Path) -> Manifest:
    """Read a run.json, and check the keys that a merge needs."""
    path = folder / MANIFEST
    try:
        manifest = read_manifest(path, REQUIRED)
    except FileNotFoundError as error:
        raise UsageError(f"{path}: {error}; restore the file from a copy") from None
    for name, info in manifest.providers.items():
        if not (info.role and info.source):
            raise UsageError(
                f"{path}: role or source of provider {quote(name)} is missing; restore the file from a copy"
            )
    return manifest

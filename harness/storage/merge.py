"""Join shards of one sweep into one run folder.

1. `shards.opened` reads the shards and keeps their writers out.
2. `obstacles` says why they do not belong together: other conditions, the same unit twice. None: they merge.
3. `merged_manifest` makes the run.json of all from theirs.
4. `merge` writes the tables into a folder beside the output and renames it: there is a whole run, or none.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any, TextIO

from ...shapes.device import Device
from ...shapes.errors import RooflensError, UsageError
from ...shapes.files.csv_file import write_rows
from ...shapes.files.record import to_json
from ...shapes.run_folder.columns import CEILINGS, TABLES, TableSchema
from ...shapes.run_folder.manifest import EVENTS, MANIFEST, Manifest, MergedShard
from .manifest import common, joined_texts, union
from .merge_conflicts import obstacles
from .scratch import make_scratch, remove_scratch
from .shards import ALWAYS, Shard, rows
from .store import better_of, ceilings_of
from .tables import fields, sync_folder

_JOINED = ("shapes", "challengers", "providers", "processes", "devices")
"""Keys of run.json of which the merged run has what all shards say."""


def merge(shards: Sequence[Shard], output: Path, command: Sequence[str]) -> None:
    """Write the run folder `output`; `command` is what its run.json says of how it was made.

    Raises UsageError when there is something at `output`, or the shards have obstacles; then nothing is written.
    """
    if output.exists() or output.is_symlink():
        raise UsageError(f"{output} exists already: choose another -o")
    if found := obstacles(shards):
        more = f" (and {len(found) - 1} more: rooflens validate RUN... lists them)" if len(found) > 1 else ""
        raise UsageError(f"these runs do not merge: {found[0][1]}{more}")
    staging = output.with_name(f".{output.name}.merging")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        handle = make_scratch(staging)
        try:
            partial = staging / output.name
            partial.mkdir()
            _write(partial, shards, merged_manifest(shards, output, command))
            sync_folder(partial)
            os.replace(partial, output)
            sync_folder(output.parent)
        finally:
            remove_scratch(staging, handle)
    except OSError as error:
        raise RooflensError(
            f"cannot write {output}: {error.strerror or error}; free some space or choose another -o"
        ) from error


def merged_manifest(shards: Sequence[Shard], output: Path, command: Sequence[str]) -> Manifest:
    """Return the run.json of all shards: what they have in common, what they add up to, and under `shards` the rest.

    device         what all devices have in common
    devices        one entry per device, with its host and its worker processes, counted as in the tables
    environment    a text that differs is all of its texts, with `;` between them
    planned_units  the sum of theirs, where a cell that is stored in several shards counts once. A cell that one shard
                   planned and only another one stored counts twice, because a run does not list its plan: the sum is
                   an upper bound, and exact when the plans have no cell in common
    processes      the sum of theirs: `first_process` of a shard is added to the column `process` of its rows

    A merged run is not resumed: each shard is, by the options it was started with.
    """
    manifests = [shard.manifest for shard in shards]
    contents = [one.to_json() for one in manifests]
    shared = {
        key: value
        for key, value in contents[0].items()
        if key not in ("shards", "request") and all(one.get(key) == value for one in contents)
    }
    merged = replace(
        Manifest.read(shared, MANIFEST),
        version=manifests[0].version,
        id=output.name,
        folder=str(output),
        created_at=manifests[0].created_at,
        command=list(command),
        shapes=union(one.shapes for one in manifests),
        challengers=union(one.challengers for one in manifests),
        planned_units=_planned_units(shards),
        processes=sum(shard.processes for shard in shards),
        device=common([one.of_device for one in manifests]),
        devices=_devices(shards),
        environment=joined_texts([one.environment for one in manifests]),
        providers={name: info for one in manifests for name, info in one.providers.items()},
    )
    parts = zip(shards, _first_processes(shards), strict=True)
    merged.shards = [entry for shard, process in parts for entry in _provenance(shard, process, merged)]
    return merged


def _planned_units(shards: Sequence[Shard]) -> int:
    rounds = shards[0].manifest.rounds or 0
    cells = [{cell for cell, _ in shard.units} for shard in shards]
    shared = sum(map(len, cells)) - len(set().union(*cells))
    return sum((shard.manifest.planned_units or 0) for shard in shards) - rounds * shared


def _first_processes(shards: Sequence[Shard]) -> list[int]:
    return list(accumulate((shard.processes for shard in shards[:-1]), initial=0))


def _provenance(shard: Shard, first_process: int, merged: Manifest) -> list[MergedShard]:
    """What the merged run.json keeps of one shard: where it is, and what it does not share with all."""
    if earlier := shard.manifest.shards:  # merged itself
        return [replace(entry, first_process=entry.first_process + first_process) for entry in earlier]
    joined, own = merged.to_json(), shard.manifest.to_json()
    left = {key: value for key, value in own.items() if key not in _JOINED and joined.get(key) != value}
    stated = {"folder": str(shard.folder), "units": len(shard.units), "first_process": first_process}
    return [MergedShard.read(left | stated, shard.folder / MANIFEST)]


def _devices(shards: Sequence[Shard]) -> list[Device]:
    """List every device once, with the processes of all its shards; without them where one does not state its own."""
    entries: dict[str, Device] = {}
    for shard, first_process in zip(shards, _first_processes(shards), strict=True):
        listed = shard.manifest.devices or [_device(shard)]
        for entry in listed:
            own = entry.processes
            if own is None and len(listed) == 1:
                own = tuple(range(shard.processes))
            key, numbered = _identity(entry), None if own is None else {first_process + number for number in own}
            known = entries.setdefault(key, replace(entry, processes=()))
            if known.processes is not None:
                joined = None if numbered is None else tuple(sorted(numbered.union(known.processes)))
                entries[key] = replace(known, processes=joined)
    return list(entries.values())


def _identity(device: Device) -> str:
    """What identifies a device: host and uuid; without a uuid (a CPU) all that it says."""
    stated = [device.host, device.uuid] if device.uuid else to_json(replace(device, processes=None))
    return json.dumps(stated, sort_keys=True)


def _device(shard: Shard) -> Device:
    return replace(shard.manifest.of_device, host=str(shard.manifest.environment.get("host", "")))


def _write(folder: Path, shards: Sequence[Shard], manifest: Manifest) -> None:
    """Write every table, the events, and run.json last; each synced to disk."""
    for table in TABLES:
        if table in ALWAYS or any((shard.folder / table.file).exists() for shard in shards):
            with _synced(folder / table.file) as file:
                write_rows(file, [table.names])
                write_rows(file, _best_ceilings(shards) if table is CEILINGS else _all_rows(shards, table))
    with _synced(folder / EVENTS) as file:
        file.writelines(_events(shards))
    with _synced(folder / MANIFEST) as file:
        file.write(manifest.to_text())


def _all_rows(shards: Sequence[Shard], table: TableSchema) -> Iterator[list[str]]:
    """Yield the rows of one shard after another, without those of unfinished units, the processes counted on."""
    names = table.names
    unit = [names.index(name) for name in ("cell_id", "round")] if {"cell_id", "round"} <= set(names) else []
    process = names.index("process") if "process" in names else None
    for shard, first_process in zip(shards, _first_processes(shards), strict=True):
        for line, row in rows(shard.folder, table):
            try:
                if unit and (row[unit[0]], int(row[unit[1]])) not in shard.units:
                    continue
                if process is not None:
                    row[process] = str(int(row[process]) + first_process)
            except ValueError:
                raise UsageError(f"{shard.folder / table.file} line {line}: not a row of {table.file}") from None
            yield row


def _best_ceilings(shards: Sequence[Shard]) -> Iterator[list[str]]:
    best: list[Mapping[str, Any]] = []
    for shard in shards:
        best = better_of(best, ceilings_of(rows(shard.folder, CEILINGS), shard.folder / CEILINGS.file))
    for kept in best:
        yield fields(CEILINGS, kept)


def _events(shards: Sequence[Shard]) -> Iterator[str]:
    """Yield the events of one shard after another: stamp, shard, what happened."""
    names = [shard.folder.name for shard in shards]
    for shard in shards:
        try:
            lines = (shard.folder / EVENTS).read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            continue
        name = shard.folder.name if names.count(shard.folder.name) == 1 else str(shard.folder)
        for line in lines:
            stamp, _, text = line.partition(" ")
            yield f"{stamp} {name}: {text}\n"


@contextmanager
def _synced(path: Path) -> Iterator[TextIO]:
    with path.open("w", encoding="utf-8", newline="") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())

"""Join shards of one sweep into one run folder.

1. `shards.opened` reads the shards and keeps their writers out.
2. `obstacles` says why they do not belong together: other conditions, the same unit twice. None: they merge.
3. `merged_manifest` makes the run.json of all from theirs.
4. `merge` writes the tables into a folder beside the output and renames it: there is a whole run, or none.
"""

import csv
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from ..shapes.columns import CEILINGS, CELLS, TABLES, Table
from ..shapes.errors import RooflensError, UsageError
from .plan import MODEL_FIELDS
from .shards import ALWAYS, Commit, Shard, rows
from .store import EVENTS, MANIFEST, SHARDS, RunStore, better_of

DEVICE_FACTS = ("kind", "name", "arch", "llc_bytes")
"""What the devices of all shards have in common. Their uuid may differ: a fleet measures one sweep together."""

PACKAGES = ("torch", "triton", "bitsandbytes")

UNIONS = ("shapes", "challengers")
"""Lists of run.json that are joined; `providers` is joined by name."""


class Obstacle(NamedTuple):
    """Why the shard in `folder` does not join those before it."""

    folder: Path
    reason: str


def obstacles(shards: Sequence[Shard]) -> list[Obstacle]:
    """List what keeps shards from being merged, one line for each kind and pair of shards; pure."""
    found: list[Obstacle] = []
    distinct: dict[Path, Shard] = {}
    for shard in shards:
        if shard.folder.resolve() in distinct:
            found.append(Obstacle(shard.folder, f"{shard.folder} is given twice"))
        distinct.setdefault(shard.folder.resolve(), shard)
    first, *others = distinct.values()
    for other in others:
        found += _different_conditions(first, other)
    return [*found, *_different_sources(distinct.values()), *_repeated(distinct.values())]


def merge(shards: Sequence[Shard], output: Path, command: Sequence[str]) -> None:
    """Write the run folder `output`; `command` is what its run.json says of how it was made.

    Raises UsageError when there is something at `output`, or the shards have obstacles; then nothing is written.
    """
    if output.exists() or output.is_symlink():
        raise UsageError(f"{output} exists already: choose another -o")
    if found := obstacles(shards):
        more = f" (and {len(found) - 1} more: rooflens validate RUN... lists them)" if len(found) > 1 else ""
        raise UsageError(f"these runs do not merge: {found[0].reason}{more}")
    staging = output.with_name(f".{output.name}.merging")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        staging.mkdir(exist_ok=True)
        store = RunStore(staging)  # for its lock: two merges into one folder do not meet
        try:
            partial = staging / output.name
            shutil.rmtree(partial, ignore_errors=True)  # a merge before this one was killed
            partial.mkdir()
            _write(partial, shards, merged_manifest(shards, output, command))
            _sync_folder(partial)
            os.replace(partial, output)
            _sync_folder(output.parent)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
            store.close()
    except OSError as error:
        raise RooflensError(
            f"cannot write {output}: {error.strerror or error}; free some space or choose another -o"
        ) from error


def merged_manifest(shards: Sequence[Shard], output: Path, command: Sequence[str]) -> dict[str, Any]:
    """Return the run.json of all shards: what they have in common, what they add up to, and under `shards` the rest.

    device         what all devices say alike, null where they differ; `devices` lists them
    environment    a text that differs is all of its texts, with `;` between them
    planned_units  the sum of theirs, where a cell that is stored in several shards counts once. A cell that one shard
                   planned and only another one stored counts twice, because a run does not list its plan: the sum is
                   an upper bound, and exact when the plans have no cell in common
    processes      the sum of theirs: `first_process` of a shard is added to the column `process` of its rows

    A merged run is not resumed: each shard is, by the options it was started with.
    """
    manifests = [shard.manifest for shard in shards]
    first = manifests[0]
    shared = {
        key: value
        for key, value in first.items()
        if key not in (SHARDS, "request") and all(one.get(key) == value for one in manifests)
    }
    merged = {
        **shared,
        "id": output.name,
        "folder": str(output),
        "created_at": first["created_at"],
        "command": list(command),
        **{name: _union(one.get(name, []) for one in manifests) for name in UNIONS},
        "planned_units": _planned_units(shards),
        "processes": sum(shard.processes for shard in shards),
        "device": _common([one["device"] for one in manifests]),
        "devices": _union(one.get("devices", [_device(one)]) for one in manifests),
        "environment": _joined([one["environment"] for one in manifests]),
        "providers": {name: info for one in manifests for name, info in one["providers"].items()},
    }
    parts = zip(shards, _first_processes(shards), strict=True)
    return merged | {SHARDS: [entry for shard, process in parts for entry in _provenance(shard, process, merged)]}


def _facts(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What shards must agree in, by the name that the user knows it by."""
    return {
        **{key: manifest.get(key) for key in ("suite", "seed", "rounds", "baseline")},
        **{f"protocol {key}": value for key, value in manifest["protocol"].items()},
        **{f"device {key}": manifest["device"].get(key) for key in DEVICE_FACTS},
        **{key: manifest.get(key) for key in ("timer", "threads")},
        **{name: manifest["environment"].get(name) for name in PACKAGES},
    }


def _different_conditions(first: Shard, other: Shard) -> Iterator[Obstacle]:
    there, here = _facts(first.manifest), _facts(other.manifest)
    for what in dict.fromkeys((*there, *here)):
        if there.get(what) != here.get(what):
            yield Obstacle(
                other.folder,
                f"{what} is {_shown(there.get(what))} in {first.folder / MANIFEST} and {_shown(here.get(what))} in "
                f"{other.folder / MANIFEST}: timings of the two do not mix",
            )


def _different_sources(shards: Iterable[Shard]) -> Iterator[Obstacle]:
    known: dict[str, tuple[object, Path]] = {}
    for shard in shards:
        for name, info in shard.manifest["providers"].items():
            stored, where = known.setdefault(name, (info, shard.folder))
            if stored != info:
                yield Obstacle(
                    shard.folder,
                    f"provider {name} is other code in {shard.folder / MANIFEST} than in {where / MANIFEST}: measure "
                    "one of the two again",
                )


def _repeated(shards: Iterable[Shard]) -> Iterator[Obstacle]:
    """Find units, coordinates and tables of a cell that stand in two shards; the first of each pair is told."""
    units: dict[tuple[str, int], tuple[Path, Commit]] = {}
    cells: dict[tuple[str, ...], tuple[Path, Commit]] = {}
    owners: dict[tuple[str, str], Path] = {}
    told = set()
    for shard in shards:
        for commit in shard.commits:
            where, earlier = units.setdefault(commit.unit, (shard.folder, commit))
            if earlier is not commit and ("unit", where) not in told:
                told.add(("unit", where))
                yield Obstacle(
                    shard.folder,
                    f"{_at(shard.folder, commit)}: round {commit.unit[1]} of cell {commit.unit[0]} stands already in "
                    f"{_at(where, earlier)}: a unit counts once, leave one of the two runs out",
                )
            where, earlier = cells.setdefault(commit.coordinates, (shard.folder, commit))
            if earlier.unit[0] != commit.unit[0] and ("cell", where) not in told:
                told.add(("cell", where))
                yield Obstacle(
                    shard.folder,
                    f"{_at(shard.folder, commit)}: {_named(commit)} is cell {commit.unit[0]}, but {earlier.unit[0]} in "
                    f"{_at(where, earlier)}: other code or another device, so their times are not of one cell",
                )
        told.clear()
        for table, names in shard.per_cell.items():
            shared = [name for name in sorted(names) if owners.setdefault((table, name), shard.folder) != shard.folder]
            if shared:
                where = owners[table, shared[0]]
                yield Obstacle(
                    shard.folder,
                    f"cell {shared[0]} is in {table}.csv of both {shard.folder} and {where}: leave one of the two out",
                )


def _at(folder: Path, commit: Commit) -> str:
    return f"{folder / CELLS.file} line {commit.line}"


def _named(commit: Commit) -> str:
    told = dict(zip(MODEL_FIELDS, commit.coordinates, strict=True))
    return " ".join((told["provider"], told["model"], told["layer"], f"M={told['M']}", told["dtype"], told["cache"]))


def _shown(value: object) -> str:
    return "unknown" if value is None else ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _planned_units(shards: Sequence[Shard]) -> int:
    rounds = int(shards[0].manifest["rounds"])
    cells = [{cell for cell, _ in shard.units} for shard in shards]
    shared = sum(map(len, cells)) - len(set().union(*cells))
    return sum(int(shard.manifest["planned_units"]) for shard in shards) - rounds * shared


def _first_processes(shards: Sequence[Shard]) -> list[int]:
    return list(accumulate((shard.processes for shard in shards[:-1]), initial=0))


def _provenance(shard: Shard, first_process: int, merged: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the merged run.json keeps of one shard: where it is, and what it does not share with all."""
    if earlier := shard.manifest.get(SHARDS):  # merged itself
        return [{**entry, "first_process": entry["first_process"] + first_process} for entry in earlier]
    left = {
        key: value
        for key, value in shard.manifest.items()
        if key not in (*UNIONS, "providers", "processes") and merged.get(key) != value
    }
    return [{**left, "folder": str(shard.folder), "units": len(shard.units), "first_process": first_process}]


def _union(lists: Iterable[Iterable[Any]]) -> list[Any]:
    joined: list[Any] = []
    for items in lists:
        joined += [item for item in items if item not in joined]
    return joined


def _common(mappings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    first = mappings[0]
    return {
        key: first.get(key) if all(one.get(key) == first.get(key) for one in mappings) else None
        for key in _union(mappings)
    }


def _joined(mappings: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    names = _union(mappings)
    return {name: "; ".join(_union([str(one[name])] for one in mappings if name in one)) for name in names}


def _device(manifest: Mapping[str, Any]) -> dict[str, Any]:
    host = manifest["environment"].get("host")
    return {**manifest["device"], **({"host": host} if host else {})}


def _write(folder: Path, shards: Sequence[Shard], manifest: Mapping[str, Any]) -> None:
    """Write every table, the events, and run.json last; each synced to disk."""
    for table in TABLES:
        if table in ALWAYS or any((shard.folder / table.file).exists() for shard in shards):
            with _synced(folder / table.file) as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(table.names)
                writer.writerows(_best_ceilings(shards) if table is CEILINGS else _all_rows(shards, table))
    with _synced(folder / EVENTS) as file:
        file.writelines(_events(shards))
    with _synced(folder / MANIFEST) as file:
        file.write(json.dumps(manifest, indent=1) + "\n")


def _all_rows(shards: Sequence[Shard], table: Table) -> Iterator[list[str]]:
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
        found: list[Mapping[str, Any]] = []
        for line, row in rows(shard.folder, CEILINGS):
            named = dict(zip(CEILINGS.names, row, strict=True))
            try:
                found.append({**named, "value": float(named["value"])})
            except ValueError:
                where = f"{shard.folder / CEILINGS.file} line {line}, column value"
                raise UsageError(f"{where}: not a number; delete the line") from None
        best = better_of(best, found)
    for kept in best:
        yield [repr(kept[name]) if name == "value" else kept[name] for name in CEILINGS.names]


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


def _sync_folder(folder: Path) -> None:
    """Make what the folder lists survive a power cut, as its files do."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

"""Find stored runs: what a RUN argument means, and what ./runs holds."""

import math
import os
import re
import shlex
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ...shapes.errors import UsageError, nearest, quote
from ...shapes.files.json_file import read_object
from ...shapes.files.stored_file import read_stored
from ...shapes.run_folder.manifest import made_at

RUNS = Path("runs")
"""Where runs are stored unless -o says otherwise, relative to the working directory."""

LATEST = "latest"
MANIFEST = "run.json"

FLEET = "fleet.json"
"""What tells the folder of a sweep over several architectures, which holds a run folder for each, from a run."""

HTML, MARKDOWN = "report.html", "report.md"
"""Reports in the folder of a run, or of several."""

MOST_OF_A_SECOND = 1000
"""Folders that get their name from one second."""

NEWEST = 5
"""Runs that are named to somebody who asks for one that does not exist."""

COMPARISON = "compare.json"
"""What tells the folder of a rooflens compare --git, which holds a run folder for each version."""

OF_A_FLEET = "fleet"
"""Key of run.json that only the run of a fleet has, as in `harness.storage.store`."""

SLOTS = "slots"
"""Key in that: N of --jobs local:N, where that is how it was measured."""

ADDRESS = "address"
"""Another: --address of the cluster on which it was measured last."""

TUNE = "tune"
"""Key of run.json that the folder of a rooflens tune has in place of `request`."""


@dataclass(frozen=True, slots=True)
class StoredRun:
    """One run folder at a glance. `rows` counts the finished (cell, round) rows; None when there is no table yet.

    `made_at` is what runs are ordered by, see `shapes.run_folder.manifest`; `created_at` is what the clock said.
    A sweep over several `architectures` is one entry: its devices one after the other, and the rows of all its runs.
    """

    id: str
    folder: Path
    suite: str
    created_at: str
    device: str
    rows: int | None
    made_at: float
    architectures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredSweep:
    """The folder of a sweep over several architectures, each with a run folder in it, once that has begun."""

    id: str
    folder: Path
    suite: str
    created_at: str
    architectures: tuple[str, ...]
    made_at: float

    def run_of(self, architecture: str) -> Path:
        """Folder of the run on an architecture."""
        return self.folder / architecture

    @property
    def runs(self) -> tuple[Path, ...]:
        """Folders of all runs, begun or not."""
        return tuple(map(self.run_of, self.architectures))


def stored_runs(parent: Path = RUNS) -> list[StoredRun]:
    """List the runs and sweeps under `parent`, the newest first.

    A tuned table is none, nor is what has no readable manifest.
    """
    found = [_at_a_glance(manifest.parent) for manifest in parent.glob(f"*/{MANIFEST}")]
    found += [_sweep_at_a_glance(manifest.parent) for manifest in parent.glob(f"*/{FLEET}")]
    return sorted((run for run in found if run), key=lambda run: (run.made_at, run.id), reverse=True)


def new_folder(name: str, parent: Path = RUNS) -> Path:
    """Return `parent`/`name`-TIME, in local time. A second that comes twice, as in October, gets a number."""
    first = parent / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
    tried = (first, *(first.with_name(f"{first.name}-{number}") for number in range(2, MOST_OF_A_SECOND)))
    return next((folder for folder in tried if not folder.exists()), first)


def created(folder: Path) -> dict[str, str]:
    """What run.json or fleet.json of a new `folder` says of its time: when it was made, in UTC.

    Where the clock is behind a neighbour's, as after it was set back, `ordered_at` is what comes after all of them.
    """
    from ...harness.telemetry.clock import CLOCK

    said = {"created_at": CLOCK.now("seconds")}
    newest = max((made_at(content) for content in _neighbours(folder)), default=-math.inf)
    if newest < made_at(said):
        return said
    try:
        return said | {"ordered_at": datetime.fromtimestamp(newest + 1, UTC).isoformat(timespec="seconds")}
    except (ValueError, OverflowError):  # a neighbour of the year 9999
        return said


def _neighbours(folder: Path) -> Iterator[dict[str, Any]]:
    for name in (MANIFEST, FLEET):
        for path in folder.resolve().parent.glob(f"*/{name}"):
            with suppress(OSError, UsageError):
                yield read_object(path)


def find_run(text: str, parent: Path = RUNS) -> Path:
    """Return the folder that a RUN argument names.

    Raises UsageError with the nearest names when there is none, and for a sweep over several architectures: it holds
    runs.
    """
    folder = find_folder(text, parent)
    if (folder / MANIFEST).is_file():
        return folder
    sweep = read_sweep(folder)
    what = f"{LATEST} is {folder}, which" if text == LATEST else str(folder)
    names = [str(run) for run in sweep.runs]
    if len(names) == 1:
        raise UsageError(f"{what} holds the run of one architecture: name it, {names[0]}")
    listed = f"{', '.join(names[:-1])} or {names[-1]}"
    raise UsageError(f"{what} holds runs of several architectures: name one, {listed}")


def find_folder(text: str, parent: Path = RUNS) -> Path:
    """Return the folder of a run, or of a sweep over several architectures, that a RUN argument names.

    Raises UsageError with the nearest names when there is none.
    """
    if text == LATEST:
        runs = stored_runs(parent)
        if not runs:
            raise UsageError(f"no runs in {parent.absolute()}: measure one with rooflens run llm4bit-quick")
        return runs[0].folder
    for folder in (Path(text), parent / text):
        if (folder / MANIFEST).is_file() or is_sweep(folder):
            return folder
    if Path(text).is_dir():
        raise UsageError(f"{text} is not the folder of a run: it has no {MANIFEST}")
    known = [run.id for run in stored_runs(parent)]
    if not known:
        raise UsageError(f"no run {quote(text)}: it is not a folder, and there are no runs in {parent.absolute()}")
    name = Path(text).name if Path(text).parent == parent else text
    if near := nearest(name, known):
        raise UsageError(f"unknown run {quote(text)}: did you mean {' or '.join(near)}?")
    newest = ", ".join(known[:NEWEST]) + (", ...: rooflens list runs" if len(known) > NEWEST else "")
    raise UsageError(f"unknown run {quote(text)}: the newest are {newest}")


def is_sweep(folder: Path) -> bool:
    """True for the folder of a sweep over several architectures."""
    return (folder / FLEET).is_file()


def read_sweep(folder: Path) -> StoredSweep:
    """Read fleet.json. Raises UsageError, which says what is wrong with it."""
    path = folder / FLEET
    try:
        manifest = read_object(path)
    except FileNotFoundError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; restore the file from a copy") from None
    for key in ("id", "suite", "created_at"):
        if not isinstance(manifest.get(key), str):
            raise UsageError(f"{path}: {key} = {quote(manifest.get(key))} must be a text; restore the file from a copy")
    return StoredSweep(
        manifest["id"],
        folder,
        manifest["suite"],
        manifest["created_at"],
        _architectures(manifest, path),
        made_at(manifest),
    )


def _architectures(manifest: Mapping[str, Any], path: Path) -> tuple[str, ...]:
    """Names of the folders beside a fleet.json; nothing outside of its own folder."""
    names = manifest.get("architectures")
    given = names if isinstance(names, list) else []
    allowed = [name for name in given if isinstance(name, str) and re.fullmatch(r"\w[\w.+-]{0,79}", name)]
    if given and allowed == given and len(set(allowed)) == len(allowed):
        return tuple(allowed)
    raise UsageError(
        f"{path}: architectures = {quote(names)} must be a list of names of folders beside it; "
        "restore the file from a copy"
    )


def go_on(folder: Path) -> str:
    """Say how to resume an unfinished run; without a manifest nothing was measured, and there is none."""
    if shards := _merged_from(folder):
        return f"resume its shards ({', '.join(shards)}), then merge them again"
    if slots := (_manifest_of(folder).get(OF_A_FLEET) or {}).get(SLOTS):
        return f"resume with: rooflens run -o {shlex.quote(str(folder))} --resume --jobs local:{slots}"
    if (folder.parent / COMPARISON).is_file():
        return f"resume with: rooflens compare -o {shlex.quote(str(folder.parent))} --resume"
    if is_sweep(folder) or OF_A_FLEET in _manifest_of(folder):
        return f"resume with: rooflens fleet run -o {shlex.quote(str(folder))} --resume{_on_a_cluster(folder)}"
    if (folder / MANIFEST).is_file():
        return f"resume with: rooflens run -o {shlex.quote(str(folder))} --resume"
    return "nothing was measured: give the same command again"


def _on_a_cluster(folder: Path) -> str:
    """The option for the cluster that a fleet measured on; "" where that was one of its own."""
    runs = read_sweep(folder).runs if is_sweep(folder) else (folder,)
    address = next(filter(None, ((_manifest_of(run).get(OF_A_FLEET) or {}).get(ADDRESS) for run in runs)), "")
    return f" --address {shlex.quote(str(address))}" if address else ""


def refuse_foreign_owner(folder: Path) -> None:
    """Raise UsageError for a folder of another user: to resume it is to run the files and commands that it names.

    So is one of a group in which another user has replaced what names them.
    """
    for path in (folder, *(folder / name for name in (MANIFEST, COMPARISON, FLEET))):
        try:
            owner = path.stat().st_uid
        except OSError:
            continue  # whoever reads it says what is wrong
        if owner != os.getuid():
            raise UsageError(
                f"{path} belongs to user {owner}, and to resume it is to run the provider files and commands that it "
                "names: look at them, and resume a copy of your own (cp -r)"
            )


def is_tuned(folder: Path) -> bool:
    """True for the folder of a rooflens tune: a table of configurations, not a run."""
    return TUNE in _manifest_of(folder)


def _merged_from(folder: Path) -> list[str]:
    """Folders that a merged run was merged from."""
    try:
        return [str(shard["folder"]) for shard in _manifest_of(folder).get("shards", [])]
    except (KeyError, TypeError):
        return []


def _manifest_of(folder: Path) -> dict[str, Any]:
    """Return what run.json says; {} where it is not to be read: whoever needs it says what is wrong with it."""
    try:
        return read_object(folder / MANIFEST)
    except (OSError, UsageError):
        return {}


def _at_a_glance(folder: Path) -> StoredRun | None:
    try:
        manifest = read_object(folder / MANIFEST)
        if TUNE in manifest:
            return None
        device, suite = manifest["device"], manifest["suite"]
        return StoredRun(
            id=folder.name,
            folder=folder,
            suite=str(suite["name"] if isinstance(suite, dict) else suite),
            created_at=str(manifest["created_at"]),
            device=str(device["name"] if isinstance(device, dict) else device),
            rows=count_rows(folder),
            made_at=made_at(manifest),
        )
    except (OSError, UsageError, ValueError, KeyError, TypeError):
        return None


def _sweep_at_a_glance(folder: Path) -> StoredRun | None:
    try:
        sweep = read_sweep(folder)
    except UsageError:
        return None
    begun = {name: _at_a_glance(sweep.run_of(name)) for name in sweep.architectures}
    counts = [run.rows for run in begun.values() if run and run.rows is not None]
    return StoredRun(
        id=folder.name,
        folder=folder,
        suite=sweep.suite,
        created_at=sweep.created_at,
        device=", ".join(f"{name}: {run.device if run else 'not begun'}" for name, run in begun.items()),
        rows=sum(counts) if counts else None,
        made_at=sweep.made_at,
        architectures=sweep.architectures,
    )


def count_rows(folder: Path) -> int | None:
    """Count the rows of cells.csv, or its compressed form; None where it cannot be read.

    A row is a whole line below the header: a stored field never holds a line break.
    """
    for name in ("cells.csv", "cells.csv.gz"):
        with suppress(OSError, EOFError, zlib.error, UsageError):
            return max(0, read_stored(folder / name).count(b"\n") - 1)
    return None

"""Find stored runs: what a RUN argument means, and what ./runs holds."""

import json
import shlex
from dataclasses import dataclass
from pathlib import Path

from ..shapes.errors import UsageError, nearest

RUNS = Path("runs")
"""Where runs are stored unless -o says otherwise, relative to the working directory."""

LATEST = "latest"
MANIFEST = "run.json"

NEWEST = 5
"""Runs that are named to somebody who asks for one that does not exist."""

TUNE = "tune"
"""Key of run.json that the folder of a rooflens tune has in place of `request`."""


@dataclass(frozen=True, slots=True)
class StoredRun:
    """One run folder at a glance. `rows` counts the finished (cell, round) rows; None when there is no table yet."""

    id: str
    folder: Path
    suite: str
    created_at: str
    device: str
    rows: int | None


def stored_runs(parent: Path = RUNS) -> list[StoredRun]:
    """List the runs under `parent`, the newest first. A tuned table is none, nor is what has no readable manifest."""
    found = [_at_a_glance(manifest.parent) for manifest in parent.glob(f"*/{MANIFEST}")]
    return sorted((run for run in found if run), key=lambda run: (run.created_at, run.id), reverse=True)


def find_run(text: str, parent: Path = RUNS) -> Path:
    """Return the folder that a RUN argument names; raise UsageError with the nearest names when there is none."""
    if text == LATEST:
        runs = stored_runs(parent)
        if not runs:
            raise UsageError(f"no runs in {parent.absolute()}: measure one with rooflens run llm4bit-quick")
        return runs[0].folder
    for folder in (Path(text), parent / text):
        if (folder / MANIFEST).is_file():
            return folder
    if Path(text).is_dir():
        raise UsageError(f"{text} is not the folder of a run: it has no {MANIFEST}")
    known = [run.id for run in stored_runs(parent)]
    if not known:
        raise UsageError(f"no run {text!r}: it is not a folder, and there are no runs in {parent.absolute()}")
    name = Path(text).name if Path(text).parent == parent else text
    if near := nearest(name, known):
        raise UsageError(f"unknown run {text!r}: did you mean {' or '.join(near)}?")
    newest = ", ".join(known[:NEWEST]) + (", ...: rooflens list runs" if len(known) > NEWEST else "")
    raise UsageError(f"unknown run {text!r}: the newest are {newest}")


def go_on(folder: Path) -> str:
    """Say how to go on with an unfinished run; without a manifest nothing was measured, and there is none."""
    if shards := _merged_from(folder):
        return f"go on with its shards ({', '.join(shards)}), then merge them again"
    if (folder / MANIFEST).is_file():
        return f"go on with: rooflens run -o {shlex.quote(str(folder))} --resume"
    return "nothing was measured: give the same command again"


def is_tuned(folder: Path) -> bool:
    """True for the folder of a rooflens tune: a table of configurations, not a run."""
    try:
        return TUNE in json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError):
        return False


def _merged_from(folder: Path) -> list[str]:
    """Folders that a merged run was merged from."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        return [str(shard["folder"]) for shard in manifest.get("shards", [])]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []


def _at_a_glance(folder: Path) -> StoredRun | None:
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if TUNE in manifest:
            return None
        device, suite = manifest["device"], manifest["suite"]
        return StoredRun(
            id=folder.name,
            folder=folder,
            suite=str(suite["name"] if isinstance(suite, dict) else suite),
            created_at=str(manifest["created_at"]),
            device=str(device["name"] if isinstance(device, dict) else device),
            rows=_count_rows(folder / "cells.csv"),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _count_rows(table: Path) -> int | None:
    """Count the whole lines below the header: a stored field never holds a line break."""
    try:
        return max(0, table.read_bytes().count(b"\n") - 1)
    except OSError:
        return None

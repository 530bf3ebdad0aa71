"""Find stored runs: what a RUN argument means, and what ./runs holds."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import click

from ...api.run_folders import RUNS, is_ahead
from ...shapes.errors import UsageError, nearest, quote
from ...shapes.files.stored_file import open_table
from ...shapes.run_folder.manifest import MANIFEST, glance

LATEST = "latest"

HTML, MARKDOWN = "report.html", "report.md"
"""Reports in the folder of a run, or of several."""

NEWEST = 5
"""Runs that are named to somebody who asks for one that does not exist."""


@dataclass(frozen=True, slots=True)
class StoredRun:
    """One run folder at a glance. `rows` counts the finished (cell, round) rows; None when there is no table yet.

    `made_at` is what runs are ordered by, see `shapes.run_folder.manifest`; `created_at` is what the clock said.
    """

    id: str
    folder: Path
    suite: str
    created_at: str
    device: str
    rows: int | None
    made_at: float


def stored_runs(parent: Path = RUNS) -> list[StoredRun]:
    """List the runs under `parent`, the newest first. A tuned table is none, nor is what has no readable manifest."""
    found = [_at_a_glance(manifest.parent) for manifest in parent.glob(f"*/{MANIFEST}")]
    return sorted((run for run in found if run), key=lambda run: (run.made_at, run.id), reverse=True)


def find_run(text: str, parent: Path = RUNS) -> Path:
    """Return the folder that a RUN argument names. Raises UsageError with the nearest names when there is none."""
    if text == LATEST:
        runs = stored_runs(parent)
        if not runs:
            raise UsageError(f"no runs in {parent.absolute()}: measure one with rooflens run llm4bit-quick")
        found = next((run for run in runs if not is_ahead(run.created_at)), runs[0])
        if found is not runs[0]:
            what = f"{runs[0].folder} is dated {quote(runs[0].created_at)}, in the future"
            click.echo(f"note: {what}: {LATEST} is {found.folder}", err=True)
        return found.folder
    for folder in (Path(text), parent / text):
        if (folder / MANIFEST).is_file():
            return folder
        if inside := stored_runs(folder):
            raise UsageError(f"{folder} is a folder of runs: name one, such as {inside[0].folder}")
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


def _at_a_glance(folder: Path) -> StoredRun | None:
    manifest = glance(folder)
    if manifest.tune is not None or not (manifest.suite and manifest.created_at and manifest.device):
        return None
    return StoredRun(
        id=folder.name,
        folder=folder,
        suite=manifest.suite,
        created_at=manifest.created_at,
        device=manifest.device.name,
        rows=count_rows(folder),
        made_at=manifest.made_at,
    )


def count_rows(folder: Path) -> int | None:
    """Count the rows of cells.csv, or its compressed form; None where it cannot be read.

    A row is a whole line below the header: a stored field never holds a line break.
    """
    with suppress(OSError, UsageError):
        if table := open_table(folder / "cells.csv"):
            with table:
                return max(0, table.read().count(b"\n") - 1)
    return None

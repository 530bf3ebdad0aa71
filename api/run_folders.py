"""Folders of runs: which one is meant, what they hold, whose they are, and how to resume what is in one."""

import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ..harness.storage.tables import count_rows
from ..shapes.errors import Interrupted, UsageError, nearest, quote
from ..shapes.files.json_file import read_object
from ..shapes.run_folder.manifest import (
    COMPARISON,
    MANIFEST,
    ComparisonState,
    Manifest,
    glance,
    made_at,
    read_manifest,
)

RUNS = Path("runs")
"""Where runs are stored unless -o says otherwise, relative to the working directory."""

TUNED = Path("tuned")
"""The same for tuned tables, which are no runs that `latest` could mean."""

MOST_OF_A_SECOND = 1000
"""Folders that get their name from one second."""

MOST_AHEAD_S = 86400.0
"""Two machines may differ by a time zone. What is dated later than that has its date from a wrong clock."""

LATEST = "latest"

NEWEST = 5
"""Runs that are named to somebody who asks for one that does not exist."""


def new_folder(name: str, parent: Path = RUNS) -> Path:
    """Return `parent`/`name`-TIME, in local time. A second that comes twice, as in October, gets a number."""
    first = parent / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
    tried = (first, *(first.with_name(f"{first.name}-{number}") for number in range(2, MOST_OF_A_SECOND)))
    return next((folder for folder in tried if not folder.exists()), first)


def is_ahead(created_at: str) -> bool:
    """Tell whether a run is dated in the future, by a clock that was wrong."""
    from ..harness.telemetry.clock import CLOCK

    return made_at(created_at) > made_at(CLOCK.now("seconds")) + MOST_AHEAD_S


def missing_units(count: int, folder: Path) -> str:
    """Report how many units an unfinished run lacks, and how to resume it."""
    return f"{count} {'unit is' if count == 1 else 'units are'} missing: {how_to_resume(folder)}"


@contextmanager
def resumable(folder: Path, done: Callable[[], str]) -> Iterator[None]:
    """Let an interruption of what is stored in `folder` say what is `done`, and how to go on."""
    try:
        yield
    except (Interrupted, KeyboardInterrupt) as error:
        text = f"interrupted; {done()} are in {folder}: {how_to_resume(folder)}"
        if isinstance(error, Interrupted):
            raise Interrupted(text) from None
        error.add_note(text)
        raise


def how_to_resume(folder: Path) -> str:
    """Return the command; without a manifest nothing was measured, and there is none."""
    manifest = glance(folder)
    if manifest.shards:
        return f"resume its shards ({', '.join(shard.folder for shard in manifest.shards)}), then merge them again"
    for place in (folder, folder.parent):
        if (place / COMPARISON).is_file():
            several = " with --jobs or --address" * bool(comparison(place).chunks)
            return f"resume with: rooflens compare -o {shlex.quote(str(place))} --resume{several}"
    if (folder / MANIFEST).is_file():
        command = "tune" if manifest.tune is not None else "run"
        return f"resume with: rooflens {command} -o {shlex.quote(str(folder))} --resume{_devices_of(folder)}"
    return "nothing was measured: give the same command again"


def comparison(folder: Path) -> ComparisonState:
    """Return what can be made out of the compare.json of a folder; nothing where there is none."""
    try:
        return ComparisonState.glance(read_object(folder / COMPARISON))
    except (OSError, UsageError):
        return ComparisonState()


def _devices_of(folder: Path) -> str:
    """The option for the devices that a fleet measured on; "" for one device."""
    fleet = glance(folder).fleet
    if not fleet:
        return ""
    if fleet.address:
        return f" --address {shlex.quote(fleet.address)}"
    return f" --jobs local:{fleet.slots}" if fleet.slots else " --jobs local"


def manifest_to_resume(folder: Path | None, noun: str) -> Manifest:
    """Return run.json of the folder to resume, a run or a table; UsageError where there is none, or it is another's."""
    if folder is None:
        raise UsageError(f"--resume needs -o RUN, the folder of the {noun} to resume")
    refuse_foreign_owner(folder)
    try:
        return read_manifest(folder / MANIFEST)
    except FileNotFoundError:
        raise UsageError(
            f"no {noun} to resume: {folder / MANIFEST} does not exist; name the folder of the {noun} with -o"
        ) from None


def refuse_foreign_owner(folder: Path) -> None:
    """Raise UsageError for a folder of another user: to resume it is to run the files and commands that it names.

    So is one of a group in which another user has replaced what names them.
    """
    for path in (folder, *(folder / name for name in (MANIFEST, COMPARISON))):
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
    return glance(folder).tune is not None


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


def find_run(text: str, tell: Callable[[str], object] = lambda text: None) -> Path:
    """Return the folder that a name or path of a run means; `tell` is told what is odd about it.

    Raises UsageError with the nearest names when there is none.
    """
    if text == LATEST:
        runs = stored_runs()
        if not runs:
            raise UsageError(f"no runs in {RUNS.absolute()}: measure one with rooflens run llm4bit-quick")
        found = next((run for run in runs if not is_ahead(run.created_at)), runs[0])
        if found is not runs[0]:
            what = f"{runs[0].folder} is dated {quote(runs[0].created_at)}, in the future"
            tell(f"{what}: {LATEST} is {found.folder}")
        return found.folder
    for folder in (Path(text), RUNS / text):
        if (folder / MANIFEST).is_file():
            return folder
        if inside := stored_runs(folder):
            raise UsageError(f"{folder} is a folder of runs: name one, such as {inside[0].folder}")
    if Path(text).is_dir():
        raise UsageError(f"{text} is not the folder of a run: it has no {MANIFEST}")
    known = [run.id for run in stored_runs()]
    if not known:
        raise UsageError(f"no run {quote(text)}: it is not a folder, and there are no runs in {RUNS.absolute()}")
    name = Path(text).name if Path(text).parent == RUNS else text
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

"""Folders of runs: their names, whose they are, and how to resume what is in one."""

import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from ..shapes.errors import Interrupted, UsageError
from ..shapes.run_folder.manifest import COMPARISON, MANIFEST, Manifest, glance, made_at, read_manifest

RUNS = Path("runs")
"""Where runs are stored unless -o says otherwise, relative to the working directory."""

MOST_OF_A_SECOND = 1000
"""Folders that get their name from one second."""

MOST_AHEAD_S = 86400.0
"""Two machines may differ by a time zone. What is dated later than that has its date from a wrong clock."""


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
    if (folder.parent / COMPARISON).is_file():
        return f"resume with: rooflens compare -o {shlex.quote(str(folder.parent))} --resume"
    if (folder / MANIFEST).is_file():
        command = "tune" if manifest.tune is not None else "run"
        return f"resume with: rooflens {command} -o {shlex.quote(str(folder))} --resume{_devices_of(folder)}"
    return "nothing was measured: give the same command again"


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

"""The folder of a fleet's sweep: one run, or with several architectures one run for each."""

from collections.abc import Sequence
from pathlib import Path

from ...cli.shared.runs import created, is_sweep, read_sweep, runs_of_sweep
from ...shapes.errors import RooflensError, UsageError
from ...shapes.protocol import Protocol
from ...shapes.run_folder.manifest import MANIFEST, SWEEP, Manifest, SweepManifest, read_manifest


def run_folders(folder: Path, archs: Sequence[str]) -> dict[str, Path]:
    """Return the run folder of each architecture: the folder itself if it is only one."""
    return {arch: folder / arch for arch in archs} if len(archs) > 1 else dict.fromkeys(archs, folder)


def stored_run(folder: Path | None) -> Path | None:
    """Return a run folder that has the options of the sweep in `folder`: its first one."""
    return runs_of_sweep(folder)[0] if folder is not None and is_sweep(folder) else folder


def refuse_foreign(folder: Path, resume: bool) -> None:
    """Raise UsageError when a sweep cannot begin in `folder`, or the one to resume is not of a fleet."""
    there = is_sweep(folder) or (folder / MANIFEST).exists()
    if there and not resume:
        raise UsageError(f"{folder} holds a run already: add --resume to resume it, or choose another -o")
    if resume and not there:
        raise UsageError(f"{folder}: no run to resume; omit --resume to start one")
    if resume and not is_sweep(folder) and not _content(folder).fleet:
        raise UsageError(f"{folder} was measured by one device: resume with rooflens run -o {folder} --resume")


def refuse_another(folder: Path, archs: Sequence[str]) -> None:
    """Raise UsageError when the sweep in `folder` is not of these architectures."""
    stored = stored_architectures(folder)
    if stored and set(stored) != set(archs):
        raise UsageError(
            f"cannot resume: {folder} is of {', '.join(stored)}, and this fleet measures {', '.join(archs)}: choose "
            f"with --on {','.join(stored)}, or choose another -o"
        )


def refuse_other_ways(folder: Path, stored: Manifest, protocol: Protocol, threads: int | None) -> None:
    """Raise UsageError when a call would measure differently from the run of this run.json, before changing it."""
    asked = {
        "timer": None if protocol.timer == "auto" else protocol.timer,
        "cold_by": None if protocol.cold_by == "auto" else protocol.cold_by,
        "tuning": protocol.tuning,
        "threads": threads,
    }
    for what, found in asked.items():
        was = getattr(stored, what) or None
        if None not in (was, found) and was != found:
            raise UsageError(
                f"cannot resume {folder}: {what} was {was} and is {found} now; timings of the two do not mix: "
                "choose another -o"
            )


def stored_architectures(folder: Path) -> list[str]:
    """Return the architectures of the sweep in `folder`; [] before any is known."""
    if is_sweep(folder):
        return read_sweep(folder).architectures
    device = _content(folder).device if (folder / MANIFEST).exists() else None
    return [device.arch] if device and device.arch else []


def write_sweep(folder: Path, suite: str, archs: Sequence[str]) -> None:
    """Write which runs the folder holds, if there are several."""
    if len(archs) < 2 or is_sweep(folder):
        return
    from ...harness.storage.tables import make_folder, replace, reported

    created_at, ordered_at = created(folder)
    content = SweepManifest(
        id=folder.name, suite=suite, created_at=created_at, ordered_at=ordered_at, architectures=list(archs)
    )
    with reported(folder):
        make_folder(folder)
        replace(folder / SWEEP, content.to_text())


def _content(folder: Path) -> Manifest:
    try:
        return read_manifest(folder / MANIFEST)
    except FileNotFoundError as error:
        raise RooflensError(
            f"cannot read {folder / MANIFEST}: {error.strerror}; restore the file from a copy"
        ) from None

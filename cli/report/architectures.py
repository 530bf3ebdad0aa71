"""Reports of a sweep over several architectures: one that shows them side by side, and the own one of each run."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ...shapes.errors import UsageError, unknown_name
from ...shapes.run_folder.manifest import MANIFEST
from ..shared.runs import HTML, StoredSweep, count_rows, read_sweep

if TYPE_CHECKING:
    from ...reports.model import Report
    from ...reports.view import View


def check_preset(sweep: StoredSweep, preset: str | None) -> None:
    """Raise UsageError for a preset other than the default: those are of one run."""
    from ...reports.build import DEFAULT
    from ...reports.presets import PRESETS

    if preset is None or preset == DEFAULT:
        return
    if preset not in PRESETS:
        raise unknown_name("preset", preset, list(PRESETS))
    raise UsageError(
        f"{sweep.folder} holds runs of several architectures, shown side by side without --preset: name one for the "
        f"preset {preset}, {' or '.join(map(str, sweep.runs))}"
    )


def write_reports(folder: Path) -> list[Path]:
    """Write the report of a sweep side by side, and that of each of its runs, into their folders.

    Returns what was written, the report side by side first. Raises UsageError where no cell is finished.
    """
    from ...reports.build import report_of
    from ...reports.write import default_files, write_report

    sweep = read_sweep(folder)
    views = _views(sweep)
    reports = {folder: _build(sweep, views, {name: f"{name}/{HTML}" for name in views})}
    reports |= {sweep.run_of(name): report_of(view) for name, view in views.items()}  # all before any is written
    return [path for place, report in reports.items() for path in write_report(report, default_files(place))]


def build_side_by_side(folder: Path, beside: Path) -> "Report":
    """Build the report of a sweep side by side, for a file in the folder `beside`.

    It leads to the own report of each run as far as that is there.
    """
    sweep = read_sweep(folder)
    views = _views(sweep)
    pages = {name: sweep.run_of(name) / HTML for name in views}
    links = {name: Path(os.path.relpath(page, beside)).as_posix() for name, page in pages.items() if page.is_file()}
    return _build(sweep, views, links)


def _views(sweep: StoredSweep) -> dict[str, "View"]:
    from ...analysis.frames.load import load_run
    from ...analysis.run.pipeline import analyze
    from ...reports.view import View

    runs = {name: load_run(sweep.run_of(name)) for name in sweep.architectures if not _unfinished(sweep, name)}
    return {name: View(analyze(run)) for name, run in runs.items()}


def _unfinished(sweep: StoredSweep, architecture: str) -> str:
    """Say why there is nothing to show of an architecture; "" where there is."""
    run = sweep.run_of(architecture)
    if not (run / MANIFEST).is_file():
        return f"its run has not begun ({run} has no {MANIFEST})"
    return "" if count_rows(run) else f"no cell of its run is finished ({run})"


def _build(sweep: StoredSweep, views: dict[str, "View"], links: dict[str, str]) -> "Report":
    from ...reports.build import build_architectures
    from ...reports.sections.architectures.subject import SweepInfo

    missing = {name: why for name in sweep.architectures if (why := _unfinished(sweep, name))}
    about = SweepInfo(sweep.id, sweep.suite, sweep.created_at, str(sweep.folder))
    return build_architectures(about, list(views.items()), missing=missing, links=links)

"""What `rooflens run` prints at its end: headline, means, what became of the cells, and where everything is."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...api.outcome import Outcome, outcome_of
from ...api.run_folders import how_to_resume
from ...reports import formatting as fmt
from ...shapes.errors import IncompleteError
from ...shapes.run_folder.manifest import WORKER_LOG, StoredRefinement
from ...shapes.verdict import Verdict
from ..shared.tables import note, show, show_failures

if TYPE_CHECKING:
    import pandas as pd

    from ...reports.view import View


TRACED = {Verdict.RUNTIME_ERROR, Verdict.COMPILE_ERROR, Verdict.OOM, Verdict.CRASHED}
"""Verdicts whose tracebacks are in the worker's log."""

MOST_CONCERNS = 3
"""Notes on the run as a whole; the report has them all."""


def conclude(folder: Path, *, complete: bool, report: bool, strict: bool) -> None:
    """Print the end of a run, and with `report` analyse it and write its report.

    Raises what --strict makes of a wrong output, a failed cell or an incomplete sweep.
    """
    resuming = how_to_resume(folder)
    try:
        outcome = outcome_of(folder, complete)
    except IncompleteError:
        if strict:
            raise
        click.echo(resuming, err=True)
        return
    show_end(outcome, report)
    if (error := outcome.error) and strict:
        raise error
    if error and resuming not in str(error):  # else it is printed already
        note(f"{error}; the exit code is 0, and {error.exit_code} with --strict")


def show_end(outcome: Outcome, report: bool) -> None:
    """Print the headline, what became of the cells, and the paths; write the report if requested."""
    folder, written, told = outcome.folder, [], map(_refined, outcome.manifest.refinements)
    if report:
        from ...api.stored_run import Run
        from .final_table import print_final_table

        view = Run(folder).view
        written = _write_report(view, folder)
        print_final_table(view)
    click.echo(f"cells: {fmt.coverage(outcome.coverage)}")
    for line in (*(summary_lines(view) if report else ()), *told):
        click.echo(line)
    verdicts = {verdict for _, verdict in outcome.verdicts}
    if Verdict.PASSED not in verdicts:
        click.echo("no cell has a time: the reasons are above, and in the column `reason` of cells.csv", err=True)
    if report:
        _show_concerns(view)
        show_failures(view.run.tuning[view.run.tuning["verdict"] != Verdict.UNSUPPORTED])
    if outcome.unfinished:
        click.echo(how_to_resume(folder), err=True)
    log = folder / WORKER_LOG
    if verdicts & TRACED and log.is_file() and log.stat().st_size:
        click.echo(f"{'traceback':<14}{log}")
    click.echo(f"{'raw timings':<14}{folder}/cells.csv, samples.csv, ceilings.csv, run.json")
    for path in sorted(written, key=lambda path: path.suffix == ".html"):
        click.echo(f"{'report' if path.suffix == '.html' else 'markdown':<14}{path}")


def _refined(part: StoredRefinement) -> str:
    """Describe what a refinement added."""
    shapes = {tuple(value for name, value in row.items() if name not in ("M", "providers")) for row in part.added}
    if not shapes:
        return "refined: nothing added, no crossover with a verified winner on both sides is wider than requested"
    several = f"{len(part.added)} further M at {len(shapes)} shape{'s' * (len(shapes) > 1)}"
    so_far = "" if part.complete else ", so far"
    return f"refined: {several}, {part.challenger} against {part.incumbent}{so_far}"


def _show_concerns(view: "View") -> None:
    """Print notes on the run as a whole, without those that repeat other lines: failures, how to resume."""
    from ...analysis.frames.notes import Topic, topic_of

    known = [Topic.FAILED, Topic.UNFINISHED, Topic.ROOFLINE]
    if (view.manifest.request or {}).get("calibrate") is False:
        known.append(Topic.CALIBRATION)
    left = [one for one in view.analysis.warnings if topic_of(one) not in known]
    left.sort(key=lambda one: topic_of(one) != Topic.IMPOSSIBLE)  # it says which numbers are wrong
    note(*left[:MOST_CONCERNS], *([f"{len(left) - MOST_CONCERNS} more in the report"] if left[MOST_CONCERNS:] else []))


def _write_report(view: "View", folder: Path) -> list[Path]:
    """Write both forms of the report and print its headline; return their paths."""
    from ...reports.build import report_of
    from ...reports.model import KeyNumbers
    from ...reports.write import write_report
    from ..shared.runs import HTML, MARKDOWN

    built = report_of(view)
    written = write_report(built, {"html": folder / HTML, "markdown": folder / MARKDOWN})
    click.echo("")
    show(*(block for section in built.sections for block in section.blocks if isinstance(block, KeyNumbers)))
    click.echo("")
    return [path for path in written if path in (folder / HTML, folder / MARKDOWN)]


def summary_lines(view: "View") -> Iterator[str]:
    """Say what a reader of the cells should know of a table that was pinned, and of a scan."""
    from ...analysis.run.scan_check import held

    run = view.run
    if run.manifest.protocol.tuning == "pinned" and not run.manifest.scan:
        yield from _unpinned(run.cells)
    yield from held(run.cells, run.manifest.scan)


def _unpinned(cells: "pd.DataFrame") -> Iterator[str]:
    ran = cells.loc[cells["tuning"] != ""].drop_duplicates("cell_id")
    if default := int((ran["tuning"] == "default").sum()):
        verb = "is" if default == 1 else "are"
        yield f"note: {default} of {len(ran)} cells {verb} not in the table and ran the default"

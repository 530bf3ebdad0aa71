"""What `rooflens run` says at its end: headline, means, what came of the cells, and where everything is."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...shapes.errors import CorrectnessError, IncompleteError, RooflensError
from ...shapes.run_folder.manifest import EVENTS, WORKER_LOG, StoredRefinement
from ...shapes.verdict import Verdict
from ..shared.runs import go_on
from ..shared.terminal import style
from .final_table import print_final_table
from .run_summary import outcome

if TYPE_CHECKING:
    import pandas as pd

    from ...analysis.frames.load import RunData
    from ...reports.model import KeyNumbers
    from ...reports.view import View


TRACED = {Verdict.RUNTIME_ERROR, Verdict.COMPILE_ERROR, Verdict.OOM, Verdict.CRASHED}
"""Verdicts of which the worker's log says where they happened."""

MOST_CONCERNS = 3
"""Notes on the run as a whole that end a run; the report has them all."""


def finish(folder: Path, *, complete: bool, report: bool) -> RooflensError | None:
    """Print the headline, what came of the cells, and the paths; write the report when asked to.

    Returns the error that --strict makes of a wrong output, a failed cell or an incomplete sweep, None without any.
    """
    from ...analysis.frames.load import load_run
    from ...analysis.run.pipeline import analyze
    from ...analysis.run.scan_check import held
    from ...reports.view import View

    try:
        run = load_run(folder)
    except RooflensError:
        if complete:
            raise
        click.echo(go_on(folder), err=True)
        return IncompleteError(f"no round was finished: {go_on(folder)}")
    view = View(run, analyze(run))
    written = _write_report(view, folder) if report else []
    print_final_table(view, best=not report)
    refining = any(not part.complete for part in run.manifest.refinements) and not complete
    for line in outcome(run, "" if refining else _stopped_at(folder)):
        click.echo(line)
    for part in run.manifest.refinements:
        click.echo(_refined(part))
    for line in held(run.cells, run.manifest.scan):
        click.echo(line)
    verdicts = set(run.cells["verdict"])
    if not verdicts & {Verdict.PASSED}:
        click.echo("no cell has a time: the reasons are above, and in the column `reason` of cells.csv", err=True)
    _show_concerns(run, view.analysis.warnings)
    unfinished = refining or (not complete and run.missing_units > 0)
    if unfinished:
        click.echo(go_on(folder), err=True)
    log = folder / WORKER_LOG
    if verdicts & TRACED and log.is_file() and log.stat().st_size:
        click.echo(f"{'traceback':<14}{log}")
    click.echo(f"{'raw timings':<14}{folder}/cells.csv, samples.csv, ceilings.csv, run.json")
    for path in sorted(written, key=lambda path: path.suffix == ".html"):
        click.echo(f"{'report' if path.suffix == '.html' else 'markdown':<14}{path}")
    return _blemish(run, folder, unfinished)


def _refined(part: StoredRefinement) -> str:
    """Say what a refinement added."""
    shapes = {tuple(value for name, value in row.items() if name not in ("M", "providers")) for row in part.added}
    if not shapes:
        return "refined: nothing added, no crossover with a verified winner on both sides is wider than asked for"
    several = f"{len(part.added)} further M at {len(shapes)} shape{'s' * (len(shapes) > 1)}"
    so_far = "" if part.complete else ", so far"
    return f"refined: {several}, {part.challenger} against {part.incumbent}{so_far}"


def _failed(run: "RunData") -> "pd.DataFrame":
    """Cells that were to have a time and have none: provider and verdict, each pair once."""
    failed = ~run.cells["verdict"].isin([Verdict.PASSED, Verdict.UNSUPPORTED])
    return run.cells.loc[failed, ["provider", "verdict"]].drop_duplicates()


def _blemish(run: "RunData", folder: Path, unfinished: bool) -> RooflensError | None:
    """Return the worst that happened as an error."""
    failed = _failed(run)
    if len(failed):
        names = ", ".join(f"{provider} {verdict}" for provider, verdict in failed.itertuples(index=False, name=None))
        wrong = (failed["verdict"] == Verdict.INCORRECT).any()
        return (CorrectnessError if wrong else IncompleteError)(
            f"failed: {names}; the column reason of cells.csv says why"
        )
    return IncompleteError(f"the sweep is not complete: {go_on(folder)}") if unfinished else None


def _show_concerns(run: "RunData", concerns: Sequence[str]) -> None:
    """Print what concerns the run as a whole, without what the end of a run says anyway: who failed, how to go on."""
    from ...analysis.frames.notes import Topic, topic_of

    known = [Topic.FAILED, Topic.UNFINISHED, Topic.ROOFLINE]
    if (run.manifest.request or {}).get("calibrate") is False:
        known.append(Topic.CALIBRATION)
    left = [one for one in concerns if topic_of(one) not in known]
    left.sort(key=lambda one: topic_of(one) != Topic.IMPOSSIBLE)  # it says which numbers are wrong
    for concern in left[:MOST_CONCERNS]:
        click.echo(f"note: {concern}", err=True)
    if len(left) > MOST_CONCERNS:
        click.echo(f"note: {len(left) - MOST_CONCERNS} more in the report", err=True)


def _stopped_at(folder: Path) -> str:
    """Return the UTC time of the last event that says so, "" without one."""
    try:
        lines = (folder / EVENTS).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    stamps = [stamp for stamp, _, text in (line.partition(" ") for line in lines) if text == "stopped at --max-time"]
    return stamps[-1] if stamps else ""


def _write_report(view: "View", folder: Path) -> list[Path]:
    """Write both forms of the report and print its headline; return their paths."""
    from ...reports.build import report_of
    from ...reports.model import KeyNumbers
    from ...reports.write import write_report
    from ..shared.runs import HTML, MARKDOWN

    built = report_of(view)
    written = write_report(built, folder / HTML, folder / MARKDOWN)
    for block in (block for section in built.sections for block in section.blocks):
        if isinstance(block, KeyNumbers):
            _print_headline(block)
    return [path for path in written if path in (folder / HTML, folder / MARKDOWN)]


def _print_headline(block: "KeyNumbers") -> None:
    click.echo("")
    for item in block.items:
        shares = ", ".join(f"{share.text} {share.label}" for share in item.shares)
        click.echo(f"{item.label}: {style(shares or item.text, bold=True)}")
        if item.detail and not shares:
            click.echo(f"    {item.detail}")
        if item.note:
            click.echo(f"    {item.note}")
    click.echo("")

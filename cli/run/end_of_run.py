"""What `rooflens run` prints at its end: headline, means, what became of the cells, and where everything is."""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...api.run_folders import how_to_resume
from ...shapes.errors import CorrectnessError, IncompleteError, RooflensError
from ...shapes.run_folder.manifest import EVENTS, WORKER_LOG, StoredRefinement
from ...shapes.verdict import Verdict
from ..shared.terminal import style
from .final_table import print_final_table

if TYPE_CHECKING:
    import pandas as pd

    from ...analysis.frames.load import RunData
    from ...reports.model import KeyNumbers
    from ...reports.view import View


TRACED = {Verdict.RUNTIME_ERROR, Verdict.COMPILE_ERROR, Verdict.OOM, Verdict.CRASHED}
"""Verdicts whose tracebacks are in the worker's log."""

MOST_CONCERNS = 3
"""Notes on the run as a whole; the report has them all."""

MOST_NAMES = 4
"""Names in one line; the tables have them all."""


def conclude(folder: Path, *, complete: bool, report: bool, strict: bool) -> None:
    """Print the end of a run, and write the report if requested.

    Raises what --strict makes of a wrong output, a failed cell or an incomplete sweep.
    """
    error = finish(folder, complete=complete, report=report)
    if error and strict:
        raise error
    if error and how_to_resume(folder) not in str(error):  # else it is printed already
        click.echo(f"note: {error}; the exit code is 0, and {error.exit_code} with --strict", err=True)


def finish(folder: Path, *, complete: bool, report: bool) -> RooflensError | None:
    """Print the headline, what became of the cells, and the paths; write the report if requested.

    Returns the error for a wrong output, a failed cell or an incomplete sweep, None without any.
    """
    from ...analysis.frames.load import load_run
    from ...analysis.run.pipeline import analyze
    from ...analysis.run.question import with_times
    from ...analysis.run.scan_check import held
    from ...reports.view import View

    try:
        run = load_run(folder)
    except RooflensError:
        if complete:
            raise
        click.echo(how_to_resume(folder), err=True)
        return IncompleteError(f"no round was finished: {how_to_resume(folder)}")
    view = View(analyze(with_times(run)))
    written = _write_report(view, folder) if report else []
    print_final_table(view, headed=report)
    refining = any(not part.complete for part in run.manifest.refinements) and not complete
    for line in summary_lines(view, "" if refining else _stopped_at(folder)):
        click.echo(line)
    for part in run.manifest.refinements:
        click.echo(_refined(part))
    for line in held(run.cells, run.manifest.scan):
        click.echo(line)
    verdicts = set(run.cells["verdict"])
    if not verdicts & {Verdict.PASSED}:
        click.echo("no cell has a time: the reasons are above, and in the column `reason` of cells.csv", err=True)
    _show_concerns(run, view.analysis.warnings)
    unfinished = refining or (not complete and view.coverage.rounds_to_do > 0)
    if unfinished:
        click.echo(how_to_resume(folder), err=True)
    log = folder / WORKER_LOG
    if verdicts & TRACED and log.is_file() and log.stat().st_size:
        click.echo(f"{'traceback':<14}{log}")
    click.echo(f"{'raw timings':<14}{folder}/cells.csv, samples.csv, ceilings.csv, run.json")
    for path in sorted(written, key=lambda path: path.suffix == ".html"):
        click.echo(f"{'report' if path.suffix == '.html' else 'markdown':<14}{path}")
    return _blemish(run, folder, unfinished)


def _refined(part: StoredRefinement) -> str:
    """Describe what a refinement added."""
    shapes = {tuple(value for name, value in row.items() if name not in ("M", "providers")) for row in part.added}
    if not shapes:
        return "refined: nothing added, no crossover with a verified winner on both sides is wider than requested"
    several = f"{len(part.added)} further M at {len(shapes)} shape{'s' * (len(shapes) > 1)}"
    so_far = "" if part.complete else ", so far"
    return f"refined: {several}, {part.challenger} against {part.incumbent}{so_far}"


def _failed(run: "RunData") -> "pd.DataFrame":
    """Distinct pairs of provider and verdict of the cells that should have a time and have none."""
    failed = ~run.cells["verdict"].isin([Verdict.PASSED, Verdict.UNSUPPORTED])
    return run.cells.loc[failed, ["provider", "verdict"]].drop_duplicates()


def _blemish(run: "RunData", folder: Path, unfinished: bool) -> RooflensError | None:
    """Return the worst failure as an error."""
    failed = _failed(run)
    if len(failed):
        names = ", ".join(f"{provider} {verdict}" for provider, verdict in failed.itertuples(index=False, name=None))
        wrong = (failed["verdict"] == Verdict.INCORRECT).any()
        return (CorrectnessError if wrong else IncompleteError)(
            f"failed: {names}; the column reason of cells.csv says why"
        )
    return IncompleteError(f"the sweep is not complete: {how_to_resume(folder)}") if unfinished else None


def _show_concerns(run: "RunData", concerns: Sequence[str]) -> None:
    """Print notes on the run as a whole, without those that repeat other lines: failures, how to resume."""
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
    written = write_report(built, {"html": folder / HTML, "markdown": folder / MARKDOWN})
    for block in (block for section in built.sections for block in section.blocks):
        if isinstance(block, KeyNumbers):
            _print_headline(block)
    return [path for path in written if path in (folder / HTML, folder / MARKDOWN)]


def _print_headline(block: "KeyNumbers") -> None:
    click.echo("")
    for item in block.items:
        click.echo(f"{item.label}: {style(item.text, bold=True)}")
        if item.detail:
            click.echo(f"    {item.detail}")
        if item.note:
            click.echo(f"    {item.note}")
    click.echo("")


def summary_lines(view: "View", stopped_at: str = "") -> Iterator[str]:
    """Say what became of the cells; `stopped_at` is the UTC time at which --max-time last ended the sweep, or ""."""
    from ...reports.cells import coverage_text

    run = view.run
    yield f"cells: {coverage_text(view.coverage)}"
    if not view.coverage.rounds_to_do and stopped_at > run.cells["started_at"].max():
        yield "note: every cell is finished; only the closing calibration is missing: there was no time left for it"
    if failed := _failed_candidates(run.tuning):
        yield failed
    if run.manifest.protocol.tuning == "pinned" and not run.manifest.scan:
        yield from _unpinned(run.cells)


def _failed_candidates(tuning: "pd.DataFrame") -> str:
    """Name the candidates that no search could time; "" when there are none."""
    failed = tuning.loc[~tuning["verdict"].isin([Verdict.PASSED, Verdict.UNSUPPORTED])]
    if failed.empty:
        return ""
    named = (
        " ".join(filter(None, (provider, _configuration(config), verdict)))
        for provider, config, verdict in failed[["provider", "config", "verdict"]].itertuples(index=False, name=None)
    )
    noun = "candidate" if len(failed) == 1 else "candidates"
    return f"{len(failed)} {noun} failed in the searches: {_listed(named)} (tuning.csv)"


def _configuration(text: str) -> str:
    """Write {"form": "wrong"} as form=wrong."""
    values = json.loads(text) if text else {}
    return " ".join(f"{name}={value}" for name, value in values.items()) if isinstance(values, dict) else text


def _unpinned(cells: "pd.DataFrame") -> Iterator[str]:
    ran = cells.loc[cells["tuning"] != ""].drop_duplicates("cell_id")
    if default := int((ran["tuning"] == "default").sum()):
        verb = "is" if default == 1 else "are"
        yield f"note: {default} of {len(ran)} cells {verb} not in the table and ran the default"


def _listed(names: Iterable[object]) -> str:
    distinct = list(dict.fromkeys(map(str, names)))
    return ", ".join(distinct[:MOST_NAMES]) + (", ..." if len(distinct) > MOST_NAMES else "")

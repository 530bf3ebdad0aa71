"""What `rooflens run` says at its end: the headline numbers, what came of the cells, and where everything is."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..shapes.errors import CorrectnessError, IncompleteError, RooflensError
from ..shapes.verdict import Verdict
from .outcome import outcome
from .runs import go_on

if TYPE_CHECKING:
    from ..analysis.load import RunData
    from ..reports.model import KeyNumbers


def finish(folder: Path, *, complete: bool, report: bool) -> RooflensError | None:
    """Print the headline, what came of the cells, and the paths; write the report when asked to.

    Returns the error that --strict makes of an incomplete sweep or a wrong output, None when there is nothing to say.
    """
    from ..analysis.load import load_run

    try:
        run = load_run(folder)
    except RooflensError:
        if complete:
            raise
        click.echo(go_on(folder), err=True)
        return IncompleteError(f"no round was finished: {go_on(folder)}")
    written = _write_report(run, folder) if report else []
    for line in outcome(run, _stopped_at(folder)):
        click.echo(line)
    verdicts = set(run.cells["verdict"])
    if not verdicts & {Verdict.PASSED}:
        click.echo("no cell has a time: the reasons are above, and in the column `reason` of cells.csv", err=True)
    click.echo(f"raw timings   {folder}/cells.csv, samples.csv, ceilings.csv, run.json")
    for path in written:
        click.echo(f"{'report' if path.suffix == '.html' else 'markdown':<14}{path}")
    unfinished = not complete and run.missing_units > 0
    if unfinished:
        click.echo(go_on(folder), err=True)
    if Verdict.INCORRECT in verdicts:
        wrong = sorted(set(run.cells.loc[run.cells["verdict"] == Verdict.INCORRECT, "provider"]))
        return CorrectnessError(f"wrong output of {', '.join(wrong)}: the reasons are in cells.csv and in the report")
    return None if not unfinished else IncompleteError(f"the sweep is not complete: {go_on(folder)}")


def _stopped_at(folder: Path) -> str:
    """Return the UTC time of the last event that says so, "" without one."""
    try:
        lines = (folder / "events.log").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    stamps = [stamp for stamp, _, text in (line.partition(" ") for line in lines) if text == "stopped at --max-time"]
    return stamps[-1] if stamps else ""


def _write_report(run: "RunData", folder: Path) -> list[Path]:
    """Write both forms of the report, and print its headline block."""
    from ..reports.build import build_report
    from ..reports.model import KeyNumbers
    from ..reports.write import write_report
    from .report import HTML, MARKDOWN

    built = build_report(run)
    written = write_report(built, folder / HTML, folder / MARKDOWN)
    for section in built.sections:
        for block in section.blocks:
            if isinstance(block, KeyNumbers):
                _print_headline(block)
    return [path for path in written if path.parent == folder]


def _print_headline(block: "KeyNumbers") -> None:
    click.echo("")
    for item in block.items:
        shares = ", ".join(f"{share.text} {share.label}" for share in item.shares)
        click.echo(f"{item.label}: {click.style(shares or item.text, bold=True)}")
        if item.detail and not shares:
            click.echo(f"    {item.detail}")
        if item.note:
            click.echo(f"    {item.note}")
    click.echo("")

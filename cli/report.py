"""`rooflens report`: write the report of a run."""

from pathlib import Path

import click

from ..shapes.errors import UsageError
from .runs import find_run

HTML, MARKDOWN = "report.html", "report.md"
"""File names inside the run folder."""


@click.command()
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=find_run)
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write the page here.")
@click.option(
    "--markdown",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the markdown here, and its figures beside it.",
)
def report(runs: tuple[Path, ...], html: Path | None, markdown: Path | None) -> None:
    """Write report.html and report.md of a run.

    RUN is the folder of a run, its name under ./runs, or `latest`; each run gets its own report, inside its folder.
    With --html or --markdown, only what is named is written. The page is one file that needs no network; the markdown
    fits into a pull request. The paths written are printed.

    \b
    Examples:
      rooflens report latest
      rooflens report runs/h200 --html h200.html --markdown h200.md
    """
    if (html or markdown) and len(runs) > 1:
        raise UsageError(f"--html and --markdown name the files of one report, but {len(runs)} runs are given")
    for folder in runs:
        chosen = (html, markdown) if html or markdown else (folder / HTML, folder / MARKDOWN)
        for path in write(folder, *chosen):
            click.echo(path)


def write(folder: Path, html: Path | None, markdown: Path | None) -> list[Path]:
    """Load a run, build its report and write the files that are asked for; return what was written."""
    from ..analysis.load import load_run
    from ..reports.build import build_report
    from ..reports.write import write_report

    return write_report(build_report(load_run(folder)), html, markdown)

"""`rooflens report`: write the report of a run, of two versions, or of several runs side by side."""

from pathlib import Path
from typing import Any

import click

from ..api.reporting import ENDINGS, SIDE_BY_SIDE, Reported, output
from ..reports.exports.formats import EXPORTS
from ..reports.render.formats import FORMATS
from ..reports.render.layout import WIDTH
from ..shapes.errors import UsageError
from .shared.options import command_with
from .shared.tables import NO_WIDTH, note, print_report, terminal_width
from .shared.terminal import own

STDOUT = Path("-")

FORMER = {
    f"--{name}": f"write -o {f'FILE{form.ending}' if form.ending else f'{name}=FILE'}"
    + f", or -o {name}=-" * form.printable
    for name, form in (FORMATS | EXPORTS).items()
}


@click.command(cls=command_with(FORMER))
@click.argument("targets", metavar="RUN [BASE | RUN...]", nargs=-1, required=True)
@click.option(
    *("-o", "--output", "outputs"),
    multiple=True,
    metavar="FILE",
    help=f"Write this: its ending is the format ({', '.join(ENDINGS)}), or FORMAT=FILE; repeat it.",
)
@click.option("--preset", default="", metavar="NAME", help="full, crossover, ...: what the report is about.")
@click.option("--baseline", default="", metavar="B", help="Compare with this provider; default: the run's baseline.")
@click.option("--challenger", "challengers", multiple=True, metavar="A", help="Look at this provider; repeat it.")
@click.option(
    "--serving",
    type=click.Path(dir_okay=False, path_type=Path),
    multiple=True,
    metavar="FILE",
    help="Show what a serving stack reaches on the same problems: a GEMM table of NVIDIA AIConfigurator; repeat it.",
)
@click.option("--arithmetic", is_flag=True, help="Of two versions: add arithmetic means of rates.")
@click.option("--ascii", "ascii_only", is_flag=True, help="Signs in ASCII (3.64x, <=, us) in all but the page.")
def report(targets: tuple[str, ...], outputs: tuple[str, ...], ascii_only: bool, **question: Any) -> None:
    """Write the report of a run, or of a run against another.

    RUN is the folder of a run, its name under ./runs, or `latest`; with BASE, the report says what changed from BASE to
    RUN. The folder of a rooflens compare --git holds both. Three runs or more stand side by side, a column each.

    Without -o, the page and the markdown go into the folder of RUN, as report.html and report.md (a preset other than
    full: report-PRESET.html and .md). FORMAT=- is printed.

    \b
    Formats:
      .html     the page, one file that needs no network
      .md       markdown for a pull request, of at most 60,000 characters
      .txt      plain text
      .json     all of it, for programs
      .parquet  all cells of one run as a table; needs pyarrow
      aiter=    the fastest provider of each GEMM, as a tuned table of aiter
      comment=  one file to paste into a pull request: markdown without images
      digest=   the lines for a commit message: plain ASCII, 72 columns

    \b
    Presets:
      full         everything that is known of a run
      crossover    up to which M a kernel wins: headline maxima, crossovers, curves
      decode-grid  one grid of speedups, shape x M, and the fastest of each cell
      three-way    a kernel beside the one that it replaces and a reference
      flat         time, rate and bandwidth of every shape of one sweep
      branch       what changed between two versions
      side-by-side several runs, such as those of other devices

    \b
    Examples:
      rooflens report latest
      rooflens report runs/h200 -o h200.html -o h200.md
      rooflens report latest --preset crossover -o text=-
      rooflens report runs/mine runs/main -o digest=-
      rooflens report runs/h200 runs/mi300x runs/b200 -o devices.html
      rooflens report latest -o cells.parquet
    """
    named = list(map(output, outputs))
    printed = [name for name, path in named if path == STDOUT]
    for name in printed:
        if not (FORMATS | EXPORTS)[name].printable:
            raise UsageError(f"-o {name}=-: it cannot be printed; give it a FILE")
    if len(printed) > 1:
        asked = " and ".join(f"{name}=-" for name in printed)
        raise UsageError(f"only one of {asked} can be printed: give the others a FILE")
    run, *others = targets
    if len(others) == 1 and question["preset"] != SIDE_BY_SIDE:
        question["against"] = others[0]
    else:
        question["beside"] = others
    reported = Reported(run=run, tell=note, **question)
    for name in printed:
        if name in EXPORTS:
            click.echo(own(reported.exported(name).decode("utf-8")), nl=False)
        else:
            width = terminal_width()
            print_report(reported.report, WIDTH if width == NO_WIDTH else width, name, ascii_only)
    files = [(name, path) for name, path in named if path != STDOUT]
    for path in reported.write(files if outputs else reported.default_files, ascii_only):
        click.echo(path, err=bool(printed))

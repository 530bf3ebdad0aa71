"""`rooflens report`: write the report of a run, or of two versions."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...shapes.errors import UsageError
from ...shapes.run_folder.manifest import COMPARISON, MANIFEST
from ..shared.runs import HTML, MARKDOWN, find_folder, find_run, is_sweep, read_sweep
from ..shared.tables import NO_WIDTH, terminal_width
from ..shared.terminal import own

if TYPE_CHECKING:
    from ...reports.model import Report

STDOUT = Path("-")


@click.command()
@click.argument("targets", metavar="RUN [BASE]", nargs=-1, required=True)
@click.option("--preset", metavar="NAME", help="full, crossover, decode-grid, three-way or flat; branch with a BASE.")
@click.option("--challenger", "challengers", multiple=True, metavar="A", help="Look at this provider; repeat it.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write the page here.")
@click.option(
    "--markdown",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the markdown here, and its figures beside it.",
)
@click.option(
    "--text",
    type=click.Path(dir_okay=False, path_type=Path, allow_dash=True),
    metavar="FILE",
    help="Write plain text here; - is the terminal.",
)
@click.option(
    "--json",
    type=click.Path(dir_okay=False, path_type=Path, allow_dash=True),
    metavar="FILE",
    help="Write all of it for programs; - is stdout.",
)
@click.option("--digest", is_flag=True, help="Print the lines for a commit message: plain ASCII, 72 columns.")
@click.option("--ascii", "ascii_only", is_flag=True, help="Signs in ASCII (3.64x, <=, us) in all but the page.")
def report(
    targets: tuple[str, ...],
    preset: str | None,
    challengers: tuple[str, ...],
    html: Path | None,
    markdown: Path | None,
    text: Path | None,
    json: Path | None,
    digest: bool,
    ascii_only: bool,
) -> None:
    """Write the report of a run, or of a run against another.

    RUN is the folder of a run, its name under ./runs, or `latest`; with BASE, the report says what changed from BASE to
    RUN. The folder of a rooflens compare --git holds both. A sweep over several architectures is shown side by side,
    and the report of each of its runs is written too. Without options, the page and the markdown go into the
    folder of RUN, as report.html and report.md (a preset other than full: report-PRESET.html and .md). With options,
    only what is named is written. The paths written are printed.

    The page is one file that needs no network; the markdown fits into a pull request, and what does not lies beside it
    as FILE-2.md, FILE-3.md.

    \b
    Presets:
      full         everything that is known of a run
      crossover    up to which M a kernel wins: headline maxima, crossovers, curves
      decode-grid  one grid of speedups, layer x M, with its ties
      three-way    a kernel beside the one that it replaces and a reference
      flat         time, rate and bandwidth of every shape of one sweep
      branch       what changed between two versions

    \b
    Examples:
      rooflens report latest
      rooflens report runs/h200 --html h200.html --markdown h200.md
      rooflens report latest --preset crossover --text -
      rooflens report runs/mine runs/main --digest
    """
    if (text == STDOUT and json == STDOUT) or (digest and STDOUT in (text, json)):
        raise UsageError("only one of --text -, --json - and --digest can be printed: give the others a FILE")
    source = _source(targets, preset, challengers)
    outputs = [html, markdown, text, json]
    if source.is_sweep and not digest and outputs == [None] * 4:
        from .architectures import write_reports

        for path in write_reports(source.folder):
            click.echo(path)
        return
    beside = next((path.parent for path in (html, markdown) if path is not None), source.folder)
    built = source.build(preset, challengers, beside)
    if digest or STDOUT in outputs:
        _print(built, as_digest=digest, as_text=text == STDOUT, ascii_only=ascii_only)
    elif outputs == [None] * 4:
        html, markdown = (source.folder / _named(name, preset, source) for name in (HTML, MARKDOWN))
    from ...reports.write import write_report

    written = write_report(
        built,
        html,
        markdown,
        text=None if text == STDOUT else text,
        json=None if json == STDOUT else json,
        ascii_only=ascii_only,
    )
    for path in written:
        click.echo(path, err=digest or STDOUT in outputs)


@dataclass(frozen=True, slots=True)
class _Source:
    """What is reported on: a run; a run against `base`; the folder of a comparison, or of several architectures."""

    folder: Path
    base: Path | None = None
    is_comparison: bool = False
    is_sweep: bool = False

    @property
    def of_two(self) -> bool:
        """True where two versions are compared."""
        return self.is_comparison or self.base is not None

    def build(self, preset: str | None, challengers: tuple[str, ...], beside: Path) -> "Report":
        """Load and analyse it, and lay out the report; `beside`: the folder that it will lie in."""
        if self.is_sweep:
            from .architectures import build_side_by_side

            return build_side_by_side(self.folder, beside)
        if not self.of_two:
            from ...analysis.frames.load import load_run
            from ...reports.build import DEFAULT, build_report
            from ...reports.presets import of_a_run

            of_a_run(preset or DEFAULT)  # an unknown one is told before the run is loaded
            return build_report(load_run(self.folder), preset or DEFAULT, challengers)
        from ...reports import comparison
        from ...reports.presets import of_two_versions
        from .stored_comparison import stored_comparison, stored_runs

        of_two_versions(preset or comparison.DEFAULT)
        if self.base is None:
            return comparison.build_comparison(stored_comparison(self.folder)[0], preset or comparison.DEFAULT)
        return comparison.build_comparison(stored_runs(self.base, self.folder)[0], preset or comparison.DEFAULT)


def _source(targets: tuple[str, ...], preset: str | None, challengers: tuple[str, ...]) -> _Source:
    if len(targets) > 2:
        raise UsageError(
            f"{len(targets)} runs are given: name one, or one and its BASE, and repeat the command for others"
        )
    is_comparison = (Path(targets[0]) / COMPARISON).is_file()
    if challengers and (is_comparison or len(targets) == 2):
        raise UsageError("--challenger is for the report of one run: two versions are compared provider by provider")
    if is_comparison:
        if len(targets) == 2:
            raise UsageError(f"{targets[0]} is a comparison and holds both versions: leave {targets[1]} out")
        return _Source(Path(targets[0]), is_comparison=True)
    if len(targets) == 2:
        return _Source(find_run(targets[0]), find_run(targets[1]))
    folder = find_folder(targets[0])
    if (folder / MANIFEST).is_file() or not is_sweep(folder):
        return _Source(folder)
    from .architectures import check_preset

    sweep = read_sweep(folder)
    check_preset(sweep, preset)
    if challengers:
        raise UsageError(
            f"--challenger is for the report of one run, and {folder} holds several: name one, "
            f"{' or '.join(map(str, sweep.runs))}"
        )
    return _Source(folder, is_sweep=True)


def _named(name: str, preset: str | None, source: _Source) -> str:
    """Name of a file in the folder of the run; a report of another kind does not take the place of the run's own."""
    kind = preset or ("branch" if source.of_two else "full")
    return name if kind == "full" else name.replace("report", f"report-{kind}")


def _print(built: "Report", *, as_digest: bool, as_text: bool, ascii_only: bool) -> None:
    from ...reports.render import json_form, plain
    from ...reports.render import text as text_form

    shown = plain.as_ascii(built) if ascii_only or as_digest else built
    if as_digest:
        click.echo(text_form.render_digest(shown), nl=False)
    elif as_text:
        width = terminal_width()
        colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        click.echo(own(text_form.render(shown, text_form.WIDTH if width == NO_WIDTH else width, colour)), nl=False)
    else:
        click.echo(json_form.render(shown, ascii_only), nl=False)

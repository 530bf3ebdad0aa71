"""`rooflens report`: write the report of a run, or of two versions."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...reports.exports.formats import EXPORTS
from ...reports.render.formats import FORMATS
from ...reports.render.layout import WIDTH
from ...shapes.errors import UsageError
from ...shapes.run_folder.manifest import COMPARISON
from ..shared.runs import find_run
from ..shared.tables import NO_WIDTH, print_report, terminal_width
from ..shared.terminal import own

if TYPE_CHECKING:
    from ...reports.model import Report

STDOUT = Path("-")


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _outputs(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for every format of `FORMATS` and `EXPORTS`."""
    for name, form in reversed((FORMATS | EXPORTS).items()):
        file = click.Path(dir_okay=False, path_type=Path, allow_dash=form.printable)
        command = click.option(_option(name), type=file, metavar="FILE", help=form.what)(command)
    return command


class _Command(click.Command):
    """A command that names the formats where an option is unknown."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            formats = ", ".join(map(_option, FORMATS | EXPORTS))
            raise click.UsageError(f"{error.format_message()} The formats are {formats}", ctx) from None


@click.command(cls=_Command)
@click.argument("targets", metavar="RUN [BASE]", nargs=-1, required=True)
@click.option("--preset", metavar="NAME", help="full, crossover, decode-grid, three-way or flat; branch with a BASE.")
@click.option("--baseline", default="", metavar="B", help="Compare with this provider; default: the run's baseline.")
@click.option("--challenger", "challengers", multiple=True, metavar="A", help="Look at this provider; repeat it.")
@click.option(
    "--serving",
    "serving",
    type=click.Path(dir_okay=False, path_type=Path),
    multiple=True,
    metavar="FILE",
    help="Show what a serving stack reaches on the same problems: a GEMM table of NVIDIA AIConfigurator; repeat it.",
)
@click.option("--arithmetic", is_flag=True, help="Of two versions: add arithmetic means of rates.")
@_outputs
@click.option("--digest", is_flag=True, help="Print the lines for a commit message: plain ASCII, 72 columns.")
@click.option("--ascii", "ascii_only", is_flag=True, help="Signs in ASCII (3.64x, <=, us) in all but the page.")
def report(
    targets: tuple[str, ...],
    preset: str | None,
    baseline: str,
    challengers: tuple[str, ...],
    serving: tuple[Path, ...],
    arithmetic: bool,
    digest: bool,
    ascii_only: bool,
    **files: Path | None,
) -> None:
    """Write the report of a run, or of a run against another.

    RUN is the folder of a run, its name under ./runs, or `latest`; with BASE, the report says what changed from BASE to
    RUN. The folder of a rooflens compare --git holds both. Without options, the page and the markdown go into the
    folder of RUN, as report.html and report.md (a preset other than full: report-PRESET.html and .md). With options,
    only what is named is written. The paths written are printed.

    The page is one file that needs no network; the markdown fits into a pull request, and what does not lies beside it
    as FILE-2.md, FILE-3.md. --aiter and --parquet hold the measured cells of one run and no report; - is stdout.

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
      rooflens report latest --parquet cells.parquet
    """
    printed = _printed(files, digest)
    paths_on_stderr = digest or bool(printed)
    source = _source(targets, preset, baseline, challengers, serving)
    exported = {name: path for name in EXPORTS if (path := files.pop(name))}
    if exported:
        _export(source, exported)
        if not digest and not any(files.values()):
            return
        printed = [name for name in printed if name in files]
    nothing_asked = not digest and not any(files.values())
    if arithmetic and not source.of_two:
        raise UsageError("--arithmetic is for the report of two versions: name the BASE too")
    built = source.build(preset, arithmetic)
    if digest or printed:
        _print(built, printed, ascii_only)
    from ...reports.write import default_files, write_report

    if nothing_asked:
        kind = preset or ("branch" if source.of_two else "full")
        files = default_files(source.folder, "" if kind == "full" else f"-{kind}")
    for path in write_report(built, files | dict.fromkeys(printed), ascii_only):
        click.echo(path, err=paths_on_stderr)


def _printed(files: dict[str, Path | None], digest: bool) -> list[str]:
    """Return the format that goes to stdout, if any. Raises UsageError for several, for one that is
    not text, and for two formats in one file.
    """
    printed = [name for name, path in files.items() if path == STDOUT]
    for name in printed:
        if not (FORMATS | EXPORTS)[name].printable:
            raise UsageError(f"{_option(name)} -: it cannot be printed; give it a FILE")
    named: dict[Path, str] = {}
    for name, path in files.items():
        if path and path != STDOUT and (other := named.setdefault(path.resolve(), name)) != name:
            raise UsageError(f"{_option(other)} and {_option(name)} would both write {path}: give each its own FILE")
    asked = [f"{_option(name)} -" for name in printed] + ["--digest"] * digest
    if len(asked) > 1:
        raise UsageError(f"only one of {' and '.join(asked)} can be printed: give the others a FILE")
    return printed


@dataclass(frozen=True, slots=True)
class _Source:
    """What is reported on: a run; a run against `base`; the folder of a comparison.

    `baseline` and `challengers` of a run are those that the reader names, and so are the tables of `serving`.
    """

    folder: Path
    base: Path | None = None
    is_comparison: bool = False
    baseline: str = ""
    challengers: tuple[str, ...] = ()
    serving: tuple[Path, ...] = ()

    @property
    def of_two(self) -> bool:
        """True where two versions are compared."""
        return self.is_comparison or self.base is not None

    def build(self, preset: str | None, arithmetic: bool) -> "Report":
        """Load and analyse it, and lay out the report."""
        from ...reports.build import COMPARED, DEFAULT, build_comparison, build_report
        from ...reports.presets import of_a_run, of_two_versions

        if not self.of_two:
            from ...analysis.frames.load import load_run

            of_a_run(preset or DEFAULT)  # an unknown one is reported before the run is loaded
            run = load_run(self.folder)
            return build_report(run, preset or DEFAULT, self.challengers, self.baseline, self.serving)
        from .stored_comparison import stored_comparison, stored_runs

        of_two_versions(preset or COMPARED)
        found = stored_comparison(self.folder) if self.base is None else stored_runs(self.base, self.folder)
        return build_comparison(found[0], preset or COMPARED, arithmetic)


def _source(
    targets: tuple[str, ...],
    preset: str | None,
    baseline: str,
    challengers: tuple[str, ...],
    serving: tuple[Path, ...],
) -> _Source:
    if len(targets) > 2:
        raise UsageError(
            f"{len(targets)} runs are given: name one, or one and its BASE, and repeat the command for others"
        )
    is_comparison = (Path(targets[0]) / COMPARISON).is_file()
    option = "--baseline" if baseline else "--challenger" if challengers else "--serving" if serving else ""
    if option and (is_comparison or len(targets) == 2):
        raise UsageError(f"{option} is for the report of one run: two versions are compared provider by provider")
    if is_comparison:
        if len(targets) == 2:
            raise UsageError(f"{targets[0]} is a comparison and holds both versions: leave {targets[1]} out")
        return _Source(Path(targets[0]), is_comparison=True)
    if len(targets) == 2:
        return _Source(find_run(targets[0]), find_run(targets[1]))
    return _Source(find_run(targets[0]), baseline=baseline, challengers=challengers, serving=serving)


def _export(source: _Source, files: dict[str, Path]) -> None:
    """Write the cells of a run in the formats of other tools; everything is rendered before anything is written."""
    if source.of_two:
        raise UsageError(
            f"{_option(next(iter(files)))} exports one run, and {source.folder} holds two versions: "
            "name one of its runs"
        )
    from ...analysis.frames.load import load_run
    from ...analysis.run.pipeline import analyze
    from ...reports.write import write_bytes

    analysis = analyze(load_run(source.folder))
    contents = {path: EXPORTS[name].content(analysis) for name, path in files.items()}
    for path, content in contents.items():
        if path == STDOUT:
            click.echo(own(content.decode("utf-8")), nl=False)
        else:
            write_bytes(path, content)
            click.echo(path, err=STDOUT in contents)


def _print(built: "Report", printed: list[str], ascii_only: bool) -> None:
    """Print a report in the one format of `printed`; without any, as the lines for a commit message."""
    if not printed:
        from ...reports.render.plain import as_ascii
        from ...reports.render.text import render_digest

        click.echo(render_digest(as_ascii(built)), nl=False)
        return
    width = terminal_width()
    print_report(built, WIDTH if width == NO_WIDTH else width, printed[0], ascii_only)

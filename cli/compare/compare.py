"""`rooflens compare`: did this branch make my kernels slower?"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...shapes.errors import UsageError
from ...shapes.protocol import COMPARED_ROUNDS, MOST
from ...shapes.request import Request, refused_change
from ...shapes.run_folder.manifest import COMPARISON
from ..shared.former import command_with
from ..shared.options import parameters
from ..shared.runs import find_run

if TYPE_CHECKING:
    from ...analysis.comparison.result import Result

FORMER = {"--columns": "write --column ROLE=NAME, once for each column, such as --column M=m --column time_ms=ms"}


@click.command(cls=command_with(FORMER), params=parameters("compare"))
@click.argument("targets", metavar="[BASE HEAD | SUITE]", nargs=-1)
@click.option("--git", "span", metavar="BASE..HEAD", help="Measure two commits of --repo in turn, then compare them.")
@click.option(
    "--repo",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The repository of your kernels; the default is the working directory.",
)
@click.option(
    "--providers",
    "files",
    multiple=True,
    metavar="FILE",
    help="The file with your kernels: of the repository, or one from elsewhere that imports it; repeat it.",
)
@click.option(
    "--setup", default="", metavar="COMMAND", help='Run this once per version in its environment: "pip install -e ."'
)
@click.option("--rounds", type=click.IntRange(2, MOST), help=f"Rounds per version; the default is {COMPARED_ROUNDS}.")
@click.option("--null-arm", is_flag=True, help="Measure a second copy of BASE too: what the same code looks like.")
@click.option(
    "--tune",
    is_flag=True,
    help="Search configurations first: base's are run in both versions; head's own, searched three times, beside them.",
)
@click.option("--max-time", metavar="TIME", help="End cleanly after this, such as 30m; resume with --resume.")
@click.option("-o", "--output", "to", type=click.Path(path_type=Path), metavar="DIR", help="Folder of the comparison.")
@click.option("--resume", is_flag=True, default=None, help="Resume the comparison of -o, as it was started.")
@click.option("--column", "columns", multiple=True, metavar="ROLE=NAME", help="Say what a column is; repeat it.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print JSON: effects as differences of ln time, times in seconds."
)
@click.option(
    "--html", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write the page of the comparison."
)
@click.option(
    "--markdown",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the section for a pull request.",
)
@click.option(
    "--comment",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write one file to paste into a pull request: markdown without images.",
)
@click.option("--arithmetic", is_flag=True, help="Add arithmetic means of rates to what is written.")
@click.option("--strict", is_flag=True, help="Exit 4 when a case is inconclusive, or something is missing.")
def compare(
    targets: tuple[str, ...],
    span: str | None,
    repo: Path | None,
    setup: str,
    null_arm: bool,
    tune: bool,
    columns: tuple[str, ...],
    as_json: bool,
    html: Path | None,
    markdown: Path | None,
    comment: Path | None,
    arithmetic: bool,
    strict: bool,
    **options: Any,
) -> None:
    """Compare two versions of the same kernels: commits, stored runs, or tables.

    With --git both commits are checked out beside the repository, each with its own environment and caches, and SUITE
    is measured in turn, round by round, every round in a fresh process: drift of the device hits both alike. Two stored
    runs (BASE HEAD) were measured one after the other, so that less can be verified, unless they are arms of one
    --git. Tables (CSV of rooflens' peers, or your own) have one value per case: their changes are ranked, and none is
    verified. --column takes the sizes, times and tflops of rooflens audit, and names: provider model layer scheme op
    pass cache dtype device verdict.

    Each provider is compared with itself in the other version: there is no other baseline to choose.

    Verdicts are faster, slower, same and inconclusive. Exit code 3: a case is verified to be slower; 5: one that passed
    no longer does; 4 with --strict: something is inconclusive.

    With --jobs or --address the suite is divided among devices of one architecture: each problem is measured in both
    versions by one and the same device. Every node must reach the repository by the same path.

    \b
    Examples:
      rooflens compare --git main..my-branch --providers bench/kernels.py llm4bit-quick
      rooflens compare --git HEAD~1.. --repo ~/kernels --providers bench/kernels.py \\
          --setup "pip install -e ." -a M=1,16 --markdown pr.md llm4bit
      rooflens compare --git main..my-branch --providers bench/kernels.py llm4bit --jobs local:8
      rooflens compare -o runs/compare-20260102-030405 --resume
      rooflens compare runs/main runs/my-branch
      rooflens compare main.csv branch.csv --column time_ms=ms --column provider=kernel
    """
    request = Request(**options)
    if request.resume:
        given = {"--git": span, "--repo": repo, "--setup": setup, "--null-arm": null_arm, "--tune": tune}
        for flag, value in (given | {"--column": columns, "--arithmetic": arithmetic}).items():
            if value:
                raise refused_change(flag, "compared")
        request.refuse_changes("compared", but="rounds")
    if span or request.resume:
        from .commits import GitVersions, measured

        result, complete, unmeasured = measured(
            request, GitVersions(span or "", repo or Path(), setup, null_arm, tune), targets
        )
    elif request.on_devices:
        raise UsageError(
            "--jobs and --address measure: name two commits with --git BASE..HEAD, or resume with --resume"
        )
    else:
        (result, complete), unmeasured = _read(targets, columns), ""
    _write(result, {"html": html, "markdown": markdown, "comment": comment}, arithmetic)
    from .output import print_result, print_result_json, verdict

    (print_result_json if as_json else print_result)(result)
    if error := verdict(result, complete, strict, unmeasured):
        raise error


def _read(targets: tuple[str, ...], columns: tuple[str, ...]) -> "tuple[Result, bool]":
    """Compare stored results; also returns whether everything planned is measured."""
    from ..report.stored_comparison import imported, stored_comparison, stored_runs

    if len(targets) == 1 and (Path(targets[0]) / COMPARISON).is_file():
        return stored_comparison(Path(targets[0]))
    if len(targets) != 2:
        raise UsageError(
            "name two runs or tables to compare, or a suite with --git BASE..HEAD; rooflens compare --help has examples"
        )
    if any(Path(target).is_file() for target in targets):
        return imported(*targets, columns), True
    return stored_runs(*map(find_run, targets))


def _write(result: "Result", files: dict[str, Path | None], arithmetic: bool) -> None:
    if any(files.values()):
        from ...reports.build import build_comparison
        from ...reports.write import write_report

        built = build_comparison(result, arithmetic=arithmetic)
        for path in write_report(built, files):
            click.echo(path, err=True)

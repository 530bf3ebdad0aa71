"""`rooflens compare`: did this branch make my kernels slower?"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...shapes.errors import UsageError
from ...shapes.protocol import COMPARED_ROUNDS, MOST
from ...shapes.run_folder.manifest import COMPARISON
from ..run.selection import DEVICES, RETRY, SELECTION, on_devices, refuse_retry
from ..shared.former import command_with
from ..shared.runs import find_run

if TYPE_CHECKING:
    from ...analysis.comparison.result import Result

_OWN = ("suite", "files", "resume", "max_time")
"""Options of `rooflens run` that mean something else here, or are passed on in another way."""

PASSED_ON = tuple(option for option in SELECTION if option.name not in _OWN)
"""Options of `rooflens run` that each version gets as they are."""


FORMER = {"--columns": "write --column ROLE=NAME, once for each column, such as --column M=m --column time_ms=ms"}


@click.command(cls=command_with(FORMER), params=[*PASSED_ON, *DEVICES])
@click.argument("targets", metavar="[BASE HEAD | SUITE]", nargs=-1)
@click.option("--git", "span", metavar="BASE..HEAD", help="Measure two commits of --repo in turn, then compare them.")
@click.option(
    "--repo",
    type=click.Path(path_type=Path),
    default=Path(),
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
@click.option(
    "--rounds", type=click.IntRange(2, MOST), default=COMPARED_ROUNDS, show_default=True, help="Rounds per version."
)
@click.option("--null-arm", is_flag=True, help="Measure a second copy of BASE too: what the same code looks like.")
@click.option(
    "--tune",
    is_flag=True,
    help="Search configurations first: base's are run in both versions; head's own, searched three times, beside them.",
)
@click.option("--target-ci", metavar="PERCENT", help="Stop a round when the median is known to +- this, such as 1%.")
@click.option("--budget", metavar="TIME", help="Most time per cell and round, such as 0.5s.")
@click.option("--max-time", metavar="TIME", help="End cleanly after this, such as 30m; resume with --resume.")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="DIR", help="Folder of the comparison.")
@click.option("--resume", is_flag=True, help="Resume the comparison of -o, as it was started.")
@RETRY
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
def compare(**options: Any) -> None:
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
    refuse_retry(options)
    result, complete, unmeasured = _compared(options)
    _write(result, options)
    from .output import print_result, print_result_json, verdict

    (print_result_json if options["as_json"] else print_result)(result)
    if error := verdict(result, complete, options["strict"], unmeasured):
        raise error


def _compared(options: dict[str, Any]) -> "tuple[Result, bool, str]":
    """Measure if requested, and compare.

    Also returns whether everything planned is measured, and what is not because of missing devices.
    """
    if options["span"] or options["resume"]:
        from .commits import measured

        return measured(options, {*(option.name or "" for option in PASSED_ON), "target_ci", "budget"})
    if on_devices(options):
        raise UsageError(
            "--jobs and --address measure: name two commits with --git BASE..HEAD, or resume with --resume"
        )
    return *_read(options), ""


def _read(options: dict[str, Any]) -> "tuple[Result, bool]":
    """Compare stored results."""
    targets: tuple[str, ...] = options["targets"]
    from ..report.stored_comparison import imported, stored_comparison, stored_runs

    if len(targets) == 1 and (Path(targets[0]) / COMPARISON).is_file():
        return stored_comparison(Path(targets[0]))
    if len(targets) != 2:
        raise UsageError(
            "name two runs or tables to compare, or a suite with --git BASE..HEAD; rooflens compare --help has examples"
        )
    if any(Path(target).is_file() for target in targets):
        return imported(*targets, options["columns"]), True
    return stored_runs(*map(find_run, targets))


def _write(result: "Result", options: dict[str, Any]) -> None:
    files = {name: options[name] for name in ("html", "markdown", "comment")}
    if any(files.values()):
        from ...reports.build import build_comparison
        from ...reports.write import write_report

        built = build_comparison(result, arithmetic=options["arithmetic"])
        for path in write_report(built, files):
            click.echo(path, err=True)

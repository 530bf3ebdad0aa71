"""`rooflens compare`: did this branch make my kernels slower?"""

import sys
from typing import Any

import click

from ...api.progress import Progress
from ...shapes.request import Request
from ..shared.options import FILE, command_with, parameters

FORMER = {"--columns": "write --column ROLE=NAME, once for each column, such as --column M=m --column time_ms=ms"}

FILES = {
    "html": "Write the page of the comparison.",
    "markdown": "Write the section for a pull request.",
    "comment": "Write one file to paste into a pull request: markdown without images.",
}
_FILES = [click.Option([f"--{name}"], type=FILE, metavar="FILE", help=text) for name, text in FILES.items()]


@click.command(cls=command_with(FORMER), params=[*parameters("compare"), *_FILES])
@click.argument("targets", metavar="[BASE HEAD | SUITE]", nargs=-1)
@click.option("--column", "columns", multiple=True, metavar="ROLE=NAME", help="Say what a column is; repeat it.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print JSON: effects as differences of ln time, times in seconds."
)
@click.option("--arithmetic", is_flag=True, help="Add arithmetic means of rates to what is written.")
@click.option("--strict", is_flag=True, help="Exit 4 when a case is inconclusive, or something is missing.")
def compare(
    targets: tuple[str, ...],
    columns: tuple[str, ...],
    as_json: bool,
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
    files = {name: options.pop(name) for name in FILES}
    from ...api.compare.comparing import compared
    from .output import print_result, print_result_json

    with Progress(sys.stderr) as progress:
        found = compared(Request.for_command("compare", options), targets, columns, progress)
    if any(files.values()):
        from ...reports.build import build_comparison
        from ...reports.write import write_report

        for path in write_report(build_comparison(found, arithmetic=arithmetic), files):
            click.echo(path, err=True)
    (print_result_json if as_json else print_result)(found)
    if error := found.error(strict):
        raise error

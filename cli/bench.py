"""`rooflens bench`: measure what a Python file offers, functions or providers, without a suite to choose."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from ..api.bench_file import WITHIN_S, bench_file
from ..api.progress import Progress
from ..api.selection import on_a_suite
from ..api.times import Comparison
from ..shapes.errors import UsageError
from ..shapes.request import Request
from .run.run import run_request
from .shared.options import command_with, parameters
from .shared.tables import note, show


@click.command("bench", cls=command_with({"--warm": "write --cache warm"}), params=parameters("bench"))
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE.py")
@click.option("--suite", metavar="SUITE", help="Measure providers on this; default: the quick suite of their family.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: times of functions in seconds.")
def bench(file: Path, suite: str | None, as_json: bool, **options: Any) -> None:
    """Measure what FILE.py offers: its functions bench_*, its dictionary BENCH, or its PROVIDERS.

    Functions take no arguments, and do the same work in different ways. They are timed in interleaved rounds
    (rooflens.bench), and each gets a verdict against the first, whose output it must have, or the exit code is 5.
    Providers are measured as by rooflens run FILE.py. Either takes 20s, or what --within says.

    \b
    Examples:
      rooflens bench kernels.py
      rooflens bench kernels.py --baseline bench_old --cache warm
      rooflens bench my_providers.py --suite fp8-quant-quick --within 10s
    """
    request = Request.for_command("bench", options | {"suite": suite})
    request = replace(request, within=request.within or WITHIN_S)
    with Progress(sys.stderr) as progress:
        found = bench_file(file, request, progress.doing)
    if isinstance(found, Comparison):
        _show(found, as_json)
    elif as_json:
        raise UsageError(f"{file}: --json prints times of functions; those of providers are in the folder of their run")
    else:
        run_request(on_a_suite(replace(request, suite=str(file)), found, suite or ""), own=found)


def _show(found: Comparison, as_json: bool) -> None:
    """Print times; raise what became of functions that have none."""
    if as_json:
        click.echo(json.dumps({"baseline": found.baseline, "calls": found.values()}, indent=1))
    elif first := next(iter(found.timings.values()), None):
        show(found.table())
        click.echo(f"{first.cache}, {len(first.rounds_s)} rounds, timer {first.timer}, on {first.device}")
        note(*found.warnings)
    if found.error:
        raise found.error

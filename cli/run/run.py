"""`rooflens run`: measure a suite, resume it, or show what would be measured."""

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ...api.measuring import measured
from ...api.planned import PlannedRun, planned
from ...api.progress import Progress
from ...api.stopping import stop_signals
from ...shapes.errors import IncompleteError
from ...shapes.request import Request
from ..shared.options import command_with, parameters

if TYPE_CHECKING:
    from ...harness.sweep.in_child import Declared
    from .contention_monitor import HostLoad


@click.command("run", cls=command_with(), params=parameters("run"))
@click.option(
    "--dry-run", is_flag=True, help="List the cells, their bytes and the time they will take; measure nothing."
)
@click.option("--report/--no-report", default=True, help="Analyse, and write report.html and report.md at the end.")
@click.option("--strict", is_flag=True, help="Exit 5 for a wrong output, 4 when a cell failed or was not measured.")
def run(dry_run: bool, report: bool, strict: bool, **options: Any) -> None:
    """Measure SUITE (a name of `rooflens list suites`, or a TOML file) and store every sample.

    For FILE.py, its PROVIDERS are measured on the quick suite of their family, beside its baseline.

    Every provider of a problem is checked against an fp64 reference and timed in rounds, in turn, on the same operands.
    Finished cells survive whatever happens: a crash or a hang costs the cell in flight, Ctrl-C the round in flight.

    With --jobs or --address each problem is measured with all its providers on one of the devices. One that is lost
    costs the problems it was at, which others measure again.

    \b
    Examples:
      rooflens run llm4bit-quick --within 60s
      rooflens run llm4bit --dtype bf16 --cache cold -a M=1,2,4..256 -o runs/h200 --max-time 9m
      rooflens run -o runs/h200 --resume
      rooflens run llm4bit-quick --providers my_kernels.py -p my_gemm -p dequant_blas
      rooflens run llm4bit-quick --cache cold --set timer=graph,cold_by=rotation
      rooflens run llm4bit --filter "model.str.startswith('llama2') and M <= 64" --dry-run
      rooflens run llm4bit-quick --refine crossover --set refine_to=5%
      rooflens run llm4bit --filter "layer == 'down' and M == 1" --scan K=4096~16x64
      rooflens run my_kernels.py --within 60s
      rooflens run llm4bit --jobs local:8
      rooflens run llm4bit --address auto --on sm90=4 -o runs/all
    """
    run_request(Request.for_command("run", options), dry_run, report, strict)


def run_request(
    request: Request,
    dry_run: bool = False,
    report: bool = True,
    strict: bool = False,
    own: "dict[str, Declared] | None" = None,
) -> None:
    """Measure what is requested, or show it. `own` are the providers of the files, where known."""
    from .contention_monitor import HostLoad

    load, began = HostLoad(), time.monotonic()
    plan = shown(request, partial(planned, own=own))
    if dry_run:
        from .dry_run import show_plan

        show_plan(plan)
        return
    complete, missing = False, None
    try:
        complete = _measure(plan, load, report)
    except IncompleteError as error:
        missing = error
    measured_at = time.monotonic()
    from .end_of_run import conclude

    conclude(plan.folder, complete=complete, report=report, strict=strict)
    if missing:
        raise missing
    if plan.budget:
        within_s, after_s = measured_at - began, time.monotonic() - measured_at
        click.echo(f"{'time':<14}{within_s:.0f} s to start and measure, then {after_s:.0f} s for the results")


def shown(request: Request, planning: Callable[..., PlannedRun] = planned) -> PlannedRun:
    """Plan a request, with progress on stderr while its files are imported, and print what is left out."""
    with Progress(sys.stderr) as progress:
        plan = planning(request, doing=progress.doing)
    for note in plan.notes:
        click.echo(f"note: {note}", err=True)
    return plan


def _measure(plan: PlannedRun, load: "HostLoad", report: bool) -> bool:
    """Run the sweep and its refinement; True when both are complete."""
    from .contention_monitor import ContentionMonitor

    deadline = plan.deadline if plan.budget else None
    with (
        plan.opened(sys.argv[1:]) as (store, content),
        stop_signals() as stopped,
        ContentionMonitor(sys.stderr, content, store, load, deadline, _import_report if report else int) as progress,
    ):
        return measured(plan, store, content, progress, stopped)


def _import_report() -> None:
    """Import what reads the run at its end and writes its report, while the worker starts: it takes seconds."""
    from ...analysis.run import pipeline  # noqa: F401
    from ...reports import build, write  # noqa: F401

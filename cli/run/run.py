"""`rooflens run`: measure a suite, resume it, or show what would be measured."""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...shapes.errors import IncompleteError, Interrupted
from ...shapes.plugins import Hook, provided
from ...shapes.protocol import MOST, TUNINGS
from ...shapes.run_folder.manifest import TUNED_COPY, Manifest
from ..shared.runs import how_to_resume
from .refine import Refiner
from .run_request import RunRequest, read_request
from .scan import describe_scan, pin_defaults
from .selection import DEVICES, RETRY, SELECTION, on_devices, refuse_retry

if TYPE_CHECKING:
    from ...harness.storage.store import RunStore
    from ...harness.worker.messages import Setup
    from .contention_monitor import HostLoad


@click.command("run", params=[*SELECTION, *DEVICES])
@click.option("--baseline", metavar="B", help="Compare with this provider, of any role; default: the suite's baseline.")
@click.option(
    *("--challenger", "challengers"),
    multiple=True,
    metavar="A",
    help="What the headline is about, of any role; repeat it. It is measured too, as the baseline is.",
)
@click.option(
    "--tuning",
    type=click.Choice(TUNINGS),
    help="Configurations: the providers' default, pinned to the table of --tuned, or searched anew (cold).",
)
@click.option(
    "--tuned",
    type=click.Path(path_type=Path),
    metavar="TABLE",
    help="A tuning.csv, or the folder of a rooflens tune; implies --tuning pinned.",
)
@click.option(
    "--rounds", type=click.IntRange(1, MOST), help="Measurement rounds; intervals take 2, and narrow with more."
)
@click.option(
    "--within",
    metavar="TIME",
    help="Start and measure for this long, such as 60s: a round of every cell, a second, and more while time is left. "
    "--rounds is the most.",
)
@click.option("--target-ci", metavar="PERCENT", help="Stop a round when the median is known to +- this, such as 1%.")
@click.option("--budget", metavar="TIME", help="Most time per cell and round, such as 0.5s.")
@click.option(
    "--scan",
    metavar="AXIS=SIZES",
    help="Replace each shape by variants of N or K: N=2048..4096:64, N=4096~8x64 (8 steps to both sides), K=~4x128 "
    "(around its own). Configurations are held: those of the shape itself.",
)
@click.option(
    "--refine",
    metavar="crossover[=A:B]",
    help="Then measure further M where challenger A stops beating incumbent B; the default are those of the suite.",
)
@click.option("--refine-to", metavar="PERCENT", help="Refine until win and loss are so near in M; the default is 10%.")
@click.option("--refine-most", type=click.IntRange(1, MOST), help="Most further M of one shape; the default is 6.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="RUN", help="Run folder; the default is runs/SUITE-TIME."
)
@click.option(
    "--dry-run", is_flag=True, help="List the cells, their bytes and the time they will take; measure nothing."
)
@click.option(
    "--calibrate/--no-calibrate",
    default=None,
    help="Measure the ceilings after the first problem and at the end, as by default: the roofline needs them.",
)
@RETRY
@click.option("--report/--no-report", default=True, help="Write report.html and report.md at the end.")
@click.option("--strict", is_flag=True, help="Exit 5 for a wrong output, 4 when a cell failed or was not measured.")
@click.option("--arm", type=click.Path(path_type=Path), hidden=True, help="What this run may import: code_origin.")
@click.option("--only", type=click.Path(path_type=Path), hidden=True, help="Cells to measure: harness.compare.replay.")
def run(**options: Any) -> None:
    """Measure SUITE (a name of `rooflens list suites`, or a TOML file) and store every sample.

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
      rooflens run llm4bit-quick --cache cold --timer graph --cold-by rotation
      rooflens run llm4bit --filter "model.str.startswith('llama2') and M <= 64" --dry-run
      rooflens run llm4bit-quick --refine crossover --refine-to 5%
      rooflens run llm4bit --filter "layer == 'down' and M == 1" --scan K=4096~16x64
      rooflens run llm4bit --jobs local:8
      rooflens run llm4bit --address auto --on sm90=4 -o runs/all
    """
    from .contention_monitor import HostLoad

    load, began = HostLoad(), time.monotonic()
    refuse_retry(options)
    if on_devices(options):
        provided(Hook.RUN)(options)
        return
    request = read_request(options)
    if options["dry_run"]:
        from .dry_run import show_plan

        show_plan(request)
        return
    complete = _measure(request, load, options["report"])
    measured = time.monotonic()
    if request.cells:  # of a part of a comparison, --filter may leave none
        from .end_of_run import conclude

        conclude(request.folder, complete=complete, report=options["report"], strict=options["strict"])
    if request.budget:
        within_s, after_s = measured - began, time.monotonic() - measured
        click.echo(f"{'time':<14}{within_s:.0f} s to start and measure, then {after_s:.0f} s for the results")
    if options["arm"] and not complete:
        raise IncompleteError("this round was cut short")


def _measure(request: RunRequest, load: "HostLoad", report: bool) -> bool:
    """Run the sweep and its refinement; True when both are complete."""
    from ...harness.sweep.sweep import Sweep
    from .contention_monitor import ContentionMonitor

    with request.opened() as (store, content, stopped):
        describe_scan(content, request.scan, request.varied, request.resume)
        folder, cells = request.folder, request.cells
        refiner = Refiner(request.refinement, folder, cells, content) if request.refinement else None
        setup = _pinned(request, store, content, stopped)
        deadline = request.deadline if request.budget else None
        importing = _import_report if report else _import_analysis
        with ContentionMonitor(sys.stderr, content, store, load, deadline, importing) as progress:
            sweep = Sweep(
                store,
                cells,
                setup,
                progress,
                calibrate=request.options["calibrate"],
                should_stop=stopped,
                deadline=request.deadline,
                more=refiner.more if refiner else None,
                budget=request.budget,
                retry=request.retry,
                half_width=_half_width,
            )
            try:
                complete = sweep.run(content)
            except Interrupted:
                raise Interrupted(
                    f"interrupted; {len(store.verdicts)} finished units are in {folder}: {how_to_resume(folder)}"
                ) from None
            return complete and (refiner is None or refiner.complete)


def _pinned(request: RunRequest, store: "RunStore", content: Manifest, stopped: Callable[[], bool]) -> "Setup":
    """Return the setup with the tuned table of the run: that of --tuned, or the defaults of a scan that begins."""
    setup = request.setup(store.keep(TUNED_COPY, request.table.path) if request.table else None)
    if not request.scan or request.resume:
        return setup
    path = pin_defaults(store, TUNED_COPY, request.varied, setup, stopped)
    if path is None:
        return setup
    content.protocol.tuning = "pinned"
    return replace(setup, protocol=replace(setup.protocol, tuning="pinned"), tuned=path)


def _half_width(times_s: Mapping[str, Sequence[float]], rounds: int) -> float | None:
    from ...analysis.statistics.intervals import half_width_after

    return half_width_after(times_s, rounds)


def _import_analysis() -> None:
    """Import what reads the run at its end, while the worker starts: it takes seconds."""
    from ...analysis.run import pipeline  # noqa: F401


def _import_report() -> None:
    """Import what writes the report as well."""
    _import_analysis()
    from ...reports import build, write  # noqa: F401

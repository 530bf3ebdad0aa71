"""`rooflens run`: measure a suite, resume it, or show what would be measured."""

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..shapes import tuned
from ..shapes.errors import IncompleteError, Interrupted, UsageError
from ..shapes.protocol import TUNINGS
from ..shapes.scan import Scan
from ..shapes.suite import Suite
from ..shapes.tuned import TunedTable
from . import values
from .refine import Refinement, Refiner, stored_cells
from .runs import RUNS, go_on, is_tuned
from .scan import describe_scan, hold, refuse_another, scan_of, variants
from .selection import (
    SELECTION,
    completed,
    describe,
    manifest,
    own_providers,
    plan_of,
    refuse_other_options,
    stop_signals,
    suite_of,
)

if TYPE_CHECKING:
    from ..harness.plan import Cell
    from .lookout import Cores


@click.command("run", params=list(SELECTION))
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
@click.option("--rounds", type=click.IntRange(min=1), help="Measurement rounds; intervals of reports want 5 or more.")
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
@click.option("--refine-most", type=click.IntRange(min=1), help="Most further M of one shape; the default is 6.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="RUN", help="Run folder; the default is runs/SUITE-TIME."
)
@click.option(
    "--dry-run", is_flag=True, help="List the cells, their bytes and the longest time they may take; measure nothing."
)
@click.option(
    "--calibrate/--no-calibrate",
    default=None,
    help="Measure the ceilings before and after, as by default: the roofline needs them.",
)
@click.option("--report/--no-report", default=True, help="Write report.html and report.md at the end.")
@click.option("--strict", is_flag=True, help="Exit 5 when an output was wrong, 4 when a cell failed or is to do.")
@click.option("--arm", type=click.Path(path_type=Path), hidden=True, help="What this run may import: harness.origin.")
@click.option("--only", type=click.Path(path_type=Path), hidden=True, help="Cells to measure: harness.replay.")
def run(**options: Any) -> None:
    """Measure SUITE (a name of `rooflens list suites`, or a TOML file) and store every sample.

    Every provider of a problem is checked against an fp64 reference and timed in rounds, in turn, on the same operands.
    Finished cells survive whatever happens: a crash or a hang costs the cell in flight, Ctrl-C the round in flight.

    \b
    Examples:
      rooflens run llm4bit-quick
      rooflens run llm4bit --dtype bf16 --cache cold -a M=1,2,4..256 -o runs/h200 --max-time 9m
      rooflens run -o runs/h200 --resume
      rooflens run llm4bit-quick --providers my_kernels.py -p my_gemm -p dequant_blas
      rooflens run llm4bit-quick --cache cold --timer graph --cold-by rotation
      rooflens run llm4bit --filter "model.str.startswith('llama2') and M <= 64" --dry-run
      rooflens run llm4bit-quick --refine crossover --refine-to 5%
      rooflens run llm4bit --filter "layer == 'down' and M == 1" --scan K=4096~16x64
    """
    from .lookout import Cores

    began, cores = time.monotonic(), Cores()
    request = {name: value for name, value in options.items() if name not in _OF_THIS_CALL}
    calibrate: bool | None = options["calibrate"]
    if options["resume"] and options["suite"] is None:
        refuse_other_options(_OF_THIS_CALL, "measured")
        request = _stored_request(options["output"])
        calibrate = request.get("calibrate", True) if calibrate is None else calibrate
    elif options["suite"] is None:
        raise UsageError("name a suite (rooflens list suites), or give -o RUN --resume to go on with a run")
    request = completed(request) | {"calibrate": calibrate is not False}
    if options["arm"] and not request["providers"]:
        request["providers"] = own_providers(request)
    suite = suite_of(request)
    scan, refinement = scan_of(request, suite), Refinement.of(request, suite)
    cells = plan_of(suite, request)
    varied = variants(cells, scan) if scan else {}
    cells = tuple(varied) or cells
    if options["only"]:
        from ..harness.replay import keep_only

        cells = keep_only(cells, options["only"])
    _refuse_timer(suite, request["device"])
    folder: Path = options["output"] or RUNS / f"{suite.name}-{datetime.now():%Y%m%d-%H%M%S}"
    table = _tuned_table(request, folder, options["resume"])
    if options["resume"] and is_tuned(folder):
        raise UsageError(f"{folder} is a tuned table: go on with it by rooflens tune -o {folder} --resume")
    if scan and table:
        suite = suite.override(protocol={"tuning": "pinned"})
    if options["resume"]:
        cells += stored_cells(folder, cells)
    if options["dry_run"]:
        from .dry_run import show_plan

        show_plan(suite, cells, table, folder if options["resume"] else None, refinement)
        return
    deadline = began + values.seconds(options["max_time"], "--max-time") if options["max_time"] else None
    call = _Call(folder, suite, cells, request, table, options["resume"], deadline, options["arm"], refinement, scan)
    complete = _measure(call, varied, cores)
    _finish(folder, complete, options["report"], options["strict"])
    if options["arm"] and not complete:
        raise IncompleteError("this round was cut short")


TUNED_COPY = "tuned.csv"
"""The tuned table inside of a run folder: the original may change while the run goes on."""

HOLD_LOG = "worker.log"
"""Where providers print that are asked for their defaults; the worker goes on with it."""

_OF_THIS_CALL = ("output", "resume", "dry_run", "report", "strict", "max_time", "calibrate", "arm", "only")
"""Options that say how this call goes, not what is measured; of these, a run only remembers `calibrate`."""


def _stored_request(folder: Path | None) -> dict[str, Any]:
    if folder is None:
        raise UsageError("--resume needs -o RUN, the folder of the run to go on with")
    from ..harness.store import refuse_merged

    path = folder / "run.json"
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        refuse_merged(folder, content)
        if is_tuned(folder):
            raise UsageError(f"{folder} is a tuned table: go on with it by rooflens tune -o {folder} --resume")
        request: dict[str, Any] = content["request"]
    except FileNotFoundError:
        raise UsageError(f"no run to resume: {path} does not exist; name the folder of the run with -o") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"cannot resume {folder}: {path} does not say how it was started ({error})") from None
    return request


def _tuned_table(request: dict[str, Any], folder: Path, resume: bool) -> TunedTable | None:
    """Load the table of --tuned; a run that goes on uses the copy that it was started with, and no other.

    A scan makes a table of its own when it starts, see `cli.scan`.
    """
    own = folder / TUNED_COPY
    if request["scan"]:
        return tuned.load(own) if resume and own.is_file() else None
    if not request["tuned"]:
        return None
    given = Path(request["tuned"]).resolve()
    if not (resume and own.is_file()):
        return tuned.load(given)
    table = tuned.load(own)
    if _is_another(given, table):
        raise UsageError(
            f"cannot go on: {given} is not the tuned table that {folder} was started with, of which {own} is the copy; "
            f"pass --tuned {own}, or start a new run"
        )
    return table


def _is_another(path: Path, table: TunedTable) -> bool:
    """Tell whether `path` holds other choices; a table that is gone cannot be confused with any."""
    try:
        return tuned.load(path).choices != table.choices
    except UsageError:
        return False


def _refuse_timer(suite: Suite, device: str) -> None:
    """Say at once what the worker would say after its start, where the device is known without asking for it."""
    timer = suite.protocol.timer
    if device == "cpu" and timer not in ("auto", "host"):
        raise UsageError(f"timer {timer}: it times GPUs, not --device cpu; leave --timer out, or use --timer host")


@dataclass(frozen=True, slots=True)
class _Call:
    """What one call is to measure, where to, and until when (a monotonic time)."""

    folder: Path
    suite: Suite
    cells: "tuple[Cell, ...]"
    request: dict[str, Any]
    table: TunedTable | None
    resume: bool
    deadline: float | None
    arm: Path | None
    refinement: Refinement | None
    scan: Scan | None


def _measure(call: _Call, varied: "Mapping[Cell, Cell]", cores: "Cores") -> bool:
    """Run the sweep, and what refines it; True when both are complete. `varied` are the cells of a scan."""
    from ..harness.messages import Setup
    from ..harness.origin import Origin
    from ..harness.plan import contests
    from ..harness.store import RunStore
    from ..harness.sweep import Sweep
    from .lookout import Lookout

    folder, suite, cells, request = call.folder, call.suite, call.cells, call.request
    with RunStore.reopen(folder) if call.resume else RunStore.create(folder) as store, stop_signals() as stopped:
        content = store.read_manifest() if call.resume else manifest(folder, suite)
        if call.resume:
            refuse_another(content, call.scan)
        describe(content, suite, cells, request)
        if call.scan:
            describe_scan(content, call.scan, varied)
        refiner = Refiner(call.refinement, folder, cells, content) if call.refinement else None
        setup = Setup(
            device=request["device"],
            llc_bytes=values.size_bytes(request["llc"], "--llc") if request["llc"] else None,
            threads=request["threads"],
            protocol=suite.protocol,
            providers=tuple(dict.fromkeys(cell.provider for cell in cells)),
            files=tuple(Path(file).resolve() for file in request["files"]),
            tuned=store.keep(TUNED_COPY, call.table.path) if call.table else None,
            contests=contests(cells),
            origin=Origin.read(call.arm) if call.arm else None,
        )
        if call.scan and not call.resume and (path := hold(store, TUNED_COPY, varied, setup, folder / HOLD_LOG)):
            suite = suite.override(protocol={"tuning": "pinned"})
            setup = replace(setup, protocol=suite.protocol, tuned=path)
            content["protocol"] |= {"tuning": "pinned"}
        with Lookout(sys.stderr, content, store, cores) as progress:
            try:
                sweep = Sweep(store, cells, setup, progress, request["calibrate"], stopped, call.deadline)
                sweep.more = refiner.more if refiner else None
                complete = sweep.run(content)
                return complete and (refiner is None or refiner.complete)
            except Interrupted:
                raise Interrupted(
                    f"interrupted; {len(store.verdicts)} finished units are in {folder}: {go_on(folder)}"
                ) from None


def _finish(folder: Path, complete: bool, report: bool, strict: bool) -> None:
    """Say what came of it, where everything is, and the three headline numbers."""
    from .finish import finish

    blemish = finish(folder, complete=complete, report=report)
    if blemish and strict:
        raise blemish
    if blemish and go_on(folder) not in str(blemish):  # how to go on is said already
        click.echo(f"note: {blemish}; the exit code is 0, and {blemish.exit_code} with --strict", err=True)

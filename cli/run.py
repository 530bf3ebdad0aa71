"""`rooflens run`: measure a suite, resume it, or show what would be measured."""

import json
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ..shapes import suite as suites
from ..shapes import tuned
from ..shapes.errors import Interrupted, UsageError, unknown_name
from ..shapes.protocol import COLD_BY, TIMERS, TUNINGS
from ..shapes.scheme import DType
from ..shapes.suite import Suite, cache_state
from . import values
from .runs import RUNS, go_on

if TYPE_CHECKING:
    from ..harness.plan import Cell


@click.command("run")
@click.argument("suite", required=False)
@click.option("-p", "--provider", "providers", multiple=True, metavar="NAME", help="Measure only these; repeat it.")
@click.option("--dtype", metavar="LIST", help="Activation types, such as bf16,fp16.")
@click.option(
    "-a", "--axis", "axes", multiple=True, metavar="AXIS=LIST", help="Values of an axis: M=1,2,4..2048 or M=1..8."
)
@click.option("--cache", "caches", metavar="LIST", help="cold, warm or cold,warm.")
@click.option("--filter", "filter_expression", default="", metavar="EXPR", help="Keep the cells for which this holds.")
@click.option(
    "--device", default="auto", metavar="NAME", help="cpu, cuda or cuda:N; the default is a GPU if there is one."
)
@click.option(
    "--llc",
    metavar="SIZE",
    help="Last-level cache that a cold sample evicts, such as 256MiB, if it is not found right.",
)
@click.option(
    "--threads", type=click.IntRange(min=1), help="CPU threads; the default is every core this process may use."
)
@click.option(
    "--timer", type=click.Choice(TIMERS), help="How time is taken: event on GPUs, host on the CPU, by default."
)
@click.option(
    "--cold-by",
    type=click.Choice(COLD_BY),
    help="What makes a sample cold: a flush of the caches, or rotation among copies of the operands.",
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
@click.option("--rounds", type=click.IntRange(min=1), help="Measurement rounds; intervals of reports want 5 or more.")
@click.option("--target-ci", metavar="PERCENT", help="Stop a round when the median is known to +- this, such as 1%.")
@click.option("--budget", metavar="TIME", help="Most time per cell and round, such as 0.5s.")
@click.option("--timeout", metavar="TIME", help="Kill a cell that hangs for so long, such as 120s.")
@click.option(
    "--max-time", metavar="TIME", help="End the whole sweep cleanly after this, such as 9m; go on with --resume."
)
@click.option("--seed", type=click.IntRange(min=0), help="Seed of the operands and of the order of the providers.")
@click.option(
    "--providers",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Add the kernels of this file.",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="RUN", help="Run folder; the default is runs/SUITE-TIME."
)
@click.option("--resume", is_flag=True, help="Go on with the run of -o; without SUITE, exactly as it was started.")
@click.option(
    "--dry-run", is_flag=True, help="List the cells, their bytes and the longest time they may take; measure nothing."
)
@click.option(
    "--calibrate/--no-calibrate", default=True, help="Measure the ceilings before and after: the roofline needs them."
)
@click.option("--report/--no-report", default=True, help="Write report.html and report.md at the end.")
@click.option("--strict", is_flag=True, help="Exit 4 when the sweep is not complete, 5 when an output was wrong.")
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
    """
    began = time.monotonic()
    request = {name: value for name, value in options.items() if name not in _OF_THIS_CALL}
    if options["resume"] and options["suite"] is None:
        _refuse_other_options()
        request = _stored_request(options["output"])
    elif options["suite"] is None:
        raise UsageError("name a suite (rooflens list suites), or give -o RUN --resume to go on with a run")
    suite = _suite(request)
    cells = _plan(suite, request)
    if options["dry_run"]:
        _show_plan(suite, cells)
        return
    folder: Path = options["output"] or RUNS / f"{suite.name}-{datetime.now():%Y%m%d-%H%M%S}"
    deadline = began + values.seconds(options["max_time"], "--max-time") if options["max_time"] else None
    complete = _measure(folder, suite, cells, request, options, deadline)
    _finish(folder, complete, options["report"], options["strict"])


_OF_THIS_CALL = ("output", "resume", "dry_run", "report", "strict", "max_time", "calibrate")
"""Options that say how this call goes, not what is measured."""


def _refuse_other_options() -> None:
    """What would be ignored is refused: without SUITE a run goes on exactly as it was started."""
    context = click.get_current_context()
    for parameter in context.command.params:
        name = parameter.name or ""
        if name not in (*_OF_THIS_CALL, "suite") and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise UsageError(
                f"{parameter.opts[-1]} changes what is measured, but --resume without SUITE goes on exactly as the run "
                "was started: leave it out, or repeat SUITE and its options too"
            )


def _stored_request(folder: Path | None) -> dict[str, Any]:
    if folder is None:
        raise UsageError("--resume needs -o RUN, the folder of the run to go on with")
    from ..harness.store import refuse_merged

    path = folder / "run.json"
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        refuse_merged(folder, manifest)
        request: dict[str, Any] = manifest["request"]
    except FileNotFoundError:
        raise UsageError(f"no run to resume: {path} does not exist; name the folder of the run with -o") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"cannot resume {folder}: {path} does not say how it was started ({error})") from None
    return dict.fromkeys(("cold_by", "tuning", "tuned")) | request  # an older version may not have known them


def _storable(request: dict[str, Any]) -> dict[str, Any]:
    """Write the request so that the run can be resumed from any directory: files by their full paths."""
    suite: str = request["suite"]
    return request | {
        "suite": str(Path(suite).resolve()) if suite.endswith(".toml") else suite,
        "files": [str(Path(file).resolve()) for file in request["files"]],
        "tuned": str(Path(request["tuned"]).resolve()) if request["tuned"] else None,
    }


def _suite(request: dict[str, Any]) -> Suite:
    """Load the suite and apply the options that override it."""
    suite = suites.load(request["suite"])
    from ..kernels import registry

    own = registry.load((), map(Path, request["files"])) if request["files"] else {}
    chosen = tuple(dict.fromkeys(request["providers"] or (*own, *suite.providers)))
    known = list(dict.fromkeys((*own, *registry.names())))
    for name in (*chosen, suite.baseline, *suite.challengers):
        if name not in known:
            raise unknown_name("provider", name, known)
    protocol = {
        "rounds": request["rounds"],
        "timer": request["timer"],
        "cold_by": request["cold_by"],
        "tuning": _tuning(request),
        "seed": request["seed"],
        "target_ci": values.fraction(request["target_ci"], "--target-ci") if request["target_ci"] else None,
        "budget_s": values.seconds(request["budget"], "--budget") if request["budget"] else None,
        "timeout_s": values.seconds(request["timeout"], "--timeout") if request["timeout"] else None,
    }
    axes: dict[str, tuple[int, ...]] = {}
    for name, sizes in map(values.axis, request["axes"]):
        axes[name] = tuple(sorted({*axes.get(name, ()), *sizes}))
    mine = [name for name, provider in own.items() if provider.role == "candidate" and name in chosen]
    suite = replace(suite, challengers=tuple(dict.fromkeys((*mine, *suite.challengers))))  # theirs is the headline
    return suite.override(
        axes=axes,
        dtypes=tuple(DType.parse(name) for name in values.names(request["dtype"])),
        caches=tuple(cache_state(name) for name in values.names(request["caches"])),
        providers=chosen,
        protocol={name: value for name, value in protocol.items() if value is not None},
    )


def _tuning(request: dict[str, Any]) -> str | None:
    """Combine --tuning and --tuned: a table is used if and only if it is given."""
    tuning, tuned = request["tuning"], request["tuned"]
    if tuned and tuning not in (None, "pinned"):
        raise UsageError(f"--tuned {tuned} is the table of --tuning pinned, not of --tuning {tuning}: leave one out")
    if tuning == "pinned" and not tuned:
        raise UsageError("--tuning pinned needs --tuned TABLE: make one with rooflens tune SUITE -o RUN")
    return "pinned" if tuned else tuning


def _plan(suite: Suite, request: dict[str, Any]) -> "tuple[Cell, ...]":
    from ..harness.plan import plan

    return plan(suite, request["filter_expression"])


def _measure(
    folder: Path,
    suite: Suite,
    cells: "tuple[Cell, ...]",
    request: dict[str, Any],
    options: dict[str, Any],
    deadline: float | None,
) -> bool:
    """Run the sweep; True when it is complete."""
    from ..harness.messages import Setup
    from ..harness.store import RunStore
    from ..harness.sweep import Sweep
    from .progress import Progress

    resume: bool = options["resume"]
    with RunStore.reopen(folder) if resume else RunStore.create(folder) as store, _stop_signals() as stopped:
        manifest = store.read_manifest() if resume else _manifest(folder, suite)
        _describe(manifest, suite, cells, request)
        setup = Setup(
            device=request["device"],
            llc_bytes=values.size_bytes(request["llc"], "--llc") if request["llc"] else None,
            threads=request["threads"],
            protocol=suite.protocol,
            providers=tuple(dict.fromkeys(cell.provider for cell in cells)),
            files=tuple(Path(file).resolve() for file in request["files"]),
            tuned=tuned.load(Path(request["tuned"]).resolve()).path if request["tuned"] else None,
        )
        with Progress(sys.stderr) as progress:
            try:
                return Sweep(store, cells, setup, progress, options["calibrate"], stopped, deadline).run(manifest)
            except Interrupted:
                raise Interrupted(
                    f"interrupted; {len(store.verdicts)} finished units are in {folder}: {go_on(folder)}"
                ) from None


def _manifest(folder: Path, suite: Suite) -> dict[str, Any]:
    """What run.json says from the start; the worker completes it with device, environment and providers."""
    return {
        "id": folder.name,
        "folder": str(folder),
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": ["rooflens", *sys.argv[1:]],
        "suite": suite.name,
        "seed": suite.protocol.seed,
        "shapes": [],
    }


def _describe(manifest: dict[str, Any], suite: Suite, cells: "tuple[Cell, ...]", request: dict[str, Any]) -> None:
    """Say what the run is about. On resume, the plan is that of the latest call, and shapes of earlier ones stay."""
    for what, found in (("suite", suite.name), ("seed", suite.protocol.seed)):
        if manifest.get(what) != found:
            raise UsageError(f"cannot resume: {what} was {manifest.get(what)} and is {found} now; choose another -o")
    stored = manifest.get("shapes", [])
    shapes = [asdict(shape) for shape in dict.fromkeys(cell.shape for cell in cells)]
    manifest |= {
        "request": _storable(request),
        "description": suite.description,
        "baseline": suite.baseline,
        "challengers": list(suite.challengers),
        "shapes": stored + [shape for shape in shapes if shape not in stored],
        "rounds": suite.protocol.rounds,
        "protocol": asdict(suite.protocol) | {"caches": [cache.value for cache in suite.caches]},
    }


def _finish(folder: Path, complete: bool, report: bool, strict: bool) -> None:
    """Say where everything is, and the three headline numbers."""
    from .finish import finish

    unfinished = finish(folder, complete=complete, report=report)
    if unfinished and strict:
        raise unfinished


@contextmanager
def _stop_signals() -> "Iterator[Any]":
    """Turn the first Ctrl-C or SIGTERM into a request to stop; the second one acts at once."""
    requested: list[int] = []

    def note(number: int, frame: object) -> None:
        if requested:
            raise KeyboardInterrupt
        requested.append(number)

    previous = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(requested)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _show_plan(suite: Suite, cells: "tuple[Cell, ...]") -> None:
    """Print the cells as a table, and how long the sweep takes at most."""
    from .output import print_table

    protocol = suite.protocol
    groups: dict[tuple[str, str, str, str, str], list[Cell]] = {}
    for cell in cells:
        key = (cell.shape.label, str(cell.problem.N), str(cell.problem.K), cell.scheme.name, cell.scheme.dtype.value)
        groups.setdefault(key, []).append(cell)
    rows = []
    for key, members in groups.items():
        sizes = sorted({cell.problem.M for cell in members})
        rows.append(
            [
                *key,
                " ".join(map(str, sizes)),
                str(len({cell.provider for cell in members})),
                " ".join(dict.fromkeys(cell.cache.value for cell in members)),
                str(len(members)),
                f"{max(cell.scheme.compulsory_bytes(cell.problem) for cell in members) / 1e6:.1f}",
            ]
        )
    print_table(["shape", "N", "K", "scheme", "dtype", "M", "providers", "cache", "cells", "compulsory MB"], rows)
    units = len(cells) * protocol.rounds
    click.echo(
        f"{len(cells)} cells x {protocol.rounds} rounds = {units} units of {protocol.budget_s:g} s at most "
        f"(more for the slowest launches): up to {_clock(units * protocol.budget_s)}, plus preparation"
    )


def _clock(seconds: float) -> str:
    hours, rest = divmod(round(seconds), 3600)
    minutes, left = divmod(rest, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {left} s"

"""`rooflens tune`: search the fastest configuration of each kernel, and keep what was found as a table."""

import json
import math
import shlex
import sys
import time
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ..shapes.columns import TUNING
from ..shapes.errors import Interrupted, UsageError
from . import values
from .output import print_json, print_table
from .run import _describe, _manifest, _plan, _stop_signals, _suite, run

if TYPE_CHECKING:
    import pandas as pd

    from ..analysis.tuning import Drift
    from ..harness.plan import Cell
    from ..shapes.suite import Suite

TUNED = Path("tuned")
"""Where tuned tables are stored unless -o says otherwise: they are no runs that `latest` could mean."""

REQUEST = "tune"
"""Key of run.json that says how the searches were started."""

_SHARED = (
    *("suite", "providers", "dtype", "axes", "caches", "filter_expression", "device", "llc", "threads", "timer"),
    *("cold_by", "timeout", "max_time", "seed", "files", "resume"),
)
"""Parameters of `rooflens run` that mean the same here."""

_OF_THIS_CALL = ("output", "resume", "max_time", "export", "as_json")
"""Options that say how this call goes, not what is searched."""


@click.command("tune", params=[parameter for parameter in run.params if parameter.name in _SHARED])
@click.option(
    "--searches",
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    help="Searches per cell, each in a process of its own; two or more tell how far a choice can be relied on.",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="RUN", help="Folder; the default is tuned/SUITE-TIME."
)
@click.option(
    "--export",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the winners as a CSV file in the shape of aiter's tuned tables.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON; times in seconds, costs as differences of ln time.")
def tune(**options: Any) -> None:
    """Search the fastest configuration of every kernel of SUITE, and keep the table.

    Every candidate is checked against an fp64 reference and timed; the best of them are timed again in turn. The
    default stays unless it is proven slower. All candidates with their times, not only the winner, are in tuning.csv.
    The table is used by: rooflens run SUITE --tuned RUN.

    \b
    Examples:
      rooflens tune llm4bit-quick -p simt_4bit -p mma_4bit -o tuned/h200
      rooflens tune -o tuned/h200 --resume
      rooflens tune llm4bit --cache cold --dtype bf16 --export tuned_gemm.csv
    """
    began = time.monotonic()
    request = {name: value for name, value in options.items() if name not in _OF_THIS_CALL}
    if options["resume"] and options["suite"] is None:
        _refuse_other_options()
        request = _stored_request(options["output"])
    elif options["suite"] is None:
        raise UsageError("name a suite (rooflens list suites), or give -o RUN --resume to go on with a table")
    complete_request = dict.fromkeys(parameter.name or "" for parameter in run.params) | request | {"tuning": "cold"}
    suite = _suite(complete_request)
    cells = _plan(suite, complete_request)
    if options["export"]:
        from ..shapes.aiter import refuse_ambiguous

        refuse_ambiguous((cell.scheme.dtype for cell in cells), (cell.cache for cell in cells))
    folder: Path = options["output"] or TUNED / f"{suite.name}-{datetime.now():%Y%m%d-%H%M%S}"
    deadline = began + values.seconds(options["max_time"], "--max-time") if options["max_time"] else None
    complete = _search(folder, suite, cells, complete_request, options["resume"], deadline)
    _finish(folder, complete, options["export"], options["as_json"])


def _refuse_other_options() -> None:
    """What would be ignored is refused: without SUITE the searches go on exactly as they were started."""
    context = click.get_current_context()
    for parameter in context.command.params:
        name = parameter.name or ""
        if name not in (*_OF_THIS_CALL, "suite") and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise UsageError(
                f"{parameter.opts[-1]} changes what is searched, but --resume without SUITE goes on exactly as the "
                "searches were started: leave it out, or repeat SUITE and its options too"
            )


def _stored_request(folder: Path | None) -> dict[str, Any]:
    if folder is None:
        raise UsageError("--resume needs -o RUN, the folder of the table to go on with")
    path = folder / "run.json"
    try:
        request: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))[REQUEST]
    except FileNotFoundError:
        raise UsageError(f"no table to resume: {path} does not exist; name its folder with -o") from None
    except (OSError, ValueError, KeyError, TypeError):
        raise UsageError(f"cannot resume {folder}: it is not a folder of rooflens tune; choose another -o") from None
    return request


def _search(
    folder: Path,
    suite: "Suite",
    cells: "tuple[Cell, ...]",
    request: dict[str, Any],
    resume: bool,
    deadline: float | None,
) -> bool:
    """Run the searches; True when they are complete."""
    from ..harness.messages import Setup
    from ..harness.store import RunStore
    from ..harness.tuning_sweep import TuningSweep
    from .progress import Progress

    if resume:
        _stored_request(folder)
    with RunStore.reopen(folder) if resume else RunStore.create(folder) as store, _stop_signals() as stopped:
        manifest = store.read_manifest() if resume else _manifest(folder, suite)
        _describe(manifest, suite, cells, request)
        manifest |= {REQUEST: manifest.pop("request"), "planned_units": 0}
        setup = Setup(
            device=request["device"],
            llc_bytes=values.size_bytes(request["llc"], "--llc") if request["llc"] else None,
            threads=request["threads"],
            protocol=suite.protocol,
            providers=tuple(dict.fromkeys(cell.provider for cell in cells)),
            files=tuple(Path(file).resolve() for file in request["files"]),
        )
        with Progress(sys.stderr) as progress:
            try:
                sweep = TuningSweep(store, cells, setup, progress, request["searches"], stopped, deadline)
                return sweep.run(manifest)
            except Interrupted:
                raise Interrupted(f"interrupted; finished searches are in {folder}: {_go_on(folder)}") from None


def _go_on(folder: Path) -> str:
    if (folder / "run.json").is_file():
        return f"go on with: rooflens tune -o {shlex.quote(str(folder))} --resume"
    return "nothing was searched: give the same command again"


def _finish(folder: Path, complete: bool, export: Path | None, as_json: bool) -> None:
    """Say what was found and where it is; write the export."""
    from ..analysis.tables import parse_table
    from ..analysis.tuning import drift, gain, summarize_drift

    path = folder / TUNING.file
    if path.is_file():
        frame = parse_table(path.read_bytes(), TUNING, str(path))
        gains, drifted = gain(frame), summarize_drift(drift(frame))
        if as_json:
            print_json(
                {"folder": folder, "complete": complete, "providers": gains.to_dict("records")}
                | {"drift": {**asdict(drifted), "flip_share": drifted.flip_share}}
            )
        else:
            _show_gains(gains)
            _show_drift(drifted)
            _show_failures(frame)
            click.echo(f"tuned table   {path}")
        if export and frame["winner"].any():
            _export(path, export)
    if not complete:
        click.echo(_go_on(folder), err=True)


def _export(table: Path, file: Path) -> None:
    from ..shapes.aiter import tuned_csv
    from ..shapes.tuned import load

    try:
        file.write_text(tuned_csv(load(table).choices), encoding="utf-8", newline="")
    except OSError as error:
        raise UsageError(f"--export {file}: {error.strerror or error}; choose another file") from None
    click.echo(f"wrote {file}", err=True)


def _show_gains(gains: "pd.DataFrame") -> None:
    """Print one line per provider."""
    from ..reports import formatting
    from ..reports.formatting import plural

    names = ("provider", "cells", "searches", "candidates", "seconds", "changed", "near ties", "gain", "gain checked")
    rows = [
        (
            *(row[name] for name in ("provider", "cells", "searches", "tried")),
            f"{row['seconds']:.1f}",
            *(row[name] for name in ("changed", "near_ties")),
            *(formatting.ratio(row[name]) for name in ("gain", "gain_checked")),
        )
        for row in gains.to_dict("records")
    ]
    print_table(names, rows)
    click.echo(
        "gain: default over winner, geometric mean over cells; checked: timed in another search than the one that chose"
    )
    for row in gains.to_dict("records"):
        if row["failed"]:
            click.echo(f"note: {row['provider']}: {plural(row['failed'], 'cell')} without any winner", err=True)
        if row["excluded"]:
            cells = plural(row["excluded"], "cell")
            click.echo(f"note: {row['provider']}: {cells} without a time of the default not in the gain", err=True)


def _show_drift(drifted: "Drift") -> None:
    """Say how far searches of one cell disagree."""
    from ..reports import formatting

    if not drifted.cells:
        click.echo("drift: no cell was searched twice: --searches 2 tells how far a choice can be relied on")
        return
    harmless = f", {drifted.harmless} of them between near ties" if drifted.flipped else ""
    click.echo(
        f"drift: {drifted.flipped} of {drifted.cells} cells ({formatting.share(drifted.flip_share)}) choose another "
        f"configuration when searched again{harmless}"
    )
    if drifted.median_cost is not None and drifted.worst_cost is not None:
        median, worst = (formatting.share(math.expm1(cost)) for cost in (drifted.median_cost, drifted.worst_cost))
        click.echo(f"       such a flip costs {median} of the time at the median, {worst} at worst")


def _show_failures(frame: "pd.DataFrame") -> None:
    """Tell each reason once per provider."""
    failed = frame.loc[frame["verdict"] != "passed"]
    for (provider, verdict, reason), rows in failed.groupby(["provider", "verdict", "reason"], sort=False):
        click.echo(f"note: {provider}: {_times(len(rows))} {verdict}: {reason}", err=True)


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")

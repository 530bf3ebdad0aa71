"""`rooflens tune`: search the fastest configuration of each kernel, and keep what was found as a table."""

import shlex
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...shapes.errors import IncompleteError, Interrupted, UsageError
from ...shapes.protocol import MOST
from ...shapes.run_folder.columns import TUNING
from ...shapes.run_folder.manifest import MANIFEST, read_manifest
from ..run.run_request import RunRequest
from ..run.selection import SELECTION, Options, completed, own_providers, plan_of, refuse_other_options, suite_of
from ..shared import values
from ..shared.output import print_json
from ..shared.runs import new_folder, refuse_foreign_owner

if TYPE_CHECKING:
    import pandas as pd

TUNED = Path("tuned")
"""Default folder of tuned tables: they are no runs that `latest` could mean."""

_OF_THIS_CALL = ("output", "resume", "max_time", "export", "as_json", "arm")
"""Options that do not change what is searched."""


@click.command("tune", params=list(SELECTION))
@click.option(
    "--searches",
    type=click.IntRange(1, MOST),
    default=2,
    show_default=True,
    help="Searches per cell, each in a separate process; two or more show how reliable a choice is.",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="RUN", help="Folder; the default is tuned/SUITE-TIME."
)
@click.option(
    "--export",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the fastest provider's winner for each problem as CSV in the shape of aiter's tuned tables. errRatio "
    "is about 0.1 for a correct kernel that rounds 4-bit weights to bf16, and 0 for one that keeps them exact.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON; times in seconds, costs as differences of ln time.")
@click.option("--arm", type=click.Path(path_type=Path), hidden=True, help="What this may import: code_origin.")
def tune(**options: Any) -> None:
    """Search the fastest configuration of every kernel of SUITE, and keep the table.

    Every candidate is checked against an fp64 reference and timed; the best of them are timed again in turn. The
    default stays unless it is proven slower. All candidates with their times, not only the winner, are in tuning.csv.
    The table is used by: rooflens run SUITE --tuned RUN. With --resume, a complete table is only shown again.

    \b
    Examples:
      rooflens tune llm4bit-quick -p simt_4bit -p mma_4bit -o tuned/h200
      rooflens tune -o tuned/h200 --resume
      rooflens tune llm4bit --cache cold --dtype bf16 --export tuned_gemm.csv
    """
    if options["resume"] and options["suite"] is None:
        refuse_other_options(_OF_THIS_CALL, "searched")
        stored = _stored_options(options["output"])
        if _is_complete(options["output"]):
            _finish(options["output"], True, options["export"], options["as_json"])
            return
        options = stored | {name: options[name] for name in _OF_THIS_CALL}
    elif options["suite"] is None:
        raise UsageError("name a suite (rooflens list suites), or give -o RUN --resume to resume or show a table")
    request = _read_request(options)
    complete = _search(request)
    _finish(request.folder, complete, options["export"], options["as_json"])
    if options["arm"] and not complete:
        raise IncompleteError("the searches were cut short")


def _read_request(options: Mapping[str, Any]) -> RunRequest:
    began = time.monotonic()
    own = {name: value for name, value in options.items() if name not in _OF_THIS_CALL}
    own = completed(own) | {"tuning": "cold"}
    if options["arm"] and not own["providers"]:
        own["providers"] = own_providers(own)
    suite = suite_of(own)
    cells = plan_of(suite, own)
    if options["export"]:
        from ...shapes.aiter import refuse_ambiguous

        refuse_ambiguous(cell.cache for cell in cells)
    return RunRequest(
        folder=options["output"] or new_folder(suite.name, TUNED),
        suite=suite,
        cells=cells,
        options=own,
        resume=options["resume"],
        deadline=began + values.seconds(options["max_time"], "--max-time") if options["max_time"] else None,
        arm=options["arm"],
    )


def _stored_options(folder: Path | None) -> Options:
    if folder is None:
        raise UsageError("--resume needs -o RUN, the folder of the table to resume")
    refuse_foreign_owner(folder)
    path = folder / MANIFEST
    try:
        options: Options | None = read_manifest(path).tune
    except FileNotFoundError:
        raise UsageError(f"no table to resume: {path} does not exist; name its folder with -o") from None
    if options is None:
        raise UsageError(f"cannot resume {folder}: it is not a folder of rooflens tune; choose another -o")
    return options


def _is_complete(folder: Path) -> bool:
    """Tell whether the table holds everything that its last call asked for, unchanged since."""
    from ...analysis.tuning.searches import whole_searches

    stored = read_manifest(folder / MANIFEST).complete_searches
    path = folder / TUNING.file
    return stored is not None and path.is_file() and whole_searches(_table(path)) == stored


def _table(path: Path) -> "pd.DataFrame":
    from ...analysis.frames.tables import parse_table

    return parse_table(path.read_bytes(), TUNING, str(path))


def _search(request: RunRequest) -> bool:
    """Run the searches; True when they are complete."""
    from ...harness.sweep.tuning_sweep import TuningSweep
    from ..shared.progress import Progress

    folder = request.folder
    if request.resume:
        _stored_options(folder)
    with request.opened() as (store, content, stopped):
        content.tune, content.request, content.planned_units = content.request, None, 0
        with Progress(sys.stderr) as progress:
            sweep = TuningSweep(
                store,
                request.cells,
                request.setup(),
                progress,
                searches=request.options["searches"],
                should_stop=stopped,
                deadline=request.deadline,
            )
            try:
                return sweep.run(content)
            except Interrupted:
                raise Interrupted(f"interrupted; finished searches are in {folder}: {_go_on(folder)}") from None


def _go_on(folder: Path) -> str:
    if (folder / MANIFEST).is_file():
        return f"resume with: rooflens tune -o {shlex.quote(str(folder))} --resume"
    return "nothing was searched: give the same command again"


def _finish(folder: Path, complete: bool, export: Path | None, as_json: bool) -> None:
    """Print the results and their file; write the export."""
    path = folder / TUNING.file
    if path.is_file():
        frame = _table(path)
        if as_json:
            _print_json(folder, complete, frame)
        else:
            _show(path, frame)
        if export:
            from .output import write

            write(path, frame, export)
    if not complete:
        click.echo(_go_on(folder), err=True)


def _print_json(folder: Path, complete: bool, frame: "pd.DataFrame") -> None:
    from ...analysis.tuning.searches import disturbed, drift, failures, gain, hits, summarize_drift

    drifted = summarize_drift(drift(frame))
    print_json(
        {"folder": folder, "complete": complete, "providers": gain(frame).to_dict("records")}
        | {"drift": {**asdict(drifted), "flip_share": drifted.flip_share}}
        | {"hits": hits(frame).to_dict("records")}
        | {"disturbed": disturbed(frame)._asdict(), "failures": failures(frame).to_dict("records")}
    )


def _show(path: Path, frame: "pd.DataFrame") -> None:
    from .output import show_disturbed, show_drift, show_failures, show_gains, show_hits

    show_gains(frame)
    show_hits(frame)
    show_drift(frame)
    show_failures(frame)
    show_disturbed(frame)
    click.echo(f"tuned table   {path}")

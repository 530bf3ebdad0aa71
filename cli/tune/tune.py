"""`rooflens tune`: search the fastest configuration of each kernel, and keep what was found as a table."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...api.run_folders import how_to_resume
from ...api.tuning import planned_search, read_table, search_request, searched
from ...shapes.errors import IncompleteError
from ...shapes.request import Request
from ...shapes.run_folder.columns import TUNING
from ..run.run import shown
from ..shared.options import parameters
from ..shared.output import print_json
from ..shared.progress import Progress
from ..shared.stopping import stop_signals

if TYPE_CHECKING:
    import pandas as pd


@click.command("tune", params=parameters("tune"))
@click.option(
    "--export",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the fastest provider's winner for each problem as CSV in the shape of aiter's tuned tables. errRatio "
    "is about 0.1 for a correct kernel that rounds 4-bit weights to bf16, and 0 for one that keeps them exact.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON; times in seconds, costs as differences of ln time.")
def tune(export: Path | None, as_json: bool, **options: Any) -> None:
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
    request, complete_in = search_request(Request(**options))
    if complete_in:
        _finish(complete_in, True, export, as_json)
        return
    plan = shown(request, planned_search)
    if export:
        from ...shapes.aiter import refuse_ambiguous

        refuse_ambiguous(cell.cache for cell in plan.cells)
    with plan.opened(sys.argv[1:]) as (store, content), stop_signals() as stopped, Progress(sys.stderr) as progress:
        complete = searched(plan, store, content, progress, stopped)
    _finish(plan.folder, complete, export, as_json)
    if request.arm and not complete:
        raise IncompleteError("the searches were cut short")


def _finish(folder: Path, complete: bool, export: Path | None, as_json: bool) -> None:
    """Print the results and their file; write the export."""
    path = folder / TUNING.file
    if path.is_file():
        frame = read_table(path)
        if as_json:
            _print_json(folder, complete, frame)
        else:
            _show(path, frame)
        if export:
            from .output import write

            write(path, frame, export)
    if not complete:
        click.echo(how_to_resume(folder), err=True)


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

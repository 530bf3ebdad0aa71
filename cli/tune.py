"""`rooflens tune`: search the fastest configuration of each kernel, and keep what was found as a table."""

import math
import sys
from collections import Counter
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..api.measuring import SEARCHES, measured, read_table, search_request
from ..api.planned import planned
from ..api.progress import Progress
from ..api.run_folders import how_to_resume
from ..api.stopping import stop_signals
from ..reports import formatting
from ..reports.formatting import plural
from ..shapes.aiter import fastest, refuse_ambiguous, tuned_csv
from ..shapes.request import Request
from ..shapes.run_folder.columns import TUNING
from ..shapes.tuned import load
from .run.run import shown
from .shared.options import FILE, command_with, parameters
from .shared.output import print_json, write_text
from .shared.tables import print_table, show_failures

if TYPE_CHECKING:
    import pandas as pd


@click.command("tune", cls=command_with(), params=parameters("tune"))
@click.option(
    "--export",
    type=FILE,
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
    request, complete_in = search_request(Request.for_command("tune", options))
    if complete_in:
        _finish(complete_in, True, export, as_json)
        return
    plan = shown(request, partial(planned, searches=SEARCHES))
    if export:
        refuse_ambiguous(cell.cache for cell in plan.cells)
    with plan.opened(sys.argv[1:]) as (store, content), stop_signals() as stopped, Progress(sys.stderr) as progress:
        complete = measured(plan, store, content, progress, stopped)
    _finish(plan.folder, complete, export, as_json)


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
            write(path, frame, export)
    if not complete:
        click.echo(how_to_resume(folder), err=True)


def _print_json(folder: Path, complete: bool, frame: "pd.DataFrame") -> None:
    from ..analysis.tuning.searches import disturbed, drift, failures, gain, hits, summarize_drift

    drifted = summarize_drift(drift(frame))
    print_json(
        {"folder": folder, "complete": complete, "providers": gain(frame).to_dict("records")}
        | {"drift": {**asdict(drifted), "flip_share": drifted.flip_share}}
        | {"hits": hits(frame).to_dict("records")}
        | {"disturbed": disturbed(frame), "failures": failures(frame).to_dict("records")}
    )


def _show(path: Path, frame: "pd.DataFrame") -> None:
    show_gains(frame)
    show_hits(frame)
    show_drift(frame)
    show_failures(frame)
    show_disturbed(frame)
    click.echo(f"tuned table   {path}")


MOST_CAUSES = 3
"""Kinds of disturbances that are printed."""


def write(table: Path, frame: "pd.DataFrame", file: Path) -> None:
    """Write the file; `frame` is the content of `table`."""
    if not frame["winner"].any():
        click.echo(f"nothing written to {file}: no cell has a winner", err=True)
        return
    from ..analysis.tuning.searches import CELL

    choices = load(table).choices
    rows = fastest(choices)
    write_text(file, tuned_csv(choices), "--export")
    cells = frame[[name for name in CELL if name != "source"]].drop_duplicates()
    chosen = Counter(key.provider for key in choices)
    without = Counter(cells["provider"].tolist()) - chosen
    slower = chosen - Counter(key.provider for key in rows)
    parts = [
        f"{counts.total()} {why} ({', '.join(f'{name} {count}' for name, count in counts.items())})"
        for counts, why in ((slower, "slower than another provider's"), (without, "without a winner"))
        if counts
    ]
    left = slower.total() + without.total()
    excluded = f"; {plural(left, 'cell')} excluded: {', '.join(parts)}" if left else ""
    click.echo(f"{plural(len(rows), 'row')} written to {file}{excluded}", err=True)


def show_gains(frame: "pd.DataFrame") -> None:
    """Print one line per provider."""
    from ..analysis.tuning.searches import gain

    gains = gain(frame)
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
    print_table(names, rows, once=("cells", "searches"), heading=("provider",))
    click.echo(
        "gain: default over winner, geometric mean over cells; checked: timed in another search than the one that chose"
    )
    for row in gains.to_dict("records"):
        if row["failed"]:
            click.echo(f"note: {row['provider']}: {plural(row['failed'], 'cell')} without any winner", err=True)
        if row["excluded"]:
            cells = plural(row["excluded"], "cell")
            click.echo(f"note: {row['provider']}: {cells} without a time of the default not in the gain", err=True)


def show_hits(frame: "pd.DataFrame") -> None:
    """Print what the searches of each provider chose of every option that they varied."""
    from ..analysis.tuning.searches import hits

    found = hits(frame).astype({"hits": str})
    found["chosen"] = found["value"].replace("", "none") + " (" + found["hits"] + ")"
    options = found.groupby(["provider", "option", "searches"], sort=False)["chosen"].agg(", ".join).reset_index()
    if len(options):
        rows = options[["provider", "option", "chosen", "searches"]].itertuples(index=False, name=None)
        print_table(("provider", "option", "chosen (searches)", "of"), list(rows), heading=("provider",))


def show_drift(frame: "pd.DataFrame") -> None:
    """Print how much searches of one cell disagree, and what that costs."""
    from ..analysis.tuning.searches import drift, summarize_drift, why_no_drift

    drifted = summarize_drift(drift(frame))
    if not drifted.cells:
        click.echo(f"drift: {why_no_drift(frame)}")
        return
    harmless = f", {drifted.harmless} of them between near ties" if drifted.flipped else ""
    click.echo(
        f"drift: {drifted.flipped} of {plural(drifted.cells, 'cell')} ({formatting.share(drifted.flip_share)}) choose "
        f"another configuration when searched again{harmless}"
    )
    if not drifted.flipped:
        return
    if drifted.median_cost is None or drifted.worst_cost is None:
        click.echo("       what such a flip costs is unknown: no search has a time of the other's winner")
        return
    median, worst = (formatting.share(math.expm1(cost)) for cost in (drifted.median_cost, drifted.worst_cost))
    opposed = f"in {drifted.opposed} of {plural(drifted.flipped, 'flip')} each search finds its own winner faster"
    click.echo(
        f"       such a flip costs {median} of the time at the median, {worst} at worst"
        + (f"; {opposed}" if drifted.opposed else "")
    )


def show_disturbed(frame: "pd.DataFrame") -> None:
    """Print how many searches are unreliable because they were disturbed."""
    from ..analysis.tuning.searches import disturbed

    found = disturbed(frame)
    if not found["searches"]:
        return
    causes = found["worst"].split("; ")
    worst = "; ".join(causes[:MOST_CAUSES]) + (" and more" if len(causes) > MOST_CAUSES else "")
    searches = plural(found["of"], "search was", "searches were")
    click.echo(f"note: {found['searches']} of {searches} disturbed, at worst: {worst}; tune again", err=True)

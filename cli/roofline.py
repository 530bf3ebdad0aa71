"""`rooflens roofline`: what bounds each cell, and how far it is from its bound."""

import json
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..shapes.columns import CELLS, Kind
from ..shapes.errors import unknown_name
from .output import print_json
from .reasons import grouped, kind
from .runs import find_run
from .tables import print_table

if TYPE_CHECKING:
    import pandas as pd


@click.command()
@click.argument("run", type=find_run)
@click.option("-p", "--provider", "providers", multiple=True, metavar="NAME", help="Show only these; repeat it.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, times in seconds and rates per second.")
def roofline(run: Path, providers: tuple[str, ...], as_json: bool) -> None:
    """Say what bounds each cell, and how far it is from the roof.

    RUN is the folder of a run, its name under ./runs, or `latest`. "of bound" is the least time that the operands and
    FLOPs of the problem allow on this device, over the measured time: the same yardstick for every provider. "bounded
    by" is what limits the provider's own algorithm, with the bytes that it really moves.

    \b
    Examples:
      rooflens roofline latest
      rooflens roofline runs/h200 -p simt_4bit -p blas --json
    """
    from ..analysis.load import load_run
    from ..analysis.roofline import bound_shares, place, roofline_warnings
    from ..analysis.summarize import summarize

    data = load_run(run)
    placed = place(summarize(data), data.ceilings, data.device)
    known = list(dict.fromkeys(placed["provider"]))
    for name in providers:
        if name not in known:
            raise unknown_name(f"provider of run {data.id}", name, known)
    shown = placed.loc[placed["provider"].isin(providers or known)]
    shares = bound_shares(shown, ["provider"])
    warnings = roofline_warnings(shown, data.ceilings)
    if as_json:
        print_json(
            {
                "run": data.id,
                "ceilings": data.ceilings.to_dict("records"),
                "shares": shares.to_dict("records"),
                "cells": [_record(row) for row in shown.to_dict("records")],
                "warnings": warnings,
            }
        )
        return
    declined = shown["verdict"] == "unsupported"
    _show_cells(shown.loc[~declined])
    click.echo()
    _show_shares(shares)
    for note in _declined(shown.loc[declined]):
        click.echo(f"note: {note}", err=True)
    for warning in warnings:
        click.echo(f"note: {warning}", err=True)


def _declined(cells: "pd.DataFrame") -> Iterator[str]:
    """Say once per kind of reason how many cells were declined, and by whom."""
    counts = Counter(map(kind, cells["reason"]))
    for reason, names in grouped(zip(cells["provider"], cells["reason"], strict=True)).items():
        count = counts[kind(reason)]
        yield f"{count} unsupported cell{'s' * (count > 1)} of {', '.join(names)}: {reason}"


def _record(row: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
    """Turn the JSON columns of a row into values, so that they are not quoted twice."""
    stored = [column.name for column in CELLS.columns if column.kind is Kind.JSON]
    return {**row} | {name: json.loads(row[name]) for name in stored if row[name]}


def _show_cells(placed: "pd.DataFrame") -> None:
    """Print one line per cell; one that failed says how in place of its bound. `placed`: without unsupported cells."""
    from ..analysis.coordinates import SETTING, shape_label
    from ..reports import formatting

    rows = [
        (
            shape_label(row),
            *(row[name] for name in SETTING),
            row["M"],
            row["provider"],
            formatting.time(row["time_s"]),
            formatting.flops(row["flops_per_s"]),
            formatting.bandwidth(row["bandwidth_bytes_per_s"]),
            formatting.share(row["fraction_of_bound"]),
            row["bound_class"] or (row["verdict"] if row["verdict"] != "passed" else ""),
            row["bound_note"] or row["reason"],
        )
        for row in placed.to_dict("records")
    ]
    names = ("M", "provider", "time", "rate", "bandwidth", "of bound", "bounded by", "remark")
    common = ("shape", *SETTING)
    print_table((*common, *names), rows, once=common, long=("remark",), heading=common)


def _show_shares(shares: "pd.DataFrame") -> None:
    """Print one line per provider: the share of its cells in each bound class."""
    from ..reports import formatting

    classes = list(dict.fromkeys(shares["bound_class"]))
    rows = []
    for provider, group in shares.groupby("provider", sort=False):
        by_class = dict(zip(group["bound_class"], group["share"], strict=True))
        rows.append((provider, int(group["cells"].sum()), *(formatting.share(by_class.get(name)) for name in classes)))
    print_table(("provider", "cells", *classes), rows)

"""The tables of `rooflens roofline`: one function per view."""

import json
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from ..shapes.run_folder.columns import CELLS, Kind
from ..shapes.verdict import reason_groups
from .shared.tables import print_table

if TYPE_CHECKING:
    import pandas as pd

    from ..shapes.run_folder.manifest import StoredDevice

GAP_HEADINGS = {
    "ideal": "ideal",
    "clock": "clock",
    "tile": "tile",
    "wave": "wave",
    "dequant": "dequant",
    "memory": "memory",
    "startup": "startup",
    "residual": "rest",
}
"""Part of a gap -> the head of its column."""

_NEGLIGIBLE = 5e-4
"""A share that rounds to 0.0 %."""


def record(row: Mapping[Hashable, Any]) -> dict[Hashable, Any]:
    """Turn the JSON columns of a row into values, so that they are not quoted twice."""
    stored = [column.name for column in CELLS.columns if column.kind is Kind.JSON]
    return {**row} | {name: json.loads(row[name]) for name in stored if row[name]}


def show_bounds(placed: "pd.DataFrame") -> None:
    """Print one line per cell, then one per provider: the share of its cells in each bound class."""
    from ..analysis.roofline import bound_shares

    declined = placed["verdict"] == "unsupported"
    _show_cells(placed.loc[~declined])
    click.echo()
    _show_shares(bound_shares(placed, ["provider"]))
    for note in _declined(placed.loc[declined]):
        click.echo(f"note: {note}", err=True)


def show_gaps(placed: "pd.DataFrame") -> None:
    """Print the parts of every measured time, then those of each provider's total."""
    from ..analysis.frames.coordinates import SETTING, shape_label
    from ..analysis.roofline.gaps import PARTS, gap_totals, gaps
    from ..reports import formatting

    found = gaps(placed)
    heads = [GAP_HEADINGS[part] for part in PARTS]
    rows = [
        (
            shape_label(row),
            *(row[name] for name in SETTING),
            row["provider"],
            row["M"],
            formatting.time(row["time_s"]),
            *(_share(row[f"{part}_s"] / row["time_s"]) for part in PARTS),
        )
        for row in _by_curve(found).to_dict("records")
    ]
    common = ("shape", *SETTING)
    print_table((*common, "provider", "M", "time", *heads), rows, once=common, heading=(*common, "provider"))
    totals = gap_totals(found).to_dict("records")
    click.echo()
    print_table(
        (*SETTING, "provider", "cells", "time", *heads),
        [
            (
                *(row[name] for name in (*SETTING, "provider", "cells")),
                formatting.time(row["time_s"]),
                *(_share(row[f"{part}_share"]) for part in PARTS),
            )
            for row in totals
        ],
        "shares of the total time",
        once=SETTING,
        heading=(*SETTING, "provider"),
    )
    for row in totals:
        if row["unknown"]:
            click.echo(f"note: {_named(row)}: not known, so in the rest: {row['unknown']}", err=True)
        if row["impossible"]:
            text = f"{formatting.plural(row['impossible'], 'impossible cell')} left out of the total"
            click.echo(f"note: {_named(row)}: {text}", err=True)


def show_regimes(placed: "pd.DataFrame") -> None:
    """Print one line per curve over M."""
    from ..analysis.frames.coordinates import SETTING, shape_label
    from ..analysis.roofline.regimes import regime_texts, regimes

    found = regimes(placed)
    rows = [
        (shape_label(row), *(row[name] for name in SETTING), row["provider"], row["text"])
        for row in regime_texts(found).to_dict("records")
    ]
    common = ("shape", *SETTING)
    print_table((*common, "provider", "bounded by"), rows, once=common, heading=common)
    if merged := int(found["merged"].sum()):
        text = f"{merged} single cells of another class stand in the stretch around them; --json counts them in each"
        click.echo(f"note: {text}", err=True)


def show_pairs(placed: "pd.DataFrame") -> None:
    """Print one line per cell that was measured cold and warm, then the means of each provider."""
    from ..analysis.frames.coordinates import SETTING, shape_label
    from ..analysis.roofline.pairs import pair_means, pairs
    from ..reports import formatting

    found = pairs(placed)
    if found.empty:
        text = "no cell has a time both cold and warm: rooflens run --cache cold,warm measures both"
        click.echo(f"note: {text}", err=True)
        return
    setting = [name for name in SETTING if name != "cache"]
    rows = [
        (
            shape_label(row),
            *(row[name] for name in setting),
            row["provider"],
            row["M"],
            formatting.time(row["cold_time_s"]),
            formatting.time(row["warm_time_s"]),
            formatting.ratio(row["ratio"]) if row["told_apart"] else formatting.undecided(row["ratio"]),
            formatting.ratio(row["roof_ratio"]),
            row["warm_level"],
            formatting.share(row["cold_fraction"]),
            formatting.share(row["warm_fraction"]),
        )
        for row in _by_curve(found.assign(cache="")).to_dict("records")
    ]
    common = ("shape", *setting)
    names = ("provider", "M", "cold", "warm", "cold/warm", "by roofs", "level", "cold: of bound", "warm: of bound")
    print_table((*common, *names), rows, once=common, heading=(*common, "provider"))
    means = pair_means(found)
    if not means.empty:
        click.echo()
        _show_pair_means(means, setting)
    for reason, count in Counter(found["reason"]).items():
        if reason:
            click.echo(f"note: {formatting.plural(count, 'pair')}: {reason}", err=True)


def _show_pair_means(means: "pd.DataFrame", setting: Sequence[str]) -> None:
    from ..reports import formatting

    print_table(
        (*setting, "provider", "level", "pairs", "cold/warm", "by roofs", "cold: of bound", "warm: of bound"),
        [
            (
                *(row[name] for name in (*setting, "provider", "warm_level", "pairs")),
                formatting.ratio(row["ratio"]),
                formatting.ratio(row["roof_ratio"]),
                formatting.share(row["cold_fraction"]),
                formatting.share(row["warm_fraction"]),
            )
            for row in means.to_dict("records")
        ],
        "geometric means",
        once=setting,
        heading=(*setting, "provider"),
    )


def show_roofs(placed: "pd.DataFrame", limits: "pd.DataFrame", device: "StoredDevice") -> None:
    """Print one line per limit in use, or beside one."""
    from ..analysis.roofline.roofs import roofs
    from ..reports import formatting

    rows = [
        (
            row["roof"],
            formatting.ceiling(row["what"], row["value"]),
            row["kind"],
            row["cells"] or None,
            row["bounds"] or None,
            row["source"],
        )
        for row in roofs(placed, limits, device).to_dict("records")
    ]
    names = ("ceiling", "value", "kind", "limits", "bounds", "source")
    print_table(
        names, rows, "limits: cells that it is a limit of; bounds: cells whose longest limit it is", long=("source",)
    )


def _declined(cells: "pd.DataFrame") -> Iterator[str]:
    """Say once per kind of reason how many cells were declined, and by whom."""
    for reason, names, count in reason_groups(zip(cells["provider"], cells["reason"], strict=True)):
        yield f"{count} unsupported cell{'s' * (count > 1)} of {', '.join(names)}: {reason}"


def _by_curve(cells: "pd.DataFrame") -> "pd.DataFrame":
    """Put the cells of one curve over M below each other."""
    from ..analysis.roofline.bounds import series_codes

    return cells.iloc[series_codes(cells).argsort(kind="stable")]


def _named(row: Mapping[Hashable, Any]) -> str:
    from ..analysis.frames.coordinates import SETTING

    return f"{row['provider']} ({', '.join(str(row[name]) for name in SETTING)})"


def _share(fraction: float) -> str:
    """Write a share that may be below 0: of a step that gains, of a time below its ideal."""
    from ..reports import formatting

    if -_NEGLIGIBLE < fraction < 0:
        return formatting.share(0)
    return f"{formatting.MINUS}{formatting.share(-fraction)}" if fraction < 0 else formatting.share(fraction)


def _show_cells(placed: "pd.DataFrame") -> None:
    """Print one line per cell; one that failed says how in place of its bound. `placed`: without unsupported cells."""
    from ..analysis.frames.coordinates import SETTING, shape_label
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
    from ..reports import formatting

    classes = list(dict.fromkeys(shares["bound_class"]))
    rows = []
    for provider, group in shares.groupby("provider", sort=False):
        by_class = dict(zip(group["bound_class"], group["share"], strict=True))
        rows.append((provider, int(group["cells"].sum()), *(formatting.share(by_class.get(name)) for name in classes)))
    print_table(("provider", "cells", *classes), rows)

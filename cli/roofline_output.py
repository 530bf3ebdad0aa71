"""What `rooflens roofline` shows: a section per view."""

import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import pandas as pd

from ..analysis.frames.coordinates import SETTING, shape_label
from ..analysis.roofline import bound_shares
from ..analysis.roofline.bounds import series_codes
from ..analysis.roofline.gaps import PARTS, gap_totals, gaps
from ..analysis.roofline.pairs import pair_means, pairs
from ..analysis.roofline.roofs import roofs
from ..reports import formatting as fmt
from ..reports.listing import listing
from ..reports.model import Block, Remarks, Section
from ..reports.terms import GAP_PARTS
from ..shapes.device import Device
from ..shapes.verdict import reason_groups

Row = Mapping[Hashable, Any]

COMMON = ("shape", *SETTING)
"""What heads the rows of a curve."""

_NEGLIGIBLE = 5e-4
"""A share that rounds to 0.0 %."""


def bounds_of(placed: pd.DataFrame) -> Section:
    """List the cells, one that failed with how in place of its bound; then the share of each bound per provider."""
    declined = placed["verdict"] == "unsupported"
    rows = [
        (
            *(*_head(row), row["M"], row["provider"]),
            fmt.time(row["time_s"]),
            fmt.flops(row["flops_per_s"]),
            fmt.bandwidth(row["bandwidth_bytes_per_s"]),
            fmt.share(row["fraction_of_bound"]),
            row["bound_class"] or (row["verdict"] if row["verdict"] != "passed" else ""),
            row["bound_note"] or row["reason"],
        )
        for row in placed.loc[~declined].to_dict("records")
    ]
    names = (*COMMON, "M", "provider", "time", "rate", "bandwidth", "of bound", "bounded by", "remark")
    shares = bound_shares(placed, ["provider"])
    classes = list(dict.fromkeys(shares["bound_class"]))
    by_provider = {
        provider: (int(group["cells"].sum()), dict(zip(group["bound_class"], group["share"], strict=True)))
        for provider, group in shares.groupby("provider", sort=False)
    }
    return _section(
        listing(names, rows, once=COMMON, long=("remark",), heading=COMMON),
        listing(
            ("provider", "cells", *classes),
            [
                (provider, cells, *(fmt.share(found.get(name)) for name in classes))
                for provider, (cells, found) in by_provider.items()
            ],
        ),
        remarks=_declined(placed.loc[declined]),
    )


def gaps_of(placed: pd.DataFrame) -> Section:
    """List the parts of every measured time, then those of each provider's total; without those that no cell has."""
    found = gaps(placed)
    parts = [part for part in PARTS if found[f"{part}_s"].notna().any()]
    heads = [GAP_PARTS[part] for part in parts]
    cells = [
        (
            *(*_head(row), row["provider"], row["M"], fmt.time(row["time_s"])),
            *(_share(row[f"{part}_s"] / row["time_s"]) for part in parts),
        )
        for row in _by_curve(found).to_dict("records")
    ]
    totals = gap_totals(found).to_dict("records")
    sums = [
        (
            *(*(row[name] for name in (*SETTING, "provider", "cells")), fmt.time(row["time_s"])),
            *(_share(row[f"{part}_share"]) for part in parts),
        )
        for row in totals
    ]
    remarks = []
    for row in totals:
        named = f"{row['provider']} ({', '.join(str(row[name]) for name in SETTING)})"
        if row["unknown"]:
            unknown = re.sub("|".join(GAP_PARTS), lambda part: GAP_PARTS[part[0]], row["unknown"])
            remarks.append(f"{named}: not known, so in the rest: {unknown}")
        if row["impossible"]:
            remarks.append(f"{named}: {fmt.plural(row['impossible'], 'impossible cell')} excluded from the total")
    heading = (*COMMON, "provider")
    return _section(
        listing((*heading, "M", "time", *heads), cells, once=COMMON, heading=heading),
        listing(
            (*SETTING, "provider", "cells", "time", *heads), sums, "shares of the total time",
            once=SETTING, heading=(*SETTING, "provider"),
        ),
        remarks=remarks,
    )  # fmt: skip


def pairs_of(placed: pd.DataFrame) -> Section:
    """List the cells that were measured cold and warm, then the means of each provider."""
    found = pairs(placed)
    if found.empty:
        return _section(remarks=["no cell has a time both cold and warm: rooflens run --cache cold,warm measures both"])
    setting = [name for name in SETTING if name != "cache"]
    rows = [
        (
            *(shape_label(row), *(row[name] for name in (*setting, "provider", "M"))),
            *(fmt.time(row[f"{cache}_time_s"]) for cache in ("cold", "warm")),
            fmt.ratio(row["ratio"]) if row["told_apart"] else fmt.undecided(row["ratio"]),
            *(fmt.ratio(row["roof_ratio"]), row["warm_level"]),
            *(fmt.share(row[f"{cache}_fraction"]) for cache in ("cold", "warm")),
        )
        for row in _by_curve(found.assign(cache="")).to_dict("records")
    ]
    heading = ("shape", *setting, "provider")
    names = ("M", "cold", "warm", "cold/warm", "by roofs", "level", "cold: of bound", "warm: of bound")
    means = [
        (
            *(row[name] for name in (*setting, "provider", "warm_level", "pairs")),
            *(fmt.ratio(row[name]) for name in ("ratio", "roof_ratio")),
            *(fmt.share(row[f"{cache}_fraction"]) for cache in ("cold", "warm")),
        )
        for row in pair_means(found).to_dict("records")
    ]
    tables = [listing((*heading, *names), rows, once=heading[:-1], heading=heading)]
    if means:
        mean_names = (*heading[1:], "level", "pairs", *names[3:5], *names[6:])
        tables.append(listing(mean_names, means, "geometric means", once=setting, heading=heading[1:]))
    reasons = Counter(found["reason"]).items()
    return _section(*tables, remarks=[f"{fmt.plural(count, 'pair')}: {reason}" for reason, count in reasons if reason])


def roofs_of(placed: pd.DataFrame, limits: pd.DataFrame, device: Device) -> Section:
    """List the limits in use, and those beside one."""
    rows = [
        (
            *(row["roof"], fmt.ceiling(row["what"], row["value"]), row["kind"]),
            *(row["cells"] or None, row["bounds"] or None, row["source"]),
        )
        for row in roofs(placed, limits, device).to_dict("records")
    ]
    names = ("ceiling", "value", "kind", "limits", "bounds", "source")
    title = "limits: cells that it is a limit of; bounds: cells whose longest limit it is"
    return _section(listing(names, rows, title, long=("source",)))


def _section(*tables: Block, remarks: Sequence[str] = ()) -> Section:
    """Put every table into a part of its own, and remarks after them."""
    parts = tuple(Section("part", "", (table,)) for table in tables)
    return Section("roofline", "Roofline", (Remarks(tuple(remarks)),) if remarks else (), parts)


def _head(row: Row) -> tuple[str, ...]:
    return (shape_label(row), *(row[name] for name in SETTING))


def _declined(cells: pd.DataFrame) -> Sequence[str]:
    """Count the cells that were declined for each kind of reason, and name who declined them."""
    return [
        f"{fmt.plural(count, 'unsupported cell')} of {', '.join(names)}: {reason}"
        for reason, names, count in reason_groups(zip(cells["provider"], cells["reason"], strict=True))
    ]


def _by_curve(cells: pd.DataFrame) -> pd.DataFrame:
    """Put the cells of one curve over M below each other."""
    return cells.iloc[series_codes(cells).argsort(kind="stable")]


def _share(fraction: float) -> str:
    """Write a share that may be below 0: of a step that gains, of a time below its ideal."""
    if -_NEGLIGIBLE < fraction < 0:
        return fmt.share(0)
    return f"{fmt.MINUS}{fmt.share(-fraction)}" if fraction < 0 else fmt.share(fraction)

"""What `rooflens camping` prints: suspects, periods, and what would have been found where nothing was."""

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ...analysis.frames.coordinates import SETTING, shape_label
from ...reports import formatting
from ...reports.listing import listing
from ...reports.model import Block, Remarks, Section, Table, Text
from .find import Camping

Row = Mapping[Hashable, Any]

_SCAN = (
    *("axis", "size", "fixed", "M", "model", "layer", "time_s", "expected_s", "workgroups", "on_grid"),
    *("ratio", "stands_out", "explained", "period"),
)
_VERDICTS = {"yes": "verified", "no": "not reproduced", "unknown": "not verified"}
_EXCESS = ("excess", f"{formatting.TIMES} beside")


def everything(found: Camping) -> dict[str, Any]:
    """Return all tables, rows as objects; of the sizes, those of series that were searched for periods.

    ratio is the time of a size to that of the slower side of its neighbours.
    """
    sizes = found.sizes.loc[found.sizes["series"].isin(found.scans["series"])]
    sizes = sizes.assign(ratio=np.exp(sizes["over"]))[["provider", *SETTING, *_SCAN]]
    names = ("suspects", "periods", "scans", "coverage")
    return {name: getattr(found, name).to_dict("records") for name in names} | {"sizes": sizes.to_dict("records")}


def section(found: Camping, held: Sequence[str]) -> Section:
    """List suspects, periods and scans, and what would have been found; `held`: more remarks."""
    suspects = found.suspects.loc[found.suspects["explained"] == ""]
    tables = ((suspects, _suspects), (found.periods, _periods), (found.scans, _scans))
    parts: list[tuple[Block, ...]] = [(table(rows),) for rows, table in tables if len(rows)]
    conclusion: tuple[Block, ...] = (*map(Text, _conclusion(found, suspects)), Remarks((*_notes(found), *held)))
    return Section("camping", "Camping", (), tuple(Section("part", "", blocks) for blocks in (*parts, conclusion)))


def _suspects(suspects: pd.DataFrame) -> Table:
    rows = [
        (
            shape_label(row),
            *(row[name] for name in SETTING),
            row["provider"],
            _Ms(row["Ms"]),
            formatting.time(row["excess_s"]),
            formatting.ratio(row["ratio"]),
            _VERDICTS[row["reproduced"]],
            _remark(row),
        )
        for row in suspects.to_dict("records")
    ]
    names = ("shape", *SETTING, "provider", "M", *_EXCESS, "verdict", "remark")
    return listing(
        names, rows, "suspects: slower than the sizes on both sides of them",
        once=SETTING, long=("remark",), heading=("shape", *SETTING),
    )  # fmt: skip


def _remark(row: Row) -> str:
    """Say how it was judged and what to do, in a line."""
    parts = [_beside(row), f"ruled out: {row['ruled_out']}"]
    if row["on_grid"]:
        parts.append(f"a grid of {row['workgroups']:.0f} workgroups, a multiple of 256: the scheduler may be the cause")
    if row["processes"]:
        parts.append(f"shown in {row['shown']} of {formatting.plural(row['processes'], 'process', 'processes')}")
    if not math.isnan(row["pad"]):
        axis, size, pad = row["axis"], int(row["size"]), int(row["pad"])
        parts.append(f"pad {axis} {size} to {size + pad}: {formatting.share(row['saved'])} less time")
    if row["remark"]:
        parts.append(row["remark"])
    return "; ".join(parts)


def _beside(row: Row) -> str:
    low, high = (
        f"{size:.0f}" if row["axis"] != "NK" else f"{size / 1e6:.3g}M" for size in (row["below"], row["above"])
    )
    if row["axis"] == "NK":
        return f"beside shapes of {low} and {high} weights"
    return f"beside {row['axis']} {low} and {high}"


def _periods(periods: pd.DataFrame) -> Table:
    rows = [
        (
            row["provider"],
            *(row[name] for name in SETTING),
            f"{row['axis']}, {_other(row)}",
            _Ms(row["Ms"]),
            _period(row),
            formatting.ratio(row["ratio"]),
            f"{row['p']:.2g}",
            _VERDICTS[row["reproduced"]],
            _about(row),
        )
        for row in _merged(periods, ("axis", "fixed", "period"))
    ]
    names = ("provider", *SETTING, "scan", "M", "multiples of", f"{formatting.TIMES} others", "p", "verdict", "remark")
    return listing(
        names,
        rows,
        "periods: multiples of a size are slow",
        once=SETTING,
        long=("remark",),
        heading=("provider", *SETTING),
    )


def _period(row: Row) -> str:
    return f"{row['period']}" if row["period"] else "256 workgroups"


def _about(row: Row) -> str:
    """Say what the period is in bytes, where it shows, and what to do."""
    parts = [f"{formatting.plural(len(row['sizes']), 'multiple')} measured, up to {max(row['sizes'])}"]
    if width := formatting.bytes_size(row["row_bytes"]):
        parts.append(f"{width} of a row of {'W' if row['axis'] == 'K' else 'Y'}")
    if row["also_grid"] and row["period"]:
        parts.append("the same sizes have grids of a multiple of 256 workgroups: the scheduler may be the cause")
    if row["processes"]:
        parts.append(f"shown in {row['shown']} of {formatting.plural(row['processes'], 'process', 'processes')}")
    if not math.isnan(row["pad"]):
        parts.append(f"pad {row['axis']} by {row['pad']:.0f}: {formatting.share(row['saved'])} less time")
    return "; ".join(parts)


def _scans(scans: pd.DataFrame) -> Table:
    rows = [
        (
            row["provider"],
            *(row[name] for name in SETTING),
            f"{row['axis']}, {_other(row)}",
            _Ms(row["Ms"]),
            f"{row['size_min']}..{row['size_max']}",
            row["points"],
            row["found"] or "none",
            f"{_gain(row['detectable'])} ({row['detectable_period']})",
            f"{_gain(row['hardest'])} ({row['hardest_period']})",
            _within(row),
        )
        for row in _merged(scans, ("axis", "fixed", "size_min", "size_max", "points", "within"))
    ]
    names = ("provider", *SETTING, "scan", "M", "from..to", "sizes", "periods", "found from", "to", "remark")
    return listing(
        names, rows, "scans: the least slowdown at all multiples of a (period) that is found in 4 of 5 scans",
        once=SETTING, long=("remark",), heading=("provider", *SETTING),
    )  # fmt: skip


def _gain(ln_time: float) -> str:
    """Write a slowdown: 1.4%, and from twice the time on the ratio."""
    if math.isnan(ln_time):
        return ""
    return f"{math.expm1(ln_time) * 100:.2g}%" if ln_time < math.log(2) else formatting.ratio(math.exp(ln_time))


def _within(row: Row) -> str:
    told = {
        "neighbours": "",
        "equal workgroups": "compared at equal workgroups",
        "equal waves": "compared at equal waves",
    }
    steps = f"steps of {', '.join(map(str, row['steps']))} taken out" if row["steps"] else ""
    return "; ".join(filter(None, (told[row["within"]], steps)))


def _merged(table: pd.DataFrame, keys: Sequence[str]) -> list[dict[Hashable, Any]]:
    """Put rows that differ in M alone together, with their Ms: the values of the one that is hardest to believe."""
    hardness = "p" if "ratio" in table else "hardest"
    groups = table.groupby(["provider", *SETTING, "model", "layer", *keys], sort=False, dropna=False)
    merged = []
    for _, group in groups:
        place = int(group[hardness].argmax()) if group[hardness].notna().any() else 0
        row: dict[Hashable, Any] = dict(group.iloc[place])
        row["Ms"] = tuple(int(size) for size in pd.unique(group["M"]))
        if "ratio" in group:
            row["ratio"] = float(group["ratio"].median())
        merged.append(row)
    return merged


def _other(row: Row) -> str:
    return f"{'K' if row['axis'] == 'N' else 'N'} = {row['fixed']}"


def _Ms(sizes: Sequence[int]) -> str:
    """Write the M of a row: 1..16 for several, in order."""
    return str(sizes[0]) if len(sizes) == 1 else f"{min(sizes)}..{max(sizes)}"


def _conclusion(found: Camping, suspects: pd.DataFrame) -> Iterator[str]:
    counts = found.coverage[["points", "tested"]].sum()
    if not len(suspects):
        what = "no single size stands out" if len(found.periods) else "nothing found: no size stands out"
        yield f"{what}; {formatting.count(int(counts['tested']), int(counts['points']))} times have others beside them"
    for row in found.coverage.to_dict("records"):
        setting = ", ".join(str(row[name]) for name in SETTING)
        if row["tested"]:
            least = formatting.ratio(row["detectable"]) if row["detectable"] < 1000 else f"over 1000{formatting.TIMES}"
            yield f"{row['provider']} ({setting}): found from {least} the time of those"
        else:
            yield f"{row['provider']} ({setting}): no size has enough others within a factor of 2 to compare it with"
    if found.scans.empty:
        longest = int(found.coverage["longest"].max()) if len(found.coverage) else 0
        yield (
            f"no scan, so no periods: 16 sizes of one series are the least, {longest} the most here; "
            "rooflens run --scan measures them"
        )


def _notes(found: Camping) -> Iterator[str]:
    if left := int(found.coverage["impossible"].sum()):
        yield (
            "excluded, because they are faster than the device allows: "
            f"{left} of {int(found.coverage['cells'].sum())} cells"
        )
    explained = found.suspects.loc[found.suspects["explained"] != ""]
    for why, count in Counter(explained["explained"]).items():
        first = explained.loc[explained["explained"] == why].iloc[0]
        example = f"{shape_label(first)}, {first['provider']}, M = {_Ms(first['Ms'])}"
        yield f"{formatting.plural(count, 'shape')} that stand{'s' * (count == 1)} out explained by {why}: {example}"
    waiting = (found.suspects["explained"] == "") & (found.suspects["reproduced"] == "unknown")
    if waiting.any() or (found.periods["reproduced"] == "unknown").any():
        yield (
            "not verified: three worker processes have to show it; measure the same cells in two more runs, and name "
            "them too: rooflens camping RUN RUN RUN"
        )

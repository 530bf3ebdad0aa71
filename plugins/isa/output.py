"""What `rooflens isa` prints: a summary per provider and architecture, claims, changes, and a line per binary."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from ...analysis.comparison.machine_code import GROUP, PLACE, Difference, python_value, summarize_changes
from ...cli.shared.output import record
from ...reports import formatting as fmt
from ...reports.listing import listing
from ...reports.model import Block, Remarks, Section, Table, Text
from ...shapes.run_folder.columns_isa import ISA
from ...shapes.verdict import Verdict
from .claims import config_text, counts_text, sizes_text
from .decoding import decoding_roofs

FEW = 24
"""Up to so many rows are printed without being asked for."""

SUMMARY = (
    *(*GROUP, "binaries", "vgprs", "agprs", "occupancy", "per weight"),
    *("spills", "short stores", "dwordx4 stores", "matrix", "not compiled"),
)
"""Columns of the summary; the last but one say for how many of the binaries there is such an instruction at all."""

_ROOF_GROUP = ("arch", "device", "provider", "part", "op", "pass", "dtype", "scheme")

ROOFS = (*_ROOF_GROUP, "sizes", "per weight", "decoding", "memory", "matrix units", "ends at", "reads at most")

ROOF_TITLE = "decoding against memory and matrix units, at published rates"

CLAIM = (*GROUP, "holds for")

CHANGES = (*PLACE, "what", "binaries", "base", "head")

_WIDTHS = ("byte", "short", "dword", "dwordx2", "dwordx4", "bulk")


def section(
    frame: pd.DataFrame,
    summary: pd.DataFrame,
    claims: Sequence[pd.DataFrame],
    difference: Difference | None,
    binaries: bool,
) -> Section:
    """Show each binary if they are few or asked for, the summary, the claims, and the difference."""
    parts: list[tuple[Block, ...]] = []
    if binaries or (len(frame) <= FEW and difference is None and not claims):
        every = _listing(ROWS, [_row_cells(row) for row in frame.to_dict("records")], "every binary")
        parts.append((replace(every, detail=True),))
    parts.append((_listing(SUMMARY, _summary_rows(summary)),))
    if roofs := _roof_rows(frame):
        parts.append((_listing(ROOFS, roofs, ROOF_TITLE),))
    for found in claims:
        title = f"claim: {found['claim'].iloc[0]}" if len(found) else "claim"
        parts.append((_listing(CLAIM, _claim_rows(found), title), *([] if len(found) else [Text("no binary")])))
    if difference is not None:
        lines = map(Text, difference_lines(difference))
        parts.append((*lines, *([_changes(difference)] if len(difference.changes) else [])))
    parts.append((Remarks(tuple(notes(frame))),))
    return Section("isa", "Generated code", (), tuple(Section("part", "", part) for part in parts))


def notes(frame: pd.DataFrame) -> list[str]:
    """Say once per provider what was not compiled and why, and what the compiler complained of."""
    told = frame.loc[frame["reason"] != ""]
    lines = []
    for (provider, verdict, reason), group in told.groupby(["provider", "verdict", "reason"], sort=False):
        where = ", ".join(dict.fromkeys(group["arch"]))
        what = "compiled, but" if verdict == Verdict.PASSED else str(verdict).replace("_", " ")
        lines.append(f"{provider} on {where}: {what}: {reason}")
    return lines


def _summary_rows(summary: pd.DataFrame) -> list[list[str]]:
    return [_summary_row(row) for row in summary.to_dict("records")]


def _summary_row(row: Mapping[Hashable, Any]) -> list[str]:
    binaries = row["binaries"]
    left = [f"{row[what]} {what}" for what in ("failed", "unsupported") if row[what]]
    shares = [
        f"{row[name]} / {binaries}" if binaries else ""
        for name in ("with_spills", "with_short_stores", "with_dwordx4_stores", "with_matrix")
    ]
    ranges = [_range(row, name) for name in ("vgprs", "agprs", "occupancy", "decode_per_weight")]
    return [*(str(row[name]) for name in GROUP), str(binaries), *ranges, *shares, ", ".join(left)]


def _roof_rows(frame: pd.DataFrame) -> list[list[str]]:
    return [
        [
            *(row[name] for name in _ROOF_GROUP),
            sizes_text(row),
            f"{row['decode_per_weight']:.4g}",
            *(fmt.time(row[name]) for name in ("decode_s", "memory_s", "matrix_s")),
            fmt.bandwidth(row["decode_bytes_per_s"]),
            f"{fmt.share(row['read_share'])} of peak",
        ]
        for row in decoding_roofs(frame).to_dict("records")
    ]


def _range(row: Mapping[Hashable, Any], name: str) -> str:
    """Write "64" or "64-128"."""
    low, high = python_value(row[f"{name}_low"]), python_value(row[f"{name}_high"])
    if low is None:
        return ""
    return f"{low:.4g}" if low == high else f"{low:.4g}-{high:.4g}"


def _claim_rows(found: pd.DataFrame) -> list[list[str]]:
    return [
        [*(str(row[name]) for name in GROUP), f"{row['holds']} / {row['binaries']} binaries"]
        for row in found.to_dict("records")
    ]


ROWS = (
    *(*GROUP, "sizes", "config", "vgprs", "agprs", "scratch", "LDS", "occupancy", "loads", "stores"),
    *("loop: matrix", "loop: convert", "loop: valu", "per weight", "verdict"),
)


_VALUES = ("part", "agprs", "per weight", "verdict", "not compiled")


def _listing(names: Sequence[str], body: list[list[str]], title: str = "") -> Table:
    """Leave out values that are unknown or 0 in every row."""
    kept = [at for at, name in enumerate(names) if name not in _VALUES or {row[at] for row in body} - {"", "0"}]
    columns, rows = [names[at] for at in kept], [[row[at] for at in kept] for row in body]
    found = listing(columns, rows, once=(*GROUP, "sizes"), long=("config", "stores", "loads"), heading=GROUP)
    return replace(found, title=title)


def _row_cells(row: Mapping[Hashable, Any]) -> list[str]:

    def number(name: str) -> str:
        value = python_value(row[name])
        return "" if value is None else str(value) if isinstance(value, int) else f"{value:.4g}"

    occupancy = (
        f"{number('occupancy')} of {number('occupancy_slots')} ({row['occupancy_limit']})"
        if number("occupancy")
        else ""
    )
    return [
        *(row[name] for name in GROUP),
        sizes_text(row),
        config_text(row["config"]),
        *(number(name) for name in ("vgprs", "agprs", "scratch_bytes", "shared_bytes")),
        occupancy,
        counts_text(row, "load_", _WIDTHS),
        counts_text(row, "store_", _WIDTHS),
        *(number(name) for name in ("loop_matrix", "loop_convert", "loop_valu", "decode_per_weight")),
        "" if row["verdict"] == Verdict.PASSED else row["verdict"].replace("_", " "),
    ]


def _changes(difference: Difference) -> Table:
    body = [[str(value) for value in row] for row in summarize_changes(difference).itertuples(index=False)]
    return _listing(CHANGES, body)


def difference_lines(difference: Difference) -> list[str]:
    """Say in sentences how many binaries are equal, differ, came or went."""
    lines = [
        f"{difference.common} rows in both: {difference.identical} equal, "
        f"{difference.common - difference.identical} with other code, "
        f"of which {difference.recoded} with the same numbers"
    ]
    base, head = difference.compilers
    if base and head and base != head:
        lines.append(f"the compilers differ: Triton {base} and {head}")
    for what, frame in (("only in head", difference.added), ("only in base", difference.removed)):
        if len(frame):
            sizes = Counter(f"{row['arch']} {row['provider']}" for row in frame.to_dict("records"))
            lines.append(f"{what}: {', '.join(f'{name} {size}' for name, size in sizes.items())}")
    return lines


def as_record(
    frame: pd.DataFrame, summary: pd.DataFrame, claims: Sequence[pd.DataFrame], difference: Difference | None
) -> dict[str, Any]:
    """Return what --json prints."""
    found: dict[str, Any] = {
        "rows": [record(ISA, row) for row in frame.to_dict("records")],
        "summary": summary.to_dict("records"),
        "decoding": decoding_roofs(frame).to_dict("records"),
        "claims": [row for claim in claims for row in claim.to_dict("records")],
    }
    if difference is not None:
        found["difference"] = {
            "changes": [record(ISA, row) for row in difference.changes.to_dict("records")],
            "added": [record(ISA, row) for row in difference.added.to_dict("records")],
            "removed": [record(ISA, row) for row in difference.removed.to_dict("records")],
            **{name: getattr(difference, name) for name in ("common", "identical", "recoded", "compilers")},
        }
    return found

"""How each architecture was measured, where its own report is, and what could not run on which."""

from collections.abc import Iterator

import pandas as pd

from ....analysis.roofline.ceilings import Ceilings
from ....analysis.run.architectures import ABSENT, side
from ....shapes.gpu_architectures import architecture
from ....shapes.verdict import Verdict
from ... import formatting as fmt
from ...cells import coverage_text
from ...model import Bullets, Column, Section, Table, TableCell, Text, text_columns, texts
from ...view import View, shape_of
from ..conditions.timing import how_timed, sample_counts
from .subject import Architectures

SOFTWARE = ("rooflens", "commit", "torch", "triton", "python", "driver")
"""Keys of the environment in which two runs should not differ without a reader knowing."""

MOST_SHAPES = 3
"""Shapes that are named of a group of cells without a time."""


def conditions(subject: Architectures) -> Section:
    """List device, software, method and ceilings of every architecture, one column each."""
    rows = {name: dict(_conditions(view)) for name, view in subject.views.items()}
    items = dict.fromkeys(item for found in rows.values() for item in found)
    lines = [
        (
            TableCell(item),
            *(TableCell(found.get(item) or "unknown", found.get(item) or None) for found in rows.values()),
        )
        for item in items
        if any(found.get(item) for found in rows.values())
    ]
    columns = text_columns("item", *subject.names)
    table = Table("conditions-table", "Conditions of each architecture", columns, tuple(lines))
    return Section("conditions", "Conditions", (*_differences(subject), table))


def _conditions(view: View) -> Iterator[tuple[str, str]]:
    """Rows (what, how) of one architecture; an unknown one has an empty text."""
    device, stored = view.run.device, view.manifest.environment
    yield "run", view.run_id
    yield "device", view.device_name
    yield "architecture", device.arch
    yield ("cores" if device.is_cpu else architecture(device.arch).units_name), str(device.compute_units or "")
    yield "last-level cache", fmt.bytes_size(device.llc_bytes or None)
    yield "memory", fmt.bytes_size(device.memory_bytes or None)
    yield from ((name, str(value)) for name, value in stored.items())
    yield "started", view.manifest.created_at
    yield "cells", coverage_text(view.coverage)
    yield "rounds", str(view.rounds)
    yield from how_timed(view)
    yield "samples per cell", sample_counts(view)
    yield from _ceilings(view)
    yield from _state(view)


def _ceilings(view: View) -> Iterator[tuple[str, str]]:
    limits = Ceilings.of(view.analysis.ceilings)
    found = {"memory bandwidth": (limits.bandwidth("dram"), "bandwidth"), "empty launch": (limits.launch(), "launch")}
    found |= {f"{dtype} matrix rate": (limits.peak(dtype), "peak") for dtype in view.dtypes}
    for item, (ceiling, kind) in found.items():
        published = " (published)" if ceiling and ceiling.kind == "spec" else f" ({ceiling.kind})" if ceiling else ""
        yield item, f"{fmt.ceiling(kind, ceiling.value)}{published}" if ceiling else ""


def _state(view: View) -> Iterator[tuple[str, str]]:
    seen, drifts = view.analysis.conditions, view.analysis.canary
    if seen is not None and seen.clock_hz is not None:
        ends = seen.clock_hz
        yield "clock", f"{fmt.clock(ends.least)} to {fmt.clock(ends.largest)}, median {fmt.clock(ends.median)}"
    moved = [(drift.range, drift.kind) for drift in drifts if drift.range is not None]
    if moved:
        most, kind = max(moved)
        yield "largest drift of the canary", f"{fmt.signed_percent(most)}% ({kind})"
    timed = view.cells[view.cells["verdict"] == Verdict.PASSED]
    yield "disturbed cells", fmt.count(int((timed["disturbed"] != "").sum()), len(timed))


def _differences(subject: Architectures) -> tuple[Text, ...]:
    """Name the software that differs: then the hardware is not all that does."""
    stored = [view.manifest.environment for view in subject.views.values()]
    differ = [name for name in SOFTWARE if len({str(found.get(name) or "") for found in stored}) > 1]
    hashes: dict[str, set[str]] = {}
    for view in subject.views.values():
        for provider, entry in view.provider_entries.items():
            hashes.setdefault(provider, set()).add(entry.source)
    sources = [provider for provider, found in hashes.items() if len(found) > 1]
    said = []
    if differ:
        said.append(f"Besides the device these differ: {', '.join(differ)}. A difference may come from them.")
    if sources:
        said.append(f"The source that ran is not the same everywhere: {', '.join(sources)}.")
    return tuple(map(Text, said))


def absences(subject: Architectures) -> Section:
    """List what has no time on an architecture, grouped by its reason."""
    lines = [line for name in subject.names for line in _without(side(subject.cells, name), name)]
    blocks: list[Text | Table | Bullets] = []
    if subject.missing:
        blocks.append(Bullets(tuple(f"{name}: {why}." for name, why in subject.missing.items())))
    if not lines:
        blocks.append(Text("Every cell has a time on every architecture."))
        return Section("absences", "What could not run where", tuple(blocks))
    columns = (
        *(*text_columns("provider", "architecture", "outcome"), Column("cells"), *text_columns("M", "shapes")),
        *text_columns("reason"),
    )
    reading = (
        f"Cells without a time, of all that any architecture has of the provider. {ABSENT.capitalize()}: another "
        "architecture has the cell, the run of this one has not."
    )
    table = Table("absent", "Cells without a time", columns, tuple(lines), reading=reading, stub=2)
    return Section("absences", "What could not run where", (*blocks, table))


def _without(own: pd.DataFrame, name: str) -> Iterator[tuple[TableCell, ...]]:
    sizes = own["provider"].value_counts().to_dict()
    lacking = own[own["verdict"] != Verdict.PASSED]
    for (provider, verdict, reason), rows in lacking.groupby(["provider", "verdict", "reason"], sort=False):
        shapes = list(dict.fromkeys(shape_of(row).label for row in rows.to_dict("records")))
        yield (
            *texts(provider, name, str(verdict) or ABSENT),
            TableCell(fmt.count(len(rows), int(sizes[str(provider)])), len(rows)),
            *texts(
                fmt.sizes(sorted({int(m) for m in rows["M"]})),
                fmt.some(shapes, MOST_SHAPES),
                str(reason).removeprefix(f"{ABSENT}: ") or "no reason was stored",
            ),
        )


def limits(subject: Architectures) -> Section:
    """Say what a reader must not conclude from columns that stand beside each other."""
    items = (
        f"A ratio is to {subject.baseline} on the same architecture. A larger ratio on one of them may mean a faster "
        f"kernel there, or a slower {subject.baseline}: compare the times.",
        "No number is a mean over architectures: they are no sample of anything.",
        "Architectures were measured by different machines, not in turn: what differs between the machines besides the "
        "device (host, driver, cooling) is in the difference.",
        "A share of the roofline is of the ceilings of that device, as calibrated there.",
        "The limits of each run are at the end of its own report.",
    )
    return Section("limits", "What this report cannot show", (Bullets(items),))

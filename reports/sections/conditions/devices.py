"""The devices of one run side by side: what each measured, and how fast its canary was beside the others'."""

from collections.abc import Mapping, Sequence

from ....analysis.stability.canary import KINDS
from ....analysis.stability.devices import MeasuredDevice, beside_fleet
from ... import formatting as fmt
from ...model import Cells, Column, Section, TableCell, table
from ...terms import CANARY_PARTS
from ...view import View

MOST = 24
"""Devices that the table holds; of more, those whose canary deviates most."""

READING = (
    "GEMM and copy: median time of the two parts of the canary on this device, as change from the median device; above "
    "0 it is slower. Range: its slowest reading over its fastest, minus 1. Readings are those of the canary, restarts "
    "the worker processes beyond the first."
)

_NAMING = ("host", "device", "UUID", "architecture")
"""Columns that say which device it is; one of them that tells none apart or is unknown is left out."""


def devices(view: View) -> Section | None:
    """Tabulate the devices of a run of several; None where there is one, or where run.json does not tell them apart."""
    every = view.analysis.devices
    if not every:
        return None
    changes = beside_fleet(every)
    shown = list(every)
    if len(every) > MOST:
        shown = sorted(every, key=lambda one: -_farthest(changes.get(one.number)))[:MOST]
    naming = _naming(every)
    rows: list[Cells] = [
        {**{header: _names(one)[header] for header in naming}, **_numbers(one, changes.get(one.number))}
        for one in shown
    ]
    title, reading = "What each device measured, and how fast it was", _reading(every, len(view.manifest.devices))
    listed = table("devices-table", title, rows, reading, how_to_read=READING, stub=len(naming))
    return Section("devices", "Devices", (listed,))


def _names(device: MeasuredDevice) -> dict[str, str]:
    return dict(zip(_NAMING, (device.host, device.place, device.short_uuid, device.arch), strict=True))


def _naming(every: Sequence[MeasuredDevice]) -> list[str]:
    found = {header: {_names(one)[header] for one in every} for header in _NAMING}
    return [name for name, texts in found.items() if texts != {""} and (name != "architecture" or len(texts) > 1)]


def _numbers(device: MeasuredDevice, change: Mapping[str, float] | None) -> Cells:
    cells: Cells = {}
    for kind in KINDS:
        beside = None if change is None else change[kind]
        cells[Column(CANARY_PARTS[kind], unit="%")] = TableCell(fmt.signed_percent(beside), beside)
    ranges = {drift.kind: drift.range for drift in device.drifts}
    for kind in KINDS:
        text = fmt.signed_percent(ranges.get(kind)).removeprefix("+")
        cells[Column(f"{CANARY_PARTS[kind]} range", unit="%")] = TableCell(text, ranges.get(kind))
    return cells | {Column(name): getattr(device, name) for name in ("readings", "cells", "rounds", "restarts")}


def _farthest(change: Mapping[str, float] | None) -> float:
    return max(map(abs, change.values())) if change else 0.0


def _reading(every: Sequence[MeasuredDevice], listed: int) -> str:
    said = []
    if len(every) > MOST:
        said.append(f"{MOST} of {len(every)} devices, those that deviate most first.")
    if few := sum(one.readings < 2 for one in every):
        have = "has" if few == 1 else "have"
        said.append(f"{fmt.plural(few, 'device')} {have} too few readings to distinguish slow from noisy.")
    if listed > len(every):
        said.append(f"{fmt.plural(listed - len(every), 'more device')} measured too; run.json does not say what.")
    return " ".join(said)

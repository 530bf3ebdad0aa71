"""Which device of a run measured what: one entry per device, with its name, its share of the work and its canary.

run.json lists under `devices` what each one says of itself, and in `processes` the worker processes that it had.
A device whose entry does not say so (older merged runs) cannot be distinguished, and is excluded.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import pandas as pd

from ...shapes.device import Device
from ..frames.load import RunData
from .canary import KINDS, Drift, device_numbers

SHORT = 8
"""Characters of a uuid that name a device, unless two devices share them."""

_PREFIX = "GPU-"
"""What NVIDIA's tools write before a uuid, and torch does not."""


@dataclass(frozen=True, slots=True)
class MeasuredDevice:
    """One device of a run. `label` is distinct among them; `place` is where on its host it is (index or slot).

    number      its position among `devices` of run.json, and its number in `canary.device_numbers`
    host        "" where unknown; `short_uuid` is the beginning of the uuid that identifies it
    cells       distinct cells with a row in cells.csv, whatever their verdict; rounds: rows
    readings    of the canary; `canary_s` their median time by part (`canary.KINDS`), in seconds, empty without any
    drifts      `canary.drifts_by_device`, empty without a reading
    restarts    worker processes beyond the first one of each shard, or of each station of a fleet
    """

    number: int
    label: str
    host: str
    place: str
    arch: str
    short_uuid: str
    cells: int
    rounds: int
    readings: int
    canary_s: Mapping[str, float]
    drifts: tuple[Drift, ...]
    restarts: int


def measured_devices(run: RunData, drifts: Mapping[int, tuple[Drift, ...]]) -> tuple[MeasuredDevice, ...]:
    """List the devices of a run of several, in the order of run.json; empty for one device, or without their processes.

    `drifts` is `canary.drifts_by_device` of the run.
    """
    entries = device_entries(run)
    if all(entry.processes is None for entry in entries):
        return ()
    names, uuids = labels(entries), short_uuids(entries)
    owners = device_numbers(run.cells["process"], run.device_of)
    counts = run.cells["cell_id"].groupby(owners).agg(["nunique", "size"])
    readings = run.canary.groupby(device_numbers(run.canary["process"], run.device_of))
    medians = readings[[f"{kind}_s" for kind in KINDS]].median()
    taken = readings.size()
    starts = [shard.first_process for shard in run.manifest.shards]
    begun = Counter(device_numbers(pd.Series(starts, dtype="int64"), run.device_of))
    return tuple(
        MeasuredDevice(
            number=number,
            label=names[number],
            host=entry.host,
            place=_place(entry),
            arch=entry.arch,
            short_uuid=uuids[number],
            cells=int(counts["nunique"].get(number, 0)),
            rounds=int(counts["size"].get(number, 0)),
            readings=int(taken.get(number, 0)),
            canary_s={kind: float(medians[f"{kind}_s"][number]) for kind in KINDS} if number in taken else {},
            drifts=drifts.get(number, ()),
            restarts=max(0, len(entry.processes) - (entry.stations or max(1, begun[number]))),
        )
        for number, entry in enumerate(entries)
        if entry.processes is not None
    )


def beside_fleet(devices: Sequence[MeasuredDevice]) -> dict[int, dict[str, float]]:
    """Time of each device's canary over the median device of its architecture, minus 1, by number and part.

    A device without a reading is not in it.
    """
    known = [device for device in devices if device.canary_s]
    typical = {
        (arch, kind): median(device.canary_s[kind] for device in known if device.arch == arch)
        for arch in {device.arch for device in known}
        for kind in KINDS
    }
    return {
        device.number: {kind: device.canary_s[kind] / typical[device.arch, kind] - 1 for kind in KINDS}
        for device in known
    }


def device_name(run: RunData, number: int) -> str:
    """Name a device by its number (`canary.device_numbers`): its label, or the worker process that no device has."""
    return f"worker {-1 - number}" if number < 0 else labels(device_entries(run))[number]


def device_entries(run: RunData) -> list[Device]:
    """What run.json says of each device; empty for a run of one device."""
    return run.manifest.devices if run.several_devices else []


def labels(entries: Sequence[Device]) -> list[str]:
    """Name devices so that no two are called the same: host, where there are several, and uuid, slot or index.

    The uuid goes before the index, which a process counts among the devices that it is allowed to see.
    """
    hosts = {entry.host for entry in entries}
    uuids = short_uuids(entries)
    names = [
        " ".join(filter(None, (entry.host if len(hosts) > 1 else "", uuid or _place(entry))))
        for entry, uuid in zip(entries, uuids, strict=True)
    ]
    again = Counter(names)
    return [f"{name} #{number}" if again[name] > 1 else name for number, name in enumerate(names, start=1)]


def short_uuids(entries: Sequence[Device]) -> list[str]:
    """Beginnings of the uuids, as nvidia-smi writes them (GPU-8f6d2c1e), long enough to differ; "" without one."""
    whole = [entry.uuid.removeprefix(_PREFIX) for entry in entries]
    known = {uuid for uuid in whole if uuid}
    longest = max(map(len, known), default=0)
    enough = (length for length in range(SHORT, longest) if len({uuid[:length] for uuid in known}) == len(known))
    length = next(enough, longest)
    return [f"{_PREFIX}{uuid[:length].rstrip('-')}" if uuid else "" for uuid in whole]


def _place(entry: Device) -> str:
    """Where on its host a device is: a slot of a CPU, else kind and index."""
    if entry.slot is not None:
        return f"slot {entry.slot}"
    return "CPU" if entry.is_cpu else f"GPU {'' if entry.index is None else entry.index}".strip()

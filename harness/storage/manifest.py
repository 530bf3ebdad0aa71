"""What run.json says of the device, the software and the code of a run, or of several runs that are joined."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from ...shapes.device import Device
from ...shapes.errors import UsageError
from ...shapes.run_folder.manifest import Manifest
from ..worker.messages import Ready


def describe(manifest: Manifest, ready: Ready, place: tuple[str, int] | None = None, again: bool = False) -> None:
    """Complete a run.json with what its first worker found. Raises UsageError when a later one finds something else.

    Of several devices, each at a `place` (its host, and its number there), it has all with their worker processes;
    `again`: this one replaces another.
    """
    device = ready.device
    if manifest.device is None:
        spec = device.looked_up().spec
        manifest.device, manifest.device_spec = device, spec.name if spec else ""
        manifest.environment, manifest.telemetry = dict(ready.environment), ready.telemetry
        manifest.timer, manifest.cold_by, manifest.tuning = ready.timer, ready.cold_by, ready.tuning
        manifest.threads = ready.threads
    for key in ("name", "arch", "llc_bytes") + (() if place else ("uuid",)):
        _same(f"device {key}", getattr(manifest.device, key), getattr(device, key))
    for key in ("torch", "triton", "bitsandbytes"):
        _same(key, manifest.environment.get(key), ready.environment.get(key))
    for key in ("timer", "cold_by", "tuning", "threads"):
        _same(key, getattr(manifest, key), getattr(ready, key))
    for name, info in ready.providers.items():
        _same(f"source of provider {name}", manifest.providers.setdefault(name, replace(info)).source, info.source)
    if place:
        _add(manifest, replace(device, host=place[0], slot=place[1]), again)
        manifest.device = common(manifest.devices)
        manifest.environment = joined_texts([manifest.environment, ready.environment])


def _add(manifest: Manifest, device: Device, again: bool) -> None:
    """Add the next worker process to a device, which may be new."""
    devices = {device_of(one): one for one in manifest.devices}
    known = devices.get(device_of(device), device)
    stations, processes = (known.stations or 0) + (not again), (*(known.processes or ()), manifest.processes)
    devices[device_of(device)] = replace(known, stations=stations, processes=processes)
    manifest.devices = [*devices.values()]


def device_of(device: Device) -> Hashable:
    """Return what identifies a device of several: its UUID, or host and slot if there is none."""
    return device.uuid or (device.host, device.slot)


def _same(what: str, stored: object, found: object) -> None:
    if stored != found and (stored or found):
        raise UsageError(
            f"cannot resume: {what} was {stored or 'unknown'} and is {found or 'unknown'} now; timings of the two do "
            "not mix: start a new run"
        )


def union(lists: Iterable[Iterable[Any]]) -> list[Any]:
    """Join lists, each item once, in the order of their first appearance."""
    joined: list[Any] = []
    for items in lists:
        joined += [item for item in items if item not in joined]
    return joined


_WHERE = ("host", "slot", "stations", "processes")


def common(devices: Sequence[Device]) -> Device:
    """Return what all devices have in common, besides where they are and which processes they had."""
    first, *others = devices
    stated = {one.name: getattr(first, one.name) for one in fields(Device) if one.name not in _WHERE}
    return Device(**{key: value for key, value in stated.items() if all(getattr(one, key) == value for one in others)})


def joined_texts(mappings: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return all that they say, different texts with `;` between them."""
    return {
        name: "; ".join(union(str(one[name]).split("; ") for one in mappings if name in one))
        for name in union(mappings)
    }

"""The devices of a fleet, their software, and which worker processes of the run belong to which device worker."""

from collections.abc import Hashable, Mapping
from typing import Any

from ..storage.manifest_merge import common, joined_texts

STATION = "station"
"""Key of a shard's run.json: `name`, `host` and `slot` of the device worker that measured it, and `elapsed_s`.

`session` is there if a worker numbers its processes anew for every shard. `earlier` is there if the shard continues an
earlier part: the `name` of each worker before, and `until`, the process number up to which its processes go.
"""

_ALIKE = ("device_spec", "timer", "cold_by", "tuning", "telemetry", "threads")


def device_of(manifest: Mapping[str, Any]) -> Hashable:
    """Return what identifies the device of a shard: its UUID, or host and slot if there is none."""
    worker = manifest[STATION]
    return manifest["device"].get("uuid") or (worker["host"], worker["slot"])


class DeviceRegistry:
    """Collects what the shards of one run say of their devices."""

    def __init__(self) -> None:
        self._devices: dict[Hashable, dict[str, Any]] = {}
        self._processes: dict[tuple[str, int], int] = {}
        self._workers: set[str] = set()
        self._environments: dict[tuple[tuple[str, str], ...], None] = {}
        self._providers: dict[str, Any] = {}
        self._alike: dict[str, Any] = {}

    def add(self, manifest: Mapping[str, Any]) -> None:
        """Add the run.json of a shard."""
        worker = manifest[STATION]
        entry = {**manifest["device"], "host": worker["host"], "slot": worker["slot"]}
        self._devices.setdefault(device_of(manifest), entry | {"stations": 0, "processes": []})
        if worker["name"] not in self._workers:
            self._workers.add(worker["name"])
            self._devices[device_of(manifest)]["stations"] += 1
        self._environments[tuple(manifest["environment"].items())] = None
        for name, info in manifest["providers"].items():
            self._providers.setdefault(name, info)
        self._alike |= {key: manifest.get(key) for key in _ALIKE}

    def process(self, manifest: Mapping[str, Any], number: int) -> int:
        """Return the run's number for process `number` of the worker that measured a shard."""
        key = _process_of(manifest[STATION], number)
        if key not in self._processes:
            self._processes[key] = len(self._processes)
            self._devices[device_of(manifest)]["processes"].append(self._processes[key])
        return self._processes[key]

    def described(self) -> dict[str, Any]:
        """Return the part of run.json on devices and software; {} before the first shard."""
        if not self._devices:
            return {}
        devices = list(self._devices.values())
        of_a_place = ("host", "slot", "stations", "processes")
        return {
            **self._alike,
            "device": common([{key: one[key] for key in one if key not in of_a_place} for one in devices]),
            "devices": devices,
            "environment": joined_texts([dict(items) for items in self._environments]),
            "providers": self._providers,
            "processes": len(self._processes),
        }


def earlier_workers(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return `earlier` for a worker that continues the part of this run.json; its own numbers begin there."""
    if not manifest:
        return []
    worker = manifest[STATION]
    last = {"name": worker.get("session", worker["name"]), "until": int(manifest.get("processes", 0))}
    return [*worker.get("earlier", ()), last]


def _process_of(worker: Mapping[str, Any], number: int) -> tuple[str, int]:
    """Return the worker of process `number` of a shard, and its own number for it."""
    first = 0
    for one in worker.get("earlier", ()):
        if number < one["until"]:
            return one["name"], number - first
        first = one["until"]
    return worker.get("session", worker["name"]), number - first

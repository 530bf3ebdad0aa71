"""Who measures: the devices of a fleet, their software, and which worker processes of the run are whose."""

from collections.abc import Hashable, Mapping
from typing import Any

from ..storage.manifest_merge import common, joined_texts

STATION = "station"
"""Key of a shard's run.json: `name`, `host` and `slot` of the station that measured it, and `elapsed_s`.

`session` is there where a station counts its worker processes anew for every shard. `earlier` is there where it went on
with a part: the `name` of each station before it, and `until`, the process number up to which its processes go.
"""

_ALIKE = ("device_spec", "timer", "cold_by", "tuning", "telemetry", "threads")


def device_of(manifest: Mapping[str, Any]) -> Hashable:
    """Return what names the device of a shard for good: its UUID, or where none is known the host and the slot."""
    station = manifest[STATION]
    return manifest["device"].get("uuid") or (station["host"], station["slot"])


class Roster:
    """Everything that the shards of one run say of their devices."""

    def __init__(self) -> None:
        self._devices: dict[Hashable, dict[str, Any]] = {}
        self._processes: dict[tuple[str, int], int] = {}
        self._stations: set[str] = set()
        self._environments: dict[tuple[tuple[str, str], ...], None] = {}
        self._providers: dict[str, Any] = {}
        self._alike: dict[str, Any] = {}

    def add(self, manifest: Mapping[str, Any]) -> None:
        """Take in what a shard says."""
        station = manifest[STATION]
        entry = {**manifest["device"], "host": station["host"], "slot": station["slot"]}
        self._devices.setdefault(device_of(manifest), entry | {"stations": 0, "processes": []})
        if station["name"] not in self._stations:
            self._stations.add(station["name"])
            self._devices[device_of(manifest)]["stations"] += 1
        self._environments[tuple(manifest["environment"].items())] = None
        for name, info in manifest["providers"].items():
            self._providers.setdefault(name, info)
        self._alike |= {key: manifest.get(key) for key in _ALIKE}

    def process(self, manifest: Mapping[str, Any], number: int) -> int:
        """Return the run's number for worker process `number` of the station that measured a shard."""
        key = _process_of(manifest[STATION], number)
        if key not in self._processes:
            self._processes[key] = len(self._processes)
            self._devices[device_of(manifest)]["processes"].append(self._processes[key])
        return self._processes[key]

    def described(self) -> dict[str, Any]:
        """Return what run.json says of them; {} before the first."""
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


def earlier_stations(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return `earlier` for a station that goes on with the part of this run.json; its own numbers begin there."""
    if not manifest:
        return []
    station = manifest[STATION]
    last = {"name": station.get("session", station["name"]), "until": int(manifest.get("processes", 0))}
    return [*station.get("earlier", ()), last]


def _process_of(station: Mapping[str, Any], number: int) -> tuple[str, int]:
    """Return whose process `number` of a shard is, and which of theirs."""
    first = 0
    for one in station.get("earlier", ()):
        if number < one["until"]:
            return one["name"], number - first
        first = one["until"]
    return station.get("session", station["name"]), number - first

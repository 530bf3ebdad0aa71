"""The devices of a fleet, their software, and which worker processes of the run belong to which device worker."""

from collections.abc import Hashable
from dataclasses import replace

from ....harness.storage.manifest import common, joined_texts
from ....shapes.device import Device
from ....shapes.run_folder.manifest import EarlierWorker, Manifest, StoredProvider, StoredWorker

_ALIKE = ("device_spec", "timer", "cold_by", "tuning", "telemetry", "threads")


def device_of(manifest: Manifest) -> Hashable:
    """Return what identifies the device of a shard: its UUID, or host and slot if there is none."""
    worker = manifest.of_station
    return manifest.of_device.uuid or (worker.host, worker.slot)


class DeviceRegistry:
    """Collects what the shards of one run say of their devices."""

    def __init__(self) -> None:
        self._devices: dict[Hashable, Device] = {}
        self._processes: dict[tuple[str, int], int] = {}
        self._workers: set[str] = set()
        self._environments: dict[tuple[tuple[str, str], ...], None] = {}
        self._providers: dict[str, StoredProvider] = {}
        self._last: Manifest | None = None

    def add(self, manifest: Manifest) -> None:
        """Add the run.json of a shard."""
        worker = manifest.of_station
        key, new = device_of(manifest), worker.name not in self._workers
        entry = replace(manifest.of_device, host=worker.host, slot=worker.slot, stations=0, processes=())
        device = self._devices.get(key, entry)
        self._workers.add(worker.name)
        self._devices[key] = replace(device, stations=new + (device.stations or 0))
        self._environments[tuple(manifest.environment.items())] = None
        for name, info in manifest.providers.items():
            self._providers.setdefault(name, info)
        self._last = manifest

    def process(self, manifest: Manifest, number: int) -> int:
        """Return the run's number for process `number` of the worker that measured a shard."""
        key = _process_of(manifest.of_station, number)
        if key not in self._processes:
            self._processes[key] = len(self._processes)
            device = self._devices[device_of(manifest)]
            processes = (*(device.processes or ()), self._processes[key])
            self._devices[device_of(manifest)] = replace(device, processes=processes)
        return self._processes[key]

    def describe(self, manifest: Manifest) -> None:
        """Complete the run.json of the run with devices and software, once there is a shard."""
        if self._last is None:
            return
        for key in _ALIKE:
            setattr(manifest, key, getattr(self._last, key))
        manifest.devices = list(self._devices.values())
        manifest.device = common(manifest.devices)
        manifest.environment = joined_texts([dict(items) for items in self._environments])
        manifest.providers = self._providers
        manifest.processes = len(self._processes)


def earlier_workers(manifest: Manifest | None) -> list[EarlierWorker]:
    """Return `earlier` for a worker that continues the part of this run.json; its own numbers begin there."""
    if manifest is None or manifest.station is None:
        return []
    worker = manifest.station
    return [*worker.earlier, EarlierWorker(name=worker.session or worker.name, until=manifest.processes)]


def _process_of(worker: StoredWorker, number: int) -> tuple[str, int]:
    """Return the worker of process `number` of a shard, and its own number for it."""
    first = 0
    for one in worker.earlier:
        if number < one.until:
            return one.name, number - first
        first = one.until
    return worker.session or worker.name, number - first

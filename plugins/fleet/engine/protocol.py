"""What a fleet and its device workers exchange, whatever the workers measure. Imports no Ray."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from ....harness.sweep.events import Observer
from ....harness.worker.messages import Setup
from ....shapes.errors import RooflensError
from ....shapes.run_folder.manifest import Manifest, StoredWorker
from .jobs import Job

OPENING_S = 900.0

Spec = TypeVar("Spec", bound="WorkerSpec")


@dataclass(frozen=True, slots=True)
class Slot:
    """Room for one worker: a GPU, or a part of the cores, number `index` of `count` of its kind; `node` is Ray's."""

    node: str
    host: str
    arch: str
    index: int
    count: int

    def __str__(self) -> str:
        return f"{self.host} {self.arch}" + (f" #{self.index}" if self.count > 1 else "")


@dataclass(frozen=True, slots=True)
class Assignment:
    """A job, what the same device stored of it earlier (b"" for nothing), and the seconds that are left for it."""

    job: Job
    earlier: bytes
    seconds: float | None


@dataclass(frozen=True, slots=True)
class ResultArchive:
    """The answer of a worker: `content` is a packed run folder, the shard `key`."""

    key: str
    content: bytes


@dataclass
class DeviceWorker(ABC, Generic[Spec]):
    """Measures jobs on the device of `slot`; what it stores meanwhile is in `scratch`.

    `remarks` go to the fleet with the first answer.
    """

    spec: Spec
    slot: Slot
    name: str
    scratch: Path
    observer: Observer
    should_stop: Callable[[], bool] = lambda: False
    remarks: list[str] = field(default_factory=list)

    @abstractmethod
    def open(self) -> ResultArchive:
        """Prepare. Raises RooflensError when it cannot."""

    @abstractmethod
    def measure(self, assignment: Assignment) -> ResultArchive:
        """Measure a job to its end, or in part when its time is over or a stop is requested."""

    @abstractmethod
    def close(self) -> ResultArchive:
        """Take the last readings, and leave nothing behind."""

    @abstractmethod
    def end(self) -> None:
        """End at once, whatever it does, and leave nothing behind."""

    def described(self, elapsed_s: float) -> StoredWorker:
        """Return what run.json of a shard says of this worker, with the remarks since the last time."""
        remarks, self.remarks = self.remarks, []
        host, slot = self.slot.host, self.slot.index
        return StoredWorker(name=self.name, host=host, slot=slot, elapsed_s=elapsed_s, remarks=remarks)

    def refuse_other_device(self, arch: str) -> None:
        """Raise RooflensError unless a device of this architecture is what the slot says."""
        if arch != self.slot.arch:
            raise RooflensError(
                f"its device is {arch}, not {self.slot.arch}: start one Ray node per architecture, each with its own "
                "visible devices"
            )


@dataclass(frozen=True)
class WorkerSpec(ABC):
    """What kind of worker a fleet starts, and what all of its jobs share.

    `setup` is that of the worker process, `manifest` what run.json says before the device is known. Cells that an
    earlier part of a job has with a verdict in `retry` are measured again.
    """

    setup: Setup
    manifest: Manifest
    retry: tuple[str, ...] = field(default=(), kw_only=True)

    closes_at_once = False
    """True where closing measures nothing, so that a worker can clean up when there is no time left."""

    def on(self, device: str) -> Self:
        """Return the same for a device by torch's name."""
        return replace(self, setup=replace(self.setup, device=device))

    @property
    def opening_s(self) -> float:
        """Most time that a worker may take to open: torch from a slow disk, and the ceilings."""
        return OPENING_S

    @property
    def silence_s(self) -> float:
        """Longest time for which a worker that measures may report nothing."""
        return max(self.setup.protocol.timeout_s, self.setup.protocol.build_timeout_s)

    @property
    @abstractmethod
    def worker(self) -> type[DeviceWorker[Any]]:
        """The class of its workers."""

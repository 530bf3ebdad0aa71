"""What a fleet and its stations say to each other, whatever the stations measure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ..sweep.observer import Observer
from .jobs import AnyJob


@dataclass(frozen=True, slots=True)
class Slot:
    """Room for one station: a GPU, or a part of the cores, number `index` of `count` of its kind on one node of Ray."""

    node: str
    host: str
    arch: str
    index: int
    count: int

    def __str__(self) -> str:
        return f"{self.host} {self.arch}" + (f" #{self.index}" if self.count > 1 else "")


@dataclass(frozen=True, slots=True)
class Order:
    """A job, what the same device stored of it earlier ("" for nothing), and the seconds that are left for it."""

    job: AnyJob
    earlier: bytes
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Parcel:
    """What comes home: `content` is a packed run folder, the shard `key`."""

    key: str
    content: bytes


class StationObserver(Observer, Protocol):
    """Whoever is told what a station does."""

    def home(self, units: int) -> None:
        """Tell that units are done of which there is no more to say."""


class AnyStation(Protocol):
    """What measures on the device of a slot; each call answers with a parcel."""

    def open(self) -> Parcel:
        """Prepare. Raises RooflensError when it cannot."""

    def measure(self, order: Order) -> Parcel:
        """Measure a job to its end, or until its time is over or a stop is asked for: then it is sent home in part."""

    def close(self) -> Parcel:
        """Take the last readings, and leave nothing behind."""


class AnyBrief(Protocol):
    """What a station is told before its first job: what kind of station it is, and all that its jobs share."""

    @property
    def device(self) -> str:
        """Tell "cpu" or "cuda"."""

    @property
    def rounds(self) -> int:
        """Rounds per cell."""

    @property
    def silence_s(self) -> float:
        """For so long a station that measures may have nothing to say."""

    @property
    def opening_s(self) -> float:
        """So long it may take to open."""

    @property
    def closes_at_once(self) -> bool:
        """Tell whether a station measures nothing when it closes: then it can clean up when there is no time left."""

    def station(
        self,
        slot: Slot,
        name: str,
        scratch: Path,
        observer: StationObserver,
        should_stop: Callable[[], bool],
        remarks: Sequence[str],
    ) -> AnyStation:
        """Return the station of a slot; it may write in `scratch`."""

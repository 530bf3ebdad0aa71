"""What a fleet needs of whoever runs its stations; Ray does (`ray_cluster`), and scripts do in tests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from .orders import AnyBrief, Order, Parcel, Slot


@dataclass(frozen=True, slots=True)
class Arrived:
    """A station answered what it was asked last."""

    slot: Slot
    parcel: Parcel


@dataclass(frozen=True, slots=True)
class Refused:
    """A station is alive and says why it cannot: no device, a full disk, a provider that is not there."""

    slot: Slot
    reason: str


@dataclass(frozen=True, slots=True)
class Gone:
    """A station is no more: its process, its node or the way to it."""

    slot: Slot
    reason: str


Event = Arrived | Refused | Gone


@dataclass(frozen=True, slots=True)
class Sign:
    """The last that a station said of itself: what it does, the units of its job that are done, and a count of signs.

    A count that stands still is a station that hangs.
    """

    doing: str
    units: int
    count: int


class Cluster(Protocol):
    """Places for stations. Calls return at once; answers come from `wait`."""

    def slots(self) -> Sequence[Slot]:
        """List the places that there are now, taken ones as well."""

    def hire(self, slot: Slot, brief: AnyBrief, name: str) -> None:
        """Start a station in a place and open it."""

    def order(self, slot: Slot, order: Order) -> None:
        """Hand a job to a station that waits for one."""

    def close(self, slot: Slot) -> None:
        """Let a station that waits take its last readings."""

    def dismiss(self, slot: Slot) -> None:
        """End a station at once; nothing more comes from it."""

    def ask_to_stop(self) -> None:
        """Ask all stations to send home what they have."""

    def wait(self, seconds: float) -> Sequence[Event]:
        """Return what happened, after `seconds` at most; [] when nothing did."""

    def signs(self) -> Mapping[Slot, Sign]:
        """Return the last sign of each station that gave one."""

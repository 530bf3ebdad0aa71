"""What a fleet needs of whoever runs its device workers, and their numbered slots: Ray (`ray_cluster`), or scripts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice
from typing import Protocol

from .protocol import AnyBrief, Order, Parcel, Slot


@dataclass(frozen=True, slots=True)
class Offer:
    """What one node offers of one architecture."""

    node: str
    host: str
    arch: str
    amount: int


def numbered(offers: Sequence[Offer], known: Iterable[Slot]) -> list[Slot]:
    """Number the places of nodes that are new, beside those that are `known`.

    Places of one host and architecture share its cores, whatever nodes they are of: so none has the number of another,
    and each says how many there are. What is known keeps its number and count, because a station may be at work there.
    """
    taken: dict[tuple[str, str], list[Slot]] = {}
    for slot in known:
        taken.setdefault((slot.host, slot.arch), []).append(slot)
    fresh: dict[tuple[str, str], int] = {}
    for offer in offers:
        place = offer.host, offer.arch
        fresh[place] = fresh.get(place, 0) + offer.amount
    free = {place: _free({slot.index for slot in taken.get(place, ())}) for place in fresh}
    found = []
    for offer in offers:
        place = offer.host, offer.arch
        others = taken.get(place, [])
        total = max([len(others) + fresh[place], *(slot.count for slot in others)])
        found += [Slot(offer.node, *place, index, total) for index in islice(free[place], offer.amount)]
    return found


def _free(taken: set[int]) -> Iterator[int]:
    return (number for number in count() if number not in taken)


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
